#!/usr/bin/env bash
# Installs the packages that building and testing need; the only place that lists system packages. Runs as root or with
# sudo on Debian 12 and Ubuntu 24.04. Prints what it installs; returns at once if everything is installed.
#
#   bash launch/deps.sh            compilers and libraries
#   bash launch/deps.sh --corpus   also the text that launch/quickstart.sh trains on
#   bash launch/deps.sh --tests    also python3-venv, which tests/run.sh needs for its virtual environment, dpkg-dev, doxygen
#   bash launch/deps.sh --fuzz     also clang with libFuzzer, for the fuzz targets
#   bash launch/deps.sh --cuda     also the headers of cudnn-frontend, into build/third_party; checks that the CUDA
#                                  toolkit, cuDNN and NCCL are present, but does not install them
#   bash launch/deps.sh --cuda=FOLDER   like --cuda, but installs the three from PyPI into FOLDER
set -euo pipefail
unset CDPATH

packages=(
  g++ cmake ninja-build ccache pkg-config git python3  # tools
  libopenmpi-dev openmpi-bin                           # communication between CPU ranks
  libdnnl-dev ocl-icd-opencl-dev                       # matmuls on the CPU; oneDNN's CMake files need OpenCL
  libhdf5-dev                                          # checkpoints
  libfmt-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev
  libpcre2-dev libutf8proc-dev                         # tokenizers
  zlib1g-dev libzstd-dev                               # compressed text
  catch2
)

cuda=0
cuda_folder=
for option in "$@"; do
  case "$option" in
    --cuda | --cuda=?*)
      cuda=1
      [ "$option" = --cuda ] || cuda_folder=${option#--cuda=}
      python3 -m pip --version > /dev/null 2>&1 || packages+=(python3-pip)
      ;;
    --corpus) packages+=(fortunes) ;;
    --tests) packages+=(python3-venv dpkg-dev doxygen) ;;
    --fuzz) packages+=(clang libclang-rt-dev) ;;
    *)
      echo "error: [deps] unknown option $option" >&2
      echo "hint: bash launch/deps.sh [--corpus] [--tests] [--fuzz] [--cuda[=FOLDER]]" >&2
      exit 2
      ;;
  esac
done

# Only the headers are needed: one file of the library includes them. From 1.22 on they need NVRTC.
frontend_version=1.18.0
frontend_hash=sha256:6c023539ca6de99234cf5102c3ec0d6af817f5396fc93028a22ba5b834a35b8a

