#!/usr/bin/env bash
# Ranks that do not fit together, that are stopped, killed and stalled: each time one sentence, no hang, and the same bits after all.
source "$(dirname "$0")/../support/check.sh" "$1"
source "$(dirname "$0")/../support/ranks.sh"
host=$(hostname)
cd "$work"

cat >exp.yaml <<'Y'
name: exp
data:  { set: { kind: blobs, classes: 3, features: 8, samples: 240, test_samples: 60 }, batch: 4 }
model: [{ linear: { out: 20 } }, batchnorm, relu, { dropout: { rate: 0.2 } }, { linear: { out: 3 } }]
optim: { kind: adam, lr: 0.01, schedule: { warmup_epochs: 1 } }
engine: { kind: ref, threads: 1 }
strategy: allreduce
agents: 5
network: { patience_s: 20 }
train: { epochs: 2, seed: 3, evaluate_every: 1 epoch, checkpoint_every: never }
Y

sha() { json params_sha256 <<<"$out"; }

# ---- ranks that do not fit together ----

pictures() { # FOLDER SEED: IDX files of training and test pictures
    python3 - "$1" "$2" <<'P'
import os, random, struct, sys
folder, seed = sys.argv[1], int(sys.argv[2])
os.makedirs(folder, exist_ok=True)
draw = random.Random(seed)
for name, n in ("train", 60), ("test", 12), ("a", 20), ("b", 20), ("c", 20):
    labels = bytes(i % 2 for i in range(n))
    pixels = bytes(min(255, 120 * label + draw.randrange(100)) for label in labels for _ in range(16))
    open(f"{folder}/{name}.images", "wb").write(struct.pack(">IIII", 0x803, n, 4, 4) + pixels)
    open(f"{folder}/{name}.labels", "wb").write(struct.pack(">II", 0x801, n) + labels)
P
    sed 's/^data:.*/data: { set: { kind: idx, classes: 2, train_images: train.images, train_labels: train.labels, test_images: test.images, test_labels: test.labels }, batch: 4 }/; s/out: 3/out: 2/' exp.yaml >"$1/exp.yaml"
}
pictures same 1
pictures differs 2

# What is found before MPI plays a part is tried with one of them.
misfits() {
    rm -rf runs same/runs
    ODD='MORE=optim.lr=0.5' faults "$kind: another experiment" "^veche: rank 1 on $host has another experiment than rank 0 on $host" \
        launch 3 run exp.yaml world=mpi
    ODD='cd /' faults "$kind: no experiment" "^veche: rank 1 on $host: exp.yaml: cannot be read: No such file" \
        launch 3 run exp.yaml world=mpi
    ODD='MORE=data.set.samples=9000000' faults "$kind: a rank that does not come in time" '^veche: not all ranks have come to the start' \
        late 3 run exp.yaml world=mpi network.patience_s=0.5
    [[ $kind != "${kinds[-1]}" ]] || more_misfits
    holds "$kind: ranks that do not fit leave nothing behind" test ! -e runs -a ! -e same/runs
}

more_misfits() {
    faults "$kind: no launcher" "takes a process for each of 5 agents, and this one was started alone: start it by mpirun -n 5 veche" \
        "$veche" run exp.yaml world=mpi
    faults "$kind: no launcher, and a server" 'each of 5 agents and 1 that helps, .* mpirun -n 6' "$veche" run exp.yaml world=mpi strategy=ps
    faults "$kind: no launcher for a comparison" 'mpirun -n 5' "$veche" compare exp.yaml world=mpi
    succeeds "$kind: one agent needs none" "$veche" run exp.yaml world=mpi agents=1 -d alone
    ODD='MORE=optim.lr=oops' faults "$kind: a wrong override" "^veche: rank 1 on $host: .*'oops' is not a number" \
        launch 3 run exp.yaml world=mpi
    IN=same ODD='cd ../differs' faults "$kind: another data set" "^veche: rank 1 on $host has another data set than rank 0 on $host" \
        launch 3 run exp.yaml world=mpi
    IN=same ODD='mkdir -p ../bare; cp exp.yaml test.* ../bare; cd ../bare' faults "$kind: a file of samples is missing" \
        "^veche: rank 1 on $host: .*train.images.*No such file" launch 3 run exp.yaml world=mpi
    faults "$kind: too few ranks" "'ps' with these settings cannot be shared out among 1 rank" \
        launch 1 run exp.yaml world=mpi strategy=ps
    faults "$kind: events" 'events: .*those of the world .mpi. are real' \
        launch 2 run exp.yaml world=mpi 'events=[{at_s: 1, crash: 1}]'
    faults "$kind: a topology of another size" "'cycle:4' has 4 vertices, and agents is 3" \
        launch 3 run exp.yaml world=mpi topology=cycle:4
}

# Those that did come all say so: one of them is enough. The launcher kills the other, and some tell of that by their exit code.
late() {
    launch "$@" >late.out 2>&1 && return
    grep '^veche: ' late.out | sort -u >&2
    return 1
}

