#!/usr/bin/env bash
# Runs tests/slurm/slurm_test.py with a Slurm cluster on this machine, in new namespaces: they share no ports with other
# programs, and their processes end with the tests. If Slurm is not installed or namespaces are not permitted, says so
# and skips the tests:
#   apt-get install slurmctld slurmd slurm-client munge libpmix2
#   bash tests/slurm/run.sh --ltrain build/cpu/ltrain --mpiexec mpirun [Slurm.test_...]
set -euo pipefail
unset CDPATH
here=$(cd "$(dirname "$0")" && pwd)

skip() { echo "skipped: $*" && exit 77; }
for program in slurmctld slurmd srun munged mungekey ip; do
  command -v "$program" > /dev/null || skip "$program is not installed"
done
[ "$(id -u)" -eq 0 ] || skip "Slurm's daemons are started as root"
own() { unshare --net --mount --pid --fork --kill-child --mount-proc "$@"; }
own true 2> /dev/null || skip "namespaces are not permitted here"

# A pair of interfaces, of which one end has an address that is not the loopback's: Slurm and Open MPI want one.
# shellcheck disable=SC2016
own bash -c '
  set -e
  mount --make-rprivate /
  ip link set lo up
  ip link add cluster type veth peer name end
  ip address add 10.77.0.1/24 dev cluster
  ip link set cluster up
  ip link set end up
  PYTHONPATH="$0/../cli" python3 -B "$0/slurm_test.py" "$@"
  exit $?' "$here" "$@"
