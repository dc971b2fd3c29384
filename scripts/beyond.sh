#!/usr/bin/env bash
# Trains a model of 1.5 billion parameters in a process that the kernel allows 2 GiB: its state lies on the disk.
#   scripts/beyond.sh [STEPS]      default 4; as root, for a memory control group; 46 GB of disk in build/bench/beyond
# Prints the loss of each step and the group's peak. Called by scripts/bench.sh beyond.
set -euo pipefail
cd "$(dirname "$0")/.."
steps=${1:-4}
limit=$((2 << 30))

[ "$(id -u)" = 0 ] || { echo "beyond.sh: a memory control group needs root" >&2; exit 2; }
bash scripts/install_dependencies.sh build test bench
bash scripts/build.sh release bin/llm

folder=build/bench/beyond
mkdir -p "$folder/nvme"
chmod 700 "$folder/nvme"
for _ in $(seq 2000); do echo "The quick brown fox jumps over the lazy dog. Pack my box with five dozen jugs."; done >"$folder/text.txt"
cat >"$folder/config.json" <<'JSON'
{"model_type": "llama", "vocab_size": 256, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 30,
 "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
 "rope_theta": 10000.0, "tie_word_embeddings": false}
JSON

if [ -d /sys/fs/cgroup/memory ]; then
  group=/sys/fs/cgroup/memory/strata-beyond-$$ limit_file=memory.limit_in_bytes peak_file=memory.max_usage_in_bytes
else
  group=/sys/fs/cgroup/strata-beyond-$$ limit_file=memory.max peak_file=memory.peak
fi
mkdir "$group"
trap 'rmdir "$group"' EXIT
echo "$limit" >"$group/$limit_file"
(
  echo "$BASHPID" >"$group/cgroup.procs"
  exec ${LLM:-build/release/bin/llm} train --config "$folder/config.json" --data "$folder/text.txt" --steps "$steps" \
    --batch 1 --seq 128 --lr 0.00002 --warmup 0 --lr-shape constant --sample 0 --eval-sequences 1 --recompute \
    --log "$folder/log.jsonl" --strata-nvme-dir "$folder/nvme" --strata-leases 1 --strata-prefetch 0 \
    --strata-chunk 262144 --strata-device-memory 512MiB --strata-host-memory 700MiB
)
echo "peak of the control group: $(($(cat "$group/$peak_file") >> 20)) MiB of $((limit >> 20))"
