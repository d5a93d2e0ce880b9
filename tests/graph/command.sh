#!/usr/bin/env bash
# `veche graph` shows a network, prints JSON, draws, and refuses with one sentence; a drawing is there whole or not at all.
source "$(dirname "$0")/../support/check.sh" "$1"
cd "$work"
cat >net.yaml <<'Y'
name: net
data:  { set: { kind: images, classes: 10 }, batch: 16 }
optim: { kind: sgd, lr: 0.1 }
train: { epochs: 1 }
model:
  - conv: { out: 4, kernel: 3, pad: 1, name: stem }
  - tanh: { name: a }
  - tanh: { name: b, from: stem }
  - add: [a, b]
  - relu: { name: r }
  - dropout: { rate: 0.25 }
  - globalpool
  - linear: { out: 10, name: end }
Y

succeeds 'a network is shown' "$veche" graph net.yaml
holds 'as it is written' grep -q '^as written: 9 operations, ' <<<"$out"
holds 'what is simplified' grep -q '^  merge: b computes the same as a$' <<<"$out"
holds 'as it is computed' grep -q '^after the passes: 7 operations, ' <<<"$out"
holds 'nothing of parts' bash -c '! grep -q part' <<<"$out"
succeeds 'overrides are taken' "$veche" graph net.yaml model=logistic
holds 'and shown' grep -q '^   1  linear ' <<<"$out"
holds 'nothing is changed' grep -q '^passes: nothing to change$' <<<"$out"

succeeds 'a network in parts' "$veche" graph net.yaml --cut a,end
holds 'parts' grep -q '^     2  end ' <<<"$out"
holds 'what crosses' grep -q '^  stem  .* 0  *1  *1,024  1,024$' <<<"$out"

sed 's/^train:/agents: 2\nteam: { kind: pipeline, size: 2, microbatches: 4, cut: [end] }\ntrain:/' net.yaml >team.yaml
succeeds 'a network of teams' "$veche" graph team.yaml
holds 'in their parts' grep -q '^     1  end  *2  *50  *40$' <<<"$out"
succeeds 'or in others' "$veche" graph team.yaml --cut a,end
holds 'as asked for' grep -q '^     2  end ' <<<"$out"
rm team.yaml

succeeds 'JSON is printed' "$veche" graph net.yaml --cut a,end --json
holds 'all of it' python3 -c 'import json, sys
o = json.loads(sys.argv[1])
assert o["name"] == "layers" and o["input"] == [1, 8, 8] and o["classes"] == 10
assert [len(o[k]["ops"]) for k in ("written", "computed")] == [9, 7]
assert [(p["pass"], p["op"], p["instead"]) for p in o["passes"]] == [("merge", "b", "a"), ("fuse", "r", "3")]
written, computed = o["written"], o["computed"]
assert written["parameters"] == computed["parameters"] == 40 + 50 and written["multiply_adds"] == 4 * 9 * 64 + 40
assert written["floats"] - computed["floats"] == 2 * 4 * 64
assert computed["ops"][2] == {"name": "3", "kind": "add", "what": "add + relu", "reads": ["a", "a"], "output": [4, 8, 8],
                              "floats": 256, "parameters": 0, "multiply_adds": 0, "part": 1}
assert computed["ops"][3]["what"] == "dropout 0.25" and computed["ops"][-1]["output"] is None
assert [(p["begins_with"], p["ops"], p["parameters"]) for p in o["parts"]] == [("stem", 1, 40), ("a", 4, 0), ("end", 2, 50)]
assert [(c["made_by"], c["from"], c["to"], c["bytes"], c["bytes_back"]) for c in o["crosses"]] == [
    ("stem", 0, 1, 1024, 1024), ("6", 1, 2, 16, 16)]' "$out"
holds 'in one line' test "$(wc -l <<<"$out")" = 1
succeeds 'JSON of a network that is whole' "$veche" graph net.yaml --json
holds 'no parts' python3 -c 'import json, sys
o = json.loads(sys.argv[1])
assert o["parts"] == o["crosses"] == [] and "part" not in o["computed"]["ops"][0]' "$out"

# Draws a network and looks for every box, every arrow and every text in the drawing that JSON says should be there.
drawn() { # drawn WHAT ARGUMENT...
    succeeds "$1 is drawn" "$veche" graph net.yaml --svg drawing.svg --json "${@:2}"
    echo "$out" >said.json
    holds "$1 is drawn whole" python3 - <<'P'
import json, xml.etree.ElementTree as tree
said = json.load(open("said.json"))
ops = said["computed"]["ops"]
root = tree.parse("drawing.svg").getroot()
svg = "{http://www.w3.org/2000/svg}"
boxes = [r for r in root.iter(svg + "rect") if r.get("stroke")]
assert len(boxes) == len(ops) + 1
lines = [g for g in root.iter(svg + "g") if g.get("marker-end")][0]
assert len(lines) == sum(len(op["reads"]) for op in ops)
texts = [t.text or "" for t in root.iter(svg + "text")]
assert [t for t in texts if t.startswith("part ")] == [f"part {k}" for k in range(len(said["parts"]))]
assert sorted(t for t in texts if " to part " in t) == sorted(
    f"{c['made_by']} to part {c['to']}: {c['bytes']:,} bytes" + (f", {c['bytes_back']:,} back" if c["bytes_back"] else "")
    for c in said["crosses"])
assert all(op["name"] in texts and op["what"] in texts for op in ops)
width, height = float(root.get("width")), float(root.get("height"))
for r in boxes:
    assert 0 < float(r.get("x")) and float(r.get("x")) + float(r.get("width")) < width
    assert 0 < float(r.get("y")) and float(r.get("y")) + float(r.get("height")) < height
P
    rm said.json
}
drawn 'a network'
drawn 'a network in parts' --cut a,end
drawn 'a large one' model=resnet110
drawn 'a large one in parts' model=resnet56 --cut layer1.3,layer2.0.bn2,layer3
holds 'nothing else is left' test "$(ls)" = "$(printf 'drawing.svg\nnet.yaml\nstderr')"

faults 'no such file' '^veche: nowhere.yaml' "$veche" graph nowhere.yaml
faults 'an unknown key' "^veche: command line: .*optim.rl" "$veche" graph net.yaml optim.rl=1
sed 's/from: stem/from: stme/' net.yaml >bad.yaml
faults 'layers that do not fit' "^veche: bad.yaml:8:28: 'stme' is not the name of an earlier layer; did you mean 'stem'\?" "$veche" graph bad.yaml
sed 's/add: \[a, b\]/tanh: { from: a }/' net.yaml >bad.yaml
faults 'a layer that nobody reads' '^veche: bad.yaml:8:5: b .tanh.: no layer reads what this one computes' "$veche" graph bad.yaml
faults 'a cut at no layer' "^veche: layers has no layer 'ned'; did you mean 'end'\?" "$veche" graph net.yaml --cut ned
faults 'a cut at what is not computed' "^veche: no part can begin with 'b', in whose place 'a' is read" "$veche" graph net.yaml --cut b
faults 'no folder for the drawing' '^veche: nowhere/d.svg: cannot be written: No such file' "$veche" graph net.yaml --svg nowhere/d.svg
faults 'a device in place of the drawing' '^veche: /dev/full: cannot be written' "$veche" graph net.yaml --svg /dev/full
holds 'the device is still one' test -c /dev/full
misused 'no file' "$veche" graph
misused 'a cut without a name' "$veche" graph net.yaml --cut a,,end
misused 'an unknown option' "$veche" graph net.yaml --cute a
succeeds 'help' "$veche" graph --help
done_checking
