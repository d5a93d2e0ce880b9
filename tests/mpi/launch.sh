#!/usr/bin/env bash
# Jobs under each launcher: started by the wrong one, stopped on request, killed or stalled and gone on with.
source "$(dirname "$0")/../support/check.sh" "$1"
tests=$(cd "$(dirname "$0")/.." && pwd)
mapfile -t kinds < <(cut -d ' ' -f 1 "$build/mpi.list")
cd "$work"

job() { exec bash "$tests/support/mpi.sh" "$build" "$@"; }
program_of() { awk -v kind="$1" '$1 == kind { print $3 }' "$build/mpi.list"; }

for kind in "${kinds[@]}"; do
    for other in "${kinds[@]}"; do
        [[ $other != "$kind" ]] || continue
        try job "$kind" 2 "$(program_of "$other")" run "$tests/cluster/small.yaml" world=mpi
        holds "$kind starts a veche of $other: it is refused" test $code -ne 0
        holds "$kind starts a veche of $other: and told why" grep -q 'takes each for a job of its own' <<<"$err"
        holds "$kind starts a veche of $other: nothing was trained" test ! -e runs
    done

    # What ranks say goes to files of their own: mpirun of Open MPI 5, once interrupted, passes nothing on.
    export PROGRAM
    PROGRAM=$(program_of "$kind")
    for whom in launcher rank; do
        rm -f words.*
        job "$kind" 3 bash -c 'exec "$PROGRAM" "$@" 2>"words.${OMPI_COMM_WORLD_RANK-$PMI_RANK}"' ranks \
            run -d "$kind-$whom" "$tests/cluster/small.yaml" world=mpi train.epochs=2000 >out.txt 2>err.txt &
        launcher=$!
        for _ in $(seq 600); do
            [[ $(ls "$kind-$whom"/small/checkpoint-*.safetensors 2>/dev/null | wc -l) -ge 2 ]] && break
            sleep 0.1
        done
        if [[ $whom == launcher ]]; then
            kill -INT $launcher
        else
            kill -TERM "$(sed -n 's/.*rank 2 is process \([0-9]*\).*/\1/p' words.0)"
        fi
        wait $launcher
        code=$? out=$(cat out.txt) err=$(grep -v ^epoch words.0)
        holds "$kind, SIGINT or SIGTERM to the $whom: exit code 1" test $code -eq 1
        holds "$kind, SIGINT or SIGTERM to the $whom: says how to go on" grep -q 'stopped on request.*veche resume' words.0
        round=$(sed -n 's/.*stopped on request after round \([0-9]*\) .*/\1/p' words.0)
        holds "$kind, SIGINT or SIGTERM to the $whom: with a checkpoint of that round" \
            test -s "$kind-$whom/small/checkpoint-$(printf %08d "$round").safetensors"
    done
done

struck() { bash "$tests/cluster/nightly.sh" "$build" $((2 * ${#kinds[@]})) 1 10; }
succeeds 'a rank is killed or stopped: the job ends soon, names it first, and goes on' struck
done_checking
