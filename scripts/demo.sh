#!/usr/bin/env bash
# Trains a language model of 10 M parameters on the King James Bible, on two ranks that shard all of its state, within a
# device budget that the unsharded state would not fit in; then the same model with most of its optimizer state on the
# disk, and that it learns the same to the last bit. About four minutes on two cores, after the build.
#   scripts/demo.sh [STEPS]
set -euo pipefail
cd "$(dirname "$0")/.."

steps=${1:-400}
budget=128MiB

bash scripts/install_dependencies.sh build test bench demo
echo "building"
bash scripts/build.sh release bin/strata bin/llm

folder=build/demo
mkdir -p "$folder"
if [ ! -s "$folder/bible.txt" ]; then
  echo gen1:1-rev22:21 | bible -f >"$folder/bible.part"
  mv "$folder/bible.part" "$folder/bible.txt"
fi

echo "training on $(wc -c <"$folder/bible.txt") bytes of text; 16 bytes of state a parameter, unsharded: 161 MB; budget of a rank: $budget"
train() {  # FLAGS...: the demo's model on two ranks
  build/release/bin/strata run -n 2 -- build/release/bin/llm train --preset demo --data "$folder/bible.txt" \
    --batch 4 --seq 256 --lr 0.002 --seed 1 --strata-stage 3 "$@"
}
train --steps "$steps" --log "$folder/log.jsonl" --strata-device-memory "$budget"

# Device and host budgets that leave room for a part of the optimizer state alone: the rest goes to the disk.
disk=$folder/nvme
mkdir -p "$disk"
chmod 700 "$disk"
few=$((steps < 40 ? steps : 40))
echo
echo "the first $few steps of a shorter run, with the state in memory"
train --steps "$few" --sample 0 --eval-sequences 16 --state-hash --log "$folder/memory.jsonl" \
  --strata-device-memory "$budget" >"$folder/memory.txt"
echo "the same with 48 MiB of device and 24 MiB of host memory for each rank, and the rest in $disk"
train --steps "$few" --sample 0 --eval-sequences 16 --state-hash --log "$folder/disk.jsonl" \
  --strata-device-memory 48MiB --strata-host-memory 24MiB --strata-nvme-dir "$disk" >"$folder/disk.txt"
grep -v '^evaluation loss' "$folder/disk.txt"  # so short a run's would be taken for the demo's

losses() { grep -o '"loss":[^,]*' "$1"; }
if ! cmp -s <(losses "$folder/memory.jsonl") <(losses "$folder/disk.jsonl") ||
  [ "$(grep '^state ' "$folder/memory.txt")" != "$(grep '^state ' "$folder/disk.txt")" ]; then
  echo "demo.sh: the run on the disk differs from the run in memory: see $folder/memory.jsonl, $folder/disk.jsonl" >&2
  exit 1
fi
echo "all $few losses and the state at the end are the same as in memory, to the last bit"
