#!/usr/bin/env bash
# A run on a GPU, the pretended one in the folder that is given, killed and gone on with: the same bits as if never stopped, in either precision.
source "$(dirname "$0")/../support/check.sh" "$1"
cd "$work"
cat >exp.yaml <<'Y'
name: exp
data:  { set: { kind: images, channels: 3, size: 8, samples: 96, test_samples: 20 }, batch: 8, flip: true, crop: 1 }
model:
  - conv: { out: 4, kernel: 3, pad: 1 }
  - batchnorm
  - relu
  - dropout: { rate: 0.2 }
  - linear: { out: 10 }
optim: { kind: adam, lr: 0.01 }
engine: cuda
agents: 3
topology: cycle:3
strategy: consensus
train: { epochs: 8, seed: 3, evaluate_every: 4 epochs, checkpoint_every: 1 epoch }
Y
run() { exec "$veche" run exp.yaml --json -d "$1" "engine.precision=$2"; }

for precision in fp32 bf16; do
    try run whole-$precision $precision
    whole=$(json params_sha256 <<<"$out")
    holds "$precision: ran on the GPU" grep -q '"engine": "cuda: pretended GPU' <<<"$out"
    run parts-$precision $precision >/dev/null 2>&1 &
    holds "$precision: began" wait_for_checkpoint parts-$precision
    kill -KILL $!
    wait $! 2>/dev/null
    holds "$precision: was killed before its end" test ! -e parts-$precision/exp/summary.json
    succeeds "$precision: goes on" "$veche" resume parts-$precision/exp --json
    holds "$precision: to the same bits" test -n "$whole" -a "$(json params_sha256 <<<"$out")" = "$whole"
done
done_checking
