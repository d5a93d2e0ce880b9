#!/usr/bin/env bash
# Every bad input gets one sentence with its place and exit code 1, and nothing is left behind.
source "$(dirname "$0")/../support/check.sh" "$1"
cd "$work"

good='name: good
data: { set: blobs, batch: 8 }
model: logistic
optim: { kind: sgd, lr: 0.1 }
train: { epochs: 1 }'
echo "$good" >good.yaml

# faulty NAME SED-EXPRESSION PATTERN: the good experiment with one thing wrong.
faulty() {
    sed -E "$2" good.yaml >bad.yaml
    cmp -s good.yaml bad.yaml && report no "$1 (the edit changed nothing)"
    faults "run: $1" "$3" "$veche" run bad.yaml
    faults "check: $1" "$3" "$veche" check bad.yaml
}

succeeds 'the good experiment is good' "$veche" check good.yaml

faulty 'an unknown key at the top' 's/^model:/modle:/' "^veche: bad.yaml:3:1: .*modle.*did you mean 'model'"
faulty 'an unknown key in a section' 's/batch/bacth/' "^veche: bad.yaml:2:[0-9]+: .*bacth.*did you mean 'batch'"
faulty 'an unknown key of an optimiser' 's/lr:/rl:/' "^veche: bad.yaml:4:[0-9]+: .*rl.*"
faulty 'a setting of another optimiser' 's/lr: 0.1/lr: 0.1, beta1: 0.9/' "^veche: bad.yaml:4:[0-9]+: .*beta1"
faulty 'a wrong type: text for a number' 's/0\.1/fast/' "^veche: bad.yaml:4:[0-9]+: optim.lr: .*fast"
faulty 'a wrong type: a list for a number' 's/0\.1/[1, 2]/' "^veche: bad.yaml:4:[0-9]+: optim.lr: .*list"
faulty 'a wrong type: a number for a section' 's/^train:.*/train: 5/' "^veche: bad.yaml:5:[0-9]+: .*train"
faulty 'lr: nan' 's/0\.1/nan/' "^veche: bad.yaml:4:[0-9]+: optim.lr: .*nan"
faulty 'lr: .nan' 's/0\.1/.nan/' "^veche: bad.yaml:4:[0-9]+: optim.lr: .*nan"
faulty 'lr: infinite' 's/0\.1/inf/' "^veche: bad.yaml:4:[0-9]+: optim.lr: .*inf"
faulty 'lr: beyond all doubles' 's/0\.1/1e999/' "^veche: bad.yaml:4:[0-9]+: optim.lr: "
faulty 'lr: negative' 's/0\.1/-0.1/' "^veche: bad.yaml:4:[0-9]+: optim.lr: "
faulty 'a duplicate key' 's/lr: 0.1/lr: 0.1, lr: 0.2/' "^veche: bad.yaml:4:[0-9]+: .*lr.*twice"
faulty 'a duplicate section' '$a model: lenet' "^veche: bad.yaml:6:1: .*model.*twice"
faulty 'an unknown model' 's/logistic/logistics/' "^veche: bad.yaml:3:[0-9]+: .*logistics.*did you mean 'logistic'"
faulty 'an unknown data set' 's/blobs/blops/' "^veche: bad.yaml:2:[0-9]+: .*blops.*did you mean 'blobs'"
faulty 'an unknown optimiser' 's/sgd/sdg/' "^veche: bad.yaml:4:[0-9]+: .*sdg.*did you mean 'sgd'"
faulty 'an unknown strategy' '$a strategy: singel' "^veche: bad.yaml:6:[0-9]+: .*singel.*did you mean 'single'"
faulty 'an unknown engine' '$a engine: dnl' "^veche: bad.yaml:6:[0-9]+: .*dnl.*did you mean"
faulty 'an unknown world' '$a world: locl' "^veche: bad.yaml:6:[0-9]+: .*locl.*did you mean 'local'"
faulty 'an unknown precision' '$a engine: { precision: fp23 }' "^veche: bad.yaml:6:[0-9]+: .*fp23"
faulty 'batch 0' 's/batch: 8/batch: 0/' "^veche: bad.yaml:2:[0-9]+: data.batch: "
faulty 'batch 8.5' 's/batch: 8/batch: 8.5/' "^veche: bad.yaml:2:[0-9]+: data.batch: "
faulty 'batch beyond all integers' 's/batch: 8/batch: 99999999999999999999/' "^veche: bad.yaml:2:[0-9]+: data.batch: "
faulty 'no epochs' 's/epochs: 1/seed: 1/' "^veche: bad.yaml:5:[0-9]+: .*epochs"
faulty 'no data' '/^data/d' "^veche: bad.yaml:.*data"
faulty 'epochs 0' 's/epochs: 1/epochs: 0/' "^veche: bad.yaml:5:[0-9]+: train.epochs: "
faulty 'an anchor' 's/logistic/\&a logistic/' "^veche: bad.yaml:3:[0-9]+: "
faulty 'a tag' 's/logistic/!!str logistic/' "^veche: bad.yaml:3:[0-9]+: "
faulty 'two documents' '$a ---\nname: b' "^veche: bad.yaml:"
faulty 'a broken YAML' 's/\{ epochs: 1 \}/{ epochs: 1/' "^veche: bad.yaml:"
faulty 'a name that is no folder' 's/name: good/name: ..\/good/' "^veche: bad.yaml:1:[0-9]+: name: "
faulty 'nesterov without momentum' 's/lr: 0.1/lr: 0.1, nesterov: true/' "^veche: bad.yaml:4:[0-9]+: .*momentum"
faulty 'layers whose shapes do not fit' 's/model: .*/model: [ { conv: { out: 4, kernel: 9 } }, { linear: { out: 2 } } ]/' "^veche: bad.yaml:3:[0-9]+: "
faulty 'a last layer of the wrong size' 's/model: .*/model: [ { linear: { out: 77 } } ]/' "^veche: bad.yaml:.*77"
faulty 'an unknown layer' 's/model: .*/model: [ { liner: { out: 2 } } ]/' "^veche: bad.yaml:3:[0-9]+: .*liner.*did you mean 'linear'"
faulty 'a model that is a map' 's/model: .*/model: { linear: 2 }/' "^veche: bad.yaml:3:[0-9]+: "
faulty 'more agents than the strategy has' '$a agents: 4' "^veche: bad.yaml:.*agents"

