#!/usr/bin/env bash
# native.sh [TIMES] - what the default build, which runs on any x86-64, costs against one for this machine alone (VECHE_NATIVE=ON).
#
# Both are built, under build-any and build-native, and measured in turn; medians and their ratio. Nothing else should run meanwhile. The command after
# BEFORE (the environment's, mostly empty) stands before each measurement.
set -euo pipefail
times=${1:-5}
here=$(cd "$(dirname "$0")/.." && pwd)
for kind in any native; do
    [[ $kind == native ]] && native=ON || native=OFF
    cmake -G Ninja -S "$here" -B "$here/build-$kind" -DVECHE_NATIVE=$native -DVECHE_TESTS=OFF -DVECHE_CUDA=OFF ${CMAKE_MORE-} >/dev/null
    cmake --build "$here/build-$kind" --target veche >/dev/null
done
python3 - "$here" "$times" <<'P'
import json, os, shlex, statistics, subprocess, sys
here, times = sys.argv[1], int(sys.argv[2])
engine = lambda *words: (["bench", "engine", "engine=dnnl", "seconds=1", *words], "images_per_s")
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
print(f"{'':24}{'native':>12}{'default':>12}{'ratio':>8}")
for name, (words, key) in wanted.items():
    found = {"native": [], "any": []}
    for i in range(times):
        for kind in ("native", "any") if i % 2 else ("any", "native"):
            found[kind].append(measure(kind, words, key))
    native, default = (statistics.median(found[k]) for k in ("native", "any"))
    print(f"{name:24}{native:12.5g}{default:12.5g}{default / native:8.3f}", flush=True)
P
