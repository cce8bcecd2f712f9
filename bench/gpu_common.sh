# shellcheck shell=bash
# Shared by gpu_tables.sh and gpu_checks.sh, which run `source bench/gpu_common.sh OUT` in the root of the repository.
# Environment: LTRAIN is the program (default: build/cuda/ltrain), RANKS the number of GPUs to use (default: all),
# MPIRUN has further options for mpirun.
export LC_ALL=C OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

fail() {
  echo "error: [bench] $*" >&2
  exit 2
}

[[ ${1:--} != -* ]] || fail "expected a folder for the results, got '${1:-}': bash bench/$(basename "$0") OUT [PART]..."
out=$1
command -v nvidia-smi > /dev/null || fail "expected GPUs, found no nvidia-smi"
gpus=$(nvidia-smi --list-gpus 2>&1 | grep -c '^GPU') || fail "expected GPUs, nvidia-smi lists none"
gpus=${RANKS:-$gpus}
ltrain=${LTRAIN:-build/cuda/ltrain}
[ -x "$ltrain" ] || fail "$ltrain: expected the program, found none; build it, or name it in LTRAIN"
mkdir -p "$out"

# Tokens to train on, the same at every commit.
tokens=$out/data/train.bin
prepare() {
  [ -f "$tokens" ] || "$ltrain" prepare --input LICENSE --out "$out/data" > /dev/null
}

on_all() {  # command
  # shellcheck disable=SC2086  # several options in one variable
  mpirun ${MPIRUN:-} -n "$gpus" "$@"
}

# Succeeds where there are at least so many GPUs, each with at least so many MiB; otherwise says what is left out.
on_gpus() {  # number, MiB (any), what is left out (the part)
  local mib
  mib=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits | sort -n | head -n 1)
  [ "$gpus" -ge "$1" ] && [ "$mib" -ge "${2:-0}" ] && return
  echo "== ${3:-$part} is left out: it needs $1 GPUs${2:+ of $2 MiB}, and there are $gpus of $mib MiB"
  return 1
}

# Copies a command's output to a file in OUT, below the command, version and GPUs. A failing command leaves FILE.failed.
report() {  # file, command
  {
    echo "bash bench/$(basename "$0") OUT $part, $(date --utc +%F)"
    "$ltrain" --version
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | sort | uniq -c
    "${@:2}" 2>&1
  } | tee "$out/$1.failed"
  mv "$out/$1.failed" "$out/$1"
}

# Runs the requested entries of `parts`, or all of them if none is given. Each is a function. require() exits if
# something that they need is missing.
run_parts() {  # the names of parts
  [ $# -gt 0 ] || set -- "${parts[@]}"
  for part in "$@"; do
    [[ " ${parts[*]} " == *" $part "* ]] || fail "expected one of ${parts[*]}, got $part"
  done
  require "$@"
  for part in "$@"; do "$part"; done
}
