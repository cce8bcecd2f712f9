#!/usr/bin/env bash
# From a clone to a trained model: installs missing packages, builds, prepares a corpus of real text, trains a small GPT
# with ZeRO-3 and full recomputation into runs/quickstart, samples from it and writes a report. Trains on one rank per
# GPU in bf16 if nvidia-smi lists GPUs and nvcc exists; respects CUDA_VISIBLE_DEVICES. Otherwise trains on two CPU
# ranks, in bf16 if the processor has instructions for it. A second run skips finished work.
#
#   bash launch/quickstart.sh [--text FILE...]
set -euo pipefail
unset CDPATH
usage="usage: bash launch/quickstart.sh [--text FILE...]"

text=()
case "${1:-}" in
  "") ;;
  --help | -h) echo "$usage"; exit 0 ;;
  --text)
    shift
    [ $# -gt 0 ] || { echo "$usage" >&2; exit 2; }
    for file in "$@"; do
      [ -f "$file" ] || { echo "error: [quickstart] --text $file: expected a file, there is none" >&2; exit 3; }
      text+=("$(realpath -- "$file")")
    done ;;
  *) echo "$usage" >&2; exit 2 ;;
esac
# The next file would get the number of a closed descriptor, and echo fails where nothing can be written.
[ -e /dev/fd/0 ] || exec < /dev/null
[ -e /dev/fd/2 ] || exec 2> /dev/null
echo || exec > /dev/null
began=$PWD
cd -P "$(dirname "$0")/.."

say() { printf '== %s\n' "$*"; }
step_started=$SECONDS
took() { printf '   (%d s)\n\n' $((SECONDS - step_started)); step_started=$SECONDS; }

# The devices: GPUs if some are visible and the GPU build's tools are installed, otherwise the processor.
ranks=2 device="two ranks of the processor" packages=() build=(-DLIBTRAIN_CUDA=OFF) training=()
# Prints the compute capability of each GPU that CUDA will see, one a line. CUDA_VISIBLE_DEVICES lists numbers or
# prefixes of UUIDs. The first entry that is not a GPU, such as -1, ends the list.
visible_gpus() {
  local all entry found
  all=$(nvidia-smi --query-gpu=index,uuid,compute_cap --format=csv,noheader 2> /dev/null | tr -d ' ') || return 0
  if [ -z "${CUDA_VISIBLE_DEVICES+set}" ]; then cut -d, -f3 <<< "$all"; return; fi
  for entry in ${CUDA_VISIBLE_DEVICES//,/ }; do
    found=$(awk -F, -v entry="$entry" '$1 == entry || (entry ~ /^GPU-/ && index($2, entry) == 1) { print $3; exit }' <<< "$all")
    [ -n "$found" ] || return 0
    echo "$found"
  done
}
capabilities=""
if command -v nvidia-smi > /dev/null; then capabilities=$(visible_gpus); fi
gpus=$(grep -c . <<< "$capabilities") || true
if [ "$gpus" -eq 0 ] && [ -n "${CUDA_VISIBLE_DEVICES:-}" ] && command -v nvidia-smi > /dev/null; then
  echo "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES names no GPU that nvidia-smi lists: training on the processor"
fi
if [ "$gpus" -gt 0 ]; then
  export PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
  if ! command -v nvcc > /dev/null; then
    echo "nvidia-smi lists $gpus GPU(s), but nvcc was not found: training on the processor (docs/how-to/install.md: where to get it)"
  elif ! bash launch/deps.sh --cuda; then
    echo "nvidia-smi lists $gpus GPU(s), but not all that their build needs is here: training on the processor"
  else
    capability=$(sort -V <<< "$capabilities" | head -n 1 | tr -d .)
    ranks=$gpus device="$gpus GPU(s), one rank each, in bf16"
    build=(-DLIBTRAIN_CUDA=ON "-DCMAKE_CUDA_ARCHITECTURES=$capability")
    training=(--train.device=cuda)
  fi
fi
# Whether the processor multiplies bf16: then a step takes two thirds of its time in f32.
multiplies_bf16() { grep -qwE 'avx512_bf16|amx_bf16' "$1"; }
if [ ${#training[@]} -eq 0 ]; then
  training=(--train.device=cpu)
  if multiplies_bf16 /proc/cpuinfo; then device+=", in bf16" training+=(--train.dtype=bf16); fi
fi
run=runs/quickstart
data=$run-data
if [ ${#text[@]} -gt 0 ] && [ -e "$data/val.bin" ]; then
  echo "error: [quickstart] $data: expected no data from an earlier call beside --text" >&2
  echo "hint: rm -r $data $run" >&2
  exit 2
fi

say "1/5 packages"
if [ ${#text[@]} -eq 0 ]; then packages+=(--corpus); fi
bash launch/deps.sh "${packages[@]}"
took

say "2/5 build"
# A unity build compiles several files of a folder together, which halves the time of a build from scratch.
cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DLIBTRAIN_NATIVE=ON \
  -DLIBTRAIN_TESTS=OFF -DLIBTRAIN_EXAMPLES=OFF "${build[@]}" > build.log 2>&1 || { cat build.log; exit 1; }
rm -f build.log
cmake --build build/release --target ltrain
ltrain=build/release/ltrain
took

say "3/5 corpus"
if [ ! -e "$data/val.bin" ]; then  # prepare writes it last
  if [ ${#text[@]} -eq 0 ]; then
    # Several megabytes of English quotations and aphorisms. File names with a dot are indexes, not text.
    mapfile -t text < <(find /usr/share/games/fortunes -type f ! -name '*.*' | sort)
  fi
  "$ltrain" prepare --input "${text[@]}" --tokenizer byte --out "$data"
else
  echo "$data is there"
fi
took

say "4/5 training on $device: ZeRO-3, full recomputation"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HOME=${HOME:-/}  # Open MPI crashes without HOME
mpirun --oversubscribe --bind-to none -n "$ranks" "$ltrain" train --config examples/configs/quickstart.toml \
  --data.train="$data/train.bin" --data.val="$data/val.bin" --run.dir="$run" "${training[@]}"
took

say "5/5 sample and report"
"$ltrain" sample "$run" --prompt "A wise man once said" --tokens 300 --temperature 0.7
"$ltrain" report "$run"
took

say "done in $SECONDS s. Next:"
[ "$PWD" = "$began" ] || echo "   cd $PWD"
echo "   $ltrain sample $run --prompt 'The meaning of life'"
echo "   $ltrain plan --config examples/configs/quickstart.toml --ranks $ranks ${training[*]}"
echo "   docs/tutorials/quickstart.md"
