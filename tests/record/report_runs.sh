#!/usr/bin/env bash
# report_runs.sh BUILD - `veche report` over made-up runs: what it prints and writes, and what it says about bad folders.
set -euo pipefail

veche=$(realpath "${1:?usage: report_runs.sh BUILD}")/veche
tests=$(realpath tests/record)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
python3 "$tests/make_runs.py" runs
failed=0

fail() {
    echo "$*" >&2
    failed=1
}

# check RUN...: all formats, by every axis, judged by check_report.py
check() {
    local joined by
    joined=$(IFS=:; echo "$*")
    for by in epochs seconds bytes; do
        "$veche" report "$@" --html page.html --svg figures --by $by >table.txt 2>told.txt || fail "$*: $(cat told.txt)"
        "$veche" report "$@" --json >whole.json || fail "$*: --json"
        python3 "$tests/check_report.py" "$joined" page.html figures table.txt whole.json || fail "$* by $by is not right"
        [ "$(find . -maxdepth 2 -name '*.part-*' | wc -l)" -eq 0 ] || fail "a part is left"
    done
    if grep -q ' $' table.txt; then fail "$*: blanks at the end of a line"; fi
}

# says WORDS RUN...: exit 1 with one sentence on stderr that has these words
says() {
    local words=$1 code=0
    shift
    "$veche" report "$@" --html refused.html >out.txt 2>err.txt || code=$?
    [ $code -eq 1 ] || fail "$*: exit $code"
    [ "$(wc -l <err.txt)" -eq 1 ] || fail "$*: not one sentence: $(cat err.txt)"
    grep -qF -- "$words" err.txt || fail "$*: '$words' is not in: $(cat err.txt)"
    [ ! -s out.txt ] && [ ! -e refused.html ] || fail "$*: something was written"
}

check runs/single
check runs/cycle4
check runs/forty
check runs/going
check runs/single runs/cycle4 runs/every5 runs/forty runs/going
check runs/single runs/broken
check "runs/odd & <b>\"name'"

# The page's place: in the run, or here for several; told on stderr.
"$veche" report runs/cycle4 2>&1 >/dev/null | grep -qx 'report: runs/cycle4/report.html' || fail 'one run: no path told'
[ -s runs/cycle4/report.html ] || fail 'one run: no page'
"$veche" report runs/cycle4/ runs/single >/dev/null 2>&1 && [ -s report.html ] || fail 'several runs: no page'
rm report.html runs/cycle4/report.html
"$veche" report runs/cycle4 --json >/dev/null && [ ! -e runs/cycle4/report.html ] || fail '--json wrote a page'

# The same report twice has the same bytes.
"$veche" report runs/forty --html one.html >/dev/null 2>&1
"$veche" report runs/forty --html two.html >/dev/null 2>&1
cmp -s one.html two.html || fail 'two reports differ'
[ "$(grep -o '<tr><td>[0-9]*</td><td>' one.html | wc -l)" -ge 39 ] || fail 'forty agents are not all there'
grep -q '24 (gone)\|class="gone"' one.html || fail 'the agent that is gone is not marked'
grep -q 'agent 33 came back' one.html || fail 'a note is not on the page'
grep -q unfinished <("$veche" report runs/going --html x.html 2>/dev/null) || fail 'an unfinished run is not marked'

# Two folders called alike are told apart.
mkdir other && cp -r runs/cycle4 other/
"$veche" report runs/cycle4 other/cycle4 --html x.html 2>/dev/null | grep -q '^other/cycle4 ' || fail 'alike names'

# Bad input.
mkdir empty no-events zero
cp runs/cycle4/experiment.yaml no-events/
cp runs/cycle4/experiment.yaml zero/ && : >zero/events.jsonl
says 'empty: is not a run' empty
says 'nowhere: is not a run' runs/single nowhere
says 'no-events: is an empty run' no-events
says 'zero: is an empty run' zero
damage() { # NAME: a copy of a run to be damaged
    rm -rf "$1" && cp -r runs/cycle4 "$1"
}
seal() { # FILE: new digests, so that what else is wrong with it comes to light
    python3 "$tests/make_runs.py" --seal "$1"
}
damage line && sed -i '3s/.*/{"event":"evaluation",/' line/events.jsonl
says 'line/events.jsonl:3: is damaged: it does not end in a digest' line
seal line/events.jsonl
says 'line/events.jsonl:3: is no event' line
damage blank && sed -i '2s/.*//' blank/events.jsonl
says 'blank/events.jsonl:2: is damaged' blank
damage array && sed -i '4s/.*/[1]/' array/events.jsonl
says 'array/events.jsonl:4: is damaged' array
damage word && sed -i '5s/"epoch": [0-9.]*/"epoch": "five"/' word/events.jsonl
seal word/events.jsonl
says 'word/events.jsonl:5: epoch is not a number' word
damage minus && sed -i '5s/"messages": [0-9.]*/"messages": -5/' minus/events.jsonl
seal minus/events.jsonl
says 'minus/events.jsonl:5: messages is not a count' minus
damage agents && sed -i '6s/"agents": .*\], /"agents": [{}], /' agents/events.jsonl
seal agents/events.jsonl
says 'agents/events.jsonl:6:' agents
damage none && sed -i '6s/"agents": .*\], /"agents": [], /' none/events.jsonl
seal none/events.jsonl
says 'none/events.jsonl:6: an evaluation without agents' none
damage digit && sed -i '0,/"rounds": /s/"rounds": ./"rounds": 9/' digit/summary.json
says 'digit/summary.json: is damaged: its digest is not that of its bytes' digit
damage summary && echo '{"name"' >summary/summary.json
seal summary/summary.json
says 'summary/summary.json: is no summary' summary
damage spread && printf '{"accuracy": 5\n}' >spread/summary.json
seal spread/summary.json
says 'spread/summary.json:' spread
damage yaml && printf 'name: [1\n' >yaml/experiment.yaml
says 'yaml/experiment.yaml: is damaged' yaml
seal yaml/experiment.yaml
says 'this is not YAML' yaml

# A kind of event that is not known yet does no harm.
damage later && sed -i '2i {"event":"eclipse","step":1}' later/events.jsonl
seal later/events.jsonl
check later

# Wrong usage is exit 2; a page that cannot be written is a fault.
code=0; "$veche" report >/dev/null 2>&1 || code=$?; [ $code -eq 2 ] || fail "no runs: exit $code"
code=0; "$veche" report runs/single --by moons >/dev/null 2>&1 || code=$?; [ $code -eq 2 ] || fail "--by moons: exit $code"
code=0; "$veche" report runs/single --html nowhere/x.html >/dev/null 2>err.txt || code=$?
[ $code -eq 1 ] && grep -q 'nowhere/x.html: cannot be written' err.txt || fail "an unwritable page: exit $code"

exit $failed
