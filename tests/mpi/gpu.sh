#!/usr/bin/env bash
# Ranks whose lessons run on GPUs: the bits are those of the local world on one. Where there is no GPU a pretended one will do
# (tests/gpu), with a smaller network. Skipped where there is no MPI.
source "$(dirname "$0")/../support/check.sh" "$1"
start=$(cd "$(dirname "$0")" && pwd)/../support/mpi.sh
kind=$(head -n 1 "$build/mpi.list" | cut -d ' ' -f 1)
cd "$work"

model=resnet20 size=16
why=$(why_no_gpu)
if [[ -n $why && -x $build/tests/gpu/veche ]]; then
    veche=$build/tests/gpu/veche model='[ { conv: { out: 8, kernel: 3, pad: 1 } }, { batchnorm: {} }, { relu: {} }, { linear: { out: 10 } } ]' size=8 why=
    export LD_LIBRARY_PATH=$build/tests/gpu
fi
skip_because "$why"
[[ -n $kind ]] || skip_because 'built without MPI'

cat >exp.yaml <<Y
name: exp
data:  { set: { kind: images, channels: 3, size: $size, samples: 128, test_samples: 20 }, batch: 8 }
model: $model
optim: { kind: sgd, lr: 0.01, momentum: 0.9 }
engine: cuda
topology: cycle:4
train: { epochs: 1, seed: 3, evaluate_every: 1 epoch, checkpoint_every: never }
Y

sha() { json params_sha256 <<<"$out"; }

for precision in fp32 bf16; do
    for strategy in consensus gossip allreduce ps average easgd; do
        ranks=4
        [[ $strategy =~ ps|easgd ]] && ranks=5 # one of them serves
        words=(run exp.yaml --json "strategy=$strategy" "engine.precision=$precision")
        [[ $strategy != easgd ]] || words+=(strategy.mode=sync)
        succeeds "$strategy in $precision: here" "$veche" "${words[@]}" agents=4 -d here
        here=$(sha)
        succeeds "$strategy in $precision: on ranks" bash "$start" "$build" "$kind" $ranks "$veche" "${words[@]}" world=mpi -d ranks
        holds "$strategy in $precision: the ranks' lessons ran on a GPU" grep -q '"engine": "cuda: .* rows on the host' <<<"$out"
        holds "$strategy in $precision: to the same bits" test -n "$here" -a "$(sha)" = "$here"
    done
done
try bounded bash "$start" "$build" "$kind" 2 "$veche" run exp.yaml strategy=allreduce strategy.bucket_kb=1 topology=complete:2 world=mpi -d ranks
holds 'buckets: a rank has the gradient of its GPU in one piece' \
    grep -q '^veche: .*strategy.bucket_kb: the engine cuda has a gradient on a rank.s host when all of it is made' <<<"$err"
done_checking