# ---- shares ----

# Agents that each have a file of their own, and see no other.
for rank in 0 1 2; do
    name=$(cut -c $((rank + 1)) <<<abc)
    mkdir "own$rank"
    cp same/"$name".* same/test.* "own$rank"
done
sed 's/train_images: train.images, train_labels: train.labels, //; s/batch: 4 }/batch: 4, mean: [0.4], deviation: [0.2], split: { kind: files, files: [a.images, b.images, c.images], labels: [a.labels, b.labels, c.labels] } }/' \
    same/exp.yaml >same/files.yaml
for folder in own0 own1 own2; do cp same/files.yaml "$folder"; done

shares() {
    succeeds "$kind: the number of agents follows from the ranks" launch 3 run exp.yaml world=mpi --json
    holds "$kind: and not from the file" test "$(json agents <<<"$out")" -eq 3
    holds "$kind: the bits are those of the local world" test "$(sha)" = "$whole"
    EACH='cd $WORK/own$rank' succeeds "$kind: each rank sees no file but its own" launch 3 run files.yaml world=mpi --json
    holds "$kind: and learns what it would with all of them" test "$(sha)" = "$by_files"
    EACH='cd $WORK/own$rank' succeeds "$kind: and methods are compared so" \
        launch 3 compare files.yaml world=mpi --over strategy.kind=allreduce,average -o "compared-$kind" --json
    holds "$kind: to the same bits" test "$(json params_sha256 <"own0/compared-$kind/allreduce/summary.json")" = "$by_files"
    EACH='cd $WORK/own0' faults "$kind: a file of one's own that is missing is named" "^veche: rank [12] on $host: .*[bc].images.*No such file" \
        launch 3 run files.yaml world=mpi
}

# oneDNN, told so by rank 1 alone, takes the instructions of an older processor.
mixed() {
    [[ -x $build/tests/engine.dnnl ]] || { skip_part "$kind: ranks with different processors" 'built without oneDNN'; return; }
    succeeds "$kind: ranks with equal processors" launch 3 run exp.yaml world=mpi engine=dnnl name=equal
    holds "$kind: say nothing of them" test -z "$(grep 'same processor' launch.err)"
    ODD='export DNNL_MAX_CPU_ISA=SSE41' succeeds "$kind: ranks with different processors" launch 3 run exp.yaml world=mpi engine=dnnl name=mixed
    holds "$kind: which have what, and what it means" grep -Eq \
        '^not all ranks have the same processor: oneDNN [^;]* on rank 0, 2; oneDNN .*SSE4.1 on rank 1; .*same bits only' launch.err
}

# ---- stopped, killed, stalled ----

# Paced by a slow network, so that there is always time to interfere.
paced=(world=mpi network.latency_ms=2 network.patience_s=2 train.epochs=10 'train.checkpoint_every=10 rounds')

ends() { # PROCESS: it does, or is only waited for, within five seconds
    for _ in $(seq 100); do
        grep -q '^State:\s*[^ZX]' "/proc/$1/status" 2>/dev/null || return 0
        sleep 0.05
    done
    return 1
}

# interfere NAME SIGNAL RANK [ARGUMENT...]: a signal to one of three ranks after the second checkpoint; $seconds from then to the end.
interfere() {
    local name=$1 signal=$2 rank=$3 job process= began
    shift 3
    rm -f launch.err
    launch 3 run exp.yaml name="$name" --json "${paced[@]}" "$@" >"$work/job.out" 2>"$work/job.err" &
    job=$!
    for _ in $(seq 600); do
        process=$(sed -n "s/.*rank $rank is process \([0-9]*\).*/\1/p" launch.err 2>/dev/null)
        [[ -n $process && $(ls "runs/$name"/checkpoint-*.safetensors 2>/dev/null | wc -l) -ge 2 ]] && break
        sleep 0.05
    done
    kill "-$signal" "$process"
    began=$EPOCHREALTIME
    wait $job
    code=$? out=$(cat job.out) err=$(cat launch.err)
    seconds=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')
    holds "$kind: $name: the run was cut short" test ! -e "runs/$name/summary.json" -a $code -ne 0
    holds "$kind: $name: nothing is half written" test -z "$(find "runs/$name" -name '*.tmp*')"
    holds "$kind: $name: its processes are gone" ends "$process"
}

goes_on() { # NAME: to the bits of a run that was left alone
    succeeds "$kind: $1: it is gone on with" launch 3 resume "runs/$1" --json
    holds "$kind: $1: to the same bits" test "$(sha)" = "$calm"
    holds "$kind: $1: no evaluation is lost or doubled" test "$(grep -c '"evaluation"' "runs/$1/events.jsonl")" -eq 10
}

is_soon() { awk -v s="$seconds" 'BEGIN { exit !(s < 5) }'; }

