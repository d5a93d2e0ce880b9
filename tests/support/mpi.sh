#!/usr/bin/env bash
# mpi.sh BUILD KIND RANKS PROGRAM [ARGUMENT...] - becomes the launcher of the MPI called KIND, with so many ranks on this machine.
#
# PROGRAM `veche` is the one that was built with that MPI. Ranks may outnumber cores, so nothing is bound to a core and whoever
# waits gives its turn away.
set -euo pipefail

build=${1:?usage: mpi.sh BUILD KIND RANKS PROGRAM [ARGUMENT...]} kind=$2 ranks=$3 program=$4
shift 4
read -r launcher veche < <(awk -v kind="$kind" '$1 == kind { print $2, $3 }' "$build/mpi.list")
[[ $program != veche ]] || program=$veche

source "$(dirname "$0")/mpi_env.sh"
exec "$launcher" -n "$ranks" "$program" "$@"
