#!/usr/bin/env bash
# Checks on this host's GPUs what docs/gpu.md says beside its tables:
#
#   bash bench/gpu_checks.sh OUT [PART]...      without a part: all of them
#
#   losses     20 steps of the tiny models against the CPU's
#   sanitizer  compute-sanitizer on own kernels and on three steps of both families
#   tests      those labelled cuda
#
# Writes text to the folder OUT; a part takes one to five minutes. LTRAIN is the program (build/cuda/ltrain), beside which its
# tests are built; RANKS how many of the GPUs are taken (all).
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/gpu_common.sh "$@"

build=$(dirname "$ltrain")

compare_losses() {
  local model dtype device runs
  for model in gpt-tiny llama-tiny; do
    runs=$out/losses-$model
    for dtype in f32 bf16 f16; do
      for device in cpu cuda; do
        "$ltrain" train --model.preset=$model --train.device=$device --train.dtype=$dtype --train.steps=20 \
          --train.micro_batch=4 --data.train="$out/data/train.bin" --run.dir="$runs/$device-$dtype" > /dev/null
      done
      python3 bench/compare_losses.py "$runs/cuda-$dtype" "$runs/cpu-$dtype" "$runs/cpu-f32"
    done
    rm -r "$runs"
  done
}

losses() { prepare && report 1x-losses.txt compare_losses; }

# One tool; without the tests of cuBLASLt's kernels, in which racecheck fails.
sanitize() {  # tool
  local check=(compute-sanitizer --tool "$1" --error-exitcode 9)
  local tiny=(--model.layers=2 --model.width=64 --model.heads=2 --model.ffn=128 --train.seq=32 --train.micro_batch=2
    --train.steps=3 --train.device=cuda --data.train="$out/data/train.bin")
  "${check[@]}" "$build/tests/kernels/kernels_cuda_test" "~[cublas]"
  "${check[@]}" "$ltrain" train "${tiny[@]}" --run.dir="$out/run-$1/gpt2" --model.dropout=0.1
  "${check[@]}" "$ltrain" train "${tiny[@]}" --run.dir="$out/run-$1/llama" --model.family=llama
  rm -r "$out/run-$1"
}

sanitizer() {
  local tool jobs=() job
  prepare
  for tool in memcheck racecheck initcheck synccheck; do
    report "1x-$tool.txt" sanitize $tool &
    jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job"; done
}

tests() { report "${gpus}x-tests.txt" ctest --test-dir "$build" --label-regex cuda --output-on-failure; }

shift
[ $# -gt 0 ] || set -- losses sanitizer tests
for part in "$@"; do
  case "$part" in
    losses | sanitizer | tests) "$part" ;;
    *)
      echo "error: [bench] expected losses, sanitizer or tests, got $part" >&2
      exit 2
      ;;
  esac
done
