#!/usr/bin/env bash
# Draws the pictures of README.md: docs/report.svg from real runs, docs/rooms.svg from the source. A few seconds.
#
#   scripts/readme_pictures.sh [PATH/TO/veche]
set -euo pipefail
cd "$(dirname "$0")/.."

veche=${1:-build/veche}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

"$veche" compare experiments/03-slow-machine.yaml train.epochs=4 'train.evaluate_every=20 rounds' --out "$out/slow" \
    --over strategy.kind=single,consensus,allreduce,ps,adpsgd,easgd >"$out/table"
"$veche" report "$out/slow" --by seconds --svg "$out/figures" --html "$out/report.html" >"$out/table"
cp "$out/figures/accuracy.svg" docs/report.svg

tools/draw_rooms.py README.md src >"$out/rooms.svg"
cp "$out/rooms.svg" docs/rooms.svg
