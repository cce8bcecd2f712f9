#!/usr/bin/env bash
# Runs checks that docs/tested.md reports, on this host's GPUs:
#
#   bash bench/gpu_checks.sh OUT [PART]...      without PART: all of them
#
#   losses     20 steps of the tiny models, compared with the CPU
#   sanitizer  compute-sanitizer on the library's kernels, on three steps of both families and of FP8, on copies between
#              GPUs, and with two GPUs also under ZeRO-3
#   hosts      hybrid sharding on all GPUs, which NCCL treats as GPUs of two hosts: ZeRO-1 = ZeRO-2 = ZeRO-3 bit by bit
#   restart    a rank is killed or stopped: the run on all GPUs is restarted and has the bits of an undisturbed run
#   tests      the tests labelled cuda
#
# Writes text to the folder OUT (relative to the repository's root). `losses`, `hosts` and `restart` take a minute each,
# `sanitizer` takes five, `tests` ten or more. gpu_common.sh explains LTRAIN, RANKS and MPIRUN. The build folder of the
# program must have the tests too. TESTS is a regular expression that selects tests by name (default: all).
set -euo pipefail
unset CDPATH
cd -P "$(dirname "$0")/.."
source bench/gpu_common.sh "$@"

build=$(dirname "$ltrain")
parts=(losses sanitizer hosts restart tests)

compare_losses() {
  local model dtype device other runs
  local -A at_most=([f32]=1e-4 [bf16]=1e-2 [f16]=1e-2) norm_at_most=([f32]=1e-3 [bf16]=1e-2 [f16]=1e-2)
  for model in gpt-tiny llama-tiny; do
    runs=$out/losses/$model
    rm -rf "$runs"
    for dtype in f32 bf16 f16; do
      for device in cpu cuda; do
        "$ltrain" train --model.preset=$model --train.device=$device --train.dtype=$dtype --train.steps=20 \
          --train.micro_batch=4 --data.train="$tokens" --run.dir="$runs/$device-$dtype" > /dev/null
      done
      for other in $(printf '%s\n' cpu-$dtype cpu-f32 | uniq); do
        echo "== $model, cuda-$dtype against $other"
        python3 tests/parity/compare.py "$runs/cuda-$dtype/metrics.jsonl" "$runs/$other/metrics.jsonl" --steps 20 \
          --tolerance "${at_most[$dtype]}" --norm-tolerance "${norm_at_most[$dtype]}"
      done
    done
  done
  rm -rf "$out/losses"
}

losses() { prepare && report 1x-losses.txt compare_losses; }

# A test program exits with 77 where the GPU lacks what some of its tests need.
passes() { "$@" || [ $? = 77 ]; }

# Runs one tool. Searches of matmuls launch too many kernels for any. Racecheck fails inside cuBLASLt's kernels for bf16,
# so it skips all tests of matmuls. Initcheck does not see what cuBLASLt's and cuDNN's newer kernels write, so it skips
# FP8. Synccheck fails inside cuDNN's attention, which heads of 20 channels avoid; racecheck of FP8 was tried without it
# only. Racecheck does not follow barriers at which one thread arrives for its warp, so it skips the tests of attention's
# kernels for compute capability 9.0.
sanitize() {  # tool
  local check=(compute-sanitizer --tool "$1" --error-exitcode 9) runs=$out/run-$1 tests=("~[search]") attention=("~[cudnn]") heads=()
  local tiny=(--model.layers=2 --model.width=64 --model.heads=2 --model.ffn=128 --train.seq=32 --train.micro_batch=2
    --train.steps=3 --train.device=cuda --train.dtype=f32 --data.train="$tokens")
  [ "$1" != racecheck ] || tests=("~[cublas]") attention=("~[cudnn]~[hopper]")
  rm -rf "$runs"
  passes "${check[@]}" "$build/tests/kernels/kernels_cuda_test" "${tests[@]}"
  passes "${check[@]}" "$build/tests/kernels/attention_cuda_test" "${attention[@]}"
  "${check[@]}" "$ltrain" train "${tiny[@]}" --run.dir="$runs/gpt2" --model.dropout=0.1
  "${check[@]}" "$ltrain" train "${tiny[@]}" --run.dir="$runs/llama" --model.family=llama
  [[ "$1" != @(racecheck|synccheck) ]] || heads=(--model.heads=4 --model.head_dim=20)
  [ "$1" = initcheck ] || "${check[@]}" "$ltrain" train "${tiny[@]}" --run.dir="$runs/fp8" --train.dtype=fp8 "${heads[@]}"
  # NCCL asks for kinds of memory and kernels that a device may not have. Memcheck would take that for an error.
  [ "$1" != memcheck ] || check+=(--report-api-errors no)
  if [ "$gpus" -gt 1 ]; then
    [[ "$1" != @(memcheck|synccheck) ]] || gpus=2 passes on_all "${check[@]}" "$build/tests/comm/nccl_test" "nccl: *windows*"
    [ "$1" = initcheck ] || gpus=2 on_all "${check[@]}" "$ltrain" train "${tiny[@]}" --run.dir="$runs/zero3" \
      --train.dtype=fp8 --parallel.strategy=zero3 "${heads[@]}"
  fi
  rm -rf "$runs"
}

