#!/usr/bin/env bash
# A run from start to end, stopped in all ways and gone on with: the same bits as if never stopped.
source "$(dirname "$0")/../support/check.sh" "$1"
cd "$work"

cat >exp.yaml <<'Y'
name: exp
data:  { set: { kind: images, classes: 4 }, batch: 16, flip: true, crop: 1 }
model:
  - conv: { out: 8, kernel: 3, pad: 1 }
  - batchnorm
  - relu
  - maxpool: { kernel: 2 }
  - dropout: { rate: 0.2 }
  - linear: { out: 4 }
optim: { kind: sgd, lr: 0.05, momentum: 0.9, weight_decay: 0.0001, schedule: { kind: cosine, warmup_epochs: 0.5 } }
train: { epochs: 6, seed: 3, evaluate_every: 1 epoch, checkpoint_every: 40 rounds, keep: 3 }
Y

succeeds 'an experiment runs' "$veche" run exp.yaml --json
whole=$(json params_sha256 <<<"$out")
for key in name strategy agents rounds epochs accuracy.mean accuracy.std accuracy.min accuracy.max loss.mean real_s virtual_s \
    images_per_s bytes messages disagreement params_sha256; do
    holds "the JSON object has $key" json "$key" <<<"$out"
done
holds 'it learnt' python3 -c "import sys; sys.exit(not $(json accuracy.mean <<<"$out") > 60)"
for file in experiment.yaml events.jsonl summary.json model.safetensors; do
    holds "the run's folder has $file" test -s runs/exp/$file
done
holds 'an evaluation each epoch' test "$(grep -c '"evaluation"' runs/exp/events.jsonl)" -eq 6
holds 'three checkpoints are kept' test "$(ls runs/exp/checkpoint-*.safetensors | wc -l)" -eq 3

succeeds 'the same experiment again' "$veche" run exp.yaml --json
holds 'the same seed gives the same bits' test "$(json params_sha256 <<<"$out")" = "$whole"
holds 'the second run has a folder of its own' test -s runs/exp-2/summary.json
succeeds 'another seed' "$veche" run exp.yaml --json train.seed=4
holds 'another seed gives other bits' test "$(json params_sha256 <<<"$out")" != "$whole"
for threads in 1 2 3; do
    succeeds "$threads threads" "$veche" run exp.yaml --json engine.threads=$threads
    holds "$threads threads give the same bits" test "$(json params_sha256 <<<"$out")" = "$whole"
done
succeeds 'the resolved experiment runs' "$veche" run runs/exp/experiment.yaml --json
holds 'the resolved experiment gives the same bits' test "$(json params_sha256 <<<"$out")" = "$whole"

# Agents that part on the way and have the same parameters in the end, when all have said goodbye to their server.
succeeds 'agents that are not in step' "$veche" run exp.yaml --json -d apart agents=3 strategy='{kind: ps, mode: async}' machines.speed='[1, 0.5, 0.3]' network='{latency_ms: 5, bandwidth_mbps: 1}' optim='{kind: sgd, lr: 0.05}'
holds 'the last evaluation is of what all have in the end' python3 -c "import sys; sys.exit(not $(json disagreement.linf <<<"$out") < 1e-5)"
holds 'it is none more than the others' test "$(grep -c '"evaluation"' apart/exp/events.jsonl)" -eq 6

# A run long enough to be interrupted (its second checkpoint comes after a three hundredth of it), and what it comes to when
# left alone. (Always in a subshell, so that the process is the program itself.)
epochs=400
long() { exec "$veche" run exp.yaml --json -d "$1" train.epochs=$epochs "${@:2}"; }
try long calm && calm=$(json params_sha256 <<<"$out")

