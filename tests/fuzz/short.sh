#!/usr/bin/env bash
# Feeds every reader nonsense under libFuzzer, ASan and UBSan: short.sh BUILD [SECONDS for each reader].
# The library is built with clang for it, with every warning an error; hot files once, and little optimised, since building is most of it.
set -euo pipefail
build=$1-fuzz seconds=${2:-5}
if ! command -v clang >/dev/null; then
    echo "SKIPPED: clang is not installed"
    exit 77
fi
CC=clang cmake -G Ninja -S . -B "$build" -DVECHE_FUZZ=ON -DVECHE_CUDA=OFF -DVECHE_TESTS=ON -DVECHE_NATIVE=ON \
    -DCMAKE_BUILD_TYPE=Debug -DVECHE_SANITIZE=address,undefined -DCMAKE_C_FLAGS='-Werror -O1' >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
rm -f "$build.log"
targets=$(cd tests/fuzz && ls fuzz_*.c | sed 's/\.c$//')
cmake --build "$build" --target veche $targets >"$build/build.log" 2>&1 || { tail -40 "$build/build.log"; exit 1; }
passed=0
for target in $targets; do
    corpus=tests/fuzz/corpus/${target#fuzz_}
    mkdir -p "$build/corpus/$target"
    seeds=()
    [[ -d $corpus ]] && seeds=("$corpus")
    if ! "$build/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$build/$target-" "$build/corpus/$target" "${seeds[@]}" >"$build/$target.log" 2>&1; then
        tail -40 "$build/$target.log"
        echo "FAILED: $target; the input is kept in $build"
        exit 1
    fi
    echo "$target: $(grep -o 'stat::number_of_executed_units: *[0-9]*' "$build/$target.log" | grep -o '[0-9]*$') inputs"
    passed=$((passed + 1))
done
echo "$passed passed, 0 failed, 0 skipped"
