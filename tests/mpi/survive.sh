#!/usr/bin/env bash
# A rank is killed, or stalls, and the launcher lets the others live: they go on without it, and the run can be gone on with by all.
source "$(dirname "$0")/../support/check.sh" "$1"
launcher=$(awk '$1 == "openmpi" { print $2 }' "$build/mpi.list" 2>/dev/null)
program=$(awk '$1 == "openmpi" { print $3 }' "$build/mpi.list" 2>/dev/null)
source "$(dirname "$0")/../support/mpi_env.sh"
spares() { [[ -n $launcher ]] && "$launcher" "$@" -n 1 true >/dev/null 2>&1; }
if spares --with-ft ulfm; then # Open MPI 5
    options=(--with-ft ulfm)
elif spares --enable-recovery; then # and 4
    options=(--enable-recovery)
else
    skip_because 'no mpirun here that leaves the others alive when a rank is gone'
fi
cd "$work"

cat >exp.yaml <<'Y'
name: exp
data:  { set: { kind: blobs, classes: 3, features: 8, samples: 400, test_samples: 100 }, batch: 4 }
model: [{ linear: { out: 12 } }, batchnorm, relu, { linear: { out: 3 } }]
optim: { kind: sgd, lr: 0.02, momentum: 0.5 }
engine: { kind: ref, threads: 1 }
world: mpi
topology: cycle:4
network: { patience_s: 20, latency_ms: 0.2 } # which keeps a run going for a second or two after its second checkpoint
train: { epochs: 80, seed: 3, evaluate_every: 10 epochs, checkpoint_every: 100 rounds }
Y

# loses NAME RANKS STRATEGY [OVERRIDE...]: rank 2 is killed after the second checkpoint.
loses() {
    timeout 120 "$launcher" "${options[@]}" -n "$2" "$program" run exp.yaml name="$1" "strategy=$3" "${@:4}" --json >out.txt 2>err.txt &
    local job=$! process=
    for _ in $(seq 3000); do
        process=$(sed -n 's/.*rank 2 is process \([0-9]*\).*/\1/p' err.txt)
        [[ -n $process && $(ls "runs/$1"/checkpoint-*.safetensors 2>/dev/null | wc -l) -ge 2 ]] && break
        sleep 0.01
    done
    kill -9 "$process"
    wait $job
    code=$? out=$(cat out.txt) err=$(tr -d '\0' <err.txt)
    holds "$1: whoever is gone is named" grep -aEq 'agent 2 \(rank 2 on .*\) is gone' err.txt
}

goes_on() { # NAME RANKS: with all of them
    succeeds "$1: all ranks go on with what was saved" "$launcher" -n "$2" "$program" resume "runs/$1" --json
}

survives() {
    loses "$@"
    holds "$1: the run comes to its end" test "$code" -eq 0
    holds "$1: the others have learnt" python3 - <<'P'
import json
end = json.load(open("out.txt"))
assert end["accuracy"]["max"] > 90, end["accuracy"]
P
    goes_on "$@"
}

survives allreduce 4 '{kind: allreduce, bucket_kb: 0.2}'
survives consensus 4 consensus
survives ps 5 ps
survives easgd 5 '{kind: easgd, mode: sync, every: 1}'
survives average 4 '{kind: average, tau: 1}'

# The server of four workers stalls after the second checkpoint, and wakes up when its standby serves.
timeout 120 "$launcher" "${options[@]}" -n 6 "$program" run exp.yaml name=stalled network.patience_s=2 'strategy={kind: ps, replicate_every: 2}' \
    --json >out.txt 2>err.txt &
job=$! process=
for _ in $(seq 3000); do
    process=$(sed -n 's/.*rank 4 is process \([0-9]*\).*/\1/p' err.txt)
    [[ -n $process && $(ls runs/stalled/checkpoint-*.safetensors 2>/dev/null | wc -l) -ge 2 ]] && break
    sleep 0.01
done
kill -STOP "$process"
for _ in $(seq 3000); do
    grep -aq 'server 5 takes over' err.txt && break
    sleep 0.01
done
kill -CONT "$process"
wait $job
code=$? out=$(cat out.txt) err=$(tr -d '\0' <err.txt)
holds 'stalled: the run comes to its end' test "$code" -eq 0 -a -s runs/stalled/summary.json
holds 'stalled: the first that is blamed is the one that stalls' \
    test "$(grep -aoE 'rank [0-9]+ on [^)]*\) (is gone|has stalled)' err.txt | head -n 1 | cut -d ' ' -f 2)" = 4
holds 'stalled: its standby takes over' grep -aq 'server 5 takes over' err.txt
holds 'stalled: it leaves when it wakes up' grep -aq '(rank 4 on .*the others have given it up' err.txt
goes_on stalled 6

loses native 4 '{kind: allreduce, algorithm: native}' train.epochs=300 # nothing slows the MPI's own down
holds 'native: the run ends' test "$code" -ne 124 -a ! -s runs/native/summary.json
holds 'native: it says why, and what to do' grep -aq "^veche: .*the MPI's own collectives cannot do without.*veche resume" err.txt
goes_on native 4
done_checking
