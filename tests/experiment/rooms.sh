#!/usr/bin/env bash
# rooms.sh BUILD - the rooms may know only those before them, and nobody keeps mutable globals.
#
#   includes   a file of src/ROOM includes its own room and rooms before it; the folder of an engine is known inside
#              src/engine only, that of a world inside src/world only, oneDNN's headers inside src/engine/dnnl only, mpi.h inside src/world/mpi only, the public
#              header by api and cli only
#   worlds     api and cli call no world by its name: what they want of it is at its door (world/world.h)
#   globals    no object of the library has data that can change (two experiments must live in one process)
#
# The checks are themselves tried on planted offences first, so that a check that sees nothing cannot pass.
set -euo pipefail

rooms="base experiment data graph optim engine link topology collective call team strategy world record api cli"
build=${1:?usage: rooms.sh BUILD}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Prints one line for each include in FOLDER/src that goes against the order.
bad_includes() {
    (cd "$1" && grep -rnE --include='*.[ch]' '^[[:space:]]*#[[:space:]]*include' src) | awk -v rooms="$rooms" '
        BEGIN { n = split(rooms, names, " "); for (i = 1; i <= n; i++) rank[names[i]] = i }
        function offence(why) { print place ": " why }
        {
            split($0, part, ":")
            file = part[1]
            place = part[1] ":" part[2]
            split(file, folder, "/")
            room = folder[2]
            if (!match($0, /[<"][^>"]+[>"]/)) { offence("an include that names no file"); next }
            header = substr($0, RSTART + 1, RLENGTH - 2)
            split(header, step, "/")
            other = step[1]
            if (!(room in rank))
                offence("src/" room " is no known room")
            else if (index(header, ".."))
                offence("\"" header "\" leaves its folder; headers are named from src")
            else if (other in rank && rank[other] > rank[room])
                offence(room " may not include \"" header "\": " other " comes after it")
            else if (header ~ /^engine\/[^\/]+\// && room != "engine")
                offence("\"" header "\" is known inside src/engine only")
            else if (header ~ /^world\/[^\/]+\// && room != "world")
                offence("\"" header "\" is known inside src/world only")
            else if (header ~ /^world\/(local|mpi)\// && file ~ /^src\/world\/far\//)
                offence("far worlds know no transport of theirs by its name")
            else if (header ~ /^(oneapi\/dnnl\/)?dnnl[^\/]*\.h(pp)?$/ && file !~ /^src\/engine\/dnnl\//)
                offence("oneDNN is known inside src/engine/dnnl only")
            else if (header ~ /^mpi(-ext)?\.h$/ && file !~ /^src\/world\/mpi\//)
                offence("MPI is known inside src/world/mpi only")
            else if (header == "veche.h" && room != "api" && room != "cli")
                offence("the public header is for api and cli only")
        }'
}

# Prints one line for each place in FOLDER/src/api and src/cli that names what one world has, instead of asking at its door.
worlds_by_name() {
    (cd "$1" && grep -rnwE --include='*.[ch]' '(mpi|local|far)_[a-z0-9_]*|MPI_[A-Z][A-Za-z_]*' src/api src/cli) || true
}

# Prints one line for each object in FILE (.o or .a) that lies in a section that can be written to. Tables of pointers
# are constant but need relocating: the linker keeps them in .data.rel.ro.
mutable_globals() {
    objdump -t "$1" | awk -F '\t' '
        /file format/ { member = $1; sub(/:.*/, "", member); next }
        NF < 2 { next }
        {
            n = split($1, left, " ")
            split($2, right, " ")
            section = left[n]
            name = right[2]
            if (section ~ /^(\.data|\.bss|\.tdata|\.tbss|\*COM\*)/ && section !~ /^\.data\.rel\.ro/ && name != section)
                print member ": " name " can be changed"
        }'
}

expect() { # WHAT GOT: fails unless something was found
    if [ -z "$2" ]; then
        echo "the check does not see this: $1" >&2
        exit 1
    fi
}

plant() { # FILE LINE: a tree with one file that holds one line; prints what the check says about it
    local tree
    tree=$(mktemp -d -p "$scratch")
    mkdir -p "$tree/$(dirname "$1")"
    printf '%s\n' "$2" >"$tree/$1"
    bad_includes "$tree"
}

expect 'an include against the order' "$(plant src/base/x.c '#include "data/data.h"')"
expect 'an include against the order, spaced' "$(plant src/graph/x.h '  #  include   "engine/engine.h"')"
expect 'an include in angle brackets' "$(plant src/strategy/x.c '#include <world/local.h>')"
expect 'an unknown room' "$(plant src/cellar/x.c '#include <stdio.h>')"
expect 'a way round the rooms' "$(plant src/base/x.c '#include "../data/data.h"')"
expect 'oneDNN outside its folder' "$(plant src/engine/host.c '#include <oneapi/dnnl/dnnl.h>')"
expect 'oneDNN outside its folder, the short name' "$(plant src/cli/x.c '#include <dnnl.h>')"
expect 'a folder of an engine outside engine' "$(plant src/world/x.c '#include "engine/dnnl/parts.h"')"
expect 'a folder of a world outside world' "$(plant src/api/x.c '#include "world/mpi/mpi_world.h"')"
expect 'a transport inside far worlds' "$(plant src/world/far/x.c '#include "world/mpi/inside.h"')"
expect 'MPI outside its folder' "$(plant src/world/x.c '#include <mpi.h>')"
expect 'the public header inside the library' "$(plant src/record/x.c '#include "veche.h"')"
for good in 'src/data/x.c "experiment/experiment.h"' 'src/data/x.c "data/data.h"' 'src/cli/x.c <stdio.h>' \
            'src/engine/dnnl/x.c <dnnl.h>' 'src/engine/kinds.c "engine/dnnl/dnnl.h"' \
            'src/world/mpi/x.c <mpi.h>' 'src/api/x.c "veche.h"'; do
    said=$(plant "${good% *}" "#include ${good#* }")
    if [ -n "$said" ]; then
        echo "the check refuses what is allowed: $said" >&2
        exit 1
    fi
done

failed=0
# The same offence in a copy of the real tree, among all that is good.
cp -r src "$scratch/src"
printf '#include "record/run.h"\n' >>"$scratch/src/base/text.c"
expect 'an offence planted in a copy of the tree' "$(bad_includes "$scratch" | grep 'src/base/text.c')"

mkdir -p "$scratch/named/src/api/bench" "$scratch/named/src/cli"
printf 'TRY(mpi_join(false, &seat));\n' >"$scratch/named/src/api/bench/x.c"
printf 'f = local_play(w);\n' >"$scratch/named/src/cli/x.h"
[ "$(worlds_by_name "$scratch/named" | wc -l)" -eq 2 ] || expect 'two worlds called by name' ''
found=$(worlds_by_name .)
if [ -n "$found" ]; then
    printf '%s\n' "$found" >&2
    failed=1
fi

found=$(bad_includes .)
if [ -n "$found" ]; then
    printf '%s\n' "$found" >&2
    failed=1
fi

if grep -q '^VECHE_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; then
    echo "SKIPPED: nobody keeps mutable globals: sanitizers add their own"
else
    cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
    cat >"$scratch/globals.c" <<'C'
static int counter;
static int start = 3;
static _Thread_local int mine;
static const char *const table[] = {"a", "b"};
static const int fixed = 5;
int next(int i) { return counter++ + start++ + mine++ + table[i][0] + fixed; }
const char *const *all(void) { return table; }
C
    "$cc" -fPIC -c "$scratch/globals.c" -o "$scratch/globals.o"
    [ "$(mutable_globals "$scratch/globals.o" | wc -l)" -eq 3 ] || expect 'three planted globals, and only those' ''
    found=$(mutable_globals "$build/libveche.a")
    if [ -n "$found" ]; then
        printf '%s\n' "$found" >&2
        failed=1
    fi
fi
exit $failed