fetch_cudnn_frontend() {
  local folder wheels
  folder="$(cd "$(dirname "$0")/.." && pwd)/build/third_party/cudnn-frontend"
  [ "$(cat "$folder/version" 2> /dev/null)" = "$frontend_version" ] && return 0
  echo "fetching: nvidia-cudnn-frontend $frontend_version into $folder"
  wheels=$(mktemp -d)
  echo "nvidia-cudnn-frontend==$frontend_version --hash=$frontend_hash" > "$wheels/requirements"
  # The same wheel serves every host: its headers depend on neither the Python nor the processor.
  if ! python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
    --platform manylinux_2_28_x86_64 --require-hashes --requirement "$wheels/requirements" --dest "$wheels" \
    > "$wheels/log" 2>&1; then
    tail -n 5 "$wheels/log" >&2
    rm -rf "$wheels"
    echo "error: [deps] pip could not download nvidia-cudnn-frontend==$frontend_version" >&2
    echo "hint: put its include/ into $folder, or configure with -DLIBTRAIN_CUDNN_FRONTEND_INCLUDE_DIR=..." >&2
    return 1
  fi
  python3 -m zipfile -e "$wheels"/*.whl "$wheels/unpacked"
  rm -rf "$folder"
  mkdir -p "$folder"
  cp -r "$wheels/unpacked/include" "$wheels"/unpacked/*.dist-info/licenses "$folder"
  echo "$frontend_version" > "$folder/version"  # last, so that an interrupted run starts again
  rm -rf "$wheels"
}

# Installs the CUDA toolkit, NCCL and cuDNN from PyPI. Fails and changes nothing if the folder holds other packages.
install_cuda() {
  local list log packages
  list="$(cd "$(dirname "$0")" && pwd)/cuda_packages.txt"
  packages=$(grep == "$list")
  [ "$(cat "$cuda_folder/packages" 2> /dev/null)" = "$packages" ] && return 0
  if [ -e "$cuda_folder/nvidia" ]; then
    echo "error: [deps] $cuda_folder/nvidia holds other packages than launch/cuda_packages.txt" >&2
    echo "hint: name a new folder, or remove this one" >&2
    return 1
  fi
  echo "fetching: CUDA of PyPI (launch/cuda_packages.txt, 1.8 GB) into $cuda_folder"
  log=$(mktemp)
  if ! python3 -m pip install --quiet --no-deps --only-binary=:all: --require-hashes --requirement "$list" \
    --target "$cuda_folder" > "$log" 2>&1; then
    tail -n 5 "$log" >&2
    rm -f "$log"
    echo "error: [deps] pip could not install launch/cuda_packages.txt into $cuda_folder" >&2
    return 1
  fi
  rm -f "$log"
  echo "$packages" > "$cuda_folder/packages"  # last: marks the folder as complete
}

# The version MAJOR.MINOR that a header defines under two names, in the toolkit's folder or in the system's.
header_version() {
  local file
  file=$({ compgen -G "$toolkit/include/$1" || compgen -G "/usr/include/$1" || compgen -G "/usr/include/*/$1"; } | head -n 1)
  [ -z "$file" ] || sed -nE "s/^#define +($2|$3) +([0-9]+).*/\2/p" "$file" | paste -sd .
}
problems=()
check() {  # what, the oldest version that will do, the one that was found
  [ "$(printf '%s\n' "$2" "${3:-0}" | sort -V | head -n 1)" = "$2" ] || problems+=("$1, version $2 or newer, found ${3:-none}")
}

require_cuda() {
  local nvcc toolkit
  nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
  toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  check "nvcc of the CUDA toolkit" 13.0 "$("$nvcc" --version 2> /dev/null | sed -nE 's/.*release ([0-9]+\.[0-9]+).*/\1/p')"
  check "cuDNN's headers" 9.0 "$(header_version cudnn_version.h CUDNN_MAJOR CUDNN_MINOR)"
  check "NCCL's headers" 2.28 "$(header_version nccl.h NCCL_MAJOR NCCL_MINOR)"
  [ ${#problems[@]} -gt 0 ] || return 0
  printf 'error: [deps] expected %s\n' "${problems[@]}" >&2
  echo "hint: https://developer.nvidia.com/cuda-downloads and https://developer.nvidia.com/cudnn-downloads, or all of it" \
    "from PyPI: bash launch/deps.sh --cuda=FOLDER" >&2
  return 1
}

# Does the work of --cuda once the packages are installed, then exits.
finish() {
  [ "$cuda" -eq 1 ] || exit 0
  if [ -n "$cuda_folder" ]; then install_cuda; else require_cuda; fi
  fetch_cudnn_frontend
  exit 0
}

needed="hint: install these yourself, under the names of your system: ${packages[*]}"

if ! command -v dpkg-query > /dev/null; then
  echo "error: [deps] expected Debian 12 or Ubuntu 24.04, found a system without dpkg" >&2
  echo "$needed" >&2
  exit 2
fi

present=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2> /dev/null | sed -n 's/^installed //p' || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF "$package" <<< "$present" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && finish

# shellcheck source=/dev/null
system=$(. /etc/os-release && echo "${ID:-unknown} ${VERSION_ID:-}")
case "$system" in
  "debian 12" | "ubuntu 24.04") ;;
  *) echo "warning: [deps] expected Debian 12 or Ubuntu 24.04, found $system: trying the same package names" >&2 ;;
esac

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo > /dev/null; then
    echo "error: [deps] expected root or sudo to install packages, found neither" >&2
    echo "hint: as root: apt-get install ${missing[*]}" >&2
    exit 2
  fi
  as_root=(sudo)
fi

apt_get() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@"
}

echo "installing: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt_get update && apt_get install -y --no-install-recommends "${missing[@]}"; } > "$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "error: [deps] apt-get could not install: ${missing[*]}" >&2
  echo "$needed" >&2
  exit 1
fi
echo "installed: ${missing[*]}"
finish
