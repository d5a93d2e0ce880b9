#!/usr/bin/env bash
# Standard streams that are closed, full or no longer read, and files that may not grow: nothing is lost or written where it does not belong.
source "$(dirname "$0")/../support/check.sh" "$1"
cd "$work"
cat >exp.yaml <<'Y'
name: exp
data:  { set: { kind: blobs, classes: 3, features: 8, samples: 600, test_samples: 60 }, batch: 10 }
model: mlp:8-16-3
optim: { kind: sgd, lr: 0.01 }
train: { epochs: 2, evaluate_every: 1 epoch, checkpoint_every: 1 epoch }
Y
run_into() { "$veche" run exp.yaml -d "$1" "${@:2}"; }
is_whole() { # is_whole FOLDER: nothing but JSON in the events, nothing in the lock, and the run has ended
    python3 - "$1/exp" <<'P'
import json, os, sys
folder = sys.argv[1]
events = [json.loads(line) for line in open(folder + "/events.jsonl")]
assert len(events) >= 2, events
assert os.path.getsize(folder + "/lock") == 0
json.load(open(folder + "/summary.json"))
P
}
has_no_parts() { ! find "$1" -name '*.part*' | grep -q .; }

# ---- closed ----
closed() { # closed NAME: with the streams closed that the caller has closed
    run_into "$1"
    code=$?
}
whole() { # whole NAME CODE
    holds "$1 closed: exit code $2" test $code -eq "$2"
    holds "$1 closed: the run is whole" is_whole "$1"
}
closed both >&- 2>&-
whole both 1 # the table is lost
closed all <&- >&- 2>&-
whole all 1
closed error >error.out 2>&-
whole error 0
holds 'error closed: the table is where it belongs' grep -q accuracy error.out
closed output >&- 2>output.err
whole output 1
holds 'output closed: a sentence' grep -q '^veche: standard output cannot be written' output.err
closed input <&- >input.out 2>&1
whole input 0

into_full() { "$veche" "$@" >/dev/full; }
for words in --help --version 'list sets' 'data list' 'run --help' 'check exp.yaml' 'graph exp.yaml' 'topology cycle:4 --json'; do
    faults "a full disk for $words" 'standard output cannot be written' into_full $words
done

# ---- no longer read ----
{ run_into unread train.epochs=1000000 train.evaluate_every='5 rounds' train.checkpoint_every=never 2>&1; echo $? >unread.code; } | head -2 >/dev/null
holds 'progress that nobody reads: exit code 1' test "$(cat unread.code)" = 1
holds 'progress that nobody reads: saved' test -e "$(ls unread/exp/checkpoint-*.safetensors | head -1)"
{ sleep 0.2; run_into late 2>late.err; echo $? >late.code; } | true
holds 'a table that nobody reads: exit code 1' test "$(cat late.code)" = 1
holds 'a table that nobody reads: the run is whole' is_whole late
holds 'a table that nobody reads: a sentence' grep -q '^veche: standard output cannot be written' late.err

# ---- too large ----
large() { (ulimit -f 64 && run_into "$@" model=mlp:8-4096-3); } # one checkpoint has 200 kB
faults 'ulimit -f' 'cannot be written: File too large' large large
holds 'ulimit -f: no half of a file is left' has_no_parts large
draw() { (ulimit -f 1 && "$veche" topology cycle:200 --svg large.svg); }
faults 'ulimit -f: a drawing' 'large.svg: cannot be written: File too large' draw
holds 'ulimit -f: no half of a drawing is left' has_no_parts .
done_checking
