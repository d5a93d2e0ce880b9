#!/usr/bin/env bash
# One experiment by several methods: the table against the runs' own summaries, interrupted and gone on with.
source "$(dirname "$0")/../support/check.sh" "$1"
tests=$(cd "$(dirname "$0")" && pwd)
cd "$work"

cat >exp.yaml <<'Y'
name: exp
data:  { set: { kind: blobs, classes: 4, samples: 800, test_samples: 200 }, batch: 10 }
model: mlp:16
optim: { kind: sgd, lr: 0.05, momentum: 0.9 }
agents: 4
topology: cycle:4
machines: { rate: 500, speed: [1, 1, 1, 0.25] }
network: { latency_ms: 1, bandwidth_mbps: 100 }
train: { epochs: 2, seed: 3, evaluate_every: 0.5 epochs }
Y

# agrees FOLDER TARGET: compare.json, and the object in the file `object`, say what the runs' own files say.
agrees() {
    python3 - "$1" "$2" object <<'P'
import json, math, sys
folder, target = sys.argv[1], float(sys.argv[2])
kept = json.load(open(f"{folder}/compare.json"))
told = json.load(open(sys.argv[3]))
assert len(kept["methods"]) == len(told["methods"])
for a, b in zip(kept["methods"], told["methods"]):
    assert a.pop("experiment").startswith("name: " + a["run"])
    assert a == b, (a, b)
    if a["state"] != "done":
        continue
    end = json.load(open(f"{folder}/{a['run']}/summary.json"))
    for key in "accuracy averaged_accuracy virtual_s bytes messages waiting_share staleness_mean staleness_max params_sha256".split():
        assert a[key] == end[key], (a["method"], key, a[key], end[key])
    events = [json.loads(l) for l in open(f"{folder}/{a['run']}/events.jsonl")]
    reached = [e["virtual_s"] for e in events if e["event"] == "evaluation"
               and sum(s["accuracy"] for s in e["agents"]) / len(e["agents"]) >= target - 1e-9]
    assert a["target_s"] == (reached[0] if reached else None), (a["method"], a["target_s"], reached[:1])
    if end["agents"] > 1 and end["waiting_share"] > 0:
        w = end["waiting"]
        assert len(w["waiting_s"]) == end["agents"]
        assert math.isclose(sum(w["waiting_s"]), sum(w["waited_for_s"]), rel_tol=1e-9)
        assert math.isclose(sum(w["waiting_s"]) / end["agents"] / end["virtual_s"], end["waiting_share"], rel_tol=1e-9)
P
}

# ---- every strategy ----

succeeds 'an experiment is compared by every strategy' "$veche" compare exp.yaml --target 60% --json
echo "$out" >object
holds 'the figures are those of the runs' agrees runs/exp-compare 60
holds 'somebody reached the target' grep -q '"target_s": [0-9]' object
for strategy in single consensus gossip adpsgd; do
    holds "$strategy is among them" grep -q "\"method\": \"$strategy\"" object
    holds "$strategy has a run of its own" test -s runs/exp-compare/$strategy/summary.json
done
holds 'the page is there' grep -q 'target: 60 %' runs/exp-compare/report.html
holds 'the page has a curve of each' grep -q 'adpsgd: [0-9.]* %' runs/exp-compare/report.html
holds 'the slow agent is named' test "$(json waiting.slowest <runs/exp-compare/consensus/summary.json)" = 'agent 3'
holds 'the progress says which of how many' grep -q '^method 2 of ' <<<"$err"

without_folder() { sed 's/"folder": "[^"]*", //'; }
succeeds 'once more' "$veche" compare exp.yaml --target 60 --json
holds 'the same seed gives the same figures' test "$(without_folder <<<"$out")" = "$(without_folder <object)"
holds 'a second comparison has a folder of its own' test -s runs/exp-compare-2/report.html

succeeds 'resume of a comparison that is done shows its table' "$veche" resume runs/exp-compare
table=$out
holds 'and trains nothing' test -z "$(grep '^epoch' <<<"$err")"
holds 'the table fits 80 columns' test -z "$(grep -E '.{81}' <<<"$table")"
holds 'the best are marked' grep -q '[0-9]\*' <<<"$table"
holds 'the figures of the table are those of the summaries' python3 - runs/exp-compare <(cat <<<"$table") <<'P'
import json, sys
rows = {l.split()[0]: l for l in open(sys.argv[2]).read().split("\n\n")[0].splitlines()}
assert rows["method"].split() == "method accuracy averaged s to 60% virtual s sent kB wait % stale".split()
for method in "consensus", "gossip", "adpsgd":
    end = json.load(open(f"{sys.argv[1]}/{method}/summary.json"))
    cells = [c.rstrip("*") for c in rows[method].split()[1:]]
    want = [end["accuracy"]["mean"], end["averaged_accuracy"], None, end["virtual_s"], end["bytes"] / 1e3,
            100 * end["waiting_share"], end["staleness_mean"]]
    for cell, x in zip(cells, want):
        if x is not None:
            decimals = len(cell.split(".")[1])
            assert cell == f"{x:.{decimals}f}", (method, cell, x)
