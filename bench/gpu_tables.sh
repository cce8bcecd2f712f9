#!/usr/bin/env bash
# Measures the tables of docs/benchmarks.md, docs/explanation/kernels.md and bench/notes on this host's GPUs, some
# compared with PyTorch, and the cost of checkpoints of large models:
#
#   bash bench/gpu_tables.sh OUT [PART]...      without PART: all of them that this host's GPUs can run
#
#   kernels  every kernel against the limits           profile  a step, kernel by kernel
#   start    from a program's start to its first step  graph    steps with train.cuda_graph and without
#   gaps     idle time of the device within a step that is one graph
#   tune     a search for faster matmul algorithms, which are written to OUT/algorithms.txt
#   fp8      steps in bf16 and in FP8, FP8 compared with PyTorch and torchao
#   comm     collectives over sizes of the array       scaling  one rank, and strategies on 2, 4, ... GPUs
#   sharded  llama-8b under ZeRO-3 on all GPUs, in bf16 and FP8
#   pairs    three models on one GPU, compared with PyTorch
#   ranks    the same models on all GPUs, under every strategy
#   memory   ZeRO-3 on all GPUs with selective recomputation, and llama-8b
#   saving   llama-8b on all GPUs: saves a checkpoint, synchronously and asynchronously, and loads it
#   large    llama-70b on eight GPUs, with weights and moments in bf16 only
#
# FP8, in `fp8`, `scaling` and `sharded`, needs compute capability 9.0.
# Writes JSON and text to the folder OUT (relative to the repository's root). Also writes checkpoints there for some
# minutes: 20 GB, in `saving` 100 GB. A part takes one to ten minutes. Parts that compare with PyTorch take up to half
# an hour, because each variant of PyTorch gets 150 s. PYTHON is an interpreter that has torch, and for fp8 also torchao
# (default: python3). gpu_common.sh explains LTRAIN, RANKS and MPIRUN.
set -euo pipefail
unset CDPATH
cd -P "$(dirname "$0")/.."
source bench/gpu_common.sh "$@"

python=${PYTHON:-python3}
library=$(dirname "$ltrain")/bench/libgraph_gaps.so
parts=(kernels profile start graph gaps tune fp8 comm scaling sharded pairs ranks memory saving large)

models=("gpt2-124m 64 1024" "gpt2-1.5b 16 1024" "llama-1b 4 4096")  # model, samples per rank and step, tokens each
other_models=("gpt2-350m 32 1024" "gpt2-774m 16 1024" "llama-3b 4 4096" "llama-8b 2 4096")

# Sets `model`, `batch`, `seq`, the `name` of their results, and `sizes`, the program's options for them.
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
  local apart=()
  echo "== $name$2 on $1 GPUs"
  on_gpus 1 140000 "holding both programs at once" || apart=(--apart)
  "$python" bench/compare_step.py --ltrain "$ltrain" --python "$python" --device cuda --dtype bf16 --threads 14 \
    --variant-seconds 150 \
    --mpirun="${MPIRUN:-}" --ranks "$1" --model "$model" --batch "$batch" --seq "$seq" --out "$out/$1x-$name$2.json" "${apart[@]}" "${@:3}"
}

time_kernels() {
  "$ltrain" bench kernels "${sizes[@]}" --filter bf16 --iterations 12 --out "$out/1x-kernels-$name.json"
}

kernels() {
  local models=("${models[@]}" "${other_models[@]}")
  for_models time_kernels
}

# Sets `run` to the options of a fresh run in OUT.
run_in_out() {
  prepare
  rm -rf "$out/run"
  run=(train "${sizes[@]}" --train.dtype=bf16 --data.train="$tokens" --run.dir="$out/run")
}

profile_step() {
  run_in_out
  "$ltrain" "${run[@]}" --train.steps=4 --record.profile_steps=2
  report "1x-profile-$name.txt" python3 bench/kernel_profile.py --names 30 "$out/run/trace/rank-0.json"
  rm -rf "$out/run"
}

# Prints a run's lines up to that of its first step, each after the milliseconds since the program was started.
first_step() {
  local begin line='' lines
  run_in_out
  begin=${EPOCHREALTIME/./}
  exec {lines}< <(exec "$ltrain" "${run[@]}" --train.steps=2 --record.every=1)
  while [[ $line != step* ]] && read -r line <&"$lines"; do
    printf '%6d ms  %s\n' $(((${EPOCHREALTIME/./} - begin) / 1000)) "$line"
  done
  [[ $line == step* ]] || return 1
  kill -KILL $!
  wait $! 2> /dev/null || true
  rm -rf "$out/run"
}

profile() { for_models profile_step; }

start() { report 1x-start.txt for_models first_step; }

graph() {
  local round graph
  take "${models[0]}"
  for round in 1 2; do
    for graph in false true; do
      "$ltrain" bench step "${sizes[@]}" --train.dtype=bf16 --train.cuda_graph=$graph --warmup 40 --iterations 30 \
        --out "$out/1x-graph-$graph-$round.json"
    done
  done
}