sanitizer() {
  local tool failed=0
  local -A jobs=()
  prepare
  for tool in memcheck racecheck initcheck synccheck; do
    report "1x-$tool.txt" sanitize $tool &
    jobs[$tool]=$!
  done
  for tool in "${!jobs[@]}"; do
    wait "${jobs[$tool]}" || { echo "error: [bench] $tool failed: $out/1x-$tool.txt.failed" >&2 && failed=1; }
  done
  return $failed
}

# Options of a short run on all GPUs.
short=(train --model.preset=gpt-tiny --train.device=cuda --train.dtype=bf16 --train.deterministic=true --train.steps=60
  --train.micro_batch=4 --checkpoint.every=20 --data.train="$tokens")

same_bits() {  # two runs in OUT
  python3 tests/parity/compare.py "$out/$1/metrics.jsonl" "$out/$2/metrics.jsonl" --steps 60 --tolerance 0 --norm-tolerance 0
}

# Runs a command on all GPUs. NCCL takes the ranks for those of two hosts.
on_two_hosts() {  # command
  # shellcheck disable=SC2016  # variables of the ranks
  on_all bash -c 'NCCL_HOSTID=$((2 * OMPI_COMM_WORLD_RANK / OMPI_COMM_WORLD_SIZE)) exec "$@"' rank "$@"
}

hybrid_runs() {
  local size strategy
  for ((size = 2; size < gpus; size *= 2)); do
    [ $((gpus % size)) = 0 ] || continue
    for strategy in zero1 zero2 zero3; do
      echo "== $strategy in groups of $size of $gpus ranks"
      rm -rf "$out/hosts-$strategy"
      on_two_hosts "$ltrain" "${short[@]}" --parallel.shard_size=$size --parallel.strategy=$strategy \
        --run.dir="$out/hosts-$strategy" | grep -E '^done'
      [ $strategy = zero1 ] || same_bits "hosts-$strategy" hosts-zero1
    done
  done
  rm -rf "$out"/hosts-*
}

hosts() {
  on_gpus 4 || return 0
  prepare && report "${gpus}x-hosts.txt" hybrid_runs
}

restarted_runs() {
  local action
  rm -rf "$out"/restart-*
  "$ltrain" launch -n "$gpus" -- "${short[@]}" --parallel.strategy=zero3 --run.dir="$out/restart-none" | grep -E '^done'
  for action in kill stop; do
    echo "== rank $((gpus - 1)): $action in step 33"
    LTRAIN_FAULT=forward:$((gpus - 1)):33:$action "$ltrain" launch -n "$gpus" -- "${short[@]}" --parallel.strategy=zero3 \
      --run.dir="$out/restart-$action" | grep -E 'attempt|^done'
    same_bits restart-$action restart-none
  done
  rm -rf "$out"/restart-*
}

restart() {
  on_gpus 2 || return 0
  prepare && report "${gpus}x-restart.txt" restarted_runs
}

run_tests() {
  local which=${TESTS:-.}
  echo "== tests that match $which"
  ctest --test-dir "$build" --label-regex cuda --tests-regex "$which" --no-tests=error --output-on-failure
}

tests() { report "${gpus}x-tests.txt" run_tests; }

require() {  # the names of parts
  [[ " $* " != *" sanitizer "* ]] || command -v compute-sanitizer > /dev/null || fail "sanitizer needs compute-sanitizer on PATH"
}

run_parts "${@:2}"
