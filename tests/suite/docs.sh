#!/usr/bin/env bash
# README.md and docs: links lead somewhere, the drawing of the rooms is that of the source, lines have a length one can read.
source "$(dirname "$0")/../support/check.sh" "$1"
cd "$(dirname "$0")/../.." || exit

# Prints what is wrong with the links and the lines of the pages under the folder $1.
wrong() {
    python3 - "$1" <<'P'
import pathlib, re, sys
root = pathlib.Path(sys.argv[1])
fences = re.compile(r"^```.*?^```", re.M | re.S)

def anchors(page):
    """As GitHub makes them of headings."""
    heads = re.findall(r"^#+ (.*)", fences.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}

for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)]*)\)", fences.sub("", text)):
        if re.match(r"https?:", target):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        if not file.exists():
            print(f"{page}: {target} is not there")
        elif anchor and anchor not in anchors(file):
            print(f"{page}: {target} has no such heading")
    if page.name == "README.md":
        print(*(f"{page}:{i}: longer than 120 columns" for i, line in enumerate(text.splitlines(), 1) if len(line) > 120), sep="\n")
P
}

mkdir -p "$work/pages/docs"
printf '# A page\n[a](docs/b.md) [b](docs/c.md#no-heading) [c](#a-page)\n%0130d\n' 0 >"$work/pages/README.md"
echo '# A heading' >"$work/pages/docs/c.md"
holds 'the check sees three things planted, and only those' test "$(wrong "$work/pages" | grep -c .)" -eq 3
try wrong .
holds 'links of README.md and docs lead somewhere, and lines of README.md are short' test -z "${out//$'\n'/}"
[[ -n ${out//$'\n'/} ]] && echo "$out"

# Prints the files and functions that a page names, one after the other, and the source does not have.
unknown() {
    python3 - "$1" <<'P'
import pathlib, re, sys
text = pathlib.Path(sys.argv[1]).read_text()
for name, word in re.findall(r"`(src/[\w/]+\.[ch])`(?: `([\w ]+)`)?", text):
    file = pathlib.Path(name)
    if not file.exists():
        print(f"{name} is not there")
    elif word and not re.search(rf"\b{word}\b", file.read_text()):
        print(f"{name} has no {word}")
P
}
printf '`src/api/veche.c` `veche_start`, `src/api/veche.c` `veche_fly`, `src/api/wings.c`' >"$work/flight.md"
holds 'the check sees two names planted, and only those' test "$(unknown "$work/flight.md" | grep -c .)" -eq 2
holds 'docs/walk.md names files and functions that are there' test -z "$(unknown docs/walk.md)"
unknown docs/walk.md

succeeds 'the rooms can be drawn' tools/draw_rooms.py README.md src
echo "$out" >"$work/rooms.svg"
holds 'docs/rooms.svg is that drawing; scripts/readme_pictures.sh makes it again' cmp "$work/rooms.svg" docs/rooms.svg
mkdir "$work/src" && cp -r src/* "$work/src" && printf '#include "api/session.h"\n' >>"$work/src/cli/main.c"
succeeds 'the rooms of a source that includes no more are drawn' tools/draw_rooms.py README.md "$work/src"
holds 'as before' test "$out" = "$(cat docs/rooms.svg)"
sed -i 's|"topology/|"link/|' "$work"/src/strategy/*.[ch]
succeeds 'and those of another one' tools/draw_rooms.py README.md "$work/src"
holds 'otherwise' test "$out" != "$(cat docs/rooms.svg)"

holds 'README.md shows the experiment that make run trains' python3 - <<'P'
import re
example = re.search(r"^```yaml\n(.*?)^```", open("README.md").read(), re.M | re.S)[1]
assert open("experiments/11-fashion-cycle.yaml").read().endswith(example)
P
for name in $(cd docs && ls -- *.md); do
    holds "README.md leads to docs/$name" grep -qF "(docs/$name)" README.md
done

done_checking
