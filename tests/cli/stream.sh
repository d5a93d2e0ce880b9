#!/usr/bin/env bash
# Samples that stay on disk: the same bits as in memory, with and without a stop on the way, and one sentence where the disk is in trouble.
source "$(dirname "$0")/../support/check.sh" "$1"
source "$(dirname "$0")/../support/streams.sh"
bench=$(cd "$(dirname "$0")/../.." && pwd)/bench/stream.py
cd "$work"
records 180 records
records 70 test-records
cat >exp.yaml <<Y
name: exp
data:  { set: $pictures, split: { kind: sizes, sizes: [4, 2, 1] }, batch: 8, flip: true, crop: 2 }
model: [{ linear: { out: 8 } }, batchnorm, relu, { dropout: { rate: 0.2 } }, { linear: { out: 64 } }]
optim: { kind: sgd, lr: 0.01 }
engine: { kind: ref }
agents: 3
topology: cycle:3
strategy: consensus
machines: { speed: [1, 0.7, 0.2] }
train: { epochs: 3, seed: 3, evaluate_every: 1 epoch, checkpoint_every: 1 epoch }
Y
run() { "$veche" run exp.yaml --json "$@"; }

both 'ref' run
both 'at its own pace' run strategy=adpsgd engine=auto train.epochs=2
both 'ref, in micro-batches' run train.accumulate=3 train.epochs=2
both 'in micro-batches' run train.accumulate=3 engine=auto train.epochs=2
both 'a part of the set' run data.limit=100 data.test_limit=30 data.split=replacement engine=auto data.batch=70
both 'fewer batches than bays' timeout 60 "$veche" run exp.yaml --json data.limit=3 data.split=shuffle data.batch=1 train.epochs=20

# ---- what people are told ----

try run data.stream=true data.window_mb=0.6
holds 'the memory is told of' grep -q 'samples: 0.8 MB on disk, at most 0.6 MB of them in memory' <<<"$out"
rm -rf runs
faults 'a window that is too small' 'data.window_mb: 0.1 holds less than 64 samples of 3072 bytes.*; the least is 0.1967' \
    run data.stream=true data.window_mb=0.1
faults 'check says so, too' 'the least is 0.1967' "$veche" check exp.yaml data.stream=true data.window_mb=0.1
faults 'a window without a stream' 'data.window_mb: .* only with data.stream: true' "$veche" check exp.yaml data.window_mb=1
faults 'a set that is made up' "data.stream: 'blobs' is made up" "$veche" check exp.yaml data.set=blobs data.stream=true
faults 'a compressed file' 'records.gz: is compressed' bash -c "gzip -k records && $veche run exp.yaml data.stream=true data.set.train=records.gz"
succeeds 'check tells of the window' "$veche" check exp.yaml data.stream=true data.window_mb=0.6
holds 'check tells of the window' grep -q 'samples: at most 0.6 MB in memory, the others on disk' <<<"$out"
misused 'a comparison of speeds whose samples would lie in the window all at once' "$bench" "$veche" --epochs 0.1
holds 'is told the least' grep -q 'do not fill a window of 20 MB 5 times; the least is 0.66' <<<"$err"

# ---- stopped, and gone on with ----

rm -rf runs
succeeds 'in memory' run train.epochs=40
whole=$(sha)
begin() { # ARGUMENT...: a run in the background, $pid, that has written some checkpoints
    rm -rf killed
    "$veche" run exp.yaml -d killed train.epochs=40 train.checkpoint_every=1\ rounds "$@" >/dev/null 2>killed.err &
    pid=$!
    holds "began ($*)" wait_for_checkpoint killed
}
go_on() { # WHAT CHANGE...: to the same bits
    local what=$1
    shift
    holds "$what: not at its end" test ! -e killed/exp/summary.json
    succeeds "$what: goes on" "$veche" resume killed/exp --json train.checkpoint_every=never "$@"
    holds "$what: to the same bits" test -n "$whole" -a "$(sha)" = "$whole"
}
for change in data.stream=true 'data.stream=false data.window_mb=0'; do
    begin data.stream=true data.window_mb=0.22
    kill -KILL $pid
    wait $pid 2>/dev/null
    # shellcheck disable=SC2086
    go_on "streamed, then $change" $change
done
begin
kill -KILL $pid
wait $pid 2>/dev/null
go_on 'in memory, then streamed' data.stream=true data.window_mb=0.6

cp records whole
begin data.stream=true data.window_mb=0.22
truncate -s 100000 records
wait_for_end $pid
holds 'a file that is cut short ends the run' test "$code" -eq 1
holds 'a file that is cut short is named' grep -q '^veche: .*/records: was cut short, to 100000 of 553140 bytes' killed.err
faults 'and is refused afterwards' 'records: ' "$veche" resume killed/exp
cp whole records
go_on 'when the file is whole again'
done_checking
