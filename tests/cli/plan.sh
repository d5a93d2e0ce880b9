#!/usr/bin/env bash
# `veche plan` shows, prints JSON, draws, and refuses with one sentence.
source "$(dirname "$0")/../support/check.sh" "$1"
cd "$work"

cat >layers.csv <<'CSV'
layer,forward_ms,backward_ms,activation_bytes,parameter_bytes
conv1,10,20,4000000,1000
relu1,2,4,4000000,0
conv2,20,40,2000000,500000
relu2,1,2,2000000,0
conv3,15,30,1000000,2000000
linear,5,10,0,8000000
CSV
cat >net.yaml <<'YAML'
name: net
data: { set: blobs, batch: 16 }
model: mlp:50-20
optim: { kind: sgd, lr: 0.1, momentum: 0.9 }
agents: 3
topology: complete:3
strategy: allreduce
machines: { speed: [1, 1, 0.5], rate: 1000 }
network: { latency_ms: 1, bandwidth_mbps: 80 }
train: { epochs: 1 }
YAML
plan() { "$veche" plan "$@"; }
with() { plan --profile layers.csv "$@"; }
agrees() { # WHAT PYTHON: of the object o in $out
    holds "$1" python3 -c 'import json, sys; o = json.loads(sys.argv[1]); near = lambda a, b: abs(a - b) < 1e-9 * abs(b)
'"$2" "$out"
}

succeeds 'a plan of a profile' with --machines 1,1
holds 'the text has the bottleneck' grep -q '^bottleneck  *96.000 ms' <<<"$out"
holds 'and the layers of both stages' grep -q '^    1 .* relu2 to linear' <<<"$out"
holds 'and what is fastest' grep -q '^Fastest: tensor' <<<"$out"

succeeds 'JSON' with --machines 1,1 --json --bandwidth-mbs 50
agrees 'keys' 'assert {"bottleneck_ms", "cuts", "order", "round_ms", "bubble", "stages", "lower_bound_ms", "ways", "fastest", "why", "advice"} <= set(o)
assert all({"layers", "compute_ms", "card_ms", "in_flight", "memory_bytes"} <= set(s) for s in o["stages"])'
agrees 'figures' 'assert near(o["bottleneck_ms"], 96) and near(o["lower_bound_ms"], 79.5)
assert o["cuts"] == ["relu2"] and o["order"] == [1, 1] and o["microbatches"] == 8
assert o["stages"][1]["layers"] == ["relu2", "conv3", "linear"]
assert [s["in_flight"] for s in o["stages"]] == [2, 1]
assert [round(s["card_ms"], 9) for s in o["stages"]] == [40, 40]
assert [s["memory_bytes"] for s in o["stages"]] == [21002000, 25000000]
assert o["round_ms"] > 8 * 96 and near(o["bubble"], 1 - 8 * 159 / (2 * o["round_ms"]))
assert any(w["name"] == o["fastest"] and w["possible"] for w in o["ways"])'
succeeds 'any order' with --machines 0.25,1,1 --any-order --json
agrees 'the slow machine comes last' 'assert o["order"] == [1, 1, 0.25] and [s["machine"] for s in o["stages"]] == [1, 2, 0]'
succeeds 'a cut as it is asked for' with --machines 1,1 --cut conv3 --json
agrees 'its price' 'assert o["cuts"] == ["conv3"] and near(o["bottleneck_ms"], 99)'
succeeds 'a limit of memory' with --machines 1,1 --memory-mb 30 --json
agrees 'it holds' 'assert all(s["memory_bytes"] <= 30e6 for s in o["stages"])
assert not [w for w in o["ways"] if w["name"] == "data parallel"][0]["possible"]'
succeeds 'a schedule' with --machines 1,1 --microbatches 2 --schedule gpipe --schedule-csv
holds 'in PyTorch'\''s notation' test "$out" = $'0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1'
succeeds 'two parts a machine' with --machines 1,1 --schedule interleaved --json
agrees 'have three cuts' 'assert len(o["cuts"]) == 3 and len(o["stages"]) == 2'
succeeds 'a drawing' with --machines 1,1 --svg plan.svg
holds 'is XML' python3 -c 'import xml.dom.minidom as m; m.parse("plan.svg")'

succeeds 'a plan of an experiment, its layers measured' plan net.yaml --json
agrees 'has machines and layers of the experiment' 'assert o["order"] == [1, 1, 0.5] and o["bottleneck_ms"] > 0
assert len(o["ways"]) > 8'
succeeds 'and by its rate' plan net.yaml --times rate --json
agrees 'the layers take what two samples take' 'assert near(sum(s["compute_ms"] * s["speed"] for s in o["stages"]), 2)
assert o["stages"][0]["card_ms"] > 0'
one=$out
succeeds 'the same again' plan net.yaml --times rate --json
holds 'gives the same' test "$one" = "$out"
succeeds 'overrides' plan net.yaml --times rate --json machines.speed=2 train.accumulate=4 network.bandwidth_mbps=8000
agrees 'count' 'assert o["order"] == [2, 2, 2] and o["microbatches"] == 4'

