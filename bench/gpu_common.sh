# shellcheck shell=bash
# What gpu_tables.sh and gpu_checks.sh share: `source bench/gpu_common.sh OUT` in the root of the repository.
# LTRAIN is the program (build/cuda/ltrain).
export LC_ALL=C OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
out=${1:?OUT, a folder for the results}
mkdir -p "$out"
ltrain=${LTRAIN:-build/cuda/ltrain}
gpus=$(nvidia-smi --list-gpus | wc -l)

# Tokens to train on, the same at every commit.
tokens=$out/data/train.bin
prepare() {
  [ -f "$tokens" ] || "$ltrain" prepare --input LICENSE --out "$out/data" > /dev/null
}

# A command's output goes to a file of OUT too, below what it ran on. A command that fails leaves FILE.failed instead.
report() {  # file, command
  {
    echo "bash bench/$(basename "$0") OUT $part, $(date --utc +%F)"
    "$ltrain" --version
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | sort | uniq -c
    "${@:2}" 2>&1
  } | tee "$out/$1.failed"
  mv "$out/$1.failed" "$out/$1"
}

# Runs the parts of `parts` that are asked for, all of them where none is; a part is a function.
run_parts() {  # the names of parts
  [ $# -gt 0 ] || set -- "${parts[@]}"
  for part in "$@"; do
    if [[ " ${parts[*]} " != *" $part "* ]]; then
      echo "error: [bench] expected one of ${parts[*]}, got $part" >&2
      exit 2
    fi
    "$part"
  done
}
