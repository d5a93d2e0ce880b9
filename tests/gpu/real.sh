#!/usr/bin/env bash
# A real GPU: which engine a run gets, what it says where the GPU is hidden or full, and whether it can be stopped then. Skipped where
# there is none.
source "$(dirname "$0")/../support/check.sh" "$1"
cd "$work"

skip_because "$(why_no_gpu)"

# Rows of a GiB and more, and little to compute.
cat >exp.yaml <<'Y'
name: exp
data:  { set: { kind: images, channels: 3, size: 8, samples: 4, test_samples: 2 }, batch: 1 }
model: mlp:192-8192-8192-10
optim: { kind: sgd, lr: 0.001, momentum: 0.9 }
agents: 2
topology: complete:2
strategy: consensus
train: { epochs: 1, seed: 3, evaluate_every: never, checkpoint_every: never }
Y
run() { "$veche" run exp.yaml --json -d runs "$@"; }
engine() { json engine <<<"$out"; }

stops() { # stops WHAT ENGINE: a run of hours takes SIGINT as it should
    (exec "$veche" run exp.yaml -d "$work/stop" train.epochs=1000000 >stop.out 2>stop.err) &
    local pid=$!
    for _ in $(seq 600); do grep -q '^run: ' stop.err && break || sleep 0.1; done
    sleep 1
    kill -INT $pid
    wait_for_end $pid
    out=$(cat stop.out) err=$(cat stop.err)
    holds "$1: the engine is $2" grep -Eq "^$2" stop.err
    holds "$1: exit code 1" test $code -eq 1
    holds "$1: stops after a round" grep -q '^veche: stopped on request after round' stop.err
}

refused() { # refused WHAT PATTERN [NAME=VALUE]: asked for, it is a fault; else the processor is taken, and why is said
    local what=$1 why=$2
    shift 2
    faults "$what, asked for" "$why" env "$@" "$veche" run exp.yaml --json -d runs engine=cuda
    succeeds "$what, not asked for" env "$@" "$veche" run exp.yaml --json -d runs
    holds "$what: the processor is taken, and why is said" grep -Eq "^(dnnl|ref).*no GPU: .*$why" <<<"$(engine)"
}

full() { # full MIB COMMAND...: while all memory but so much is taken
    local left=$1
    shift
    coproc FILL { "$build/tests/gpu.fill" "$left"; }
    read -r -t 60 said <&"${FILL[0]}"
    holds "$left MiB are left" test "$said" = full
    "$@"
    eval "exec ${FILL[1]}>&-"
    wait "$FILL_PID" 2>/dev/null
}

succeeds "a GPU is taken where there is one" run
holds "and said" grep -q '^cuda: ' <<<"$(engine)"
stops "on the GPU" cuda
refused "hidden" "there is an NVIDIA driver but no GPU on this machine" CUDA_VISIBLE_DEVICES=
full 700 refused "nearly full" "has [0-9]+ MiB free of [0-9]+; [0-9]+ MiB are needed for"
full 700 stops "nearly full" "(dnnl|ref)"
full 0 refused "full" "has no memory free"
full 0 stops "full" "(dnnl|ref)"
done_checking
