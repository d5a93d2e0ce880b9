#!/usr/bin/env bash
# names.sh BUILD - every function and object that other files can see bears the name of its subject: `bell_ring`, not `ring`; and no
# two headers give the same name to two kinds of struct.
#
# A subject is a word before the first `_`. Here stands which subjects each folder of src/ speaks of; a folder also has those
# of the folders it lies in. A word that stands alone is no name for all the program to see.
source "$(dirname "$0")/../support/check.sh" "$1"

subjects() {
    cat <<'SUBJECTS'
base            arena array block clock decode encode fault field isa page plain pool rng sha256 sort text xml
experiment      experiment category decode event fail kind machine machines network node override overrides
                roll section speed straggler tree
data            data dataset feed split catalogue cifar file folder idx intake known listener mosaic source
                samples scan blobs images spirals
data/stream     stream window ahead extents
data/fetch      fetch child unpack
graph           graph build layer layers model names op plan shape columns
graph/passes    pass passes
graph/view      view traffic
optim           optim schedule adagrad adam adamw rmsprop sgd
engine          engine host lessons loops mirror op peak row rows
engine/ref      ref
engine/dnnl     dnnl onednn kernel order conv receive send winograd pace program buffer flat job phase layout norm
                add avgpool batchnorm concat dropout globalpool linear loss maxpool pointwise relu reshape shortcut
engine/cuda     cuda device driver kernels launches measure ops staging step store tray fused conv
team            action cut parts profile rivals schedule show team timeline way
collective      collective cost cube fold group log2 piece pieces span step tree
call            call service
topology        topology edge family lapack layout sketch spectrum survey threads weights
strategy        agent strategy backups centre pairs
strategy/ps     ps
world           world waits mixing number numbers
world/local     local actor agenda ask fiber fibers message rows script snapshot tape wires
world/far       far address ask bell courier exam fetch gone incoming lesson lessons packet look mail message offer pause
                sendings silence wait
world/mpi       mpi native near
record          run comparison events file folder json path report seal summary tensors waiting
                html svg axis cell figure magnitude scale spread thin tick
cli             cli progress streams watchman witness
api             veche experiment measure registry resumption session stop
api/bench       bench
api/compare     compare comparison method over schedule
SUBJECTS
}

# A line "PATH NAME" for each global name of the objects below FOLDER that were compiled from src/, and whose source is still there.
global_names() { # FOLDER
    find "$1" -path '*.dir/src/*.o' -print0 | xargs -0 "$nm" -A -g --defined-only | awk '
        $NF !~ /^(_.*|main)$/ { sub(/.*\.dir\/src\//, "", $1); sub(/\.o:.*/, "", $1); print $1, $NF }' | sort -u |
        while read -r path name; do
            if [[ -e src/$path || $path == */planted.c ]]; then echo "$path $name"; fi
        done
}

# Of such lines those whose name is of no subject of their folder.
strange() {
    awk 'NR == FNR {
             at = 1
             if ($0 ~ /^[a-z]/) { folder = $1; at = 2 }
             for (i = at; i <= NF; i++) is_of[folder, $i] = 1
             next
         }
         {
             n = index($2, "_")
             subject = n ? substr($2, 1, n - 1) : ""
             folder = $1
             found = 0
             while (!found && sub(/\/[^\/]*$/, "", folder)) found = (folder, subject) in is_of
             if (!found) print
         }' <(subjects) -
}

nm=$(sed -n 's/^CMAKE_NM:[A-Z]*=//p' "$build/CMakeCache.txt")
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")

plant() { # PATH CODE: an object as if of this file
    mkdir -p "$(dirname "$work/planted.dir/src/$1")"
    "$cc" -x c -c - -o "$work/planted.dir/src/$1.o" <<<"$2"
}
plant world/far/planted.c 'int progress(void) { return 0; } int bell_ring(void) { return 0; } static int tell(void) { return 0; } int courier_work(void) { return tell(); } int world_x = 3;'
plant base/planted.c 'int bell_ring(void) { return 0; } int rng; const int rng_x = 1;'
said=$(global_names "$work" | strange | tr '\n' ' ')
holds "planted names are seen, and only those: $said" test "$said" = 'base/planted.c bell_ring base/planted.c rng world/far/planted.c progress '

global_names "$build" >"$work/names"
holds 'there are names to look at' test "$(wc -l <"$work/names")" -gt 500
try strange <"$work/names"
holds "names without a subject:
$(strange <"$work/names")" test -z "$(strange <"$work/names")"

# A line "TAG HEADER HEADER ..." for each tag of a struct that several headers below these folders define.
shared_tags() { # FOLDER ...
    find "$@" -name '*.h' -o -name '*.cuh' | sort | xargs awk '
        { line = $0
          while (match(line, /struct [a-z0-9_]+ \{/)) {
              tag = substr(line, RSTART + 7, RLENGTH - 9)
              if (index(where[tag] " ", " " FILENAME " ") == 0) { where[tag] = where[tag] " " FILENAME; n[tag]++ }
              line = substr(line, RSTART + RLENGTH)
          } }
        END { for (tag in n) if (n[tag] > 1) print tag where[tag] }' | sort
}

mkdir -p "$work/tags/far" "$work/tags/local"
printf 'struct letter {\n};\nstruct bell;\n' >"$work/tags/far/inside.h"
printf '/* a struct bell { of a tower */\nstruct tower {\n    struct letter { int n; } * at;\n};\n' >"$work/tags/local/inside.h"
said=$(cd "$work" && shared_tags tags)
holds "a planted tag of two headers is seen, and only that: $said" test "$said" = 'letter tags/far/inside.h tags/local/inside.h'
# Of the engines, still to be renamed there: norm_sums, place.
found=$(cd "$(dirname "$0")/../.." && shared_tags src include | grep -Ev '^(norm_sums|place) ')
holds "one tag, one struct: $found" test -z "$found"
done_checking
