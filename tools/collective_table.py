#!/usr/bin/env python3
"""Tables of docs/collectives.md: what all-reduce algorithms take on uniform networks, measured against predicted.

    tools/collective_table.py [path/to/veche] > tables.md

Every figure is one run of `veche bench allreduce`: virtual seconds, the same on every machine.
"""
import json
import subprocess
import sys

VECHE = sys.argv[1] if len(sys.argv) > 1 else "build/veche"
NETWORKS = [("cluster", 0.02, 10000), ("office", 0.5, 1000), ("far apart", 20, 100)]
MEMBERS = [3, 4, 6, 7, 8, 12, 16, 17, 32, 48, 64]


def bench(agents, floats, latency_ms, bandwidth_mbps):
    words = [f"agents={agents}", f"floats={floats}", f"latency_ms={latency_ms}", f"bandwidth_mbps={bandwidth_mbps}"]
    return json.loads(subprocess.check_output([VECHE, "bench", "allreduce", *words]))


def short(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def size_of(floats):
    kb = floats * 4 / 1000
    return f"{kb:.2g} kB" if kb < 100 else f"{kb / 1000:.2g} MB"


def measured_table(name, latency_ms, bandwidth_mbps):
    print(f"\n**{name}**: {latency_ms} ms, {bandwidth_mbps} Mbit/s\n")
    first = bench(2, 1, latency_ms, bandwidth_mbps)
    names = [row["algorithm"] for row in first["algorithms"]]
    print("| members | floats | " + " | ".join(names) + " |")
    print("|---|---|" + "---|" * len(names))
    for floats in (1000, 272474, 25557032):
        for agents in (4, 7, 8, 12, 16, 17):
            figures = bench(agents, floats, latency_ms, bandwidth_mbps)
            cells = []
            for row in figures["algorithms"]:
                text = short(row["seconds"])
                off = row["seconds"] / row["predicted_s"] - 1
                if abs(off) > 0.0095:
                    text += f" ({off:+.0%})"
                cells.append(f"**{text}**" if row["algorithm"] == figures["fastest"] else text)
            print(f"| {agents} | {floats:,} | " + " | ".join(cells) + " |")


def fastest_along(agents):
    """Lists (fastest algorithm, from which product n beta / alpha on), by halving the steps between grid points."""
    def fastest(ratio, before=None):  # alpha is 1 ms, a float takes 32 ns at 1000 Mbit/s
        rows = bench(agents, max(1, round(ratio * 1e-3 / 32e-9)), 1, 1000)["algorithms"]
        seconds = {row["algorithm"]: row["seconds"] for row in rows}
        best = min(seconds, key=seconds.get)
        return before if before and seconds[before] <= 1.001 * seconds[best] else best  # rounding decides nothing

    steps = [10 ** (e / 8) for e in range(-28, 33)]
    found = [(fastest(steps[0]), 0)]
    for low, high in zip(steps, steps[1:]):
        before = found[-1][0]
        name = fastest(high, before)
        if name == before:
            continue
        for _ in range(6):
            middle = (low * high) ** 0.5
            low, high = (low, middle) if fastest(middle, before) == name else (middle, high)
        found.append((name, high))
    return found


def crossover_table():
    print("\n| members | fastest, and from which n beta / alpha on | on the cluster | in the office | far apart |")
    print("|---|---|---|---|---|")
    for agents in MEMBERS:
        found = fastest_along(agents)
        ratios = [name if ratio == 0 else f"{name} from {ratio:.2g}" for name, ratio in found]
        columns = []
        for _, latency_ms, bandwidth_mbps in NETWORKS:
            floats_per_ratio = latency_ms * 1e-3 / (32 / (bandwidth_mbps * 1e6))
            columns.append(", ".join(size_of(ratio * floats_per_ratio) for _, ratio in found[1:]) or "always")
        print(f"| {agents} | " + "; ".join(ratios) + " | " + " | ".join(columns) + " |")


for network in NETWORKS:
    measured_table(*network)
crossover_table()
