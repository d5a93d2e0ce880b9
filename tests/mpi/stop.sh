#!/usr/bin/env bash
# train.stop on ranks: the run ends where it is good enough, on all ranks, in step and not, and after it was killed.
source "$(dirname "$0")/../support/check.sh" "$1"
source "$(dirname "$0")/../support/ranks.sh"
cd "$work"

cat >exp.yaml <<'Y'
name: exp
data:  { set: { kind: blobs, classes: 3, features: 8, samples: 240, test_samples: 60 }, batch: 4 }
model: [{ linear: { out: 20 } }, relu, { dropout: { rate: 0.2 } }, { linear: { out: 3 } }]
optim: { kind: adam, lr: 0.003 }
engine: { kind: ref, threads: 1 }
strategy: allreduce
agents: 3
topology: "cycle:3"
network: { patience_s: 20 }
train: { epochs: 40, seed: 3, evaluate_every: 1 epoch, checkpoint_every: 1 epoch, stop: { accuracy: 90 } }
Y

sha() { json params_sha256 <<<"$out"; }
because() { json stopped_because <<<"$out"; }
evaluations() { grep -c '"evaluation"' "runs/$1/events.jsonl"; }

"$veche" run exp.yaml name=local --json >local.json 2>/dev/null
local_sha=$(json params_sha256 <local.json) local_because=$(json stopped_because <local.json)

in_step() {
    succeeds "$kind: it ends" launch 3 run exp.yaml world=mpi name=calm --json
    holds "$kind: as done" test "$(json status <<<"$out")" = done
    holds "$kind: for the same reason as in the local world" test "$(because)" = "$local_because"
    holds "$kind: with the same bits" test "$(sha)" = "$local_sha"
    holds "$kind: the reason is in the events" grep -q '"kind":"stop","text":"accuracy is' runs/calm/events.jsonl
    holds "$kind: its model is saved" test -s runs/calm/model.safetensors
    local n
    n=$(evaluations calm)
    succeeds "$kind: it is gone on with" launch 3 resume runs/calm --json
    holds "$kind: and says that it ended" grep -q 'the run ended in round .*: accuracy is' <<<"$err"
    holds "$kind: and stays as it was" test "$(sha)" = "$local_sha" -a "$(evaluations calm)" = "$n"
    faults "$kind: a target that was met before" 'train.stop.accuracy cannot become .*it would have stopped before' \
        launch 3 resume runs/calm train.stop.accuracy=60
    succeeds "$kind: by another target it goes on" launch 3 resume runs/calm 'train.stop={loss: 0.1}' --json
    local higher
    higher=$(sha)
    succeeds "$kind: which" launch 3 run exp.yaml world=mpi name=higher 'train.stop={loss: 0.1}' --json
    holds "$kind: comes to the bits of a run that had it from the beginning" test "$(sha)" = "$higher"
}

# It stops learning where the rate is gone.
no_progress() {
    local stop='train.stop={no_progress: 3}'
    "$veche" run exp.yaml name=stuck "$stop" optim.lr=1e-9 --json >stuck.json 2>/dev/null
    succeeds "$kind: a run without progress ends" launch 3 run exp.yaml world=mpi name=stuck-far "$stop" optim.lr=1e-9 --json
    holds "$kind: as done, and as in the local world" test "$(json status <<<"$out") $(because) $(sha)" = \
        "done $(json stopped_because <stuck.json) $(json params_sha256 <stuck.json)"
    holds "$kind: after the first evaluation and three more" test "$(evaluations stuck-far)" -le 5
}

# Lessons that take a while, so that it can be killed in the middle.
killed() { # NAME ARGUMENT...
    local name=$1 job process=
    shift
    rm -f launch.err
    launch 3 run exp.yaml world=mpi name="$name" data.batch=2 'data.set={kind: blobs, classes: 3, features: 8, samples: 3000, test_samples: 60}' \
        train.stop.accuracy=96 optim.lr=0.0002 train.checkpoint_every="40 rounds" train.evaluate_every="60 rounds" "$@" >job.out 2>job.err &
    job=$!
    for _ in $(seq 600); do
        process=$(sed -n "s/.*rank 1 is process \([0-9]*\).*/\1/p" launch.err 2>/dev/null)
        [[ -n $process && -n $(ls "runs/$name"/checkpoint-*.safetensors 2>/dev/null) ]] && break
        sleep 0.02
    done
    kill -KILL "$process" 2>/dev/null || true
    wait $job || true
    succeeds "$kind: $name: it is gone on with" launch 3 resume "runs/$name" --json
}

killed_in_step() {
    rm -rf runs/whole runs/broken
    succeeds "$kind: a longer one" launch 3 run exp.yaml world=mpi name=whole data.batch=2 \
        'data.set={kind: blobs, classes: 3, features: 8, samples: 3000, test_samples: 60}' train.stop.accuracy=96 optim.lr=0.0002 \
        train.checkpoint_every="40 rounds" train.evaluate_every="60 rounds" --json
    local whole why n
    whole=$(sha) why=$(because) n=$(evaluations whole)
    killed broken
    holds "$kind: killed, it ends at the same evaluation" test "$(because)" = "$why" -a "$(evaluations broken)" = "$n"
    holds "$kind: killed, it comes to the same bits" test "$(sha)" = "$whole"
}

at_will() {
    local ranks strategy
    while read -r ranks strategy; do
        succeeds "$kind: $strategy ends" launch "$ranks" run exp.yaml world=mpi name=will agents=3 "strategy=$strategy" --json
        holds "$kind: $strategy: as done, for a reason" test "$(json status <<<"$out")" = done -a -n "$(because)"
    done <<'S'
4 {kind: ps, mode: async}
4 {kind: ps, mode: ssp, staleness: 1}
3 adpsgd
4 {kind: easgd, mode: async, every: 3}
4 {kind: admm, mode: async, steps: 3}
4 {kind: downpour, push_every: 3, pull_every: 2}
4 {kind: allreduce, backups: 1}
3 {kind: average, tau: 3}
S
}

for kind in "${kinds[@]}"; do
    rm -rf runs
    in_step
    no_progress
    killed_in_step
    at_will
done
done_checking
