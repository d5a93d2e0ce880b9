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

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
# The MPI libraries keep some memory to the end and unload the parts that asked for it, so leaks cannot be told apart.
export ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=0}
exec "$launcher" -n "$ranks" "$program" "$@"
