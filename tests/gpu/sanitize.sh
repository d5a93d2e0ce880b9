#!/usr/bin/env bash
# A round and an exam of each network under compute-sanitizer, as small as their kernels allow, and small passes of parts: accesses to
# memory (memcheck), of shared memory between barriers (racecheck), barriers themselves (synccheck). Skipped where there is no GPU.
source "$(dirname "$0")/../support/check.sh" "$1"
cd "$work"

why=$(why_no_gpu)
command -v compute-sanitizer >/dev/null || why=${why:-there is no compute-sanitizer}
skip_because "$why"

cat >exp.yaml <<'Y'
name: exp
data:  { set: { kind: images, channels: 3, size: 32, samples: 4, test_samples: 2 }, batch: 2 }
model: resnet20
optim: { kind: sgd, lr: 0.01, momentum: 0.9 }
engine: cuda
agents: 2
topology: complete:2
strategy: consensus
train: { epochs: 1, seed: 3, evaluate_every: 1 epoch, checkpoint_every: never }
Y
any='[ { conv: { out: 6, kernel: 5, stride: 2 } }, { batchnorm: {} }, { relu: {} }, { avgpool: { kernel: 2 } }, { linear: { out: 70 } }, { tanh: {} }, { linear: { out: 10 } } ]'

under() { # under TOOL WHAT [OVERRIDES...]
    local tool=$1 what=$2
    shift 2
    try timeout 300 compute-sanitizer --tool "$tool" --error-exitcode 9 "$veche" run exp.yaml -d "runs-$passed" "$@"
    [[ $code -eq 0 ]] && report yes "$tool: $what" || report no "$tool: $what"
}

passes() { # passes TOOL: engine.cuda_passes, the small ones
    local tool=$1
    for pattern in 'small*' 'passes*'; do
        try timeout 300 compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/tests/engine.cuda_passes" "$pattern"
        [[ $code -eq 0 ]] && report yes "$tool: $pattern" || report no "$tool: $pattern"
    done
}

for tool in memcheck racecheck synccheck; do
    for precision in fp32 bf16; do
        under $tool "resnet20 in $precision" engine.precision=$precision
        under $tool "fashion-cnn in $precision" engine.precision=$precision model=fashion-cnn data.set.channels=1 data.set.size=28
        under $tool "other layers in $precision" engine.precision=$precision model="$any"
    done
    passes $tool
done
done_checking
