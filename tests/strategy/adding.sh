#!/usr/bin/env bash
# adding.sh BUILD - docs/adding-a-strategy.md is true: its examples, registry rows and lines make strategies that train and
# pass the conformance suite, and whose settings do something.
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
block 5 >"$scratch/harbour.c"
with_line "$here/src/strategy/kinds.c" 'X(single)' "$(block 2; block 6)" >"$scratch/kinds.c"
with_line "$here/tests/strategy/test_conformance.c" '} lines[] = {' "$(block 3; block 7)" >"$scratch/test_conformance.c"

# Compiled and linked as the build does it, the new objects before the library.
command_of() { # TARGET WORDS
    ninja -C "$build" -t commands "$1" | grep -F -- "$2" | tail -n 1 | sed 's/^: && //; s/ && :$//'
}
compiler=$(command_of strategy.conformance 'test_conformance.c.o -c ' | sed 's/ -MD .*//')
with_line "$here/tests/api/test_fields.c" '} pairs[] = {' "$(block 4; block 8)" >"$scratch/test_fields.c"
for file in relay harbour kinds test_conformance test_fields; do
    eval "cd '$build' && $compiler -o '$scratch/$file.o' -c '$scratch/$file.c'"
done
new="$scratch/relay.o $scratch/harbour.o $scratch/kinds.o"
eval "cd '$build' && $(command_of veche ' -o veche ' | sed "s| -o veche | $new -o $scratch/veche |")"
eval "cd '$build' && $(command_of strategy.conformance ' -o tests/strategy.conformance ' |
    sed "s|[^ ]*test_conformance.c.o|$scratch/test_conformance.o $new|; s| -o tests/[^ ]*| -o $scratch/conformance|")"
eval "cd '$build' && $(command_of api.fields ' -o tests/api.fields ' |
    sed "s|[^ ]*test_fields.c.o|$scratch/test_fields.o $new|; s| -o tests/[^ ]*| -o $scratch/fields|")"

cd "$here"
for strategy in relay harbour; do
    "$scratch/veche" list strategies | grep "^  $strategy " >/dev/null
    "$scratch/veche" run experiments/02-agreement.yaml "strategy={kind: $strategy, every: 2}" name=$strategy --json \
        --folder "$scratch/runs" >"$scratch/summary.json" 2>/dev/null
    python3 -c '
import json, sys
summary = json.load(open(sys.argv[1]))
assert summary["strategy"] == sys.argv[2] and summary["accuracy"]["mean"] > 80, summary
' "$scratch/summary.json" $strategy
done
"$scratch/conformance"
"$scratch/fields"
