#!/usr/bin/env bash
# Measures what the tables of docs/gpu.md and docs/kernels.md say, on this host's GPUs and, in pairs, beside PyTorch:
#
#   bash bench/gpu_tables.sh OUT [kernels] [profile] [pairs] [ranks] [memory] [scaling]      without a part: all of them
#
#   kernels  every kernel against the limits        profile  a step, kernel by kernel
#   pairs    three models beside PyTorch on one GPU ranks    the same on all GPUs, under every strategy
#   memory   ZeRO-3 on all GPUs with selective recomputation, and llama-8b
#   scaling  one rank, and strategies on 2, 4, ... GPUs
#
# Writes JSON and text to the folder OUT; a part takes two to ten minutes. LTRAIN is the program (build/cuda/ltrain), PYTHON
# one that has torch (python3), RANKS how many of the GPUs (all), MPIRUN options of mpirun.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:?OUT, a folder for the results}
shift
mkdir -p "$out"
parts=${*:-kernels profile pairs ranks memory scaling}
ltrain=${LTRAIN:-build/cuda/ltrain} python=${PYTHON:-python3}
gpus=${RANKS:-$(nvidia-smi --list-gpus | wc -l)}

models=("gpt2-124m 64 1024" "gpt2-1.5b 16 1024" "llama-1b 4 4096")  # samples and tokens of each of a rank's steps

# Sets `model`, `batch`, `seq`, the `name` of their results, and in `sizes` the program's options for them.
take() {
  read -r model batch seq <<< "$1"
  name=$model-${batch}x$seq
  sizes=(--model.preset="$model" --train.micro_batch="$batch" --train.seq="$seq" --train.device=cuda)
}

for_models() {  # command
  local row
  for row in "${models[@]}"; do
    take "$row"
    "$@"
  done
}

compare() {  # GPUs, end of the result's name, further options
  echo "== $name$2 on $1 GPUs"
  "$python" bench/compare_step.py --ltrain "$ltrain" --python "$python" --device cuda --dtype bf16 --threads 14 \
    --mpirun "${MPIRUN:-}" --ranks "$1" --model "$model" --batch "$batch" --seq "$seq" --out "$out/$1x-$name$2.json" "${@:3}"
}

time_kernels() {
  "$ltrain" bench kernels "${sizes[@]}" --filter bf16 --iterations 12 --out "$out/1x-kernels-$name.json"
}

profile_step() {
  "$ltrain" train "${sizes[@]}" --train.dtype=bf16 --train.steps=4 --record.profile_steps=2 --run.dir="$out/run-$model" \
    --data.train="$out/data/train.bin"
  python3 bench/kernel_profile.py "$out/run-$model/trace/rank-0.json" | tee "$out/1x-profile-$name.txt"
  rm -r "$out/run-$model/checkpoints"
}

kernels() { for_models time_kernels; }

profile() {
  "$ltrain" prepare --input docs/*.md --out "$out/data"
  for_models profile_step
}

pairs() { for_models compare 1 "" --rounds 3 --steps 6; }

ranks() { for_models compare "$gpus" "" --rounds 2 --steps 5 --strategy ddp zero1 zero2 zero3; }

memory() {
  take "gpt2-1.5b 16 1024"
  compare "$gpus" -selective --rounds 2 --steps 5 --strategy zero3 --recompute selective
  take "llama-8b 2 4096"
  compare "$gpus" "" --rounds 1 --steps 8 --strategy zero3 --apart
  compare "$gpus" -selective --rounds 1 --steps 8 --strategy zero3 --apart --recompute selective
}

scaling() {
  take "gpt2-1.5b 16 1024"
  # shellcheck disable=SC2086  # several options in one variable
  mpirun ${MPIRUN:-} -n "$gpus" "$ltrain" bench scaling "${sizes[@]}" --train.dtype=bf16 --iterations 6 --warmup 2 \
    --out "$out/${gpus}x-scaling-$model.json"
}

for part in $parts; do
  case "$part" in
    kernels | profile | pairs) "$part" ;;
    ranks | memory | scaling)
      if [ "$gpus" -gt 1 ]; then "$part"; else echo "== $part is left out: there is one GPU"; fi
      ;;
    *)
      echo "error: [bench] expected kernels, profile, pairs, ranks, memory or scaling, got $part" >&2
      exit 2
      ;;
  esac
done
