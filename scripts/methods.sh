#!/usr/bin/env bash
# Every strategy on Fashion-MNIST with four agents, beside a single model that sees as many samples; writes its table
# into docs/results.md. About a minute a method on two quiet cores; started again it goes on where it was.
#
#   scripts/methods.sh [PATH/TO/veche]
set -euo pipefail
cd "$(dirname "$0")/.."

veche=${1:-build/veche}
out=${RUNS:-runs}/fashion-methods-compare
methods='single,consensus,{kind: consensus, order: combine-then-adapt},gossip,adpsgd,allreduce,{kind: allreduce, backups: 1},ps,{kind: ps, mode: ssp, staleness: 3},{kind: ps, mode: async},{kind: downpour, push_every: 4, pull_every: 4},{kind: average, tau: 10},{kind: average, tau: 10, momentum: 0.5},{kind: average, tau: 10, momentum: 0.5, nesterov: true},{kind: easgd, mode: sync, every: 4},{kind: easgd, every: 4},{kind: admm, rho: 0.01, steps: 10},{kind: admm, rho: 0.01, steps: 10, mode: async, barrier: 2}'
mkdir -p "${RUNS:-runs}"
if [[ -f $out/compare.json ]]; then
    "$veche" resume "$out" --json >"$out.json"
else
    "$veche" compare experiments/15-fashion-methods.yaml --out "$out" --json --target 91% --over "strategy=$methods" >"$out.json"
fi
python3 tools/methods_table.py "$out.json" docs/results.md
