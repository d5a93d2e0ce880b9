#!/usr/bin/env bash
# The program on processors that this machine is not: the oldest x86-64 there are, by qemu's user emulation. Naive loops, steps and mixes come
# to the same bits on each; oneDNN runs, with the kernels it has for them.
source "$(dirname "$0")/../support/check.sh" "$1"
cd "$work"
qemu=$(command -v qemu-x86_64) || skip_because 'qemu-x86_64 is not installed (qemu-user)'
[[ $(uname -m) == x86_64 ]] || skip_because 'this is no x86-64'
grep -q '^VECHE_NATIVE:[A-Z]*=OFF' "$build/CMakeCache.txt" || skip_because 'built for this processor alone (VECHE_NATIVE)'
! has_sanitizers || skip_because 'sanitizers and qemu do not go together'

cat >exp.yaml <<'Y'
name: exp
data:  { set: { kind: images, channels: 1, size: 8, samples: 24, test_samples: 8 }, batch: 4 }
model: [{ conv: { out: 4, kernel: 3, pad: 1 } }, batchnorm, relu, { maxpool: { kernel: 2 } }, { linear: { out: 10 } }]
optim: { kind: adam, lr: 0.01 }
agents: 2
topology: complete:2
strategy: consensus
engine: { kind: ref, threads: 1 }
train: { epochs: 1, seed: 3, evaluate_every: 1 epoch, checkpoint_every: never }
Y
sha() { json params_sha256 <<<"$out"; }

succeeds 'on this processor' "$veche" run exp.yaml --json -d here
here=$(sha)
for cpu in qemu64 core2duo Haswell-noTSX; do # without SSE4; the first 64-bit Core; the first with AVX2 and FMA
    succeeds "$cpu" "$qemu" -cpu $cpu "$veche" run exp.yaml --json -d $cpu
    holds "$cpu: the same bits" test "$(sha)" = "$here"
done
if [[ -x $build/tests/engine.dnnl ]]; then
    succeeds 'core2duo: oneDNN' "$qemu" -cpu core2duo "$veche" run exp.yaml --json -d dnnl engine.kind=dnnl
    holds 'core2duo: and is it that computes' grep -q '^dnnl: ' <<<"$(json engine <<<"$out")"
fi
done_checking
