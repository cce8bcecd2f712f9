#!/usr/bin/env bash
# Runs tests/nodes/nodes_test.py in new namespaces, so that everything that it starts and sets up ends with it. If
# namespaces are not permitted, says so and skips the tests:
#   bash tests/nodes/run.sh --ltrain build/cpu/ltrain --mpiexec mpirun [Nodes.test_...]
set -euo pipefail
unset CDPATH
here=$(cd "$(dirname "$0")" && pwd)

skip() { echo "skipped: $*" && exit 77; }
command -v ip > /dev/null || skip "ip is not installed"
[ "$(id -u)" -eq 0 ] || skip "network namespaces are made as root"
own() { unshare --net --mount --pid --fork --kill-child --mount-proc "$@"; }
own ip link add near type veth peer name far 2> /dev/null || skip "namespaces and veth pairs are not permitted here"

# shellcheck disable=SC2016
own bash -c '
  mount --make-rprivate /
  ip link set lo up
  PYTHONPATH="$0/../cli" python3 -B "$0/nodes_test.py" "$@"
  exit $?' "$here" "$@"
