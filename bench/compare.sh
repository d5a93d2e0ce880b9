#!/usr/bin/env bash
# Speed against PyTorch on this machine: bench/compare.sh PATH/TO/veche [--rounds N] [--seconds S] [--quick]
#
# Installs python3-torch and its best BLAS where they are missing and this user may; VECHE_BLAS names a folder with
# another libblas.so.3 for the tuned PyTorch.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${VECHE_PYTHON:-/usr/bin/python3}

has_blas() {
    [[ -n ${VECHE_BLAS:-} ]] || compgen -G '/usr/lib/*/openblas-openmp/libblas.so.3' >/dev/null
}
if ! has_blas || ! "$python" -c 'import torch' 2>/dev/null; then
    "$here/../scripts/setup.sh" bench
fi
exec "$python" "$here/compare.py" "$@"
