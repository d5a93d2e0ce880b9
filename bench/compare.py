#!/usr/bin/env python3
"""veche against PyTorch: both programs in one run, on the same cores, in turn, medians of several rounds.

    bench/compare.py PATH/TO/veche [--rounds 5] [--seconds 4] [--threads 2] [--model NAME] [--quick] [--out FILE]

Prints a table of ratios and three further questions: eight replicas against one large batch, two threads against one
under a busy neighbour, the share of the machine's peak. Every figure of every round goes to results.json beside the
program at once. Every child has a deadline.

The programs take turns within a round, and every other round goes backwards, so that a machine that warms up or is
disturbed for a while favours neither. What other processes took of the processor is measured beside every figure: on a
shared machine PyTorch's spinning threads collapse and any ratio comes out splendid, so there no verdict is given.
"""

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager

HERE = os.path.dirname(os.path.abspath(__file__))
MOST_OTHERS, LEAST_ROUNDS = 0.05, 3  # beyond this share of the cores taken by others, or below these rounds: no verdict
START_S = 60  # for what a child does before it measures: imports, kernels compiled

ROWS = [  # model, batch, precision, the least ratio to tuned PyTorch that is wanted
    ("resnet20", 32, "fp32", 1.5),
    ("resnet20", 128, "fp32", 1.5),
    ("resnet20", 32, "bf16", 1.4),
    ("resnet20", 128, "bf16", 1.4),
    ("fashion-cnn", 32, "fp32", 1.4),
    ("fashion-cnn", 128, "fp32", 1.4),
    ("fashion-cnn", 32, "bf16", None),
    ("fashion-cnn", 128, "bf16", None),
    ("lenet", 32, "fp32", 1.0),
    ("lenet", 128, "fp32", 1.0),
    ("lenet", 128, "bf16", None),
]


def read_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("veche")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=4, help="of each measurement")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--model", choices=sorted({row[0] for row in ROWS}),
                   help="only the rows of this network, and no other question")
    p.add_argument("--quick", action="store_true", help="one round of a second: to see that it works")
    p.add_argument("--out", help="where the figures go (default: results.json beside the program)")
    args = p.parse_args()
    if args.quick:
        args.rounds, args.seconds = 1, 1
    args.out = args.out or os.path.join(os.path.dirname(os.path.abspath(args.veche)), "results.json")
    if not os.access(args.veche, os.X_OK):
        sys.exit(f"compare: there is no program {args.veche}: `make build` makes it")
    if args.rounds < 1 or not args.seconds > 0:
        sys.exit("compare: at least one round of more than 0 seconds is needed")
    cores = sorted(os.sched_getaffinity(0))
    if not 1 <= args.threads <= len(cores):
        sys.exit(f"compare: {args.threads} threads are wanted, this process may use {len(cores)} cores")
    args.cores = cores[: args.threads]
    return args


def busy_seconds():
    """Core seconds that were not idle since the machine started, what a host took from it included."""
    with open("/proc/stat") as lines:
        user, nice, system, _, _, irq, softirq, steal = map(int, lines.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def child_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Bench:
    def __init__(self, args):
        self.args = args
        self.results = dict(processor=processor(), cores=args.cores, rounds=args.rounds, seconds=args.seconds)
        self.figures = {}  # label -> one JSON object a round
        self.expected_busy = 0  # cores that a neighbour of our own keeps busy

    def child(self, command):
        """Runs one program and adds to its figure the share of all cores that others took meanwhile."""
        busy, own, start = busy_seconds(), child_seconds(), time.monotonic()
        figure = self.answer(command)
        wall = time.monotonic() - start
        others = busy_seconds() - busy - (child_seconds() - own) - self.expected_busy * wall
        figure["others"] = round(max(0, others) / (wall * os.cpu_count()), 4)
        return figure

    def answer(self, command):
        """Runs one program on the chosen cores and gives the JSON object it prints last."""
        deadline = START_S + 10 * self.args.seconds
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=deadline,
                                  preexec_fn=lambda: os.sched_setaffinity(0, self.args.cores))
        except subprocess.TimeoutExpired:
            sys.exit(f"compare: no answer within {deadline:.0f} s from: {' '.join(command)}")
        lines = done.stdout.strip().splitlines()
        if done.returncode != 0 or not lines:
            said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
            sys.exit(f"compare: exit code {done.returncode} from: {' '.join(command)}\n  it said: {said}")
        try:
            figure = json.loads(lines[-1] if lines[-1].startswith("{") else done.stdout)
            if not figure["images_per_s"] > 0:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            sys.exit(f"compare: no figure in what came from: {' '.join(command)}")
        return figure

    def veche(self, model, batch, precision, threads=None, replicas=1):
        settings = dict(model=model, batch=batch, precision=precision, threads=threads or self.args.threads,
                        replicas=replicas, seconds=self.args.seconds)
        return self.child([self.args.veche, "bench", "engine", *(f"{k}={v}" for k, v in settings.items()), "--json"])

    def torch(self, mode, model, batch, precision):
        command = [sys.executable, os.path.join(HERE, "torch_train.py"), "--mode", mode, "--model", model]
        command += ["--batch", str(batch), "--precision", precision, "--threads", str(self.args.threads)]
        command += ["--seconds", str(self.args.seconds)]
        if os.environ.get("VECHE_BLAS"):
            command += ["--blas", os.environ["VECHE_BLAS"]]
        return self.child(command)

    def rounds(self, measures):
        """Takes all measures (label -> function) in turn, as many rounds as wanted."""
        for r in range(self.args.rounds):
            for label, measure in list(measures.items())[:: -1 if r % 2 else 1]:
                print(f"  round {r + 1} of {self.args.rounds}: {label}", file=sys.stderr)
                self.figures.setdefault(label, []).append(measure())
                self.save()

    def save(self):
        """All figures so far: an interrupted comparison leaves them behind."""
        with open(self.args.out + ".part", "w") as out:
            json.dump(self.results | {"figures": self.figures}, out, indent=1)
            out.write("\n")
        os.replace(self.args.out + ".part", self.args.out)

    def rate(self, label):
        return statistics.median(f["images_per_s"] for f in self.figures[label])

    def spread(self, label):
        rates = [f["images_per_s"] for f in self.figures[label]]
        return (max(rates) - min(rates)) / statistics.median(rates)

    def verdict(self, ratio, wanted, labels):
        if wanted is None:
            return ""
        others = max(statistics.median(f["others"] for f in self.figures[label]) for label in labels)
        if others > MOST_OTHERS:
            return f"{wanted:.1f}: not judged, others took {others:.0%} of the cores"
        if self.args.rounds < LEAST_ROUNDS:
            return f"{wanted:.1f}: not judged, too few rounds"
        return f"{wanted:.1f} " + ("reached" if ratio >= wanted else "NOT reached")


