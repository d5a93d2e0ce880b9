#!/usr/bin/env bash
# `veche bench allreduce` measures what the formulas predict, for spans of any length, and refuses with one sentence.
source "$(dirname "$0")/../support/check.sh" "$1"
cd "$work"

near() { # near NAME SECONDS...: of every algorithm, in order
    python3 -c 'import json, sys
rows = json.loads(sys.argv[1])["algorithms"]
for row, seconds in zip(rows, map(float, sys.argv[2:]), strict=True):
    assert abs(row["seconds"] / seconds - 1) < 0.01, row
    assert abs(row["predicted_s"] / row["seconds"] - 1) < 0.01, row' "$@"
}

# a million floats take 32 ms on 1 Gbit/s; 8 agents, 1 ms
succeeds 'eight agents' "$veche" bench allreduce agents=8 floats=1000000 latency_ms=1 bandwidth_mbps=1000
holds 'as by the formulas' near "$out" 0.231 0.254 0.196 0.07 0.099 0.062 0.062
holds 'what was asked' test "$(json agents <<<"$out") $(json floats <<<"$out") $(json fastest <<<"$out")" = '8 1000000 halving-doubling'
succeeds 'a span of gigabytes' "$veche" bench allreduce agents=8 floats=1000000000 latency_ms=1 bandwidth_mbps=1000000
holds 'takes as long on a wire as much faster' near "$out" 0.231 0.254 0.196 0.07 0.099 0.062 0.062
succeeds 'one float' "$veche" bench allreduce agents=4 floats=1 latency_ms=10 bandwidth_mbps=1000
holds 'takes latencies only' near "$out" 0.03 0.02 0.04 0.06 0.02 0.04 0.04
succeeds 'one agent' "$veche" bench allreduce agents=1
holds 'has nobody to wait for' python3 -c 'import json, sys
assert all(row["seconds"] == 0 and row["messages"] == 0 for row in json.loads(sys.argv[1])["algorithms"])' "$out"

faults 'an unknown setting' "^veche: command line: agnts=3: unknown setting 'agnts'; did you mean 'agents'\?" "$veche" bench allreduce agnts=3
faults 'a bench that is none' "^veche: there is no bench 'allreduc'; there are engine, local, mix and allreduce" "$veche" bench allreduc
faults 'nobody' '^veche: command line: agents=0: ' "$veche" bench allreduce agents=0

done_checking
