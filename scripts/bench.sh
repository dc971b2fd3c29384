#!/usr/bin/env bash
# Runs benchmarks of the release build on a machine that should be doing nothing else, and prints their tables.
#   scripts/bench.sh [--json FILE] [GROUP...]      groups: update shm llm disk nvme; without one, all of these
#   scripts/bench.sh beyond                        1.5 billion parameters in 2 GiB: see scripts/beyond.sh
# FILE becomes one array of rows {"name", "value", "unit", "limit", "ratio"}: ratio 1 is the limit taken in the same run.
set -euo pipefail
if [ "${1:-}" = beyond ]; then exec bash "$(dirname "$0")/beyond.sh" "${@:2}"; fi
json=
groups=()
while [ $# -gt 0 ]; do
  case "$1" in
    --json) json=$(realpath -m -- "${2:?"--json needs a file"}"); shift 2 ;;
    update | shm | llm | disk | nvme) groups+=("$1"); shift ;;
    *) echo "usage: scripts/bench.sh [--json FILE] [update] [shm] [llm] [disk] [nvme], not '$1'" >&2; exit 2 ;;
  esac
done
[ ${#groups[@]} -gt 0 ] || groups=(update shm llm disk nvme)
cd "$(dirname "$0")/.."

bash scripts/install_dependencies.sh build test bench
programs=()
for group in "${groups[@]}"; do programs+=("tests/${group}_bench"); done
bash scripts/build.sh release "${programs[@]}"

mkdir -p build/bench
files=()
for group in "${groups[@]}"; do
  files+=("build/bench/$group.json")
  rm -f "${files[-1]}"
  "build/release/tests/${group}_bench" --json "${files[-1]}"
done

[ -n "$json" ] || exit 0
python3 -c '
import json, pathlib, sys
rows = [row for path in sys.argv[2:] for row in json.loads(pathlib.Path(path).read_text())]
pathlib.Path(sys.argv[1]).write_text(json.dumps(rows, indent=1) + "\n")
' "$json" "${files[@]}"
