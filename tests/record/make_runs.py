#!/usr/bin/env python3
"""make_runs.py FOLDER - run folders as `veche run` would leave them, for looking at reports and for testing them.
make_runs.py --seal FILE - new digests for a file of a run that was changed on purpose.

  single      one agent, the rival
  cycle4      four agents, consensus
  every5      likewise, mixing less often
  forty       forty agents, asynchronous, with stale gradients, crashes and returns
  going       four agents, not finished: no summary, half a line at the end
  broken      a loss that is not finite, numbers of every size
  odd         names and texts that mean something in HTML

The numbers are drawn from a fixed seed: every call makes the same files.
"""
import hashlib
import json
import math
import os
import random
import sys

EXPERIMENT = """# veche 0.1.0
# machine: Linux x86_64, 2 cores
name: {name}
data:
  set: {set}
  batch: {batch}
model: fashion-cnn
agents: {agents}
{topology}strategy: {strategy}
train:
  epochs: {epochs}
  seed: 42
"""


def seal(text, end, before, after, last=""):
    """As record/seal.h says: a digest of all that stands before it, and of the digest of the line before."""
    text = text[:len(text) - len(end)] + before
    return text + hashlib.sha256((last + text).encode()).hexdigest()[:16] + after


def sealed_lines(texts):
    lines, last = [], ""
    for text in texts:
        lines.append(seal(text, "}", ',"digest":"', '"}\n', last))
        last = lines[-1][-19:-3]
    return "".join(lines)


def sealed_object(text):
    return seal(text, "\n}", ',\n  "digest": "', '"\n}\n')


def sealed_yaml(text):
    return seal(text, "", "# digest: ", "\n")


def seal_again(path):
    """Puts new digests into a file that was changed on purpose."""
    text = open(path).read()
    if path.endswith(".yaml"):
        text = sealed_yaml("".join(line for line in text.splitlines(True) if not line.startswith("# digest: ")))
    elif path.endswith(".json"):
        text = sealed_object(text.split(',\n  "digest"')[0].removesuffix("\n}") + "\n}")
    else:
        lines = [line.split(',"digest":')[0] for line in text.splitlines()]
        text = sealed_lines(line.removesuffix("}") + "}" for line in lines)
    with open(path, "w") as f:
        f.write(text)


def write_run(folder, name, agents=4, batch=25, epochs=10, set="fashion-mnist", topology="cycle:4",
              strategy="{kind: consensus, every: 1}", top=92.0, spread=0.1, mb_a_round=6.0, slow=1.0, notes=(),
              finished=True, stale=0.0, seed=1, evaluations=None):
    rng = random.Random(seed)
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "experiment.yaml"), "w") as f:
        f.write(sealed_yaml(EXPERIMENT.format(name=name, set=set, batch=batch, agents=agents, epochs=epochs, strategy=strategy,
                                              topology=f"topology:\n  graph: {topology}\n" if topology else "")))
    lean = [rng.gauss(0, spread) for _ in range(agents)]
    lines, last = [], None
    n = evaluations or epochs
    for k in range(1, n + 1):
        epoch = epochs * k / n
        rounds = int(epoch * 600)
        virtual_s = epoch * 7.5 * slow
        base = top - (top - 55) * math.exp(-epoch * 0.55) + rng.gauss(0, 0.05)
        scores = []
        for a in range(agents):
            alive = not any(x["agent"] == a and x["kind"] == "crash" and x["virtual_s"] <= virtual_s and
                            not any(y["agent"] == a and y["kind"] == "return" and x["virtual_s"] < y["virtual_s"] <= virtual_s
                                    for y in notes) for x in notes)
            accuracy = round(base + lean[a] * (1 + 6 / epoch) + rng.gauss(0, spread / 3), 2)
            scores.append({
                "agent": a, "alive": alive, "epoch": epoch, "rounds": rounds - a % 3, "train_loss": 0.9 * math.exp(-epoch / 4),
                "train_accuracy": min(99.9, accuracy + 2.5), "loss": 0.22 + 0.5 * math.exp(-epoch * 0.6) - lean[a] / 40,
                "accuracy": accuracy, "lr": 0.001, "bytes": int(rounds * mb_a_round * 1e6 / agents) if agents > 1 else 0,
                "messages": rounds * 2 if agents > 1 else 0, "waiting_s": virtual_s * (0.1 + 0.6 * (a % 4 != 3)) if agents > 1 else 0,
                "staleness_mean": stale * (1 + a / agents), "staleness_max": math.ceil(stale * 4)})
        living = [s["accuracy"] for s in scores if s["alive"]]
        mean = sum(living) / len(living)
        l2 = 3.0 * math.exp(-epoch / 3) + 0.02 + rng.random() * 0.02
        last = {"event": "evaluation", "step": rounds * agents, "round": rounds, "epoch": epoch, "real_s": epoch * 11.3,
                "virtual_s": virtual_s, "samples": rounds * batch * agents, "agents": scores,
                "averaged_loss": 0.2 + 0.45 * math.exp(-epoch * 0.6) if agents > 1 else None,
                "averaged_accuracy": round(mean + 0.25, 2) if agents > 1 else None,
                "disagreement": {"l1": l2 * 40, "l2": l2 if agents > 1 else 0, "linf": l2 / 9, "variation": l2 / 700 if agents > 1 else 0},
                "bytes": sum(s["bytes"] for s in scores), "messages": sum(s["messages"] for s in scores),
                "waiting_s": sum(s["waiting_s"] for s in scores)}
        lines.append(last)
    for note in notes:
        at = next((i for i, e in enumerate(lines) if e["event"] == "evaluation" and e["virtual_s"] > note["virtual_s"]), len(lines))
        lines.insert(at, dict(note, event="note", step=lines[max(at - 1, 0)]["step"], real_s=note["virtual_s"]))
    with open(os.path.join(path, "events.jsonl"), "w") as f:
        f.write(sealed_lines(json.dumps(line) for line in lines))
        if not finished:
            f.write('{"event":"evalu')
    if finished:
        write_summary(path, name, strategy, last, len(notes))
    return path