P
succeeds 'a report takes a comparison for its runs' "$veche" report runs/exp-compare --json
holds 'and finds them all' test "$(grep -o '"run": "runs/exp-compare/' <<<"$out" | wc -l)" -ge 4

# ---- lists ----

succeeds 'lists make a grid' "$veche" compare exp.yaml --over strategy.kind=consensus,gossip --over strategy.every=1,4 --out grid train.epochs=1
for method in 'consensus, every 1' 'consensus, every 4' 'gossip, every 1' 'gossip, every 4'; do
    holds "the table has $method" grep -q "^$method " <<<"$out"
done
holds 'a method is what its label says' grep -q 'every: 4' grid/consensus-every-4/experiment.yaml
succeeds 'a value may be a map' "$veche" compare exp.yaml --over 'strategy={kind: consensus, order: combine-then-adapt},gossip' --out maps train.epochs=1
holds 'and says what it is' grep -q '^consensus, order combine-then-adapt' <<<"$out"
holds 'its run has it' grep -q 'combine-then-adapt' maps/consensus-order-combine-then-adapt/experiment.yaml

succeeds 'a method that fails does not end the comparison' "$veche" compare exp.yaml --over optim.lr=1e6,0.05 --out fails strategy=gossip train.epochs=1
holds 'its row says so' grep -qE '^lr 1e6 +failed: the loss' <<<"$out"
holds 'the other is there' grep -qE '^lr 0.05 +[0-9]' <<<"$out"
holds 'and the page says so' grep -q 'lr 1e6 failed: the loss' fails/report.html
succeeds 'resume does not try it again' "$veche" resume fails
holds 'and says the same' grep -qE '^lr 1e6 +failed: the loss' <<<"$out"
faults 'all methods fail' 'all 2 methods failed' "$veche" compare exp.yaml --over optim.lr=1e6,1e5 --out allfail strategy=gossip train.epochs=1

# ---- interrupted ----

long=(exp.yaml --over strategy.kind=gossip,consensus,adpsgd --json train.epochs=400 train.evaluate_every='40 epochs' train.checkpoint_every='60 rounds')
succeeds 'a longer one, left alone' "$veche" compare "${long[@]}" --out calm
hashes() { python3 -c 'import json,sys; print([m["params_sha256"] for m in json.load(sys.stdin)["methods"]])'; }
calm=$(hashes <<<"$out")
waits() { python3 -c 'import json,sys; print(json.load(open(sys.argv[1] + "/consensus/summary.json"))["waiting"])' "$1"; }

wait_for_second() { # FOLDER: until the second method has saved something, or 60 seconds
    for _ in $(seq 6000); do
        [[ $(ls "$1"/consensus/checkpoint-*.safetensors 2>/dev/null | wc -l) -ge 2 ]] && return 0
        sleep 0.01
    done
    return 1
}

for signal in INT KILL; do
    "$veche" compare "${long[@]}" --out stop-$signal >first.out 2>first.err &
    pid=$!
    wait_for_second stop-$signal
    kill -$signal $pid
    wait $pid 2>/dev/null
    code=$?
    holds "$signal: the first method is done" test -s stop-$signal/gossip/summary.json
    holds "$signal: the second is not" test ! -e stop-$signal/consensus/summary.json
    if [[ $signal != KILL ]]; then
        holds "$signal: exit code 1" test $code -eq 1
        holds "$signal: says how to go on" grep -q "method 2 of 3, consensus; go on with: veche resume stop-$signal" first.err
        holds "$signal: the object tells where it stands" grep -q '"state": "not begun"' first.out
    fi
    date +%s%N -r stop-$signal/gossip/summary.json >before
    succeeds "$signal: resume" "$veche" resume stop-$signal --json
    holds "$signal: ends with the same parameters" test "$(hashes <<<"$out")" = "$calm"
    holds "$signal: and the same account of waiting" test "$(waits stop-$signal)" = "$(waits calm)"
    holds "$signal: what was done is not done again" test "$(cat before)" = "$(date +%s%N -r stop-$signal/gossip/summary.json)"
    echo "$out" >object
    holds "$signal: the figures are those of the runs" agrees stop-$signal 101
