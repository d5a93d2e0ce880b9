#!/usr/bin/env python3
"""Runs tests, then says which failed, which were skipped and why, and ends with one line: N passed, N failed, N skipped.

    tests/summary.py ctest --test-dir build ...     the suite; what ctest prints is shown as it comes
    tests/summary.py tests/cluster/run.sh build     one script

What is counted are the sentences: each cmocka test of a program and each check of a script; a program that has neither is one test.
They are read from what a program prints:

    [       OK ] NAME, [  FAILED  ] NAME, [  SKIPPED ] NAME      cmocka
    12 passed, 0 failed, 1 skipped                               the last line of a script, see tests/support/check.sh
    SKIPPED: WHY                                                 before cmocka's line; or with exit code 77: all of the program
    SKIPPED: WHAT: WHY                                           a part of a test or script, which goes on

A program that fails without saying what failed (a crash, a timeout) is one that failed. So is a skip without a reason.
The exit code is 0 where nothing failed, else that of the command.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

ALL_SKIPPED = 77
RUN = re.compile(r"\[ RUN      \] (.+)")
OUTCOME = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] (.+)")
CHECKS = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped")


class Count:
    def __init__(self):
        self.passed = 0
        self.failed, self.skipped = [], []  # a line each

    def skip(self, name, why):
        if why:
            self.skipped.append(f"{name}: {why}")
        else:
            self.failed.append(f"{name}: skipped without a reason")

    def skip_parts(self, program, text, n=0):
        """Those that are named, and as many more as are missing to `n`."""
        reasons = re.findall(r"^SKIPPED: (.*)", text, re.M)
        for why in reasons + [""] * (n - len(reasons)):
            self.skip(program, why)

    def add_cmocka(self, program, text):
        """Each test from its RUN to its outcome. Returns whether there was any."""
        running, reasons, n = None, [], 0
        for line in text.splitlines():
            began, ended = RUN.fullmatch(line), OUTCOME.fullmatch(line)
            if began:
                running, reasons, n = began[1], [], n + 1
            elif line.startswith("SKIPPED: ") and line not in reasons:
                reasons.append(line)
            elif ended and ended[2] == running:
                self.end_cmocka(f"{program}: {running}", ended[1], [r.removeprefix("SKIPPED: ") for r in reasons])
                running = None
        return n > 0

    def end_cmocka(self, name, outcome, reasons):
        if outcome == "SKIPPED":
            self.skip(name, "; ".join(reasons))
            return
        for reason in reasons:
            self.skip(name, reason)
        if outcome == "OK":
            self.passed += 1
        else:
            self.failed.append(name)

    def add_checks(self, program, text):
        """The last line of a script. Returns whether there was one."""
        last = [m for m in map(CHECKS.fullmatch, text.splitlines()) if m]
        if not last:
            return False
        self.passed += int(last[-1][1])
        self.failed += [f"{program}: {what}" for what in re.findall(r"^FAILED: (.*)", text, re.M)[: int(last[-1][2])]]
        self.skip_parts(program, text, int(last[-1][3]))
        return True

    def add(self, program, ended, text):
        """A program that has `ended`: 'well', 'skipped', or in any other way."""
        if ended == "skipped":
            self.skip(program, "; ".join(re.findall(r"^SKIPPED: (.*)", text, re.M)))
            return
        before = len(self.failed)
        known = self.add_cmocka(program, text) or self.add_checks(program, text)
        if ended != "well" and len(self.failed) == before:
            self.failed.append(f"{program}: {ended}")
        elif ended == "well" and not known:
            self.passed += 1
            self.skip_parts(program, text)

    def show(self):
        for title, lines in ("failed", self.failed), ("skipped", self.skipped):
            if lines:
                print(f"\n{title}:", *sorted(lines), sep="\n  ")
        print(f"\n{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped", flush=True)


def run(command):
    """Shows what the command prints as it comes. Returns it and the exit code."""
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return "".join(lines), process.returncode


def ending_of(case, said):
    """Of a program of the suite; ctest says on its line how it failed, not in its report."""
    status, skipped = case.get("status"), case.find("skipped")
    if status == "run":
        return "well"
    if skipped is not None and skipped.get("message").startswith("SKIP_"):
        return "skipped"
    trouble = re.search(rf" {re.escape(case.get('name'))} \.*\*\*\*(.*?) +[0-9.]+ sec", said)
    return trouble[1] if trouble else status


def run_ctest(command, count):
    with tempfile.TemporaryDirectory() as folder:
        report, whole = os.path.join(folder, "ctest.xml"), "1000000000"
        said, code = run(
            [*command, "--output-junit", report, "--test-output-size-passed", whole, "--test-output-size-failed", whole])
        if not os.path.exists(report):
            print("the tests were stopped before their end", file=sys.stderr)
            sys.exit(130 if code == -signal.SIGINT else code or 1)
        for case in xml.parse(report).getroot().iter("testcase"):
            count.add(case.get("name"), ending_of(case, said), case.findtext("system-out") or "")
    return code


def run_script(command, count):
    said, code = run(command)
    name = " ".join(command[:2]) if command[0] == "bash" else command[0]
    count.add(name, {0: "well", ALL_SKIPPED: "skipped"}.get(code, f"exit code {code}"), said)
    return 0 if code == ALL_SKIPPED else code


def main():
    command, count = sys.argv[1:], Count()
    if not command:
        sys.exit(__doc__)
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl+C is for the tests; here their end is waited for
    code = run_ctest(command, count) if os.path.basename(command[0]) == "ctest" else run_script(command, count)
    count.show()
    sys.exit(code if code > 0 else 1 if code or count.failed else 0)


main()
