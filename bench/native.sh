#!/usr/bin/env bash
# native.sh [PAIRS] - what the default build, which runs on any x86-64, costs against one for this machine alone (VECHE_NATIVE=ON).
#
# Both are built, under build-any and build-native, and measured side by side by pairs.py.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
for kind in any native; do
    [[ $kind == native ]] && native=ON || native=OFF
    cmake -G Ninja -S "$here" -B "$here/build-$kind" -DVECHE_NATIVE=$native -DVECHE_TESTS=OFF -DVECHE_CUDA=OFF ${CMAKE_MORE-} >/dev/null
    cmake --build "$here/build-$kind" --target veche >/dev/null
done
"$here/bench/pairs.py" "$here/build-native/veche" "$here/build-any/veche" --pairs "${1:-25}" --only batch,mixes,steps