: >bad.yaml && faults 'an empty file' '^veche: bad.yaml' "$veche" run bad.yaml
printf 'name: "a\0b"\n' >bad.yaml && faults 'a zero byte' '^veche: bad.yaml' "$veche" run bad.yaml
printf '\xff\xfe\x00' >bad.yaml && faults 'not UTF-8' '^veche: bad.yaml' "$veche" run bad.yaml
head -c 2000000 /dev/zero | tr '\0' 'a' >bad.yaml && faults 'a huge file' '^veche: bad.yaml.*1 MiB' "$veche" run bad.yaml
faults 'a missing file' '^veche: nowhere.yaml: .*No such file' "$veche" run nowhere.yaml
faults 'a folder instead of a file' '^veche: \.: ' "$veche" run .

faults 'an override of an unknown key' "^veche: command line: .*optim.rl" "$veche" run good.yaml optim.rl=0.1
faults 'an override with nan' "^veche: command line: .*optim.lr" "$veche" run good.yaml optim.lr=nan
faults 'an override without =' "^veche: command line: .*optim.lr" "$veche" run good.yaml optim.lr
faults 'an override that undoes another' "^veche: command line: engine=ref: would undo 'engine.threads=2' before it" "$veche" run good.yaml engine.threads=2 engine=ref
faults 'an override with broken YAML' "^veche: command line: " "$veche" run good.yaml 'optim={kind: '

mkdir empty
VECHE_DATA=$work/empty faults 'missing data' '^veche: .*cifar-100.*veche data get cifar-100' "$veche" run good.yaml data.set=cifar-100 model=resnet20
holds 'a failed run leaves no folder' test ! -e runs

misused 'no command' "$veche"
misused 'an unknown command' "$veche" rum good.yaml
misused 'an unknown option' "$veche" run --jsno good.yaml
misused 'run without a file' "$veche" run
misused 'bench of nothing' "$veche" bench
faults 'list of an unknown category' "did you mean 'models'" "$veche" list modles
faults 'data of an unknown set' "did you mean 'cifar-10" "$veche" data get cifar-11
misused 'data without a verb' "$veche" data
faults 'resume of nothing' '^veche: .*nowhere' "$veche" resume nowhere
succeeds 'help' "$veche" --help
succeeds 'version' "$veche" --version
succeeds 'help of a command' "$veche" run --help
to_full_device() { "$veche" list >/dev/full; }
faults 'a full standard output' 'standard output' to_full_device

done_checking
