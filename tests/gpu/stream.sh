#!/usr/bin/env bash
# Samples that stay on disk and go to a GPU, the pretended one in the folder that is given: the same bits as in memory.
source "$(dirname "$0")/../support/check.sh" "$1"
source "$(dirname "$0")/../support/streams.sh"
cd "$work"
records 150 records
records 70 test-records
cat >exp.yaml <<Y
name: exp
data:  { set: $pictures, split: { kind: sizes, sizes: [4, 2, 1] }, batch: 8, flip: true, crop: 1 }
model: [{ maxpool: { kernel: 4 } }, { linear: { out: 64 } }]
optim: { kind: sgd, lr: 0.01 }
engine: cuda
agents: 3
topology: cycle:3
strategy: consensus
machines: { speed: [1, 0.7, 0.2] }
train: { epochs: 2, seed: 3, evaluate_every: 1 epoch }
Y
run() { "$veche" run exp.yaml --json "$@"; }

both 'side by side' run
holds 'ran on the GPU' grep -q '"engine": "cuda: pretended GPU' <<<"$out"
both 'at their own pace' run strategy=adpsgd train.epochs=1 engine.precision=bf16
both 'in micro-batches' run train.accumulate=3 train.epochs=1
done_checking
