#!/usr/bin/env bash
# Every experiment in the repository is well written; those that need no data run; the study's rows are complete.
source "$(dirname "$0")/../support/check.sh" "$1"
cd "$(dirname "$0")/../.." || exit

export RUNS=$work/thesis VECHE=$veche

# A build without MPI reads what is for ranks as if it were for this process.
elsewhere=()
[[ -s $build/mpi.list ]] || elsewhere=(world=local)

for file in experiments/*.yaml; do
    succeeds "$file is well written" "$veche" check "$file" "${elsewhere[@]}"
    holds "$file opens with what it shows" grep -q '^# [A-Z]' <(head -n 1 "$file")
done
for file in experiments/*.yaml; do
    holds "$file is explained" grep -qF "$(basename "$file")" docs/experiments.md
done

# Every example in the manual is well written: a part takes the place of the same sections of a whole experiment.
python3 - docs/experiments.md "$work" <<'P'
import re, sys
text, folder = open(sys.argv[1]).read(), sys.argv[2]
base = """data: { set: blobs, batch: 4 }
model: mlp:8
optim: { kind: sgd, lr: 0.1 }
agents: 4
topology: cycle:4
strategy: consensus
train: { epochs: 1 }
"""
def sections(part):
    return dict((m[1], m[0]) for m in re.finditer(r"^(\w+):.*\n(?:[ #].*\n)*", part, re.M))
for i, example in enumerate(re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S)):
    open(f"{folder}/example-{i:02}.yaml", "w").write("".join((sections(base) | sections(example)).values()))
P
holds 'the manual has examples' test "$(ls "$work"/example-*.yaml | wc -l)" -ge 12
for file in "$work"/example-*.yaml; do
    succeeds "an example of the manual: $(grep -v '^ ' "$file" | tr '\n' ' ')" "$veche" check "$file" "${elsewhere[@]}"
done

# Those that need no data, whole but for the epochs: a second each.
for file in experiments/0*.yaml; do
    succeeds "$file runs" "$veche" run "$file" -d "$work/runs" --json train.epochs=2
    holds "$file ends well" test "$(json status <<<"$out")" = done
done

# What the examples promise.
quickly() { try timeout 100 "$veche" run -d "$work/runs" --json "$@" && [[ $code -eq 0 ]]; }
less() { python3 -c "import sys; sys.exit(not ($1) < ($2))"; }

quickly experiments/03-slow-machine.yaml name=waits-not && not_waiting=$(json virtual_s <<<"$out")
quickly experiments/03-slow-machine.yaml name=waits strategy=consensus && waiting=$(json virtual_s <<<"$out")
holds 'a slow machine costs AD-PSGD less than half of what it costs consensus' less "$not_waiting * 2" "$waiting"
quickly experiments/04-thin-network.yaml name=often && often=$(json virtual_s <<<"$out")
quickly experiments/04-thin-network.yaml name=rarely strategy.every=10 && rarely=$(json virtual_s <<<"$out")
holds 'mixing rarely saves time on a thin network' less "$rarely" "$often"
quickly experiments/05-crashes.yaml name=crashes-all
holds 'crashes are noted' test "$(json notes <<<"$out")" -gt 4
quickly experiments/06-unequal-data.yaml name=together && together=$(json accuracy.mean <<<"$out")
quickly experiments/06-unequal-data.yaml name=alone strategy.every=1000000 && alone=$(json accuracy.mean <<<"$out")
holds 'together they know what nobody knows alone' less "$alone + 20" "$together"
quickly experiments/07-unequal-machines.yaml name=matched
holds 'nobody waits where shares match machines' less "$(json waiting_share <<<"$out")" 0.02

# The study: every row and every rival stands for an experiment that is well written, and every published figure is there.
for file in experiments/thesis/*.yaml; do
    holds "$file opens with what it shows" grep -q '^# [A-Z]' <(head -n 1 "$file")
done
rows=$(tools/thesis_rows.py experiments/thesis/rows.txt)
holds 'there are forty rows of the study' test "$(grep -vc '^ours' <<<"$rows")" -eq 40
holds 'of which the published figures are known' test "$(awk '$4 != "-" && $6 != "-"' <<<"$rows" | wc -l)" -eq 40
holds 'and two of ours' test "$(grep -c '^ours' <<<"$rows")" -eq 2
holds 'no two have one name' test -z "$(awk '{ print $2 }' <<<"$rows" | sort | uniq -d)"
commands=$(scripts/thesis.sh --commands all)
holds 'rows and their rivals are 59 experiments' test "$(wc -l <<<"$commands")" -eq 59
while read -r command; do
    eval "words=($command)"
    succeeds "${words[3]} is well written" "$veche" check "${words[@]:2}" "${elsewhere[@]}"
    holds "${words[3]} is called so" grep -qx "name: ${words[3]#name=}" <<<"$out"
done < <(sed 's/ -d .*//' <<<"$commands")
while read -r _ row _ mean spread _; do
    holds "docs/results.md has $row" grep -q "^| $row | .*" docs/results.md
    [[ $mean == - ]] && continue
    figure=$mean && [[ $spread == - ]] || figure="$mean +- $spread"
    holds "docs/results.md has what was published of $row" grep -qF "| $figure |" <(grep "^| $row | " docs/results.md)
