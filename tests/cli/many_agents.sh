#!/usr/bin/env bash
# Many agents through the program: faults name their place, runs of the three strategies repeat, stop and go on.
source "$(dirname "$0")/../support/check.sh"
cd "$work" || exit 1

cat >exp.yaml <<'Y'
name: exp
data: { set: { kind: blobs, samples: 240 }, batch: 4 }
model: mlp:6
optim: { kind: sgd, lr: 0.1, momentum: 0.9 }
agents: 6
topology: { graph: "cycle:6", weights: metropolis }
strategy: { kind: consensus, learn_every: [1, 1, 1, 1, 1, 2] }
train: { epochs: 2, evaluate_every: 5 rounds }
engine: { kind: ref, threads: 1 }
machines: { stragglers: { kind: random, chance: 0.2, factor: 5 } }
network: { latency_ms: 1, bandwidth_mbps: 5, patience_s: 0.05 }
events:
  - { at_s: 0.02, crash: 4 }
  - { at_s: 0.05, return: 4 }
Y

# Faults, before anything runs.
place() { # place WHAT LINE:COLUMN WORDS SED-SCRIPT
    sed -e "$4" exp.yaml >bad.yaml
    faults "$1" "^veche: bad\.yaml:$2: .*$3" "$veche" run bad.yaml -d bad
    holds "$1: no folder is left" test ! -e bad
}
place 'a topology of another size' 6:20 "'cycle:5' has 5 vertices, and agents is 6" 's/cycle:6/cycle:5/'
place 'a topology there is none of' 6:20 "cicle" 's/cycle:6/cicle:6/'
place 'consensus without a topology' 6:19 "needs to know who is whose neighbour: write topology" '/^topology/d'
place 'gossip without a topology' 6:11 "'gossip' needs to know" '/^topology/d; s/^strategy:.*/strategy: gossip/'
place 'a list of the wrong length' 7:19 "learn_every: 6 numbers for 7 agents" \
    's/^agents: 6/agents: 7/; s/cycle:6/cycle:7/'
place 'a list of mix_every' 7:19 "mix_every: 2 numbers for 6 agents" 's/learn_every.*\]/mix_every: [1, 2]/'
place 'single with many agents' 7:11 "'single' is for 1 agent, and agents is 6" 's/^strategy:.*/strategy: single/'
place 'speeds of the wrong length' 10:20 "2 speeds for 6 agents" 's/^machines:.*/machines: { speed: [1, 2] }/'
place 'a straggler that is not there' 10:49 "there is no agent 6: they are numbered from 0 to 5" \
    's/^machines:.*/machines: { stragglers: { kind: fixed, agents: [6], factor: 2 } }/'
place 'a crash of nobody' 13:26 "there is no agent 9: they are numbered from 0 to 5" 's/crash: 4/crash: 9/'
place 'a cut with itself' 13:28 "agent 4 is named twice" 's/crash: 4/cut: [4, 4]/'
place 'a site that leaves some out' 11:53 "agent 5 is at no site" \
    's/patience_s: 0.05/sites: [[0, 1, 2], [3, 4]]/'
place 'more pairs than gossip has a use for' 7:19 'strategy.pairs: 97 is more than 16 for each of the 6 edges of cycle:6' \
    's/^strategy:.*/strategy: { kind: gossip, pairs: 97 }/'
place 'buckets without room for a number' 7:19 'strategy.bucket_kb: 0.001 is less than one number' \
    's/^strategy:.*/strategy: { kind: allreduce, bucket_kb: 0.001 }/'
place 'no agents' 5:9 "agents" 's/^agents: 6/agents: 0/'
place 'too many agents' 5:9 "agents" 's/^agents: 6/agents: 100001/'
place 'a share for nobody' 2:7 "3 training samples are too few for 6 agents" 's/samples: 240/samples: 3/'

# The same bits, whatever the threads; other bits for another seed.
for strategy in consensus gossip adpsgd; do
    for threads in 1 2; do
        succeeds "$strategy, $threads threads" "$veche" run exp.yaml -d $strategy-$threads strategy=$strategy \
            engine.threads=$threads --json
        eval "hash$threads=\$(json params_sha256 <<<\"\$out\")"
    done
    holds "$strategy: same bits on 1 and 2 threads" test "$hash1" = "$hash2"
    holds "$strategy: the notes tell of the crash and the return" test "$(json notes <<<"$out")" -ge 2
    holds "$strategy: so do the records" grep -q 'agent 4 is back with the parameters of agent' \
        $strategy-1/exp/events.jsonl
    succeeds "$strategy with another seed" "$veche" run exp.yaml -d $strategy-3 strategy=$strategy train.seed=2 --json
    holds "$strategy: another seed, other bits" test "$hash1" != "$(json params_sha256 <<<"$out")"
done

succeeds 'a topology of one agent' "$veche" run exp.yaml -d one events=[] agents=1 topology=complete:1 strategy=gossip --json
one=$(json params_sha256 <<<"$out")
succeeds 'single' "$veche" run exp.yaml -d one events=[] agents=1 topology=complete:1 strategy=single --json
holds 'one agent gossiping learns what a single one learns' test "$one" = "$(json params_sha256 <<<"$out")"

sed -e 's/crash: 4/crash: [0, 1, 2, 3, 4, 5]/; /return/d' exp.yaml >dead.yaml
faults 'everybody dead' '^veche: all 6 agents are down, and none came to its end' "$veche" run dead.yaml -d dead
holds 'the records say so, too' grep -q 'all 6 agents are down' dead/exp/events.jsonl

done_checking
