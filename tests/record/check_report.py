#!/usr/bin/env python3
"""check_report.py RUNS PAGE SVG_FOLDER TABLE JSON - a report against the folders it was made from.

The page and the figures are parsed as XML and the page as HTML too, no other file is asked for, every number of the
object and of the table is compared with summary.json or, where there is none, with the last evaluation.
"""
import html.parser
import json
import math
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

VOID = {"meta", "input", "br"}


class Balance(html.parser.HTMLParser):
    """Every tag closed by its own, texts collected."""

    def __init__(self):
        super().__init__()
        self.open, self.texts, self.ids = [], [], []

    def handle_starttag(self, tag, attributes):
        self.ids += [value for name, value in attributes if name == "id"]
        for name, value in attributes:
            assert not name.startswith("on"), f"{tag} has {name}"
            assert name not in ("src", "href"), f"{tag} asks for {value}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.ids += [value for name, value in attributes if name == "id"]

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        self.texts.append(data)


def check_page(path):
    text = open(path, encoding="utf-8").read()
    page = Balance()
    page.feed(text)
    page.close()
    assert not page.open, f"left open: {page.open}"
    assert len(page.ids) == len(set(page.ids)), "an id is there twice"
    ElementTree.fromstring(text.split("\n", 1)[1])
    assert "http" not in re.sub(r"http://www\.w3\.org/(2000/svg|1999/xhtml)", "", text), "the page asks the network"
    for bad in ("nan", "inf", "(null)"):
        assert not re.search(rf'[=" >,LM(-]{re.escape(bad)}[ ,"<)]', text.replace("Infinity", "")), f"{bad} on the page"
    return text, "".join(page.texts)


def check_svg(path):
    root = ElementTree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg", root.tag
    width, height = float(root.get("width")), float(root.get("height"))
    for node in root.iter():
        for key, value in node.attrib.items():
            assert "nan" not in value and "inf" not in value, f"{path}: {key}={value}"
        if node.tag.endswith("}text") and node.get("x"):
            assert -1 <= float(node.get("x")) <= width and 0 <= float(node.get("y")) <= height, f"{path}: a text outside"
        if node.tag.endswith("}path"):
            for number in re.findall(r"-?\d+\.?\d*", node.get("d")):
                assert abs(float(number)) < 1e4, f"{path}: {number}"


def near(a, b):
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12)


def outcome(folder):
    """What a run came to, computed here from its files alone."""
    events = []
    for line in open(os.path.join(folder, "events.jsonl")).read().split("\n")[:-1]:
        events.append(json.loads(line))
    evaluations = [e for e in events if e["event"] == "evaluation"]
    last = evaluations[-1]
    living = [a for a in last["agents"] if a["alive"]]
    mean = sum(a["accuracy"] for a in living) / len(living)
    std = math.sqrt(sum((a["accuracy"] - mean) ** 2 for a in living) / len(living))
    summary = os.path.join(folder, "summary.json")
    if os.path.exists(summary):
        summary = json.load(open(summary))
        assert near(summary["accuracy"]["mean"], mean) and near(summary["accuracy"]["std"], std)
    else:
        summary = {"accuracy": {"mean": mean, "std": std}, "averaged_accuracy": last["averaged_accuracy"],
                   "virtual_s": last["virtual_s"], "real_s": last["real_s"], "bytes": last["bytes"],
                   "messages": last["messages"], "epochs": last["epoch"], "status": "unfinished",
                   "waiting_share": last["waiting_s"] / last["virtual_s"] / len(last["agents"])}
    summary["n_notes"] = sum(e["event"] in ("note", "fault") for e in events)
    return summary


def check_object(whole, outcomes):
    assert len(whole["runs"]) == len(outcomes)
    for run, expected in zip(whole["runs"], outcomes):
        for key in ("averaged_accuracy", "virtual_s", "real_s", "bytes", "messages", "waiting_share", "epochs"):
            assert near(run[key], expected[key]), f"{run['run']}: {key} {run[key]} {expected[key]}"
        for key in ("mean", "std"):
            assert near(run["accuracy"][key], expected["accuracy"][key]), f"{run['run']}: accuracy"
        assert run["notes"] == expected["n_notes"] and run["status"] == expected["status"]
        assert run["finished"] == (expected["status"] == "done")
        rival = next((r for r in whole["runs"] if r["strategy"] == "single"), None)
        if rival is None or run["strategy"] == "single" or run["data"] != rival["data"]:
            assert run["rival"] is None
        else:
            assert run["rival"]["accuracy"] == rival["accuracy"]["mean"]


def check_rows(text, whole, outcomes, sign):
    """Each run's numbers stand in a row of the text in the form that people read."""
    for run, expected in zip(whole["runs"], outcomes):
        accuracy = f"{expected['accuracy']['mean']:.2f}"
        if run["agents"] > 1:
            accuracy += f" {sign} {expected['accuracy']['std']:.2f}"
        words = [accuracy, f"{expected['virtual_s']:.1f}", f"{expected['real_s']:.1f}"]
        if run["agents"] > 1:
            words += [f"{expected['bytes'] / 1e6:.1f}", str(expected["messages"]), f"{100 * expected['waiting_share']:.1f}"]
        name = os.path.basename(run["run"])
        rows = [line for line in text.split("\n") if line.startswith(name) and accuracy in line]
        assert rows, f"no row for {name}: {accuracy}"
        for word in words:
            assert word in rows[0], f"{name}: {word} is not in '{rows[0]}'"


def main():
    runs, page, svg_folder, table, whole = sys.argv[1].split(":"), *sys.argv[2:]
    outcomes = [outcome(run) for run in runs]
    whole = json.load(open(whole))
    check_object(whole, outcomes)
    check_rows(open(table).read(), whole, outcomes, "+-")
    text, seen = check_page(page)
    for run, expected in zip(runs, outcomes):
        assert os.path.basename(run) in seen
        assert open(os.path.join(run, "experiment.yaml")).read() in seen, f"{run}: the experiment is not on the page"
        accuracy = f"{expected['accuracy']['mean']:.2f}"
        assert accuracy in seen, accuracy
    for name in ("accuracy", "loss", "disagreement", "variation"):
        check_svg(os.path.join(svg_folder, name + ".svg"))


if __name__ == "__main__":
    main()
