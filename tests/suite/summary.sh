#!/usr/bin/env bash
# The summary of the suite: whatever becomes of a test, it is counted as what it is, named, and the exit code is right.
source "$(dirname "$0")/../support/check.sh" "$1"
summary=$(cd "$(dirname "$0")/.." && pwd)/summary.py
outcomes=$build/tests/suite.outcomes
cd "$work"

suite() { # NAME PATTERN...: a suite for ctest, of a program for each pair
    : >CTestTestfile.cmake
    while [[ $# -gt 0 ]]; do
        echo "add_test($1 \"$outcomes\" \"$2\")" >>CTestTestfile.cmake
        echo "set_tests_properties($1 PROPERTIES TIMEOUT ${limit:-1} SKIP_RETURN_CODE 77)" >>CTestTestfile.cmake
        shift 2
    done
}

also() { # NAME SCRIPT: one more program in the suite
    printf '%s\n' "$2" >"$1.sh"
    echo "add_test($1 bash $1.sh)" >>CTestTestfile.cmake
    echo "set_tests_properties($1 PROPERTIES SKIP_RETURN_CODE 77)" >>CTestTestfile.cmake
}

counts() { # WHAT CODE LINE COMMAND...: the exit code, and the last line on stdout
    local what=$1 wanted=$2 line=$3
    shift 3
    try "$summary" "$@"
    [[ $code -eq $wanted && $(tail -n 1 <<<"$out") == "$line" ]] && report yes "$what" || report no "$what (wanted: $line, exit code $wanted)"
}
says() { holds "$1" grep -qxF -- "$2" <<<"$out"; }

suite fine 'good*' odd skipped
also moonless 'echo "SKIPPED: no moon"; exit 77'
also checks 'echo "SKIPPED: the tide: no moon"; echo "3 passed, 0 failed, 1 skipped"'
also silent true
counts 'nothing failed' 0 '6 passed, 0 failed, 4 skipped' ctest
says 'a skipped test is named, with its reason' '  odd: skipped: there is no moon here'
says 'a part that was left out is named once' '  fine: good_in_part: the other half: half is enough'
says 'a program that was skipped as a whole is named' '  moonless: no moon'
says 'a check that a script left out is named' '  checks: the tide: no moon'

suite wrong '*d' # good, bad, skipped
counts 'a test that fails' 8 '1 passed, 1 failed, 1 skipped' ctest --output-on-failure
says 'it is named' '  wrong: bad'
holds 'what it said is shown' grep -q '1 != 0x2' <<<"$out"

suite mute skipped_in_silence
counts 'a skip without a reason is a failure' 1 '0 passed, 1 failed, 0 skipped' ctest
says 'and said' '  mute: skipped_in_silence: skipped without a reason'
also quiet 'exit 77'
counts 'that of a whole program, too' 1 '0 passed, 2 failed, 0 skipped' ctest

suite dead crashing late sleeping
also gone 'kill -KILL $$'
echo 'add_test(lost no-such-program)' >>CTestTestfile.cmake
counts 'crashes, timeouts and what cannot be run' 8 '0 passed, 4 failed, 0 skipped' ctest -j 4
holds 'a timeout is called so' grep -q '^  late: Timeout' <<<"$out"

printf '%s\n' 'echo "FAILED: the second"; echo "1 passed, 1 failed, 0 skipped"; exit 1' >script
counts 'a script alone' 1 '1 passed, 1 failed, 0 skipped' bash script
says 'its check is named' '  bash script: the second'
printf '%s\n' 'echo "SKIPPED: no Slurm"; exit 77' >script
counts 'a script that is skipped' 0 '0 passed, 0 failed, 1 skipped' bash script
says 'with its reason' '  bash script: no Slurm'

limit=60 suite late sleeping
(exec setsid "$summary" ctest >out 2>err) &
pid=$!
for _ in $(seq 100); do grep -q 'Start 1' out && break || sleep 0.02; done
kill -INT -- -$pid
wait_for_end $pid
out=$(cat out) err=$(cat err)
holds 'Ctrl+C ends the suite, with no count' test $code -eq 130 -a -z "$(grep passed out)"

done_checking
