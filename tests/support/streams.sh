# streams.sh - for tests of data.stream; to be sourced after check.sh.
#
#   records N FILE        so many pictures in CIFAR's binary layout, no two alike
#   both WHAT COMMAND...  a run comes to the same bits in memory and streamed, also by a window that turns over all the time
#   $pictures             the set of `records` and `test-records`
pictures="{ kind: cifar-binary, train: $work/records, test: $work/test-records, classes: 64 }"

records() {
    seq 100000 999999 | tail -n "+$1" | head -c $((3073 * $1)) >"$2"
}

sha() { json params_sha256 <<<"$out"; }

both() {
    local what=$1 held window
    shift
    succeeds "$what: in memory" "$@"
    held=$(sha)
    for window in 0.22 0.6 20; do
        succeeds "$what: streamed by $window MB" "$@" data.stream=true data.window_mb=$window
        holds "$what: the same bits by $window MB" test -n "$held" -a "$(sha)" = "$held"
        rm -rf runs
    done
}
