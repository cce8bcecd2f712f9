#!/usr/bin/env bash
# Installs what building and testing need; the only place that knows packages. Debian 12 and Ubuntu 24.04, as root or
# with sudo. Says what it installs; returns at once where everything is there.
#
#   bash launch/deps.sh            compilers and libraries
#   bash launch/deps.sh --corpus   also the text that launch/quickstart.sh trains on
#   bash launch/deps.sh --tests    also what tests/run.sh needs to make a virtual environment of Python
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config git python3  # tools
  libopenmpi-dev openmpi-bin                           # communication between CPU ranks
  libdnnl-dev                                          # matrix products on the CPU
  libhdf5-dev                                          # checkpoints
  libfmt-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev
  catch2
)

for option in "$@"; do
  case "$option" in
    --corpus) packages+=(fortunes) ;;
    --tests) packages+=(python3-venv) ;;
    *)
      echo "error: [deps] unknown option $option" >&2
      echo "hint: bash launch/deps.sh [--corpus] [--tests]" >&2
      exit 2
      ;;
  esac
done

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
[ ${#missing[@]} -eq 0 ] && exit 0

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
