#!/usr/bin/env bash
# The engine `dnnl` as on processors with narrower vectors: other orders of channels, other kernels, the same laws. And on none of them does a
# convolution of any number of channels fall to oneDNN's naive loops, which are slower by a factor of hundreds.
source "$(dirname "$0")/../support/check.sh" "$1"
cd "$work"
[[ -x $build/tests/engine.dnnl ]] || skip_because "the build has no oneDNN"

# Fewer channels than a block and more than colours, as the input and between; blocks that are not full; strides.
cat >exp.yaml <<'Y'
name: exp
data:  { set: { kind: images, channels: 5, size: 16, samples: 32, test_samples: 8 }, batch: 16 }
model:
  - conv:   { out: 6, kernel: 3, pad: 1 }
  - relu:   {}
  - conv:   { out: 20, kernel: 3, pad: 1 }
  - relu:   {}
  - conv:   { out: 24, kernel: 5, pad: 2 }
  - relu:   {}
  - conv:   { out: 10, kernel: 3, pad: 1, stride: 2 }
  - linear: { out: 10 }
optim: { kind: sgd, lr: 0.01 }
strategy: single
engine: { kind: dnnl, threads: 1 }
train: { epochs: 1, seed: 3, evaluate_every: 1 epoch, checkpoint_every: never }
Y

# Groups of one channel and of several, as many as blocks hold and not.
groups='model=[conv: {out: 12, kernel: 3, pad: 1}, conv: {out: 12, kernel: 3, pad: 1, groups: 12}, conv: {out: 24, kernel: 1, groups: 4},
conv: {out: 24, kernel: 5, pad: 2, groups: 24}, conv: {out: 64, kernel: 3, stride: 2, pad: 1, groups: 2}, conv: {out: 32, kernel: 3, groups: 16},
linear: {out: 10}]'

uses_no_naive_loops() { # WHAT ARGUMENTS...: of `veche run`
    succeeds "$1" env DNNL_VERBOSE=1 "$veche" run exp.yaml -d "runs/$1" "${@:2}"
    local kernels=$(grep -a ',exec,.*convolution,' <<<"$out" | sed 's/.*convolution,\([^,]*\),.*/\1/' | sort -u)
    out=$kernels
    holds "$1: oneDNN says what it does" test -n "$kernels"
    holds "$1: no naive loops" test -z "$(grep ^ref <<<"$kernels")"
}

try_bf16() { "$veche" bench engine engine=dnnl model=logistic batch=1 seconds=0.01 precision=bf16; }
computes_in_bf16() { try_bf16 >/dev/null 2>&1; }
no_bf16() {
    faults "$isa, bf16: one sentence says that this processor has none" 'this processor does not compute in bf16' try_bf16
    [[ $isa != ALL ]] || skip_part "$isa, bf16" "${err#veche: }"
}

for isa in ALL AVX2 SSE41; do
    export DNNL_MAX_CPU_ISA=$isa
    for precision in fp32 bf16; do
        if [[ $precision == bf16 ]] && ! computes_in_bf16; then
            no_bf16
            continue
        fi
        uses_no_naive_loops "$isa, $precision" engine.precision=$precision
        uses_no_naive_loops "$isa, $precision, LeNet" engine.precision=$precision model=lenet data.set.channels=1 data.set.size=28
        uses_no_naive_loops "$isa, $precision, groups" engine.precision=$precision "$groups"
    done
    [[ $isa == ALL ]] && continue # the tests of their own
    for name in dnnl dnnl_bits; do
        succeeds "engine.$name with $isa" "$build/tests/engine.$name"
    done
done
done_checking
