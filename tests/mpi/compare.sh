#!/usr/bin/env bash
# A comparison on ranks: every method has the bits of the local world; stopped, killed and gone on with; a method that fails is passed over.
source "$(dirname "$0")/../support/check.sh" "$1"
source "$(dirname "$0")/../support/ranks.sh"
cd "$work"

cat >exp.yaml <<'Y'
name: exp
data:  { set: { kind: blobs, classes: 3, features: 8, samples: 240, test_samples: 60 }, batch: 4 }
model: mlp:20
optim: { kind: adam, lr: 0.01 }
engine: { kind: ref, threads: 1 }
topology: cycle:3
strategy: consensus
agents: 3
network: { patience_s: 20 }
train: { epochs: 2, seed: 3, evaluate_every: 1 epoch, checkpoint_every: never }
Y

# Every rank leaves its number, and all but rank 0 have a folder of their own.
EACH='echo $$ >"$WORK/process.$rank"; [[ $rank == 0 ]] || { mkdir -p "$WORK/elsewhere" && cd "$WORK/elsewhere"; }'

sha_of() { # METHOD < OBJECT
    python3 -c 'import json, sys
print(next(m["params_sha256"] for m in json.load(sys.stdin)["methods"] if m["method"] == sys.argv[1]))' "$1"
}

here() { "$veche" run exp.yaml -d "$work/here" --json world=local "$@"; }

every_method() {
    succeeds "$kind: by every method" launch 3 compare "$work/exp.yaml" world=mpi -o "all-$kind" --json
    echo "$out" >object
    holds "$kind: which rank is where, once" test "$(grep -c '^note: .*: rank 0 is process .*, rank 2 is process ' <<<"$err")" -eq 1
    for method in single consensus gossip allreduce average ps; do
        agents=3 words=()
        [[ $method != ps ]] || agents=2 words=(topology=complete:2)                    # one of the ranks serves
        [[ $method != single ]] || agents=1 words=(topology=complete:1 data.batch=12) # one of them is all there is
        succeeds "$method: here" here strategy=$method agents=$agents "${words[@]}"
        holds "$kind: $method: the same bits" test "$(json params_sha256 <<<"$out")" = "$(sha_of $method <object)"
    done
    for method in adpsgd downpour easgd admm; do
        holds "$kind: $method has a run" test -s "all-$kind/$method/summary.json"
    done
    holds "$kind: the page is there" grep -q 'allreduce: [0-9.]* %' "all-$kind/report.html"
    holds "$kind: rank 0 alone has a folder" test ! -e elsewhere/runs -a ! -e "elsewhere/all-$kind"
    succeeds "$kind: the table" launch 3 resume "all-$kind"
    holds "$kind: its seconds are real" grep -q '^method .* seconds ' <<<"$out"
}

misfits() {
    succeeds "$kind: one method fails" launch 3 compare "$work/exp.yaml" world=mpi 'optim={kind: sgd, lr: 1}' --over optim.lr=1000000,0.01 -o "fail-$kind" --json
    holds "$kind: it is told" grep -q '^note: lr 1000000 failed: .*diverged' <<<"$err"
    holds "$kind: the next one is done" test "$(python3 -c 'import json, sys
print([m["state"] for m in json.load(sys.stdin)["methods"]])' <<<"$out")" = "['failed', 'done']"
    faults "$kind: a key that is not there, once" "unknown key 'rl' in optim of kind adam; did you mean 'lr'" launch 3 compare "$work/exp.yaml" world=mpi optim.rl=1
    faults "$kind: a folder that is there" "fail-$kind: is there already; go on with it by: veche resume" \
        launch 3 compare "$work/exp.yaml" world=mpi -o "fail-$kind"
    faults "$kind: nothing fits" 'cycle:3.*3 vertices, and agents is 2' \
        launch 2 compare "$work/exp.yaml" world=mpi --over strategy.every=1,2
    succeeds 'one process' "$veche" compare exp.yaml --over strategy.every=1,2 -o "local-$kind"
    faults "$kind: a comparison of one process is not for ranks" "3 processes were started, but the comparison's world is one process" \
        launch 3 resume "local-$kind"
    faults "$kind: nor one of three ranks for two" "fail-$kind: was begun on 3 ranks, and goes on with as many, not with 2" \
        launch 2 resume "fail-$kind"
    faults "$kind: or for one process" "fail-$kind: was begun on 3 ranks" "$veche" resume "fail-$kind"
}

# While rank 0 trains alone, here for six seconds or so, the others wait longer than their patience, since they hear from it.
rival() {
    succeeds "$kind: a long rival" launch 3 compare "$work/exp.yaml" world=mpi network.patience_s=2 model=mlp:1000 train.epochs=1200 \
        'train.evaluate_every=100 epochs' --over strategy.kind=single -o "rival-$kind" --json
    holds "$kind: it is done" test -s "rival-$kind/single/summary.json"
}

# Paced by a slow network, so that there is always time to interfere.
paced=(world=mpi network.latency_ms=2 network.patience_s=2 train.epochs=10 'train.checkpoint_every=10 rounds'
    --over strategy.kind=average,allreduce)

# interfere NAME SIGNAL RANK: in the second method, after its second checkpoint.
interfere() {
    local name=$1-$kind
    launch 3 compare "$work/exp.yaml" "${paced[@]}" -o "$name" --json >job.out 2>job.err &
    for _ in $(seq 600); do
        [[ $(ls "$name"/allreduce/checkpoint-*.safetensors 2>/dev/null | wc -l) -ge 2 ]] && break
        sleep 0.05
    done
    kill "-$2" "$(cat "process.$3")"
    wait $!
    code=$? out=$(cat job.out) err=$(cat launch.err)
    holds "$kind: $1: it was cut short" test ! -e "$name/allreduce/summary.json" -a $code -ne 0
    holds "$kind: $1: nothing is half written" test -z "$(find "$name" -name '*.tmp*')"
}

goes_on() { # NAME: to the bits of a comparison that was left alone
    succeeds "$kind: $1: it is gone on with" launch 3 resume "$1-$kind" --json
    for method in average allreduce; do
        holds "$kind: $1: $method: the same bits" test "$(sha_of $method <<<"$out")" = "$(sha_of $method <calm)"
        holds "$kind: $1: $method: no evaluation is lost or doubled" test "$(grep -c '"evaluation"' "$1-$kind/$method/events.jsonl")" -eq 10
    done
}

trouble() {
    succeeds "$kind: left alone" launch 3 compare "$work/exp.yaml" "${paced[@]}" -o "calm-$kind" --json
    echo "$out" >calm
    interfere stop TERM 1
    holds "$kind: stop: how to go on" grep -q "^veche: stopped on request in method 2 of 2, allreduce; go on with: veche resume stop-$kind" <<<"$err"
    goes_on stop
    interfere kill KILL 2
    goes_on kill
}

for kind in "${kinds[@]}"; do
    every_method
    misfits
    rival
    trouble
done
done_checking
