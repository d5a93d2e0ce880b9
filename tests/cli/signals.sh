#!/usr/bin/env bash
# A run that is asked to stop: once, twice in a breath, twice in earnest, beside a library whose threads take signals, by a
# terminal that is closed and by a limit of time.
source "$(dirname "$0")/../support/check.sh" "$1"
cd "$work"
cat >exp.yaml <<'Y'
name: exp
data:  { set: { kind: blobs, classes: 3, features: 8, samples: 600, test_samples: 60 }, batch: 10 }
model: mlp:8-16-3
optim: { kind: sgd, lr: 0.01 }
train: { epochs: 1000000, evaluate_every: never, checkpoint_every: 5 epochs }
Y

begin() { # begin FOLDER [NAME=VALUE...]: a run of hours, as far as its second checkpoint
    (exec env "${@:2}" "$veche" run exp.yaml -d "$1" >"$1.out" 2>"$1.err") &
    pid=$!
    wait_for_checkpoint "$1"
}
begin_round() { # begin_round FOLDER SAMPLES: a run, as far as its first round, of a sixth of a second for each sample
    (exec "$veche" run exp.yaml -d "$1" engine=ref model=resnet20 data.batch="$2" \
        data.set='{ kind: images, channels: 3, size: 32, samples: 600, test_samples: 10 }' >"$1.out" 2>"$1.err") &
    pid=$!
    for _ in $(seq 600); do grep -qs '^run: ' "$1.err" && break || sleep 0.1; done
}
ended() { # ended FOLDER
    wait_for_end $pid
    out=$(cat "$1.out") err=$(cat "$1.err")
}
stopped() { # stopped WHAT FOLDER
    ended "$2"
    holds "$1: exit code 1" test $code -eq 1
    holds "$1: stops after a round, and says how to go on" grep -q '^veche: stopped on request after round .*veche resume' "$2.err"
}

for signal in INT TERM; do
    begin once-$signal
    kill -$signal $pid
    stopped "$signal once" once-$signal

    begin twice-$signal
    kill -STOP $pid # or the run is over before the second one comes
    kill -$signal $pid
    kill -CONT $pid
    kill -$signal $pid
    stopped "$signal twice in a breath" twice-$signal

    begin_round earnest-$signal 600
    kill -$signal $pid
    sleep 1.2
    kill -$signal $pid
    ended earnest-$signal
    holds "$signal twice in earnest: exit code 1" test $code -eq 1
    holds "$signal twice in earnest: at once" grep -q '^veche: stopped at once; the last checkpoint is whole' earnest-$signal.err

    if [[ -e $build/tests/stranger.so ]]; then
        begin stranger-$signal LD_PRELOAD="$build/tests/stranger.so"
        kill -$signal $pid
        stopped "$signal taken by a library's thread" stranger-$signal
    else
        skip_part "$signal taken by a library's thread" 'sanitizers want to be loaded before any other library'
    fi
done

# What comes by itself, again and again, never means: at once.
for signal in HUP XCPU; do
    begin once-$signal
    kill -$signal $pid
    stopped "$signal" once-$signal
done
begin repeated
kill -STOP $pid
for signal in HUP XCPU; do kill -$signal $pid; done
kill -CONT $pid
stopped 'HUP and XCPU at the same time' repeated
begin_round patient 20
kill -HUP $pid
sleep 1.2
kill -HUP $pid
stopped 'HUP again, later' patient
begin nohup nohup
kill -HUP $pid
sleep 0.3
holds 'nohup: goes on' kill -0 $pid
kill -TERM $pid
stopped 'nohup: TERM' nohup
(ulimit -St 1 && exec "$veche" run exp.yaml -d limited >limited.out 2>limited.err) &
pid=$!
stopped 'the time of ulimit -St' limited
done_checking
