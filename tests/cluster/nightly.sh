#!/usr/bin/env bash
# nightly.sh BUILD [TIMES] [SEED] [EPOCHS] [ROWS] - jobs under mpirun, of which a random rank is killed, and jobs of which one is
# stopped (SIGSTOP) for good, at random moments: TIMES times each (50).
#
# Methods and MPIs take turns; ROWS chooses methods by a pattern of their names. A kill may come at any moment from when the processes
# have been started (a tenth of a second) to their end, a stop from when the run has begun. A job must end on all ranks, the
# stopped one too, within 5 seconds, after a stop within 5 seconds and the patience of PATIENCE_S; the first rank that anybody
# blames must be the right one, nobody else may crash; and the run must go on from its last checkpoint (or from the start, if it had none
# yet) to its end, for methods in step to the same bits as a job left alone, which are those of the world `local`. The same SEED gives
# the same ranks and moments; 0 takes a new one and says which.
set -uo pipefail
build=$(cd "${1:?usage: nightly.sh BUILD [TIMES] [SEED] [EPOCHS] [ROWS]}" && pwd)
times=${2:-50} seed=${3:-0} epochs=${4:-40} chosen=${5:-.}
here=$(cd "$(dirname "$0")" && pwd)
start=$here/../support/mpi.sh
limit_s=5 patience_s=${PATIENCE_S:-2}