sed -e '/^agents\|^topology\|^strategy/d' -e 's/batch: 16/batch: 18/' net.yaml >team.yaml
echo 'engine: null' >>team.yaml
for team in 'microbatches: 5' 'schedule: gpipe' 'schedule: interleaved, chunks: 2' 'schedule: zb-h1' 'recompute: always'; do
    given=(team.yaml "team={kind: pipeline, size: 3, $team}")
    succeeds "a plan for a team, $team" plan "${given[@]}" --times rate --json
    cuts=$(python3 -c 'import json, sys; print(", ".join(json.loads(sys.argv[1])["cuts"]))' "$out") planned=$(json round_ms <<<"$out")
    succeeds 'a run of its cut' "$veche" run team.yaml "team={kind: pipeline, size: 3, $team, cut: [$cuts]}" --json
    holds 'takes what the plan says' python3 -c 'import json, sys; o = json.loads(sys.argv[1])
assert abs(o["virtual_s"] * 1e3 / o["rounds"] / float(sys.argv[2]) - 1) < 1e-9' "$out" "$planned"
done

faults 'no network' '^veche: which network\?' "$veche" plan --machines 1,1
faults 'no machines' '^veche: which machines\?' "$veche" plan --profile layers.csv
faults 'an unknown schedule' "^veche: there is no schedule '1f1g'; did you mean '1f1b'\?" "$veche" plan --profile layers.csv --machines 1,1 --schedule 1f1g
faults 'an unknown layer' "^veche: there is no layer 'conv9'; did you mean 'conv1'\?" "$veche" plan --profile layers.csv --machines 1,1 --cut conv9
faults 'too few cuts' '^veche: a cut into 3 parts names 2 layers, and this one 1' "$veche" plan --profile layers.csv --machines 1,1,1 --cut conv3
faults 'too many cuts' '^veche: a cut into 2 parts names 1 layers, and this one more' "$veche" plan --profile layers.csv --machines 1,1 --cut conv2,conv3
faults 'more stages than layers' '^veche: 7 machines with 1 part each need at least 7 layers, and there are 6' "$veche" plan --profile layers.csv --machines 1,1,1,1,1,1,1
faults 'memory that no plan fits' "^veche: no cut fits in memory; where least is missing: machine 1 would need 25 MB for 'relu2' to 'linear', and has 5 MB: 20 MB are missing" \
    "$veche" plan --profile layers.csv --machines 1,1 --memory-mb 5
faults 'a speed that is no number' "^veche: command line: machines=\[1,x\]: 'x' is not a number" "$veche" plan --profile layers.csv --machines 1,x
faults 'a speed of nothing' '^veche: command line: machines=.*above 0' "$veche" plan --profile layers.csv --machines 1,0
faults 'half a micro-batch' "^veche: command line: microbatches=0.5: '0.5' is not a whole number" "$veche" plan --profile layers.csv --machines 1,1 --microbatches 0.5
faults 'a bandwidth below nothing' '^veche: command line: bandwidth_mbs=-1' "$veche" plan --profile layers.csv --machines 1,1 --bandwidth-mbs -1
faults 'memory for other machines' '^veche: memory_mb: 3 numbers for 2 machines' "$veche" plan --profile layers.csv --machines 1,1 --memory-mb 1,2,3
faults 'chunks where there are none' '^veche: 1f1b has one part a member' "$veche" plan --profile layers.csv --machines 1,1 --chunks 2
faults 'more micro-batches than samples' '^veche: a batch of 16 samples cannot be cut into 17' "$veche" plan net.yaml --microbatches 17
sed 's/,parameter_bytes/,params/' layers.csv >bad.csv
faults 'a column of another name' "^veche: bad.csv:1:47: there is no column 'params'" "$veche" plan --profile bad.csv --machines 1,1
cut -d, -f1-4 layers.csv >bad.csv
faults 'a column that is missing' "^veche: bad.csv:1:1: the column 'parameter_bytes' is missing" "$veche" plan --profile bad.csv --machines 1,1
sed 's/^relu2,1/relu2,one/' layers.csv >bad.csv
faults 'a time that is no number' "^veche: bad.csv:5:7: forward_ms: 'one' is not a number" "$veche" plan --profile bad.csv --machines 1,1
faults 'no file of layers' '^veche: nowhere.csv: cannot be read: No such file' "$veche" plan --profile nowhere.csv --machines 1,1
faults 'no experiment' '^veche: nowhere.yaml: cannot be read: No such file' "$veche" plan nowhere.yaml
printf 'layer,forward_ms,backward_ms,activation_bytes,parameter_bytes\nc\xff,1,1,1,1\n' >bad.csv
faults 'a name that is not UTF-8, as JSON' 'must be UTF-8' "$veche" plan --profile bad.csv --machines 1 --json
faults 'no folder for the drawing' '^veche: nowhere/p.svg: cannot be written: No such file' "$veche" plan --profile layers.csv --machines 1,1 --svg nowhere/p.svg
misused 'a list that lacks a number' "$veche" plan --profile layers.csv --machines 1,,1
misused 'an unknown option' "$veche" plan --profil layers.csv --nothing
done_checking
