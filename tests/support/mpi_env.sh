# mpi_env.sh - what both MPIs need to run many ranks on a small machine, as root if need be; to be sourced.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none                    # Open MPI 4
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none # and 5
# The MPI libraries keep some memory to the end and unload the parts that asked for it, so leaks cannot be told apart.
export ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=0}
