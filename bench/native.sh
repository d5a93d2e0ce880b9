#!/usr/bin/env bash
# native.sh [TIMES] - what the default build, which runs on any x86-64, costs against one for this machine alone (VECHE_NATIVE=ON).
#
# Both are built, under build-any and build-native, and measured side by side in time: TIMES pairs (25) of short measurements, a machine whose speed moves
# has moved for both. The ratio is the median of the pairs', with the interval that holds the true median 19 times of 20. Nothing else should run
# meanwhile. The command in BEFORE (the environment's, mostly empty) stands before each measurement.
set -euo pipefail
times=${1:-25}
here=$(cd "$(dirname "$0")/.." && pwd)
for kind in any native; do
    [[ $kind == native ]] && native=ON || native=OFF
    cmake -G Ninja -S "$here" -B "$here/build-$kind" -DVECHE_NATIVE=$native -DVECHE_TESTS=OFF -DVECHE_CUDA=OFF ${CMAKE_MORE-} >/dev/null
    cmake --build "$here/build-$kind" --target veche >/dev/null
done
python3 - "$here" "$times" <<'P'
import json, math, os, shlex, statistics, subprocess, sys
here, times = sys.argv[1], int(sys.argv[2])
engine = lambda *words: (["bench", "engine", "engine=dnnl", "seconds=0.3", *words], "images_per_s")
wanted = {
    "resnet20, batch 32": engine("model=resnet20", "batch=32"),
    "resnet20, bf16": engine("model=resnet20", "batch=32", "precision=bf16"),
    "fashion-cnn, batch 32": engine("model=fashion-cnn", "batch=32"),
    "mlp:500-500, batch 32": engine("model=mlp:500-500", "batch=32"),
    "mixes of 36 agents, /s": (["bench", "mix", "data.batch=1", "data.set.samples=180"], "mix_s"),
    "their steps, /s": (["bench", "mix", "data.batch=1", "data.set.samples=180"], "update_s"),
}
def measure(kind, words, key):
    said = subprocess.check_output(shlex.split(os.environ.get("BEFORE", "")) + [f"{here}/build-{kind}/veche", *words])
    figure = json.loads(said)[key]
    return 1 / figure if key.endswith("_s") and "per" not in key else figure
# Of n values in order, those between which the median lies 19 times of 20.
def interval(n):
    below, chance = 0, 0.5 ** n
    while chance < 0.025:
        below, chance = below + 1, chance + 0.5 ** n * math.comb(n, below + 1)
    return max(below - 1, 0), min(n - below, n - 1)
print(f"{'':24}{'native':>12}{'default':>12}{'ratio':>8}{'between':>14}")
for name, (words, key) in wanted.items():
    found = {"native": [], "any": []}
    for i in range(times):
        for kind in ("native", "any") if i % 2 else ("any", "native"):
            found[kind].append(measure(kind, words, key))
    ratios = sorted(default / native for native, default in zip(found["native"], found["any"]))
    low, high = interval(times)
    print(f"{name:24}{statistics.median(found['native']):12.5g}{statistics.median(found['any']):12.5g}{statistics.median(ratios):8.3f}"
          f"{ratios[low]:7.3f}{ratios[high]:7.3f}", flush=True)
P
