#!/usr/bin/env bash
# Trains rows of the study's tables and their single rivals, and prints our numbers beside the published ones.
#
#   scripts/thesis.sh                                    the tables and their rows
#   scripts/thesis.sh fashion                            one table
#   scripts/thesis.sh fashion-cycle4-batch25 gossip      rows and tables
#   scripts/thesis.sh fashion train.epochs=1 data.limit=2000      a quick look: any value can be overridden
#   scripts/thesis.sh --print fashion                    only the numbers there are
#   scripts/thesis.sh --markdown fashion                 likewise, for a document
#   scripts/thesis.sh --commands fashion                 only the commands that train it
#
# Runs lie in runs/thesis, those with overrides in a folder below it. What is done is not done again, what was
# interrupted goes on from its last checkpoint. RUNS and VECHE name another folder and another program.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

veche=${VECHE:-build/veche}
runs=${RUNS:-runs/thesis}
table=experiments/thesis/rows.txt

usage() {
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
    echo
    tools/thesis_rows.py "$table" | awk '$1 != table { table = $1; print table } { print "  " $2 }'
}

show=no chosen=() overrides=()
for word in "$@"; do
    case $word in
    --print) show=text ;;
    --markdown) show=markdown ;;
    --commands) show=commands ;;
    -*) usage >&2 && exit 2 ;;
    *=*) overrides+=("$word") ;;
    *) chosen+=("$word") ;;
    esac
done
[[ ${#chosen[@]} -eq 0 ]] && { usage; exit 0; }

# Overridden runs are other runs: their folder is named after what was overridden.
if [[ ${#overrides[@]} -gt 0 ]]; then
    runs+=/$(IFS=,; tr -c 'A-Za-z0-9.,=:\n-' '_' <<<"${overrides[*]}")
fi

rows=$(for word in "${chosen[@]}"; do
    tools/thesis_rows.py "$table" |
        awk -v word="$word" '$1 == word || $2 == word || word == "all" { n++; print } END { exit !n }' || {
        echo "thesis.sh: '$word' is no table and no row; scripts/thesis.sh alone lists them" >&2
        exit 2
    }
done) || exit 2
names=$(awk '{ print $3; print $2 }' <<<"$rows" | awk '!seen[$0]++')

# The words after `veche run` that train the row or rival $1, in the array `words`. Where a whole section is overridden,
# what the row says about parts of it is left out: veche refuses a part before its whole.
words_of() {
    local word given
    words=()
    while IFS= read -r word; do
        for given in "${overrides[@]}"; do
            [[ $word == *=* && $word == "${given%%=*}".* ]] && continue 2
        done
        words+=("$word")
    done < <(tools/thesis_rows.py "$table" "$1")
    words+=(-d "$runs" "${overrides[@]}")
}

# One experiment, in the state its folder is in: done, interrupted, begun and nothing saved, not begun.
train() {
    local run=$runs/$1
    [[ -s $run/summary.json ]] && return 0
    if compgen -G "$run/checkpoint-*.safetensors" >/dev/null; then
        "$veche" resume "$run"
    else
        rm -rf "$run"
        words_of "$1"
        "$veche" run "${words[@]}"
    fi
}

if [[ $show == commands ]]; then
    for name in $names; do
        words_of "$name"
        python3 -c 'import shlex, sys; print(shlex.join(sys.argv[1:]))' "$veche" run "${words[@]}"
    done
    exit
fi

# An interrupted run saves itself and ends in its own way; the rest is then left for another time.
failed=0 interrupted=no
trap 'interrupted=yes' INT TERM
if [[ $show == no ]]; then
    show=text
    mkdir -p "$runs"
    for name in $names; do
        [[ $interrupted == yes ]] && break
        echo "== $name" >&2
        train "$name" >&2 || failed=1
    done
fi

tools/thesis_table.py "$show" "$runs" <<<"$rows" || failed=1
exit $failed
