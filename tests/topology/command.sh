#!/usr/bin/env bash
# `veche topology` shows, prints JSON, draws, and refuses with one sentence; a drawing is there whole or not at all.
source "$(dirname "$0")/../support/check.sh" "$1"
cd "$work"

succeeds 'a graph is shown' "$veche" topology torus:6x6
holds 'the text has the chosen weights' grep -q '^> fastest  *0.777778' <<<"$out"
succeeds 'other weights are shown' "$veche" topology torus:6x6 --weights metropolis
holds 'the text has the asked weights' grep -q '^> metropolis  *0.800000' <<<"$out"

succeeds 'JSON is printed' "$veche" topology star:16 --json
holds 'vertices' test "$(json vertices <<<"$out")" = 16
holds 'edges' test "$(json edges <<<"$out")" = 15
holds 'diameter' test "$(json diameter <<<"$out")" = 2
holds 'gamma' python3 -c 'import json, sys; assert abs(json.loads(sys.argv[1])["gamma"]["best_constant"] - 15 / 17) < 1e-12' "$out"
holds 'keys' python3 -c 'import json, sys
o = json.loads(sys.argv[1])
assert set(o) == {"spec", "vertices", "edges", "diameter", "connectivity", "gamma", "weights"}
assert set(o["gamma"]) == {"uniform", "metropolis", "best_constant", "fastest"}' "$out"

for spec in cycle:1 cycle:4 torus:6x6 expander:25 chords:50:2 complete:36 star:16 random:12:0.3 tree:15:2 hypercube:4; do
    succeeds "$spec is drawn" "$veche" topology "$spec" --svg drawing.svg
    holds "the drawing of $spec is XML" python3 -c 'import xml.dom.minidom as m; m.parse("drawing.svg")'
done
printf '0 1\n1 2\n' >'a&b.txt'
succeeds 'a file is drawn' "$veche" topology 'file:a&b.txt' --svg drawing.svg --json
holds 'its drawing is XML' python3 -c 'import xml.dom.minidom as m; m.parse("drawing.svg")'
holds 'nothing else is left' test "$(ls)" = "$(printf 'a&b.txt\ndrawing.svg\nstderr')"

succeeds 'a seed' "$veche" topology random:20:0.3 --seed 1 --json
one=$out
succeeds 'no seed is seed 1' "$veche" topology random:20:0.3 --json
holds 'the same graph' test "$one" = "$out"
succeeds 'another seed' "$veche" topology random:20:0.3 --seed 2 --json
holds 'another graph' test "$one" != "$out"

faults 'an unknown graph' "^veche: topology: there is no graph 'tours:6x6'; did you mean 'torus'\?" "$veche" topology tours:6x6
faults 'unknown weights' "^veche: there are no weights 'fatsest'; did you mean 'fastest'\?" "$veche" topology cycle:4 --weights fatsest
faults 'too large for fastest' '^veche: cycle:301 has 301 vertices.*take metropolis' "$veche" topology cycle:301 --weights fastest
succeeds 'large graphs get metropolis' "$veche" topology cycle:301
holds 'and say so' grep -q '^> metropolis' <<<"$out"
printf '0 1\n3 2\n' >parts.txt
faults 'a graph in parts' '^veche: topology: parts.txt:2: the graph is not connected: there is no way from vertex 0 to vertex 2' \
    "$veche" topology file:parts.txt
faults 'no folder for the drawing' '^veche: nowhere/d.svg: cannot be written: No such file' "$veche" topology cycle:4 --svg nowhere/d.svg
faults 'a folder in place of the drawing' '^veche: \.: cannot be written: Is a directory' "$veche" topology cycle:4 --svg .
faults 'a device in place of the drawing' '^veche: /dev/full: cannot be written' "$veche" topology cycle:4 --svg /dev/full
holds 'the device is still one' test -c /dev/full
misused 'no graph' "$veche" topology
misused 'two graphs' "$veche" topology cycle:4 cycle:5
misused 'a seed that is no number' "$veche" topology cycle:4 --seed x
# LAPACK comes with whatever BLAS the system has: it is not needed to start, and without room for it there is a sentence.
holds 'no BLAS is needed to start' bash -c '! ldd "$0" | grep -Eiq "blas|lapack"' "$veche"
limited() { (ulimit -v 180000 && exec timeout 60 "$veche" "$@"); }
if limited --version >/dev/null 2>&1; then # sanitizers reserve more than that
    faults 'eigenvalues without room for LAPACK' 'need LAPACK, which may take [0-9]* MiB .* the limit .ulimit -v. leaves [0-9]*$' \
        limited topology torus:6x6
    succeeds 'what needs none goes on' limited list topologies
fi
done_checking
