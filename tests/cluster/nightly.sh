#!/usr/bin/env bash
# nightly.sh BUILD [TIMES] [SEED] [EPOCHS] - jobs under mpirun whose ranks are killed at random moments, TIMES times (50).
#
# Strategies and MPIs take turns. Each time a random rank of four gets SIGKILL at a random moment of the job's life, from when
# its processes have been started (a tenth of a second) to its end. The job must end within 5 seconds, on all ranks and with the
# rank named; and then go on from its last checkpoint (or from the start, if it had none yet) to the same bits as a job
# left alone, which are those of the world `local`. The same SEED gives the same ranks and moments; 0 takes a new one and
# says which.
set -uo pipefail
build=$(cd "${1:?usage: nightly.sh BUILD [TIMES] [SEED] [EPOCHS]}" && pwd)
times=${2:-50} seed=${3:-0} epochs=${4:-120}
here=$(cd "$(dirname "$0")" && pwd)
start=$here/../support/mpi.sh
limit_s=5

[[ $seed -ne 0 ]] || seed=$((SRANDOM % 100000 + 1))
RANDOM=$seed
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mapfile -t kinds < <(cut -d ' ' -f 1 "$build/mpi.list" 2>/dev/null)
[[ ${#kinds[@]} -gt 0 ]] || { echo "nightly.sh: no MPI was found when $build was configured" >&2; exit 1; }

# Four ranks; with a helper they are three agents.
declare -A overrides=(
    [allreduce]='strategy=allreduce'
    [consensus]='topology=cycle:4 strategy=consensus'
    [gossip]='topology=cycle:4 strategy=gossip'
    [ps]='strategy=ps'
    [average]='strategy=average'
    [easgd]='strategy=easgd strategy.mode=sync'
    [admm]='strategy=admm'
)
declare -A agents=([allreduce]=4 [consensus]=4 [gossip]=4 [ps]=3 [average]=4 [easgd]=3 [admm]=3)
strategies=(allreduce consensus gossip ps average easgd admm)

now() { echo "$EPOCHREALTIME"; }
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }'; }
exceeds() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }'; }
field() { python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2" 2>/dev/null; }

words_of() { # STRATEGY FOLDER: how a run of it is started
    echo "run -d $2 --json $here/small.yaml agents=${agents[$1]} train.epochs=$epochs ${overrides[$1]}"
}

# What a job left alone comes to and how long it takes, once for each strategy and MPI: "SHA SECONDS".
declare -A calm
left_alone() { # KIND STRATEGY
    local folder=$work/calm-$1-$2 began sha local_sha
    began=$(now)
    timeout 300 bash "$start" "$build" "$1" 4 veche $(words_of "$2" "$folder") world=mpi >"$folder.json" 2>"$folder.err" || {
        cat "$folder.err"
        return 1
    }
    sha=$(field "$folder.json" params_sha256)
    calm[$1.$2]="$sha $(since "$began")"
    "$build/veche" $(words_of "$2" "$folder-local") world=local >"$folder-local.json" 2>"$folder-local.err"
    local_sha=$(field "$folder-local.json" params_sha256)
    [[ $sha == "$local_sha" ]] || {
        echo "  FAILED: $1 $2 comes to $sha in the world \`mpi\`, to ${local_sha:-nothing} in \`local\`"
        tail -n 2 "$folder-local.err"
        return 1
    }
}

is_veche() { [[ $(readlink "/proc/$1/exe" 2>/dev/null) == "$program" ]]; }

ranks_in() { # FOLDER: lines of process id and rank
    local process
    for process in $(pgrep -f -- "$1"); do
        is_veche "$process" && ! is_veche "$(ps -o ppid= -p "$process" | tr -d ' ')" || continue # a rank may have a child
        tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null |
            sed -n "s/^\(OMPI_COMM_WORLD_RANK\|PMI_RANK\)=\([0-9]*\)$/$process \2/p" | head -n 1
    done
}

is_named() { # RANK: the launcher or another rank says who died
    grep -Eq "rank $1\b.*(signal 9|killed|gone)" "$folder.err"
}

complain() {
    echo "  FAILED: $1"
    grep -v '^epoch' "$folder.err" | tail -n 15 | sed 's/^/    | /'
    trial_failed=yes
}

kill_one() { # KIND STRATEGY RANK SECONDS: starts a job and kills a rank of it; 1 when the job was over before
    local launcher process
    bash "$start" "$build" "$1" 4 veche $(words_of "$2" "$folder") world=mpi >"$folder.json" 2>"$folder.err" &
    launcher=$!
    sleep "$4"
    until process=$(ranks_in "$folder" | awk -v rank="$3" '$2 == rank { print $1 }') && [[ -n $process ]]; do
        kill -0 $launcher 2>/dev/null || { wait $launcher; return 1; }
        sleep 0.02
    done
    local at=$(now)
    kill -9 "$process" 2>/dev/null
    while kill -0 $launcher 2>/dev/null || [[ -n $(ranks_in "$folder") ]]; do
        exceeds "$(since "$at")" 30 && { complain 'it hangs'; kill -9 $launcher $(ranks_in "$folder" | cut -d ' ' -f 1); }
        sleep 0.02
    done
    ended_s=$(since "$at")
    wait $launcher
    local code=$?
    grep -q params_sha256 "$folder.json" && return 1 # it had come to its end, and its ranks were taking leave
    [[ $code -ne 0 ]] || complain 'the launcher says that all is well'
    exceeds "$ended_s" $limit_s && complain "it took $ended_s s to end"
    is_named "$3" || complain "nobody names rank $3 (process $process)"
}

go_on() { # KIND STRATEGY: from the last checkpoint; prints where from
    local checkpoint words
    checkpoint=$(ls "$folder"/*/checkpoint-*.safetensors 2>/dev/null | sort | tail -n 1)
    if [[ -n $checkpoint ]]; then
        words="resume --json $(dirname "$checkpoint")"
        from="from $(basename "$checkpoint" .safetensors)"
    else
        words="$(words_of "$2" "$folder") world=mpi"
        from='from the start'
    fi
    timeout 300 bash "$start" "$build" "$1" 4 veche $words >"$folder.json" 2>"$folder.err" || complain "it does not go on ($from)"
    [[ $(field "$folder.json" params_sha256) == "${calm[$1.$2]% *}" ]] || complain "other bits, gone on with $from"
}

failed=0 slowest=0
for ((i = 0; i < times; i++)); do
    kind=${kinds[i % ${#kinds[@]}]} strategy=${strategies[i / ${#kinds[@]} % ${#strategies[@]}]}
    program=$(awk -v kind="$kind" '$1 == kind { print $3 }' "$build/mpi.list")
    rank=$((RANDOM % 4)) moment=$RANDOM
    if [[ -z ${calm[$kind.$strategy]:-} ]] && ! left_alone "$kind" "$strategy"; then
        failed=$((failed + 1))
        continue
    fi
    trial_failed=no ended_s=0 from=
    folder=$work/trial-$i
    after_s=$(awk -v part=$moment -v all="${calm[$kind.$strategy]#* }" 'BEGIN { printf "%.2f", 0.1 + all * part / 32768 }')
    until kill_one "$kind" "$strategy" $rank "$after_s"; do
        after_s=$(awk -v s="$after_s" 'BEGIN { printf "%.2f", s * 0.7 }')
        rm -rf "$folder"*
    done
    go_on "$kind" "$strategy"
    echo "$((i + 1)) $kind $strategy: rank $rank killed after $after_s of ${calm[$kind.$strategy]#* } s, ended in $ended_s s, went on $from"
    exceeds "$ended_s" "$slowest" && slowest=$ended_s
    [[ $trial_failed == no ]] && rm -rf "$folder"* || failed=$((failed + 1))
done
echo "$times trials with seed $seed: $failed failed, the slowest end took $slowest s (at most $limit_s)"
[[ $failed -eq 0 ]]
