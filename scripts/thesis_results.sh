#!/usr/bin/env bash
# Trains what docs/results.md says about learning, one run after the other, and prints the rows as a table.
#
#   scripts/thesis_results.sh                            an hour to two on two quiet cores
#   scripts/thesis_results.sh train.epochs=1 data.limit=3000      to see that it works
#
# Logs lie in runs/thesis/logs. A run gets LIMIT_S seconds (default 5400); started again, the script goes on where it
# was. Exit code 1 when a run failed or a bound does not hold.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

limit_s=${LIMIT_S:-5400}
logs=${RUNS:-runs/thesis}/logs
mkdir -p "$logs"

# row, least accuracy %, most points behind the rival
bounds='fashion-cycle4-batch25 91.5 0.4
fashion-cycle4-batch25-unequal 91.5 0.4
fashion-torus36-batch6 0 1
fashion-torus36-batch6-unequal 0 1'
rows=$(awk '{ print $1 }' <<<"$bounds")

failed=0
for row in $rows; do
    timeout -k 60 "$limit_s" scripts/thesis.sh "$row" "$@" >"$logs/$row.log" 2>&1 || failed=1
    tail -n 1 "$logs/$row.log"
done

# shellcheck disable=SC2086 # the rows are words
table=$(scripts/thesis.sh --markdown $rows "$@")
{ printf '%s\n' "$table" && tools/thesis_bounds.py "$bounds" <<<"$table"; } >"$logs/table.md"
holds=$?
cat "$logs/table.md"
exit $((failed || holds))