def spread_of(values):
    mean = sum(values) / len(values)
    return {"mean": mean, "std": math.sqrt(sum((x - mean) ** 2 for x in values) / len(values)), "min": min(values), "max": max(values)}


def write_summary(path, name, strategy, last, notes):
    scores = [s for s in last["agents"] if s["alive"]]
    summary = {
        "name": name, "strategy": strategy, "status": "done", "run": path, "version": "0.1.0", "engine": "dnnl",
        "agents": len(last["agents"]), "rounds": last["round"], "samples": last["samples"], "epochs": last["epoch"],
        "accuracy": spread_of([s["accuracy"] for s in scores]), "loss": spread_of([s["loss"] for s in scores]),
        "best_accuracy": max(s["accuracy"] for s in scores), "averaged_accuracy": last["averaged_accuracy"],
        "real_s": last["real_s"], "virtual_s": last["virtual_s"], "images_per_s": last["samples"] / last["real_s"],
        "bytes": last["bytes"], "messages": last["messages"], "notes": notes,
        "waiting_share": last["waiting_s"] / last["virtual_s"] / len(last["agents"]),
        "staleness_mean": spread_of([s["staleness_mean"] for s in scores])["mean"],
        "staleness_max": max(s["staleness_max"] for s in scores), "disagreement": last["disagreement"],
        "params_sha256": "0" * 64}
    with open(os.path.join(path, "summary.json"), "w") as f:
        f.write(sealed_object(json.dumps(summary, indent=2)))


def trouble(agents, seed):
    rng = random.Random(seed)
    notes = []
    for _ in range(6):
        agent, at = rng.randrange(agents), round(rng.uniform(5, 55), 1)
        notes.append({"virtual_s": at, "agent": agent, "kind": "crash", "text": f"agent {agent} crashed"})
        if rng.random() < 0.7:
            notes.append({"virtual_s": round(at + rng.uniform(3, 12), 1), "agent": agent, "kind": "return",
                          "text": f"agent {agent} came back and took its neighbour's parameters"})
    notes.append({"virtual_s": 30.0, "agent": None, "kind": "partition", "text": "the network fell apart: 0-19 | 20-39"})
    notes.append({"virtual_s": 36.5, "agent": None, "kind": "heal", "text": "the network is whole again"})
    return sorted(notes, key=lambda note: note["virtual_s"])


def break_numbers(path):
    lines = open(os.path.join(path, "events.jsonl")).read().splitlines()
    events = [json.loads(line) for line in lines]
    for event in events:
        del event["digest"]
    events[3]["agents"][1]["loss"] = None
    events[4]["agents"][2]["loss"] = 1e300
    events[5]["agents"][0]["accuracy"] = None
    events[6]["disagreement"]["l2"] = None
    events[7]["disagreement"]["l2"] = 1e-300
    events[8]["virtual_s"] = None
    events[9]["disagreement"]["variation"] = 1e308
    with open(os.path.join(path, "events.jsonl"), "w") as f:
        f.write(sealed_lines(json.dumps(event) for event in events))


def main():
    if sys.argv[1] == "--seal":
        return seal_again(sys.argv[2])
    folder = sys.argv[1]
    write_run(folder, "single", agents=1, batch=100, topology=None, strategy="single", top=91.9, slow=3.8, seed=2)
    write_run(folder, "cycle4", seed=3, slow=1.4)
    write_run(folder, "every5", seed=4, strategy="{kind: consensus, every: 5}", top=91.6, spread=0.25, mb_a_round=1.2)
    write_run(folder, "forty", agents=40, batch=6, topology="torus:8x5", strategy="adpsgd", top=91.2, spread=0.35, slow=0.8,
              notes=trouble(40, 5), stale=2.5, seed=6, evaluations=40)
    write_run(folder, "going", finished=False, seed=7, epochs=4, top=91.0)
    broken = write_run(folder, "broken", seed=8, set="spirals")
    break_numbers(broken)
    os.remove(os.path.join(broken, "summary.json"))
    odd = [{"virtual_s": 3, "agent": 0, "kind": "<b>&\"'", "text": "a </script><svg onload=alert(1)> & \x01 \u00e4\u4e2d"}]
    write_run(folder, "odd & <b>\"name'", seed=9, set="a<b>&\"c\"", notes=odd, topology="'<i>&'")


if __name__ == "__main__":
    main()