done <<<"$rows"
for name in $(grep -oE '(cifar100?|fashion)-[a-z0-9]+-batch[a-z0-9-]+' docs/results.md | sort -u); do
    holds "$name of docs/results.md is an experiment" grep -qw -- "$name" <<<"$rows"
done

succeeds 'the script lists its tables' scripts/thesis.sh
holds 'with their rows' grep -q '^  cifar10-torus36-batch32-gossip18$' <<<"$out"
misused 'an unknown row' scripts/thesis.sh nonsense
misused 'an unknown option' scripts/thesis.sh --nonsense
succeeds 'numbers that are not there yet are dashes' scripts/thesis.sh --print lsr

# All of it on a set that needs no fetching: graphs, weights, shares and lists must fit together.
tiny=(data.set=images model=logistic)
succeeds 'every row and every rival runs' scripts/thesis.sh all "${tiny[@]}" train.epochs=1
holds 'and has its numbers' test "$(grep -Ec '^[a-z0-9-]+ +[0-9.]+ \+- [0-9.]+ ' <<<"$out")" -eq 42

# A row and its rival, interrupted and gone on with.
tiny+=(train.epochs=6)
row=cifar10-cycle4-batch32
succeeds 'a row and its rival are trained' scripts/thesis.sh $row "${tiny[@]}"
holds 'our numbers stand beside the published ones' grep -Eq "^$row +[0-9.]+ \+- [0-9.]+ +92.13 \+- 0.04 +[0-9.]+ +91.79" <<<"$out"
succeeds 'what is done is not done again' scripts/thesis.sh $row "${tiny[@]}"
holds 'but only told' test -z "$(grep 'samples a second' <<<"$err")"
run=$(echo "$RUNS"/*epochs=6/$row)
before=$(json params_sha256 <"$run/summary.json")
holds 'the run is where it should be' test -n "$before"
rm "$run/summary.json" "$run/model.safetensors"
rm "$(ls "$run"/checkpoint-*.safetensors | sort -V | tail -1)"
succeeds 'an interrupted row goes on' scripts/thesis.sh $row "${tiny[@]}"
holds 'to the same bits' test "$(json params_sha256 <"$run/summary.json")" = "$before"
rm "$run"/checkpoint-*.safetensors "$run/summary.json"
succeeds 'a row of which nothing was saved begins again' scripts/thesis.sh $row "${tiny[@]}"
holds 'in the same folder' test "$(json params_sha256 <"$run/summary.json")" = "$before"
succeeds 'a whole section takes the place of what a row says of its parts' scripts/thesis.sh $row \
    'data={set: blobs, batch: 4}' model=logistic train.epochs=1
try timeout 60 scripts/thesis.sh $row data.set=idx
holds 'a row that fails fails the script' test "$code" -eq 1
holds 'which says why' grep -q '^veche: ' <<<"$err"

done_checking
