#!/usr/bin/env bash
# Installs missing packages, builds, and runs every test that this machine can run: the release build with all tests,
# the build with AddressSanitizer and UndefinedBehaviorSanitizer with the unit tests and a training on two ranks, the
# fuzz targets for 20 s each, and, if nvcc is installed, the CUDA build. The CUDA tests are skipped if there is no GPU.
# Two tests run at a time, except tests that measure time. The last line is "N passed, N failed, N skipped".
# With --unity the release build compiles many files at once, and the release and CUDA builds omit debug information. A
# build from scratch then takes half the time.
set -euo pipefail
unset CDPATH
cd -P "$(dirname "$0")/.."
unity=OFF release_flags=()
if [ "$*" = --unity ]; then
  unity=ON && shift
  release_flags=("-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O3 -DNDEBUG" "-DCMAKE_CUDA_FLAGS_RELWITHDEBINFO=-O2 -DNDEBUG")
fi
[ $# -eq 0 ] || { echo "error: [tests] expected no arguments or --unity, got $*" >&2 && exit 2; }

bash launch/deps.sh --tests
# ccache shares objects between builds: it sees paths relative to the build folder.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_pml=ob1  # without it half of each start is a search for other networks

results=()
build_and_test() {  # preset, targets in one word, extra ctest options
  local preset=$1 targets
  read -ra targets <<< "$2"
  shift 2
  cmake --preset "$preset" "${configure_options[@]}" > "build/$preset.configure.log" 2>&1 || { cat "build/$preset.configure.log"; return 1; }
  echo "== building $preset"
  cmake --build "build/$preset" --target "${targets[@]}"
  echo "== testing $preset"
  results+=("build/$preset/results.xml")
  rm -f "build/$preset/results.xml"
  ctest --test-dir "build/$preset" --output-on-failure --output-junit results.xml --parallel 2 "$@" || true
}

mkdir -p build
# TensorBoard's own reader and the tokenizers package, each for one test, which is skipped where they cannot be had.
tools=$PWD/build/tools
if [ ! -e "$tools/ready" ]; then
  rm -rf "$tools"
  python3 -m venv "$tools" && "$tools/bin/pip" install --quiet tensorboard==2.21.0 &&
    "$tools/bin/pip" install --quiet --no-deps tokenizers==0.22.1 && touch "$tools/ready" ||
    echo "TensorBoard and tokenizers could not be installed"
fi
tools_option=() linker_option=()
[ ! -e "$tools/ready" ] || tools_option=("-DLIBTRAIN_TOOLS_PYTHON=$tools/bin/python")
# Links the many test programs in half the time.
! command -v ld.gold > /dev/null || linker_option=(-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=gold)
configure_options=("${tools_option[@]}" "${linker_option[@]}" "${release_flags[@]}" -DCMAKE_UNITY_BUILD=$unity)
build_and_test cpu all
configure_options=("${tools_option[@]}" "${linker_option[@]}")
# Leaks are looked for in the unit tests; Open MPI leaks by design, so programs under mpirun run without that check.
build_and_test debug sanitize_tests --label-regex sanitize
configure_options=("${tools_option[@]}")
if bash launch/deps.sh --fuzz; then
  build_and_test fuzz all --parallel 3  # each runs for 20 s, however many run beside it
else
  echo "== no clang: nothing is fuzzed"
fi
export PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin  # where NVIDIA's packages put nvcc, and CMake does not look
if ! command -v nvcc > /dev/null; then
  echo "== no nvcc: the CUDA configuration is not built"
elif ! bash launch/deps.sh --cuda; then
  echo "== nvcc without the above: the CUDA configuration is not built"
else
  configure_options+=("${release_flags[@]}" -DCMAKE_UNITY_BUILD=ON)
  build_and_test cuda "ltrain cuda_tests" --label-regex cuda
fi

python3 tests/count_results.py "${results[@]}"
