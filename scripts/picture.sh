#!/usr/bin/env bash
# The well-known picture: what one slow machine and a thin network do to each method. Virtual seconds, so the machine
# this runs on does not matter; a few minutes.
#
#   scripts/picture.sh [PATH/TO/veche]      writes its tables into docs/results.md
set -euo pipefail
cd "$(dirname "$0")/.."

veche=${1:-build/veche}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

methods='allreduce,{kind: allreduce, backups: 1},{kind: ps},{kind: ps, mode: ssp, staleness: 3},{kind: ps, mode: async},consensus,gossip,adpsgd'
"$veche" compare experiments/03-slow-machine.yaml train.epochs=20 --out "$out/slow" --json --over "strategy=$methods" \
    --over machines.stragglers.factor=1,2,10,100 >"$out/slow.json"

methods='allreduce,{kind: allreduce, algorithm: ring},{kind: ps},{kind: ps, mode: async},{kind: downpour, push_every: 10, pull_every: 10},{kind: average, tau: 10},{kind: average, tau: 50},{kind: easgd, every: 10},consensus,{kind: consensus, every: 10},gossip,{kind: gossip, every: 10},adpsgd'
"$veche" compare experiments/09-far-apart.yaml --out "$out/far" --json --target 85% --over "strategy=$methods" \
    >"$out/far.json"

python3 tools/picture_tables.py "$out/slow.json" "$out/far.json" docs/results.md
