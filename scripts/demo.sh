#!/usr/bin/env bash
# Trains a language model of 10 M parameters on the King James Bible, on two ranks that shard all of its state, within a
# device budget that the unsharded state would not fit in. About two and a half minutes on two cores, after the build.
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
exec build/release/bin/strata run -n 2 -- \
  build/release/bin/llm train --preset demo --data "$folder/bible.txt" --steps "$steps" --batch 4 --seq 256 --lr 0.002 --seed 1 \
  --log "$folder/log.jsonl" --strata-stage 3 --strata-device-memory "$budget"
