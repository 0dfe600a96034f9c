#!/usr/bin/env bash
# Makes a Debian 12 machine ready to build and test; run by `make setup`, and free to run again at any time.
#
# 1. Debian packages: asks dpkg what is missing, and calls apt only for that (as root, or through sudo)
# 2. .venv: a virtual environment of the system's python3 with the pinned packages of scripts/requirements.txt, LibTorch
#    among them (about 5 GB). Its stamp is a copy of that file, written last: an interrupted call starts this step again
# With LIBTORCH set (a folder with include/ and lib/) that one is used, and .venv goes without torch; the tests that
# compare with PyTorch in Python are then skipped, and say so.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  make g++ cmake ninja-build ccache mold pkg-config git ca-certificates
  libtomlplusplus-dev libspdlog-dev libfmt-dev libboost-dev libboost-filesystem-dev libsqlite3-dev libcli11-dev
  nlohmann-json3-dev libsentencepiece-dev libpcre2-dev libutf8proc-dev libssl-dev libgloo-dev libgtest-dev libgmock-dev
  libcpp-httplib-dev libjs-dygraphs  # the page of `wmtp-host ui`
  chromium                           # its tests open it there: 122 MB to fetch, 415 MB on the disk
  zsh fish                           # what `wmtp-host completion` prints is read by them in its tests
  iproute2                           # tests of several hosts join network namespaces with it
  sqlite3 python3 python3-venv
  python3.11 libpython3.11-testsuite  # the default experiments train on these sources
)
torch_version=$(sed -n 's/^torch==//p' scripts/requirements.txt)

say() { echo "setup: $*" >&2; }
fail() { say "$*"; exit 1; }

install_packages() {
  command -v dpkg-query >/dev/null || fail "no dpkg-query here: this script knows Debian 12 only." \
    "Install what corresponds to: ${packages[*]}"
  local missing=() package
  for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0

  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "missing packages, and neither root nor sudo. Run as root:" \
      "apt-get install --no-install-recommends ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

check_libtorch() {
  local header="$LIBTORCH/include/torch/headeronly/version.h"
  [ -f "$header" ] || fail "LIBTORCH=$LIBTORCH holds no include/torch/headeronly/version.h: wanted the folder of a" \
    "LibTorch $torch_version with include/ and lib/; unset LIBTORCH to have it installed into .venv"
  local found
  found=$(sed -n 's/^#define TORCH_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' "$header" | paste -sd.)
  [ "$found" = "$torch_version" ] || fail "LIBTORCH=$LIBTORCH is LibTorch $found, wanted $torch_version"
}

install_python_packages() {
  local wanted stamp=.venv/wmtp-requirements.txt
  wanted=$(grep -v '^#' scripts/requirements.txt)
  if [ -n "${LIBTORCH:-}" ]; then
    check_libtorch
    say "LibTorch from LIBTORCH=$LIBTORCH; .venv goes without torch, and without peft, which would bring it"
    wanted=$(grep -v -e '^torch==' -e '^peft==' <<<"$wanted")
  fi
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && .venv/bin/python -c '' 2>/dev/null; then
    return 0
  fi
  .venv/bin/python -c 'import pip' 2>/dev/null || {
    say "making the virtual environment .venv"
    /usr/bin/python3 -m venv --clear .venv
  }
  say "installing into .venv:" $wanted
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r /dev/stdin <<<"$wanted" ||
    fail "pip could not install these; its own words stand above. Call \`make setup\` again once the cause is gone"
  printf '%s\n' "$wanted" > "$stamp"
}

install_packages
install_python_packages
