#!/usr/bin/env bash
# The example program builds against the library alone, and only veche.h's names are visible in it.
source "$(dirname "$0")/../support/check.sh" "$1"

succeeds 'the example trains, stops, goes on and reads parameters' "$build/example_train" "$work/runs"
holds 'it ends with a summary of a run that is done' grep -q '"status": "done"' <<<"$out"

visible=$(nm -D --defined-only "$build/libveche.so" | awk '$2 ~ /[TDBR]/ {print $3}' | grep -v '^veche_' || true)
holds "nothing but veche_* is visible (found: $visible)" test -z "$visible"
declared=$(grep '^VECHE_API' include/veche.h | grep -oE 'veche_[a-z_]+\(' | tr -d '(' | sort -u)
for name in $declared; do
    holds "$name is in the shared library" grep -qw "$name" <(nm -D --defined-only "$build/libveche.so")
done
succeeds 'the header stands alone in C11' cc -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c include/veche.h
if command -v c++ >/dev/null; then
    succeeds 'and in C++' c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ include/veche.h
else
    skip_part 'and in C++' 'there is no c++'
fi

done_checking
