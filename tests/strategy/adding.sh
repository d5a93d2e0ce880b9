#!/usr/bin/env bash
# adding.sh BUILD - docs/adding-a-strategy.md is true: its example, registry row and lines make a strategy that trains and
# passes the conformance suite, and whose setting does something.
set -euo pipefail
build=$(cd "${1:?usage: adding.sh BUILD}" && pwd)
here=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The n-th fenced block of the page.
block() {
    awk -v wanted="$1" '/^```/ { inside = !inside; n += inside; next } inside && n == wanted' \
        "$here/docs/adding-a-strategy.md"
}

# FILE with the text TEXT after the line that has WORDS.
with_line() {
    text=$3 awk -v words="$2" '{ print } !done && index($0, words) { print ENVIRON["text"]; done = 1 } END { exit !done }' "$1"
}

block 1 >"$scratch/relay.c"
with_line "$here/src/strategy/kinds.c" 'X(single)' "$(block 2)" >"$scratch/kinds.c"
with_line "$here/tests/strategy/test_conformance.c" '} lines[] = {' "$(block 3)" >"$scratch/test_conformance.c"

# Compiled and linked as the build does it, the new objects before the library.
command_of() { # TARGET WORDS
    ninja -C "$build" -t commands "$1" | grep -F -- "$2" | tail -n 1 | sed 's/^: && //; s/ && :$//'
}
compiler=$(command_of strategy.conformance 'test_conformance.c.o -c ' | sed 's/ -MD .*//')
with_line "$here/tests/api/test_fields.c" '} pairs[] = {' "$(block 4)" >"$scratch/test_fields.c"
for file in relay kinds test_conformance test_fields; do
    eval "cd '$build' && $compiler -o '$scratch/$file.o' -c '$scratch/$file.c'"
done
new="$scratch/relay.o $scratch/kinds.o"
eval "cd '$build' && $(command_of veche ' -o veche ' | sed "s| -o veche | $new -o $scratch/veche |")"
eval "cd '$build' && $(command_of strategy.conformance ' -o tests/strategy.conformance ' |
    sed "s|[^ ]*test_conformance.c.o|$scratch/test_conformance.o $new|; s| -o tests/[^ ]*| -o $scratch/conformance|")"
eval "cd '$build' && $(command_of api.fields ' -o tests/api.fields ' |
    sed "s|[^ ]*test_fields.c.o|$scratch/test_fields.o $new|; s| -o tests/[^ ]*| -o $scratch/fields|")"

cd "$here"
"$scratch/veche" list strategies | grep '^  relay ' >/dev/null
"$scratch/veche" run experiments/02-agreement.yaml "strategy={kind: relay, every: 2}" name=relay --json \
    --folder "$scratch/runs" >"$scratch/summary.json" 2>/dev/null
python3 -c '
import json, sys
summary = json.load(open(sys.argv[1]))
assert summary["strategy"] == "relay" and summary["accuracy"]["mean"] > 80, summary
' "$scratch/summary.json"
"$scratch/conformance"
"$scratch/fields"
