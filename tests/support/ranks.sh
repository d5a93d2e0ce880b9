# ranks.sh - veche under the launchers of this machine; to be sourced after check.sh.
#
#   kinds                       the MPIs there are
#   launch N ARGUMENT...        veche with so many ranks of $kind, in the folder $IN, for at most a minute. Every rank first does what EACH
#                               says, and rank 1 what ODD says (its number is $rank, the test's folder $WORK), so that one can be another
#                               experiment, another folder, other files. Of what is said at the end only veche's own words count;
#                               everything is in launch.err
start=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/mpi.sh
source "$(dirname "$start")/mpi_env.sh" # for what is started without a launcher, too
mapfile -t kinds < <(cut -d ' ' -f 1 "$build/mpi.list")

cat >"$work/rank.sh" <<'X'
#!/usr/bin/env bash
rank=${OMPI_COMM_WORLD_RANK-${PMI_RANK-0}}
[[ $rank != 1 ]] || eval "${ODD-}"
eval "${EACH-}"
exec "$PROGRAM" "$@" ${MORE-}
X
chmod +x "$work/rank.sh"

launch() {
    local n=$1 code
    shift
    (
        cd "${IN-.}" || exit
        PROGRAM=$(awk -v kind="$kind" '$1 == kind { print $3 }' "$build/mpi.list")
        export PROGRAM ODD EACH MORE WORK="$work"
        exec timeout -k 5 60 bash "$start" "$build" "$kind" "$n" "$work/rank.sh" "$@" 2>"$work/launch.err"
    )
    code=$?
    grep -E '^(veche|note): ' "$work/launch.err" >&2
    return $code
}
