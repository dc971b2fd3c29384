#!/usr/bin/env bash
# Configures and builds a preset in build/PRESET: scripts/build.sh PRESET [TARGET...]. Uses ccache where it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?"usage: scripts/build.sh PRESET [TARGET...]"}
shift

# One compiler a core, with 1.5 GiB of free memory each.
compiler_count() {
  local free_kib by_memory
  free_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  by_memory=$((free_kib / 1572864))
  local jobs=$(($(nproc) < by_memory ? $(nproc) : by_memory))
  echo $((jobs > 1 ? jobs : 1))
}

launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
mkdir -p build
log=build/$preset-build.log
if ! { cmake --preset "$preset" "${launcher[@]}" &&
  cmake --build --preset "$preset" -j "$(compiler_count)" ${1:+--target "$@"}; } >"$log" 2>&1; then
  tail -n 60 "$log" >&2
  echo "build: preset $preset failed; all of it is in $log" >&2
  exit 1
fi
