#!/usr/bin/env bash
# Tables and formulas in comments stand as they were written: a formatter that reflows comments runs their lines together, so it is told not
# to, and no indented line of a comment goes on in one that is not indented.
source "$(dirname "$0")/../support/check.sh" "$1"
cd "$(dirname "$0")/../.." || exit

# Prints where a comment's indented line is followed by one that is not.
run_together() {
    awk 'FNR == 1 { before = "" }
         before ~ /^ *\*  +[^ ]/ && /^ *\* [^ ]/ { print FILENAME ":" FNR ": " $0 }
         { before = $0 }' "$@"
}

printf '/* a\n *\n *   one: two\n * three\n *\n *   four\n */\n' >"$work/planted.h"
holds 'a line that was run together is found, and only that' test "$(run_together "$work/planted.h" | grep -c .)" -eq 1
mapfile -t files < <(find include src tests -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh')
found=$(run_together "${files[@]}")
[[ -z $found ]] || echo "$found"
holds 'tables in comments stand as they were written' test -z "$found"
holds 'the formatter leaves comments alone' grep -q '^ReflowComments: false$' .clang-format
done_checking
