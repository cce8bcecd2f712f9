# What gpu_tables.sh and gpu_checks.sh share: `source bench/gpu_common.sh OUT` in the root of the repository.
# LTRAIN is the program (build/cuda/ltrain), RANKS how many of the GPUs are taken (all).
out=${1:?OUT, a folder for the results}
mkdir -p "$out"
ltrain=${LTRAIN:-build/cuda/ltrain}
gpus=${RANKS:-$(nvidia-smi --list-gpus | wc -l)}

# Token files to train on, in OUT.
prepare() {
  [ -d "$out/data" ] || "$ltrain" prepare --input docs/*.md --out "$out/data" > /dev/null
}

# What a command says goes to a file of OUT too, below what it ran on.
report() {  # file, command
  {
    date --utc +%F
    "$ltrain" --version
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | sort | uniq -c
    "${@:2}" 2>&1
  } | tee "$out/$1"
}