for signal in INT TERM KILL; do
    long stop-$signal >first.out 2>first.err &
    pid=$!
    wait_for_checkpoint stop-$signal
    kill -$signal $pid
    wait $pid
    code=$?
    if [[ $signal != KILL ]]; then
        holds "$signal: exit code 1" test $code -eq 1
        holds "$signal: says how to go on" grep -q 'veche resume' first.err
        holds "$signal: the last object says stopped" test "$(json status <first.out)" = stopped
    fi
    holds "$signal: the run was cut short" test ! -e stop-$signal/exp/summary.json
    succeeds "$signal: resume" "$veche" resume stop-$signal/exp --json
    holds "$signal: resume continues bit for bit" test "$(json params_sha256 <<<"$out")" = "$calm"
    holds "$signal: no evaluation is lost or doubled" test "$(grep -c '"evaluation"' stop-$signal/exp/events.jsonl)" -eq $epochs
    holds "$signal: the curve is the same" python3 - calm/exp/events.jsonl stop-$signal/exp/events.jsonl <<'P'
import json, sys
def curve(path):
    rows = [json.loads(line) for line in open(path)]
    for r in rows: r.pop("real_s"), r.pop("digest")
    return [r for r in rows if r["event"] == "evaluation"]
sys.exit(curve(sys.argv[1]) != curve(sys.argv[2]))
P
done

succeeds 'resume of a run that is done does no harm' "$veche" resume stop-INT/exp --json
holds 'and gives the same bits' test "$(json params_sha256 <<<"$out")" = "$calm"

# What may change, and what may not.
faults 'another learning rate is a new run' "^veche: stop-INT/exp: optim.lr cannot become '0.1': .* veche run stop-INT/exp/experiment.yaml optim.lr=" \
    "$veche" resume stop-INT/exp optim.lr=0.1
faults 'a cosine keeps its epochs' 'the schedule of the learning rate is spread over train.epochs' "$veche" resume stop-INT/exp train.epochs=500
faults 'a key that is none' "unknown key 'epoch' in train; did you mean 'epochs'" "$veche" resume stop-INT/exp train.epoch=500
succeeds 'fewer threads' "$veche" resume stop-INT/exp engine.threads=1 --json
holds 'and the same bits' test "$(json params_sha256 <<<"$out")" = "$calm"
holds 'are noted' grep -q "engine.threads is '1' from here on, not '0'" stop-INT/exp/events.jsonl

# Broken checkpoints.
cp -r stop-INT/exp broken
newest=$(ls -t broken/checkpoint-*.safetensors | sort -V | tail -1)
printf 'X' | dd of="$newest" bs=1 seek=100 conv=notrunc status=none
succeeds 'a broken newest checkpoint is passed over' "$veche" resume broken --json
holds 'with a note' grep -q 'going back to round' <<<"$err"
holds 'and the run ends with the same bits' test "$(json params_sha256 <<<"$out")" = "$calm"
for c in broken/checkpoint-*.safetensors; do : >"$c"; done
faults 'no whole checkpoint is left' '^veche: broken' "$veche" resume broken

# Two at once.
long busy >/dev/null 2>&1 &
pid=$!
wait_for_checkpoint busy
faults 'resume of a run that is going on' 'another process' "$veche" resume busy/exp
kill -KILL $pid
wait $pid 2>/dev/null
long twins >/dev/null 2>&1 &
long twins >/dev/null 2>&1 &
wait
holds 'two runs at once have two folders' test -s twins/exp/summary.json -a -s twins/exp-2/summary.json

# Nowhere to write.
: >file
faults 'a folder that cannot be made' '^veche: .*file' "$veche" run exp.yaml -d file
if mkdir -p tiny && mount -t tmpfs -o size=64k tmpfs tiny 2>/dev/null; then
    faults 'a full disk' '^veche: .*No space left' "$veche" run exp.yaml -d tiny model=mlp:500-500
    holds 'leaves no half-written checkpoint' test -z "$(find tiny -name '*.tmp*' -o -name 'checkpoint-*')"
    mount -o remount,ro tiny
    faults 'a read-only folder' '^veche: .*Read-only' "$veche" run exp.yaml -d tiny
    umount tiny
else
    for what in 'a full disk' 'leaves no half-written checkpoint' 'a read-only folder'; do
        skip_part "$what" 'this user may not mount a tmpfs'
    done
fi

faults 'a diverging run says so' 'diverged' "$veche" run exp.yaml -d diverged optim.lr=1e6
holds 'and the records say so, too' grep -q diverged diverged/exp/events.jsonl

done_checking
