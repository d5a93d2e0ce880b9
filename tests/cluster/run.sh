#!/usr/bin/env bash
# run.sh BUILD - the batch file of docs/cluster.md on a Slurm with three pretended nodes, with each MPI that was built.
#
# Whatever happens to a job, it must come to the same bits as one that was left alone. Exit code 77: there is no Slurm to try.
build=$(cd "${1:?usage: run.sh BUILD}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
skip() {
    echo "SKIPPED: $1"
    exit 77
}
for program in munged slurmctld slurmd sbatch; do
    command -v $program >/dev/null || skip "$program is missing (scripts/setup.sh cluster installs it)"
done
[[ $(id -u) -eq 0 ]] || skip 'starting a Slurm needs root'
[[ -s $build/mpi.list ]] || skip "no MPI was found when $build was configured"

source "$here/../support/check.sh" "$build"
slurm=$("$here/slurm.sh" start) || exit 1
trap '"$here/slurm.sh" stop "$slurm"; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
export SLURM_CONF=$slurm/slurm.conf
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
cd "$work"

long=train.epochs=180 # some seconds at least, so that a job still trains when it is interrupted

submit() { # [OVERRIDE...]: the job's number in $job, its output in $said
    job=$(sbatch --parsable --output="$work/%j.out" "$here/../../docs/veche.sbatch" "$here/small.yaml" $long "$@")
    said=$work/$job.out
}

state() { scontrol show job "$job" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'; }

until_true() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [[ $SECONDS -lt $end ]] || return 1
        sleep 0.1
    done
}

is_over() { [[ $(state) =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|DEADLINE|OUT_OF_MEMORY)$ ]]; }
is_in_life() { grep -q "^life $1 of" "$said" 2>/dev/null; }
has_checkpoints() { [[ $(ls runs/job-"$job"/*/checkpoint-*.safetensors 2>/dev/null | wc -l) -ge 2 ]]; }

sha() { json params_sha256 2>/dev/null <"$(ls runs/job-"$job"/*/summary.json | head -n 1)"; }

is_veche() { pgrep -f "^$VECHE (run|resume) " | grep -qx "$1"; }

rank_of_job() { # RANK: its process id. What mpirun says of ranks counts more than what srun says of those whom mpirun has started.
    local process
    for process in $(pgrep -f "^$VECHE (run|resume) "); do
        is_veche "$(ps -o ppid= -p "$process" | tr -d ' ')" && continue # a rank may have a child
        tr '\0' '\n' 2>/dev/null <"/proc/$process/environ" | awk -F = -v job="$job" -v rank="$1" -v process="$process" '
            $1 == "SLURM_JOB_ID" { its_job = $2 }
            $1 == "SLURM_PROCID" { by_srun = $2 }
            $1 == "PMI_RANK" || $1 == "OMPI_COMM_WORLD_RANK" { by_mpirun = $2 }
            END { if (its_job == job && (by_mpirun != "" ? by_mpirun : by_srun) == rank) print process }'
    done
}

is_found() { process=$(rank_of_job "$1") && [[ -n $process ]]; } # RANK: left in $process

all_are_gone() { [[ -z $(rank_of_job 0)$(rank_of_job 1)$(rank_of_job 2) ]]; }

ends_well() { # WHAT LIVES
    until_true 120 is_over
    out=$(grep -v ^epoch "$said" | tail -n 20) err='' code=$(state)
    holds "$1: it completed" test "$(state)" = COMPLETED
    holds "$1: in life $2" is_in_life "$2"
    holds "$1: and no other" eval "! is_in_life $(($2 + 1))"
    holds "$1: the same bits as a job left alone" test "$(sha)" = "$calm"
    holds "$1: one run, not two" test "$(ls -d runs/job-"$job"/*/ | wc -l)" -eq 1
}

# A rank of a job gets SIGKILL. It is looked for before: that takes long on a busy machine, and training may be over.
loses() { # WHAT RANK
    local process killed_at took_ms
    submit
    until_true 60 is_found "$2"
    until_true 60 has_checkpoints
    killed_at=${EPOCHREALTIME/./}
    holds "$1: it was found" kill -9 "$process"
    until_true 60 all_are_gone
    took_ms=$(((${EPOCHREALTIME/./} - killed_at) / 1000))
    holds "$1: the others end within 5 s ($took_ms ms)" test $took_ms -le 5000
    ends_well "$1" 2
    holds "$1: it is named" grep -Eiq "(rank|task) $2\b.*(gone|killed|signal 9)" "$said"
}

for line in $(tr ' ' : <"$build/mpi.list"); do
    IFS=: read -r kind launcher program <<<"$line"
    export VECHE=$program
    [[ $kind == openmpi ]] && export VECHE_LAUNCH='srun --mpi=pmix' || export VECHE_LAUNCH='srun --mpi=pmi2'
    if ! srun --mpi=list 2>&1 | grep -q "${VECHE_LAUNCH##*=}"; then
        skip_part "jobs with $kind" "this Slurm has no ${VECHE_LAUNCH##*=}"
        continue
    fi

    "$VECHE" run -d local --json "$here/small.yaml" $long agents=3 >local.json 2>/dev/null
    calm=$(json params_sha256 <local.json)
    submit
    ends_well "$kind, left alone" 1

    submit
    until_true 60 has_checkpoints
    scontrol requeue "$job"
    ends_well "$kind, requeued by hand" 2
    holds "$kind, requeued by hand: stopped with a checkpoint first" grep -q 'stopped on request' "$said"

    job=$(sbatch --parsable --output="$work/%j.out" "$here/../../docs/veche.sbatch" compare "$here/small.yaml" $long \
        --over strategy.kind=average,allreduce)
    said=$work/$job.out compared=runs/job-$job/compared
    until_true 60 eval '[[ $(ls "$compared"/allreduce/checkpoint-*.safetensors 2>/dev/null | wc -l) -ge 2 ]]'
    scontrol requeue "$job"
    until_true 120 is_over
    out=$(grep -v ^epoch "$said" | tail -n 20) err='' code=$(state)
    holds "$kind, a comparison: it completed" test "$(state)" = COMPLETED
    holds "$kind, a comparison: in life 2" is_in_life 2
    holds "$kind, a comparison: stopped first" grep -q 'stopped on request in method 2 of 2' "$said"
    holds "$kind, a comparison: the same bits" test "$(json params_sha256 <"$compared/allreduce/summary.json")" = "$calm"
    holds "$kind, a comparison: its table is there" grep -q '^method .*seconds' "$said"

    submit
    until_true 60 has_checkpoints
    scancel --signal=USR1 --batch "$job" # as Slurm does before the time is over
    ends_well "$kind, out of time" 2
    holds "$kind, out of time: stopped with a checkpoint first" grep -q 'stopped on request' "$said"

    loses "$kind, rank 0 killed" 0
    loses "$kind, rank 2 killed" 2

    submit
    until_true 60 has_checkpoints
    scancel "$job"
    holds "$kind, cancelled: the job ends" until_true 30 is_over
    holds "$kind, cancelled: and stays so" test "$(state)" = CANCELLED
    holds "$kind, cancelled: stopped with a checkpoint first" grep -q 'stopped on request' "$said"

    submit no.such.key=1
    holds "$kind, a mistake in the experiment: the job ends" until_true 30 is_over
    holds "$kind, a mistake in the experiment: and is not tried again" test "$(state)" = FAILED
    holds "$kind, a mistake in the experiment: one sentence says which" test "$(grep -c 'no.such' "$said")" -ge 1

    export VECHE_LAUNCH=$launcher # where srun knows no way to start this MPI
    submit
    ends_well "$kind by mpirun, left alone" 1
    loses "$kind by mpirun, rank 1 killed" 1
done
done_checking
