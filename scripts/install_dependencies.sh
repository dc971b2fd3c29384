#!/usr/bin/env bash
# Installs what is missing of Debian's packages, as root or through sudo. Quiet when there is nothing to do.
#   scripts/install_dependencies.sh [build] [test] [bench] [demo]      without a word: build test bench
set -euo pipefail

packages_of() {
  case "$1" in
    build) echo g++ cmake ninja-build pkg-config libhwy-dev libdnnl-dev libfmt-dev nlohmann-json3-dev libcli11-dev libxxhash-dev liburing-dev ;;
    test) echo libgtest-dev libgmock-dev python3 clang-format git procps ;;
    bench) echo libgtest-dev libgmock-dev python3 fio ;;
    demo) echo bible-kjv ;;
    *) echo "install_dependencies: no group '$1'; there are build, test, bench and demo" >&2; return 1 ;;
  esac
}

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

[ $# -gt 0 ] || set -- build test bench
missing=()
for group in "$@"; do
  packages=$(packages_of "$group")
  if ! command -v dpkg-query >/dev/null; then
    echo "install_dependencies: this is no Debian: going on with what is installed (wanted: $packages)" >&2
    continue
  fi
  for package in $packages; do
    installed "$package" || [[ " ${missing[*]-} " == *" $package "* ]] || missing+=("$package")
  done
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "install_dependencies: run as root, or have sudo: missing are ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi

echo "installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"; }
# An old list is no failure as long as the packages come; what went wrong is shown when they do not.
apt update -qq >"$log" 2>&1 || true
apt install -y -qq --no-install-recommends "${missing[@]}" >>"$log" 2>&1 || {
  cat "$log" >&2
  echo "install_dependencies: apt-get could not install ${missing[*]}" >&2
  exit 1
}
