#!/usr/bin/env bash
# `veche bench allreduce world=mpi` measures every algorithm beside the MPI's own, on every MPI of this machine; rank 0 tells.
source "$(dirname "$0")/../support/check.sh" "$1"
[[ -s $build/mpi.list ]] || skip_because 'built without MPI'
support=$(realpath "$(dirname "$0")/../support")
cd "$work"

complete() { # complete JSON RANKS: spans of 1, 4 and 6 KiB, nine ways each, all with a time, and the ratios they make
    python3 -c 'import json, sys
d = json.loads(sys.argv[1])
assert d["world"] == "mpi" and d["ranks"] == int(sys.argv[2]), d
assert [s["bytes"] for s in d["spans"]] == [1024, 4096, 6144], d
for s in d["spans"]:
    times = {a["algorithm"]: a["seconds"] for a in s["algorithms"]}
    assert all(0 < a["least_s"] <= a["seconds"] for a in s["algorithms"]), s
    native = min(times.pop("native"), times.pop("MPI_Allreduce"))
    assert len(times) == 7 and s["best_s"] == times[s["best"]] == min(times.values()), s
    ratio = native / s["best_s"]
    assert abs(s["best_over_native"] - ratio) < 1e-4 * max(1, ratio) and s["copy_s"] > 0, s' "$@"
}

while read -r kind _ _; do
    for ranks in 1 2 3; do
        succeeds "$ranks ranks of $kind" bash "$support/mpi.sh" "$build" "$kind" "$ranks" veche bench allreduce world=mpi longest_kb=6 repeats=2
        holds 'all figures' complete "$out" "$ranks"
    done
done <"$build/mpi.list"
faults 'a setting of the other world' "^veche: command line: agents=3: unknown setting 'agents'" "$veche" bench allreduce world=mpi agents=3

done_checking
