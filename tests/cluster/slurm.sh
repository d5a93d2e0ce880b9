#!/usr/bin/env bash
# slurm.sh - a whole Slurm on this machine with three pretended nodes of two cores each, for trying batch files.
#
#   slurm.sh start          starts it in a new folder and prints the folder; use it with SLURM_CONF=FOLDER/slurm.conf
#   slurm.sh status FOLDER  the nodes and the jobs
#   slurm.sh stop FOLDER    ends the jobs and the daemons, and removes the folder
#
# It needs root and nothing else: no systemd, no cgroups, no service of the machine. The daemons are munged with a key and a
# socket of its own, slurmctld, and one slurmd for each node; ports are taken where nobody listens.
set -euo pipefail

nodes=(n1 n2 n3)

usage() {
    echo 'usage: slurm.sh start | status FOLDER | stop FOLDER' >&2
    exit 2
}

fail() {
    echo "slurm.sh: $1" >&2
    exit 1
}

free_ports() { # COUNT: the first of so many ports in a row that nobody listens at
    python3 - "$1" <<'PY'
import random, socket, sys
def free(port):
    with socket.socket() as s:
        try:
            s.bind(("", port))
        except OSError:
            return False
        return True
for _ in range(1000):
    first = random.randrange(16000, 30000)
    if all(free(first + i) for i in range(int(sys.argv[1]))):
        sys.exit(print(first))
sys.exit("no free ports")
PY
}

write_conf() { # FOLDER
    local folder=$1 host port i
    host=$(hostname)
    port=$(free_ports $((${#nodes[@]} + 1)))
    cat <<CONF
ClusterName=pretended
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job waits until the papers of its first life have expired: ten seconds instead of two minutes.
AuthInfo=socket=$folder/munge.socket,cred_expire=10
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
# PMIx keeps a folder for each job step here; nodes that share one would find it taken.
TmpFS=$folder/tmp-%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,batch_sched_delay=1
ReturnToService=2
KillWait=10
MinJobAge=300
MpiDefault=none
CONF
    for i in "${!nodes[@]}"; do
        echo "NodeName=${nodes[i]} NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1 + i)) CPUs=2 RealMemory=500 State=UNKNOWN"
    done
    echo 'PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP'
}

start_daemons() { # FOLDER
    local folder=$1 node
    head -c 1024 /dev/urandom >"$folder/munge.key"
    chmod 400 "$folder/munge.key"
    # --force: the folder may lie in /tmp, which others can write to.
    munged --force --key-file "$folder/munge.key" --socket "$folder/munge.socket" --pid-file "$folder/munged.pid" \
        --log-file "$folder/munged.log" --seed-file "$folder/munge.seed" 2>>"$folder/start.log"
    slurmctld >>"$folder/start.log" 2>&1
    for node in "${nodes[@]}"; do
        mkdir -p "$folder/spool-$node" "$folder/tmp-$node"
        slurmd -N "$node" >>"$folder/start.log" 2>&1
    done
}

all_idle() {
    [[ $(timeout 10 sinfo -h -N -o %T 2>/dev/null | grep -cx idle) -eq ${#nodes[@]} ]]
}

start() {
    local folder program
    for program in munged slurmctld slurmd; do
        command -v $program >/dev/null || fail "$program is missing (scripts/setup.sh cluster installs it)"
    done
    [[ $(id -u) -eq 0 ]] || fail 'root is needed'
    folder=$(mktemp -d)
    chmod 755 "$folder"
    mkdir "$folder/state"
    export SLURM_CONF=$folder/slurm.conf
    write_conf "$folder" >"$SLURM_CONF"
    start_daemons "$folder" </dev/null || { cat "$folder/start.log" >&2; stop "$folder"; fail 'a daemon did not start'; }
    for _ in $(seq 150); do
        all_idle && echo "$folder" && return
        sleep 0.2
    done
    tail -n 5 "$folder"/*.log >&2
    stop "$folder"
    fail 'the nodes did not become idle within half a minute'
}

lives() { # PROCESS: neither gone nor a zombie that nobody has fetched yet
    [[ $(ps -o stat= -p "$1" 2>/dev/null) == [!Z]* ]]
}

daemons() { # FOLDER: the process ids of its daemons that live
    local folder=$1 file process
    for file in "$folder"/slurmd-*.pid "$folder"/slurmctld.pid "$folder"/munged.pid; do
        process=$(cat "$file" 2>/dev/null || true) # a daemon that ends removes it
        if [[ -n $process ]] && lives "$process"; then echo "$process"; fi
    done
}

steps() { # FOLDER: those of its job steps, known by the configuration they were given
    local process
    for process in $(pgrep -x slurmstepd); do
        lives "$process" && tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -qx "SLURM_CONF=$1/slurm.conf" && echo "$process"
    done
    return 0
}

wait_until_empty() { # SECONDS COMMAND...: until it prints nothing
    local end=$((SECONDS + $1))
    shift
    while [[ -n $("$@") ]]; do
        [[ $SECONDS -lt $end ]] || return 1
        sleep 0.1
    done
}

stop() {
    local folder=$1 process
    export SLURM_CONF=$folder/slurm.conf
    if [[ -n $(daemons "$folder") ]]; then
        timeout 10 scancel --signal=KILL --full --user=root 2>/dev/null || true
        timeout 10 scancel --user=root 2>/dev/null || true
        wait_until_empty 20 timeout 10 squeue -h 2>/dev/null || true
    fi
    for process in $(daemons "$folder"); do kill "$process" 2>/dev/null || true; done
    wait_until_empty 15 daemons "$folder" || true
    for process in $(steps "$folder") $(daemons "$folder"); do kill -9 "$process" 2>/dev/null || true; done
    rm -rf "$folder"
}

case "${1:-}" in
start) start ;;
status | stop)
    folder=${2:-}
    [[ -f $folder/slurm.conf ]] || usage
    export SLURM_CONF=$folder/slurm.conf
    if [[ $1 == stop ]]; then
        stop "$folder"
    else
        sinfo -N
        squeue
    fi
    ;;
*) usage ;;
esac
