#!/usr/bin/env bash
# Which engine and which kernels a run gets, and what it says, with GPUs of all kinds: those that are pretended (driver.cpp), in the folder that
# is given.
source "$(dirname "$0")/../support/check.sh" "$1"
cd "$work"
cat >exp.yaml <<'Y'
name: exp
data:  { set: { kind: images, channels: 3, size: 8, samples: 48, test_samples: 20 }, batch: 8 }
model:
  - conv:      { out: 4, kernel: 3, pad: 1 }
  - batchnorm: {}
  - relu:      {}
  - linear:    { out: 10 }
optim: { kind: sgd, lr: 0.05, momentum: 0.9 }
agents: 3
topology: cycle:3
strategy: consensus
train: { epochs: 2, seed: 3, evaluate_every: 1 epoch, checkpoint_every: never }
Y
mkdir none && : >none/libcuda.so.1 # nothing that can be opened, even where there is a driver
without() { LD_LIBRARY_PATH=$work/none "$veche" run exp.yaml --json -d runs "$@"; }
with() { # with NAME=VALUE... ARGUMENT...: a run on that pretended GPU
    local settings=()
    while [[ ${1:-} == PRETENDED_* ]]; do settings+=("$1") && shift; done
    env "${settings[@]}" "$veche" run exp.yaml --json -d runs "$@"
}
engine() { json engine <<<"$out"; }

succeeds "a GPU is taken where there is one" with
holds "and said" grep -q '^cuda: pretended GPU, fp32 (engine.precision=bf16 may be faster), 3 lessons side by side' <<<"$(engine)"
holds "and what memory is for" grep -Eq '[0-9.]+ MiB for rows, [0-9.]+ MiB for samples, in turn [0-9.]+ MiB for lessons and [0-9.]+ MiB for exams$' <<<"$(engine)"
first=$(json params_sha256 <<<"$out")
succeeds "the same again" with
holds "to the same bits" test -n "$first" -a "$(json params_sha256 <<<"$out")" = "$first"
succeeds "in bf16" with engine.precision=bf16
holds "other bits in bf16" test "$(json params_sha256 <<<"$out")" != "$first"

# why, settings: what the engine `cuda` says when it is asked for, and `auto` when it goes on without
refused() {
    local why=$1
    shift
    faults "asked for: $why" "$why" with "$@" engine=cuda
    succeeds "not asked for: $why" with "$@"
    holds "the processor is taken, and why is said: $why" grep -Eq "^(dnnl|ref).*no GPU: .*$why" <<<"$(engine)"
}
refused 'there is an NVIDIA driver but no GPU on this machine' PRETENDED_GPU_COUNT=0
refused 'the NVIDIA driver of this machine is too old: it is for CUDA 12.2, and this veche was built with 13.0' PRETENDED_GPU_CUDA=12020
refused 'the GPU pretended GPU has compute capability 7.5; at least 8.0 is needed' PRETENDED_GPU_CAPABILITY=75
refused 'the GPU pretended GPU has no memory free' PRETENDED_GPU_MIB=0
refused 'has [0-9]+ MiB free of 4; [0-9]+ MiB are needed for' PRETENDED_GPU_MIB=4

succeeds "a comparison on a GPU that is full" env PRETENDED_GPU_MIB=4 "$veche" compare exp.yaml --over strategy=consensus,gossip --out both
holds "says once that it does without" test "$(grep -Ec '^note: the engine is (dnnl|ref).*no GPU: .*MiB are needed' <<<"$err")" -eq 1

# A block may have 163 KiB of shared memory and more on some GPUs, 99 on others.
chain='[ { conv: { out: 32, kernel: 3, stride: 2, pad: 1 } }, batchnorm, relu, { conv: { out: 64, kernel: 3, stride: 2, pad: 1 } }, batchnorm, relu,
         { conv: { out: 64, kernel: 3, pad: 1 } }, batchnorm, relu, { maxpool: { kernel: 2 } }, { linear: { out: 10 } } ]'
takes() { # takes KIB SUFFIX: on a GPU with so much the kernels of 64 channels have this at the end of their names
    succeeds "$1 KiB of shared memory" with PRETENDED_GPU_SHARED_KIB="$1" PRETENDED_GPU_KERNELS="$work/kernels$1" engine.precision=bf16 \
        model="$chain" data.set.size=32 data.set.samples=4 data.set.test_samples=2 data.batch=1 train.epochs=1
    holds "$1 KiB: the kernels that suit it" test "$(grep 64_64_8 "$work/kernels$1" | sort)" = "$(printf "conv3_%s_64_64_8_1_1$2\n" forward input weight)"
}
takes 163 ''
takes 99 _small

faults "no driver, asked for" 'there is no NVIDIA driver on this machine' without engine=cuda
succeeds "no driver, not asked for" without
holds "no driver is said" grep -Eq '^(dnnl|ref).*no GPU: there is no NVIDIA driver' <<<"$(engine)"
done_checking