[[ $seed -ne 0 ]] || seed=$((SRANDOM % 100000 + 1))
RANDOM=$seed
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mapfile -t kinds < <(cut -d ' ' -f 1 "$build/mpi.list" 2>/dev/null)
[[ ${#kinds[@]} -gt 0 ]] || { echo "nightly.sh: no MPI was found when $build was configured" >&2; exit 1; }

# Name, ranks, agents, whether it is in step, the strategy; the helpers are servers, standbys, nodes, centres, counters. Where a
# network is described rows travel by messages, elsewhere they are read where they lie.
mapfile -t rows < <(grep -E "^($chosen)" <<'X'
ps-async       3 2 no  strategy={kind: ps, mode: async}
allreduce      3 3 yes strategy=allreduce
adpsgd         3 3 no  topology=cycle:3 strategy=adpsgd
ps             3 2 yes strategy=ps
consensus      3 3 yes topology=cycle:3 strategy=consensus
easgd          3 2 no  strategy=easgd
ps-standby     4 2 yes strategy={kind: ps, replicate_every: 2}
gossip         3 3 yes topology=cycle:3 strategy=gossip
ring-far       3 3 yes network.latency_ms=0.05 strategy={kind: allreduce, algorithm: ring}
average        3 3 yes strategy=average
backups        4 3 no  strategy={kind: allreduce, backups: 1}
admm           3 2 yes strategy=admm
ps-ssp         4 2 no  strategy={kind: ps, mode: ssp, staleness: 2, servers: 2}
easgd-sync     3 2 yes strategy={kind: easgd, mode: sync, every: 2}
native         3 3 no  strategy={kind: allreduce, algorithm: native}
ps-far         3 2 yes network.latency_ms=0.05 strategy=ps
admm-async     3 2 no  strategy={kind: admm, mode: async}
ps-tree        6 3 yes strategy={kind: ps, tree: 2}
ps-move        4 2 no  strategy={kind: ps, mode: async, replicate_every: 2}
consensus-far  4 4 yes network.latency_ms=0.05 topology=path:4 strategy=consensus
native-near    3 3 yes topology=cycle:3 strategy={kind: consensus, exchange: native}
X
)
[[ ${#rows[@]} -gt 0 ]] || { echo "nightly.sh: no method is called '$chosen'" >&2; exit 1; }

now() { echo "$EPOCHREALTIME"; }
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }'; }
exceeds() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }'; }
field() { python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2" 2>/dev/null; }

words_in() { # FOLDER: how a run of this row is started
    words=(run -d "$1" --json "$here/small.yaml" agents="$agents" train.epochs="$epochs" network.patience_s="$patience_s")
    local override
    while read -r override; do words+=("$override"); done < <(sed 's/ \([a-z_.]*=\)/\n\1/g' <<<"$overrides")
}

# What a job left alone comes to and how long it takes, once for each row and MPI: "SHA SECONDS".
declare -A calm
left_alone() {
    local folder=$work/calm-$kind-$name began sha local_sha
    words_in "$folder"
    began=$(now)
    timeout 300 bash "$start" "$build" "$kind" "$ranks" veche "${words[@]}" world=mpi >"$folder.json" 2>"$folder.err" || {
        cat "$folder.err"
        return 1
    }
    sha=$(field "$folder.json" params_sha256)
    calm[$kind.$name]="$sha $(since "$began")"
    [[ $in_step == yes ]] || return 0
    [[ $name != native-near ]] || overrides=${overrides/, exchange: native/}
    words_in "$folder-local"
    "$build/veche" "${words[@]}" world=local >"$folder-local.json" 2>"$folder-local.err"
    local_sha=$(field "$folder-local.json" params_sha256)
    [[ $sha == "$local_sha" ]] || {
        echo "  FAILED: $kind $name comes to $sha in the world \`mpi\`, to ${local_sha:-nothing} in \`local\`"
        tail -n 2 "$folder-local.err"
        return 1
    }
}

is_veche() { [[ $(readlink "/proc/$1/exe" 2>/dev/null) == "$program" ]]; }

ranks_in() { # FOLDER: lines of process id and rank
    local process
    for process in $(pgrep -f -- "$1"); do
        is_veche "$process" && ! is_veche "$(ps -o ppid= -p "$process" | tr -d ' ')" || continue # a rank may have a child
        cat "/proc/$process/environ" 2>/dev/null | tr '\0' '\n' |
            sed -n "s/^\(OMPI_COMM_WORLD_RANK\|PMI_RANK\)=\([0-9]*\)$/$process \2/p" | head -n 1
    done
}

has_begun() { grep -aqs "rank $rank is process" "$folder.err"; }
has_result() { grep -q params_sha256 "$folder.json"; }

complain() {
    echo "  FAILED: $1"
    grep -av '^epoch' "$folder.err" | tail -n 15 | sed 's/^/    | /'
    trial_failed=yes
}

# The first rank that the launcher or another rank blames; with kill -9 others may be blamed after it.
check_words() {
    local blamed
    blamed=$(grep -aoE 'rank [0-9]+\b.*(signal 9|killed|gone|stalled)' "$folder.err" | head -n 1 | sed 's/^rank \([0-9]*\).*/\1/')
    [[ $blamed == "$rank" ]] || complain "rank $rank (process $process) is not the first that is blamed${blamed:+, but rank $blamed}"
    ! grep -aEq 'signal (4|6|7|8|11)\b|Segmentation|Sanitizer|core dumped|Assertion' "$folder.err" || complain 'another rank crashed'
}

# Starts a job and sends a rank of it the signal; 1 when the job was over before.
strike() { # KILL or STOP, SECONDS
    local launcher at most_s
    words_in "$folder"
    bash "$start" "$build" "$kind" "$ranks" veche "${words[@]}" world=mpi >"$folder.json" 2>"$folder.err" &
    launcher=$!
    until [[ $1 == KILL ]] || has_begun; do
        kill -0 $launcher 2>/dev/null || { wait $launcher; return 1; }
        sleep 0.02
    done
    sleep "$2"
    until process=$(ranks_in "$folder" | awk -v rank="$rank" '$2 == rank { print $1 }') && [[ -n $process ]]; do
        kill -0 $launcher 2>/dev/null || { wait $launcher; return 1; }
        sleep 0.02
    done
    at=$(now)
    kill -"$1" "$process" 2>/dev/null
    if has_result; then # it has come to its end, and its ranks take leave
        kill -CONT "$process" 2>/dev/null
        wait $launcher
        return 1
    fi
    while kill -0 $launcher 2>/dev/null || [[ -n $(ranks_in "$folder") ]]; do
        if exceeds "$(since "$at")" 30; then
            complain 'it hangs'
            kill -9 $launcher $(ranks_in "$folder" | cut -d ' ' -f 1) 2>/dev/null
        fi
        sleep 0.02
    done
    ended_s=$(since "$at")
    wait $launcher
    local code=$?
    has_result && return 1
    most_s=$limit_s
    [[ $1 == KILL ]] || most_s=$(awk -v a="$limit_s" -v b="$patience_s" 'BEGIN { print a + b }')
    [[ $code -ne 0 ]] || complain 'the launcher says that all is well'
    exceeds "$ended_s" "$most_s" && complain "it took $ended_s s to end"
    check_words
    exceeds "$ended_s" "${slowest[$1]}" && slowest[$1]=$ended_s
    return 0
}

go_on() { # from the last checkpoint; sets where from
    local checkpoint
    checkpoint=$(ls "$folder"/*/checkpoint-*.safetensors 2>/dev/null | sort | tail -n 1)
    if [[ -n $checkpoint ]]; then
        words=(resume --json "$(dirname "$checkpoint")")
        from="from $(basename "$checkpoint" .safetensors)"
    else
        words_in "$folder"
        words+=(world=mpi)
        from='from the start'
    fi
    timeout 300 bash "$start" "$build" "$kind" "$ranks" veche "${words[@]}" >"$folder.json" 2>"$folder.err" ||
        complain "it does not go on ($from)"
    has_result || complain "it has no result ($from)"
    [[ $in_step == no || $(field "$folder.json" params_sha256) == "${calm[$kind.$name]% *}" ]] ||
        complain "other bits, gone on with $from"
}

part_of() { awk -v part="$1" -v all="$2" -v least="$3" 'BEGIN { printf "%.2f", least + all * part / 32768 }'; }

failed=0
declare -A slowest=([KILL]=0 [STOP]=0) word=([KILL]=killed [STOP]=stopped)
for ((i = 0; i < 2 * times; i++)); do
    signal=KILL j=$((i / 2)) moment=$RANDOM number=$RANDOM
    [[ $((i % 2)) -eq 0 ]] || signal=STOP
    kind=${kinds[j % ${#kinds[@]}]}
    read -r name ranks agents in_step overrides <<<"${rows[j / ${#kinds[@]} % ${#rows[@]}]}"
    program=$(awk -v kind="$kind" '$1 == kind { print $3 }' "$build/mpi.list")
    rank=$((number % ranks))
    if [[ -z ${calm[$kind.$name]:-} ]] && ! left_alone; then
        failed=$((failed + 1))
        continue
    fi
    read -r name ranks agents in_step overrides <<<"${rows[j / ${#kinds[@]} % ${#rows[@]}]}"
    trial_failed=no ended_s=0 from=
    folder=$work/trial-$i
    after_s=$(part_of $moment "${calm[$kind.$name]#* }" 0.1)
    until strike $signal "$after_s"; do
        after_s=$(awk -v s="$after_s" 'BEGIN { printf "%.2f", s * 0.7 }')
        rm -rf "$folder"*
    done
    go_on
    echo "$((j + 1)) $kind $name: rank $rank ${word[$signal]} after $after_s of ${calm[$kind.$name]#* } s, ended in $ended_s s, went on $from"
    [[ $trial_failed == no ]] && rm -rf "$folder"* || failed=$((failed + 1))
done
echo "$times kills and as many stops with seed $seed: $failed failed; the slowest end took ${slowest[KILL]} s after a kill (at most" \
    "$limit_s), ${slowest[STOP]} s after a stop with patience $patience_s s (at most $limit_s more)"
[[ $failed -eq 0 ]]