@contextmanager
def busy_neighbour(bench, core):
    """A process that does nothing but keep one core busy; gone when the block is left, or with this program."""
    child = "import os\np = os.getppid()\nwhile True:\n if os.getppid() != p: break\n for _ in range(10**6): pass"
    neighbour = subprocess.Popen([sys.executable, "-c", child], preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    bench.expected_busy = 1
    try:
        yield
    finally:
        bench.expected_busy = 0
        neighbour.send_signal(signal.SIGKILL)
        neighbour.wait()


def compare_programs(bench):
    measures = {}
    rows = [row for row in ROWS if bench.args.model in (None, row[0])]
    for model, batch, precision, _ in rows:
        row = (model, batch, precision)
        for mode in ("default", "tuned"):
            measures[f"torch {mode} {model} {batch} {precision}"] = lambda m=mode, r=row: bench.torch(m, *r)
        measures[f"veche {model} {batch} {precision}"] = lambda r=row: bench.veche(*r)
    bench.rounds(measures)
    head = ("model", "batch", "numbers", "default", "tuned", "veche", "/default", "/tuned", "of peak", "spread", "wanted")
    form = "{:<12} {:>5} {:>7} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>6}  {}"
    print("\nTraining, images a second (medians); PyTorch as it comes and tuned; spread: (most - least) / median\n")
    print(form.format(*head))
    table = []
    for model, batch, precision, wanted in rows:
        name = f"{model} {batch} {precision}"
        default, tuned, ours = (bench.rate(f"{p} {name}") for p in ("torch default", "torch tuned", "veche"))
        shares = [f.get("share_of_peak") for f in bench.figures[f"veche {name}"]]
        share = statistics.median(shares) if all(s is not None for s in shares) else None
        pair = [f"{p} {name}" for p in ("torch tuned", "veche")]
        spread = max(map(bench.spread, pair))
        print(form.format(model, batch, precision, f"{default:.0f}", f"{tuned:.0f}", f"{ours:.0f}",
                          f"{ours / default:.2f}x", f"{ours / tuned:.2f}x", "-" if share is None else f"{share:.0%}",
                          f"{spread:.0%}", bench.verdict(ours / tuned, wanted, pair)))
        table.append(dict(model=model, batch=batch, precision=precision, torch_default=default, torch_tuned=tuned,
                          veche=ours, to_default=ours / default, to_tuned=ours / tuned, share_of_peak=share,
                          spread=spread, wanted=wanted))
    return table


def compare_pair(bench, title, ours, theirs, wanted):
    """One question: the first (label, measure) against the second."""
    bench.rounds(dict([ours, theirs]))
    a, b = bench.rate(ours[0]), bench.rate(theirs[0])
    spread = max(bench.spread(ours[0]), bench.spread(theirs[0]))
    print(f"\n{title}\n  {ours[0]}: {a:.0f}   {theirs[0]}: {b:.0f}   ratio {a / b:.2f}, spread {spread:.0%}, "
          f"wanted {bench.verdict(a / b, wanted, (ours[0], theirs[0]))}")
    return dict(title=title, first=a, second=b, ratio=a / b, spread=spread, wanted=wanted)


def compare_replicas(bench):
    return compare_pair(
        bench, "Eight replicas of resnet20 at batch 32 side by side, against one at batch 128",
        ("8 x batch 32", lambda: bench.veche("resnet20", 32, "fp32", replicas=8)),
        ("1 x batch 128", lambda: bench.veche("resnet20", 128, "fp32")), 1.0)


def compare_neighbour(bench):
    cores = bench.args.cores
    if len(cores) < 2:
        print("\nThe question of a busy neighbour needs two cores and was left out.")
        return None
    with busy_neighbour(bench, cores[1]):
        return compare_pair(
            bench, f"resnet20 at batch 32 with core {cores[1]} taken by a busy neighbour",
            (f"{len(cores)} threads", lambda: bench.veche("resnet20", 32, "fp32")),
            ("1 thread", lambda: bench.veche("resnet20", 32, "fp32", threads=1)), 1.0)


def processor():
    with open("/proc/cpuinfo") as lines:
        return next((l.split(":", 1)[1].strip() for l in lines if l.startswith("model name")), "unknown")


def main():
    args = read_arguments()
    print(f"{processor()}, cores {', '.join(map(str, args.cores))}, {args.rounds} rounds of {args.seconds:g} s")
    bench = Bench(args)
    bench.results["programs"] = compare_programs(bench)
    if not args.model:
        bench.results["replicas"] = compare_replicas(bench)
        bench.results["neighbour"] = compare_neighbour(bench)
    bench.save()
    print(f"\nall figures: {args.out}")


if __name__ == "__main__":
    main()
