# check.sh - small words for tests of the program: source it with the build folder as $1.
#
#   succeeds WHAT COMMAND...            exit code 0
#   faults WHAT PATTERN COMMAND...      exit code 1 and one line "veche: ...", the last on stderr, which matches PATTERN
#   misused WHAT COMMAND...             exit code 2
#   holds WHAT TEST...                  any command that must succeed, silently
#   wait_for_checkpoint FOLDER          until the run `exp` in it has written two checkpoints, or 60 seconds
#   wait_for_end PID                    60 seconds at most; leaves the exit code in $code
#   why_no_gpu                          in a sentence; nothing where there is one that $veche can use
#   has_sanitizers                      whether the build is one with a sanitizer, under which programs are many times slower
#   skip_because WHY                    ends the script as skipped, unless WHY is empty
#   skip_part WHAT WHY                  a check that cannot be made here: counted as skipped, the script goes on
#   done_checking                       prints the count, which tests/summary.py reads; the exit code of the script
#
# Each leaves the command's output in $out and its stderr in $err.
build=$(cd "$1" && pwd)
veche=$build/veche
work=$(mktemp -d)
trap 'chmod -R u+w "$work" 2>/dev/null; rm -rf "$work"' EXIT
export VECHE_DATA=${VECHE_DATA-}
passed=0 failed=0 skipped=0

report() { # report OK WHAT
    if [[ $1 == yes ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED: %s\n  exit code %s\n  stdout: %s\n  stderr: %s\n' "$2" "${code:-}" "$(head -c 600 <<<"$out")" "$(head -c 600 <<<"$err")"
    fi
}

has_sanitizers() { grep -q '^VECHE_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt" 2>/dev/null; }

# As in tests.cmake a program gets more time under a sanitizer: a minute of oneDNN there is many on a busy machine.
most_s=120
if has_sanitizers; then most_s=1200; fi

bounded() { # a program gets $most_s seconds; a function of the script must see to itself
    if [[ $(type -t "$1") == function ]]; then "$@"; else timeout $most_s "$@"; fi
}

try() {
    out=$("$@" 2>"$work/stderr" </dev/null)
    code=$?
    err=$(cat "$work/stderr")
}

succeeds() {
    local what=$1
    shift
    try bounded "$@"
    [[ $code -eq 0 ]] && report yes "$what" || report no "$what"
}

faults() {
    local what=$1 pattern=$2
    shift 2
    try bounded "$@"
    if [[ $code -eq 1 && $(grep -c '^veche: ' <<<"$err") -eq 1 && $(tail -n 1 <<<"$err") =~ $pattern ]]; then
        report yes "$what"
    else
        report no "$what (wanted: $pattern)"
    fi
}

misused() {
    local what=$1
    shift
    try bounded "$@"
    [[ $code -eq 2 ]] && report yes "$what" || report no "$what"
}

holds() {
    local what=$1
    shift
    "$@" >/dev/null 2>&1 && report yes "$what" || report no "$what"
}

json() { # json FIELD < OBJECT
    python3 -c 'import json,sys
v = json.load(sys.stdin)
for k in sys.argv[1].split("."): v = v[k]
print(v)' "$1"
}

wait_for_checkpoint() { # wait_for_checkpoint FOLDER: until the run exp in it has written two, or 60 seconds
    for _ in $(seq 6000); do
        [[ $(ls "$1"/exp/checkpoint-*.safetensors 2>/dev/null | wc -l) -ge 2 ]] && return 0
        sleep 0.01
    done
    return 1
}

wait_for_end() {
    timeout 60 tail -s 0.1 --pid="$1" -f /dev/null || kill -KILL "$1"
    wait "$1"
    code=$?
}

skip_because() {
    [[ -n $1 ]] || return 0
    echo "SKIPPED: $1"
    exit 77
}

skip_part() {
    skipped=$((skipped + 1))
    echo "SKIPPED: $1: $2"
}

why_no_gpu() {
    "$veche" list engines | grep -A 1 '^  cuda' | sed -n 's/^ *\(.*cannot be used\|not in this build\)/\1/p'
}

done_checking() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [[ $failed -eq 0 ]]
}