done

# Killed before the first checkpoint of a method, or in the middle of making its folder.
cp -r calm early && rm -r early/adpsgd early/consensus/*.safetensors early/consensus/summary.json
mkdir early/.adpsgd.part-1-0 && touch early/.adpsgd.part-1-0/lock
succeeds 'a run without a checkpoint begins anew' "$veche" resume early --json
holds 'to the same parameters' test "$(hashes <<<"$out")" = "$calm"
holds 'half a folder is swept away' test ! -e early/.adpsgd.part-1-0

# ---- two at once ----

"$veche" compare "${long[@]}" --out busy >/dev/null 2>&1 &
pid=$!
wait_for_second busy
faults 'resume of a comparison that is going on' 'another process' "$veche" resume busy
faults 'a comparison in the same folder' 'busy: is there already; go on with it by: veche resume busy' "$veche" compare exp.yaml --out busy
kill -KILL $pid
wait $pid 2>/dev/null
"$veche" compare exp.yaml train.epochs=1 name=twins >/dev/null 2>&1 &
"$veche" compare exp.yaml train.epochs=1 name=twins >/dev/null 2>&1 &
wait
holds 'two at once have two folders' test -s runs/twins-compare/adpsgd/summary.json -a -s runs/twins-compare-2/adpsgd/summary.json

# ---- bad input ----

ls runs >before
bad() { faults "$1" "$2" "$veche" compare exp.yaml "${@:3}"; }
bad 'an unknown key' "did you mean 'strategy'" --over strategi.kind=gossip
bad 'an unknown strategy' "did you mean 'gossip'" --over strategy.kind=consensus,gosip
bad 'a setting the strategy does not have' "unknown key 'pairs'" --over strategy.kind=consensus --over strategy.pairs=1,2
bad 'a list without values' 'KEY=VALUE' --over strategy.kind
bad 'a list with a hole' 'a value is missing' --over strategy.kind=gossip,,consensus
bad 'a value twice' 'stands there twice' --over strategy.kind=gossip,gossip
bad 'a list that undoes an override' "^veche: --over optim: its values would undo 'optim.lr=0.1'" --over 'optim={kind: sgd, lr: 0.3},adam' optim.lr=0.1
bad 'a list of kinds that would' "^veche: --over strategy.kind: its values would undo 'strategy.every=4'" --over strategy.kind=gossip,consensus strategy=gossip strategy.every=4
bad 'broken YAML' '^veche: command line' --over 'strategy={kind: gossip'
bad 'an override that is wrong' 'optim.rl' optim.rl=1
bad 'a list of names' 'named after their methods' --over name=a,b
faults 'a missing file' 'nowhere.yaml' "$veche" compare nowhere.yaml
faults 'a folder that is no comparison' 'is there already' "$veche" compare exp.yaml --out runs
: >file
faults 'a folder that cannot be made' '^veche: file' "$veche" compare exp.yaml --out file/x
cp -r runs/twins-compare edited && sed -i 's/lr: 0\.[0-9]*/lr: 0.7/' edited/compare.json
faults 'an edited compare.json' 'edited/compare.json: is damaged: its digest is not that of its bytes' "$veche" resume edited
rm -r edited
faults 'other settings for a comparison' 'a comparison goes on as it was begun' "$veche" resume runs/twins-compare train.epochs=4
plan() { # TEXT: as the only file of a comparison, with the digest it needs
    printf '%s\n}' "$1" >empty/compare.json
    python3 "$tests/../record/make_runs.py" --seal empty/compare.json
}
mkdir empty && plan '{"name": '
faults 'a broken compare.json' 'empty/compare.json: is not the file of a comparison' "$veche" resume empty
plan '{"name": "x", "methods": [{"method": "a", "run": "../a", "experiment": ""}]'
faults 'a run outside of its comparison' 'method 1 lacks something' "$veche" resume empty
VECHE_DATA=$work/empty faults 'missing data' 'veche data get cifar-100' "$veche" compare exp.yaml data.set=cifar-100 model=resnet20
holds 'bad input leaves nothing behind' diff before <(ls runs)
misused 'no file' "$veche" compare
misused 'a target that is no number' "$veche" compare exp.yaml --target high
misused 'a target above 100 %' "$veche" compare exp.yaml --target 101%
misused 'an unknown option' "$veche" compare exp.yaml --targte 90

done_checking
