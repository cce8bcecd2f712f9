#!/usr/bin/env bash
# A Slurm cluster on this machine: munged, one slurmctld, and a slurmd for each simulated node, as root. All its files
# are in one folder. tests/slurm/run.sh starts it in new namespaces, so that it shares no ports or processes.
#
#   cluster.sh start FOLDER NODES CPUS   node1 .. nodeN of that many CPUs each; returns when all are idle
#   cluster.sh node FOLDER NAME          starts the slurmd of one node (again)
#   cluster.sh stop FOLDER               ends jobs and daemons, and removes the folder
#
# Commands of Slurm find the cluster by SLURM_CONF=FOLDER/slurm.conf.
set -euo pipefail

usage() { sed -n '5,7s/^# *//p' "$0" >&2 && exit 2; }
[ $# -ge 2 ] || usage
command=$1 folder=$2 address=10.77.0.1
shift 2
export SLURM_CONF=$folder/slurm.conf

wait_for() {  # seconds, command ...
  local tries=$(($1 * 20))
  shift
  until "$@"; do
    [ $((tries -= 1)) -gt 0 ] || { echo "error: [slurm] waited in vain for: $*" >&2 && return 1; }
    sleep 0.05
  done
}

# PMIx and slurmd keep sockets by the name of the step, so simulated nodes must not share a folder: %n is the node's name.
# Tasks are followed by their parents, because cgroups may not be ours. A requeued job waits for cred_expire, at least 5 s.
write_configuration() {  # nodes, CPUs
  cat > "$SLURM_CONF" << END
ClusterName=test
SlurmctldHost=$(hostname -s)($address)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$folder/munge.socket,cred_expire=5
StateSaveLocation=$folder/state
SlurmctldPidFile=$folder/slurmctld.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmctldPort=6817
SlurmdSpoolDir=$folder/spool-%n
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmdLogFile=$folder/slurmd-%n.log
TmpFS=$folder/tmp-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=1,sched_interval=1,sched_min_interval=0
ReturnToService=2
SlurmdTimeout=4
SlurmdParameters=config_overrides
KillWait=2
MinJobAge=300
JobRequeue=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
$(for i in $(seq "$1"); do echo "NodeName=node$i NodeAddr=$address Port=$((6820 + i)) CPUs=$2"; done)
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
}

# With a name and a /dev/shm of its own: Open MPI names segments of shared memory by host, and takes ranks on hosts of one
# name for neighbours.
start_node() {  # name
  mkdir -p "$folder/tmp-$1" "$folder/spool-$1"
  # shellcheck disable=SC2016
  unshare --uts --mount sh -c 'hostname "$0" && mount -t tmpfs tmpfs /dev/shm && slurmd -N "$0"' "$1"
}

all_idle() { [ "$(sinfo --noheader --Node --format=%t | sort -u)" = idle ]; }

start() {
  [ $# -eq 2 ] || usage
  mkdir -p "$folder/state"
  chmod 755 "$folder"
  write_configuration "$@"
  mungekey --create --keyfile "$folder/munge.key"
  munged --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
    --log-file="$folder/munged.log" --seed-file="$folder/munge.seed" --num-threads=2
  slurmctld
  for i in $(seq "$1"); do start_node "node$i"; done
  wait_for 20 all_idle
}

# The daemons by the numbers that they wrote down; slurmctld first, so that it starts nothing new.
stop() {
  scancel --user=root 2> /dev/null || true
  wait_for 10 eval '[ -z "$(squeue --noheader 2> /dev/null)" ]' || true
  local pid
  for pid in $(cat "$folder"/slurmctld.pid "$folder"/slurmd-*.pid "$folder"/munged.pid 2> /dev/null || true); do
    kill "$pid" 2> /dev/null || continue
    wait_for 10 eval "! kill -0 $pid 2> /dev/null"
  done
  rm -rf "$folder"
}

case $command in
  start) start "$@" ;;
  node) start_node "$1" ;;
  stop) stop ;;
  *) usage ;;
esac