gaps_within_graphs() {
  echo "== $model, $batch x $seq"
  CUDA_INJECTION64_PATH=$library "$ltrain" bench step "${sizes[@]}" --train.dtype=bf16 --warmup 10 --iterations 10 \
    --out "$out/gaps.json"
  rm "$out/gaps.json"
}

gaps() { report 1x-gaps.txt for_models gaps_within_graphs; }

search_matmuls() {
  "$ltrain" bench tune "${sizes[@]}" --train.dtype=bf16 --out "$out/1x-tune-$name.json" --table "$out/algorithms.txt"
}

tune() { for_models search_matmuls; }

step_by_dtype() {
  local dtype
  for dtype in bf16 fp8; do
    "$ltrain" bench step "${sizes[@]}" --train.dtype=$dtype --warmup 8 --iterations 40 --out "$out/1x-step-$name-$dtype.json"
  done
}

fp8() {
  for_models step_by_dtype
  for_models compare 1 -fp8 --dtype fp8 --rounds 2 --steps 30
}

comm() {
  on_gpus 2 || return 0
  on_all "$ltrain" bench comm --train.device=cuda --out "$out/${gpus}x-comm.json"
}

scale() {  # dtype, end of the result's name
  on_all "$ltrain" bench scaling "${sizes[@]}" --train.dtype="$1" --iterations 15 --warmup 5 \
    --out "$out/${gpus}x-scaling-$model$2.json"
}

sharded_step() {
  local dtype
  for dtype in bf16 fp8; do
    on_all "$ltrain" bench step "${sizes[@]}" --train.dtype=$dtype --parallel.strategy=zero3 --warmup 5 --iterations 15 \
      --out "$out/${gpus}x-step-$name-zero3-$dtype.json"
  done
}

scaling() {
  on_gpus 2 || return 0
  for_models scale bf16 ""
  for_models scale fp8 -fp8
}

# MiB that llama-8b under ZeRO-3 takes of each GPU, as `ltrain plan` says of two, four and eight.
mib_of_llama_8b() { echo $((44000 + 136000 / gpus)); }

sharded() {
  on_gpus 2 "$(mib_of_llama_8b)" || return 0
  local models=("llama-8b 2 4096" "llama-8b 1 8192")
  for_models sharded_step
}

pairs() { for_models compare 1 "" --rounds 2 --steps 30; }

ranks() {
  on_gpus 2 || return 0
  for_models compare "$gpus" "" --rounds 1 --steps 30 --strategy ddp zero1 zero2 zero3
}

memory() {
  on_gpus 2 || return 0
  take "gpt2-1.5b 16 1024"
  compare "$gpus" -selective --rounds 1 --steps 30 --strategy zero3 --recompute selective
  on_gpus 2 "$(mib_of_llama_8b)" "llama-8b of $part" || return 0
  take "llama-8b 2 4096"
  compare "$gpus" "" --rounds 1 --steps 30 --strategy zero3 --apart
  compare "$gpus" -selective --rounds 1 --steps 30 --strategy zero3 --apart --recompute selective
}

# Prints what a run says of its start and its saves, and how much its checkpoints occupy.
of_saving() {
  grep -E '^(opened|saved)' "$out/said" || true
  grep '"event":"checkpoint"' "$out/run/metrics.jsonl"
  du --bytes --summarize "$out"/run/checkpoints/step-*
}

save_and_load() {
  local async
  for async in false true; do
    run_in_out
    run+=(--parallel.strategy=zero3 --checkpoint.async="$async")
    echo "== checkpoint.async=$async"
    on_all "$ltrain" "${run[@]}" --train.steps=3 > "$out/said"
    of_saving
  done
  echo "== resumed, and killed in the next step"
  LTRAIN_FAULT=forward:0:4:kill on_all "$ltrain" "${run[@]}" --train.steps=4 > "$out/said" || true
  of_saving
  rm -rf "$out/run" "$out/said"
}

saving() {
  on_gpus 2 "$(mib_of_llama_8b)" || return 0
  take "llama-8b 2 4096"
  report "${gpus}x-saving-$name.txt" save_and_load
}

large() {
  on_gpus 8 112000 || return 0
  take "llama-70b 1 4096"
  local small=(--parallel.strategy=zero3 --parallel.recompute=full --optim.state_dtype=bf16 --optim.master=none)
  on_all "$ltrain" bench step "${sizes[@]}" --train.dtype=bf16 "${small[@]}" --warmup 2 --iterations 4 \
    --out "$out/${gpus}x-step-$name-zero3.json"
  "$ltrain" plan "${sizes[@]}" --train.dtype=bf16 "${small[@]}" --ranks "$gpus" --gpu h200 --json > "$out/${gpus}x-plan-$name-zero3.json"
}

require() {  # the names of parts
  [[ ! " $* " =~ " fp8 "|" pairs "|" ranks "|" memory " ]] || "$python" -c 'import torch' 2> /dev/null ||
    fail "fp8, pairs, ranks and memory need torch: name a Python that has it in PYTHON"
  [[ " $* " != *" fp8 "* ]] || "$python" -c 'import torchao' 2> /dev/null || fail "fp8 needs torchao beside torch"
  [[ " $* " != *" gaps "* ]] || [ -f "$library" ] || fail "gaps needs $library: a build that finds the library of CUPTI"
}

run_parts "${@:2}"
