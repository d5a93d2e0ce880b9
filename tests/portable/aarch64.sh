#!/usr/bin/env bash
# aarch64.sh FOLDER - builds everything for aarch64 with Debian's cross compiler and runs the tests under qemu's user emulation. Debian's packages for that
# processor are unpacked into FOLDER/root, nothing of this machine is changed. Some ten minutes; `make test-portable` does it.
#
# Left out are the world mpi (a launcher would start processes of two kinds), tests of the command line by scripts, and all that takes minutes when it is emulated.
set -euo pipefail
folder=${1:?usage: aarch64.sh FOLDER}
here=$(cd "$(dirname "$0")/../.." && pwd)
skip() {
    printf '\nskipped:\n  aarch64: %s\n\n0 passed, 0 failed, 1 skipped\n' "$1"
    exit 0
}
command -v qemu-aarch64 >/dev/null || skip 'qemu-aarch64 is not installed (scripts/setup.sh portable)'
command -v aarch64-linux-gnu-gcc >/dev/null || skip 'aarch64-linux-gnu-gcc is not installed (scripts/setup.sh portable)'
command -v apt-get >/dev/null || skip 'this is not a Debian system'
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
root=$folder/root

if [[ ! -e $root/complete ]]; then
    rm -rf "$root" "$folder/apt"
    mkdir -p "$root" "$folder"/apt/{lists/partial,archives/partial}
    : >"$folder/apt/status"
    apt() {
        apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=root -o Debug::NoLocking=1 \
            -o Dir::State::lists="$folder/apt/lists" -o Dir::State::status="$folder/apt/status" -o Dir::Cache="$folder/apt" \
            -o Dir::Cache::archives="$folder/apt/archives" "$@" >"$folder/apt.log" 2>&1
    }
    apt update && apt install --no-install-recommends --download-only libc6-dev libyaml-dev libjansson-dev libpng-dev libarchive-dev libssl-dev \
        liblapacke-dev libcmocka-dev libgomp1 || skip "the packages for aarch64 cannot be fetched: $(tail -n 1 "$folder/apt.log")"
    for package in "$folder"/apt/archives/*.deb; do dpkg -x "$package" "$root"; done
    # Alternatives are links that packages make when they are configured.
    libraries=$root/usr/lib/aarch64-linux-gnu
    for part in blas lapack; do
        for file in "$libraries/$part"/lib*; do ln -sf "$part/$(basename "$file")" "$libraries/"; done
        ln -sf $part-netlib.pc "$libraries/pkgconfig/$part.pc"
    done
    touch "$root/complete"
fi

cat >"$folder/aarch64.cmake" <<C
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_SYSROOT $root)
set(CMAKE_FIND_ROOT_PATH $root)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-L;$root")
C
export PKG_CONFIG_LIBDIR=$root/usr/lib/aarch64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
cmake -G Ninja -S "$here" -B "$folder/build" -DCMAKE_TOOLCHAIN_FILE="$folder/aarch64.cmake" -DVECHE_CUDA=OFF -DVECHE_MPI=OFF ${CMAKE_MORE-} \
    >"$folder/cmake.log" 2>&1 || { cat "$folder/cmake.log"; exit 1; }
cmake --build "$folder/build" -j "${JOBS:-$(nproc)}" >"$folder/build.log" 2>&1 || { tail -n 40 "$folder/build.log"; exit 1; }
cd "$here"
exec tests/summary.py ctest --test-dir "$folder/build" --output-on-failure -j "${JOBS:-$(nproc)}" \
    -R "${TESTS:-^(base|experiment|data|graph|optim|engine|topology|collective|strategy|world|record|api)\.}" \
    -E '\.(rooms|cli|command|adding|bench|library|report_runs|child|sums|golden|ready|disk)$'