# Some launchers name machine and process only; which rank that is stands in the run's first lines.
is_named() { # RANK
    grep -Eqi "rank $1\b.*(signal 9|killed|gone|silent)" <<<"$err" ||
        grep -q "PID $(sed -n "s/.*rank $1 is process \([0-9]*\).*/\1/p" launch.err) RUNNING AT" launch.err job.out
}

trouble() {
    rm -rf runs
    interfere term TERM 1
    holds "$kind: term: the leader says how to go on" grep -q '^veche: stopped on request .*veche resume runs/term' <<<"$err"
    holds "$kind: term: and that it was stopped" test "$(json status <<<"$out")" = stopped
    goes_on term
    interfere kill KILL "$1"
    holds "$kind: kill: the job ends within five seconds ($seconds)" is_soon
    holds "$kind: kill: who was killed is named" is_named "$1"
    cp -r runs/kill runs/fewer
    goes_on kill
    interfere stall STOP 1
    holds "$kind: stall: who stalls is named" grep -q "^veche: .*(rank 1 on $host)" <<<"$err"
    goes_on stall
}

# A disk that takes longer than others have patience with a rank.
slow_disk() {
    [[ -e $build/tests/slow_disk.so ]] || { skip_part "$kind: a slow disk" 'sanitizers want to be loaded first'; return; }
    EACH='[[ $rank != 0 ]] || export SLOW_DISK_MS=5000 LD_PRELOAD='"$build/tests/slow_disk.so" \
        succeeds "$kind: a disk slower than patience ends no run" launch 3 run exp.yaml name=slow world=mpi network.patience_s=3 --json
    holds "$kind: and all is saved" test -e runs/slow/summary.json -a -e runs/slow/model.safetensors
}

# ---- other settings, other data ----

changed() {
    rm -rf runs/exp runs/edited own*/runs
    succeeds "$kind: a run" launch 3 run exp.yaml world=mpi 'train.checkpoint_every=5 rounds' --json
    cp -r runs/exp runs/edited
    sed -i 's/lr: 0.01/lr: 0.02/' runs/edited/experiment.yaml
    faults "$kind: an edited experiment" "^veche: runs/edited/experiment.yaml: was edited: optim.lr is '0.02'" launch 3 resume runs/edited
    faults "$kind: a setting that may not change" "^veche: runs/exp: optim.lr cannot become '0.02'" launch 3 resume runs/exp optim.lr=0.02
    faults "$kind: another engine" "^veche: runs/exp: engine.kind: the run was trained by the engine 'ref' so far" \
        launch 3 resume runs/exp engine.kind=null
    faults "$kind: no launcher" 'mpirun -n 3' "$veche" resume runs/exp
    succeeds "$kind: going on for longer" launch 3 resume runs/exp train.epochs=10 network.patience_s=30 --json
    holds "$kind: to the bits of a run that was asked for it at first" test "$(sha)" = "$calm"
    holds "$kind: the records tell" grep -q "train.epochs is '10' from here on, not '2'" runs/exp/events.jsonl
    EACH='cd $WORK/own$rank' succeeds "$kind: a run with files of one's own" launch 3 run files.yaml world=mpi --json
    cp own1/b.images b.images
    printf '\377' | dd of=own1/b.images bs=1 seek=30 conv=notrunc status=none
    EACH='cd $WORK/own$rank' faults "$kind: one of which is another" \
        '^veche: runs/exp: data.split.files: the file of agent 1 does not hold the samples' launch 3 resume runs/exp
    cp b.images own1/b.images
    EACH='cd $WORK/own$rank' succeeds "$kind: and the same again" launch 3 resume runs/exp --json
    holds "$kind: to the same bits" test "$(sha)" = "$by_files"
}

# ---- another number of ranks ----

others() {
    succeeds "$kind: all-reduce goes on with fewer ranks" launch 2 resume runs/fewer --json
    holds "$kind: as many agents as there are ranks" test "$(json agents <<<"$out")" -eq 2
    holds "$kind: to its end" test "$(json epochs <<<"$out")" = 10.0
    holds "$kind: and has learnt" python3 -c "import sys; sys.exit(not $(json accuracy.mean <<<"$out") > 70)"
    interfere admm TERM 0 strategy=admm network.latency_ms=20 # it talks but every tenth round
    faults "$kind: admm does not" 'was saved by 2 agents, and the strategy .admm. keeps something of its own for each of them' \
        launch 2 resume runs/admm
}

# What all this comes to in the local world.
alone() { "$veche" run "$1" -d "$work/alone" --json agents=3 "${@:2}" world=local; }
succeeds 'in the local world' alone exp.yaml
whole=$(sha)
succeeds 'in the local world, paced' alone exp.yaml "${paced[@]}"
calm=$(sha)
cd same
succeeds 'in the local world, by files' alone files.yaml
by_files=$(sha)
cd ..
killed=2
for kind in "${kinds[@]}"; do
    misfits
    shares
    trouble $killed
    [[ $kind != "${kinds[0]}" ]] || changed
    [[ $kind != "${kinds[-1]}" ]] || { slow_disk; mixed; others; }
    killed=0
done
done_checking
