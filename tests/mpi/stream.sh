#!/usr/bin/env bash
# Ranks whose samples stay on disk, each with a window of its own: the same bits as in memory; a disk that hangs or fails is named.
source "$(dirname "$0")/../support/check.sh" "$1"
source "$(dirname "$0")/../support/ranks.sh"
source "$(dirname "$0")/../support/streams.sh"
cd "$work"
records 120 records
records 40 test-records
cat >exp.yaml <<Y
name: exp
data:  { set: $pictures, split: { kind: sizes, sizes: [3, 2, 1] }, batch: 8, flip: true }
model: [{ linear: { out: 64 } }]
optim: { kind: sgd, lr: 0.01 }
engine: { kind: ref, threads: 1 }
strategy: allreduce
world: mpi
agents: 3
network: { patience_s: 20 }
train: { epochs: 2, seed: 3, evaluate_every: 1 epoch, checkpoint_every: 1 epoch }
Y
run() { launch 3 run exp.yaml --json "$@"; }

trouble() { # WHAT VARIABLE SENTENCE: with the second checkpoint rank 1's disk gets into it
    rm -rf runs trouble
    (wait_for_checkpoint runs && touch trouble) &
    EACH='[[ $rank != 1 ]] || export '"$2=$work/trouble LD_PRELOAD=$build/tests/slow_disk.so" \
        faults "$kind: $1" "$3" run train.epochs=100000 network.patience_s=3 data.stream=true data.window_mb=0.4
    wait
    rm -f trouble
}

kind=${kinds[0]}
both "$kind" run
if [[ -e $build/tests/slow_disk.so ]]; then
    trouble 'a disk that fails' DISK_FAILS 'rank 1.*records: cannot be read any more: Input/output error'
    trouble 'a disk that hangs' DISK_HANGS 'rank 1.*records: the disk is too slow, or gone: of 8 samples that are needed 0 were read within 1.5 seconds'
    succeeds "$kind: and the run goes on" launch 3 resume runs/exp train.epochs=3
else
    skip_part "$kind: a disk in trouble" 'sanitizers want to be loaded first'
fi
done_checking
