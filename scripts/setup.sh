#!/usr/bin/env bash
# Installs the Debian packages that are missing, and only those.
#
#   scripts/setup.sh build        what compiling needs
#   scripts/setup.sh test         that, and what the test suite needs
#   scripts/setup.sh cluster      that, and a Slurm to try clusters with on one machine
#   scripts/setup.sh portable     what tests need, and a compiler for aarch64
#   scripts/setup.sh bench        what tests need, and PyTorch at its best, to compare with
set -euo pipefail

build=(cmake ninja-build gcc libc6-dev pkg-config libdnnl-dev ocl-icd-opencl-dev libyaml-dev libjansson-dev libpng-dev libarchive-dev libssl-dev liblapacke-dev libopenmpi-dev openmpi-bin)
test=("${build[@]}" libcmocka-dev g++ clang libclang-rt-dev python3 libmpich-dev mpich qemu-user)
cluster=("${test[@]}" slurm-wlm munge)
portable=("${test[@]}" gcc-aarch64-linux-gnu)
bench=("${test[@]}" python3-torch libopenblas0-openmp)

case "${1:-build}" in
build) wanted=("${build[@]}") ;;
test) wanted=("${test[@]}") ;;
cluster) wanted=("${cluster[@]}") ;;
portable) wanted=("${portable[@]}") ;;
bench) wanted=("${bench[@]}") ;;
*)
    echo "usage: scripts/setup.sh build | test | cluster | portable | bench" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null; then
    echo "This is not a Debian system, so nothing was installed. The build needs: ${wanted[*]}" >&2
    exit 0
fi

missing=()
for package in "${wanted[@]}"; do
    status=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
    [[ $status == ii* ]] || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

if [[ $(id -u) -eq 0 ]]; then
    as_root=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo)
else
    echo "Some packages are missing and this user may not install them. Ask for: apt-get install ${missing[*]}" >&2
    exit 1
fi

echo "installing: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { "${as_root[@]}" apt-get update -q && "${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "The packages could not be installed (see above); wanted: ${missing[*]}" >&2
    exit 1
fi
