#!/usr/bin/env bash
# README.md and docs: links lead somewhere, files and functions that they name exist, the drawing of the rooms is that of the source,
# lines have a length one can read. And each script that the Makefile runs is one that can be run.
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
    else: # tables and blocks as wide as they must be
        prose = fences.sub(lambda block: "\n" * block[0].count("\n"), text).splitlines()
        print(*(f"{page}:{i}: longer than 140 columns" for i, line in enumerate(prose, 1) if len(line) > 140 and line[0] != "|"), sep="\n")
P
}

mkdir -p "$work/pages/docs"
printf '# A page\n[a](docs/b.md) [b](docs/c.md#no-heading) [c](#a-page)\n%0130d\n' 0 >"$work/pages/README.md"
printf '# A heading\n| %0150d |\n```\n%0150d\n```\n%0150d\n' 0 0 0 >"$work/pages/docs/c.md"
holds 'the check sees four things planted, and only those' test "$(wrong "$work/pages" | grep -c .)" -eq 4
try wrong .
holds 'links of README.md and docs lead somewhere, and their lines are short' test -z "${out//$'\n'/}"
[[ -n ${out//$'\n'/} ]] && echo "$out"

# Prints what the pages name, one after the other, and the source does not have: files; functions of a file (`FILE` `FUNCTION`); names
# with an underscore (functions, settings), wherever they may be.
unknown() {
    python3 - "$@" <<'P'
import pathlib, re, sys
folders = "src include tests tools scripts bench examples experiments models".split()
files = [file for folder in folders for file in pathlib.Path(folder).rglob("*") if file.is_file()]
files += [*pathlib.Path("docs").iterdir(), pathlib.Path("CMakeLists.txt"), pathlib.Path("Makefile")]
words = {word for file in files if file.suffix not in (".md", ".svg") and file.name != "docs.sh"
         for word in re.findall(r"\w+", file.read_text(errors="replace"))}
examples = re.compile(r"^```c\n.*?^```", re.M | re.S)
foreign = {"odls_base_sigkill_timeout", "process_vm_readv", "target_clones"}
a_file = r"[\w*./-]+\.(?:cuh?|cpp|[ch]|sh|py)\b"
in_a_folder = rf"(?<![\w./-])(?:{'|'.join(folders)}|docs)/[\w*./-]*\w"

def is_there(name):
    path = pathlib.Path(name)
    return path.is_dir() or [*pathlib.Path().glob(name + ".*")] or any(file.match(name.lstrip("./")) for file in files)

for page in sys.argv[1:]:
    text = examples.sub("", pathlib.Path(page).read_text())
    for name in sorted(set(re.findall(a_file, text)) | set(re.findall(in_a_folder, text)) - {"tests/ROOM"}):
        if not is_there(name):
            print(f"{page}: {name} is not there")
    for name, word in re.findall(r"`(src/[\w/]+\.[ch])`\s+`(?:struct )?(\w+)`", text):
        file = pathlib.Path(name)
        if word in words and file.exists() and not re.search(rf"\b{word}\b", file.read_text()):
            print(f"{page}: {name} has no {word}")
    for code in re.findall(r"`([^`\n]+)`", re.sub(a_file, "FILE", text)):
        for word in re.findall(r"(?<![A-Za-z_])(?!x_)[A-Za-z]\w*_\w+", code.replace("-D", " ")):
            if word not in words | foreign:
                print(f"{page}: {word} is nowhere")
P
}
printf '`src/api/veche.c` `veche_start`, `src/api/veche.c` `veche_fly`, `src/api/veche.c` `turn`, `src/api/wings.c`, `far/wing.c`, `far/mail.c`, tools/wing\n' >"$work/flight.md"
printf '```c\n#include "wing.h"\n```\n`bucket_kb`, `wing_span(a, b)`, `tests/gpu`\n' >>"$work/flight.md"
holds 'the check sees six names planted, and only those' test "$(unknown "$work/flight.md" | grep -c .)" -eq 6
try unknown README.md docs/*.md
holds 'README.md and docs name files and functions that are there' test -z "$out"
[[ -n $out ]] && echo "$out"

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
no_programs() { # MAKEFILE: the scripts it names that are not executable
    grep -oE '[a-z]+/[a-z0-9_/]+\.(sh|py)' "$1" | sort -u | while read -r script; do
        [[ -x $script ]] || echo "$script"
    done
}
printf 'a:\n\t@tests/support/check.sh\n\t@scripts/setup.sh test && tests/no_such.py\n' >"$work/makefile"
holds 'the check sees a library and a file that is not there' test "$(no_programs "$work/makefile" | grep -c .)" -eq 2
try no_programs Makefile
holds 'the scripts of the Makefile can be run' test -z "$out"

for name in $(cd docs && ls -- *.md); do
    holds "README.md leads to docs/$name" grep -qF "(docs/$name)" README.md
done

done_checking
