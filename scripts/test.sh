#!/usr/bin/env bash
# Builds and runs all tests: first the release build with every test, then those of the sanitizer builds.
#   scripts/test.sh [--quick]      --quick: the release build only
# Ends with one line for all builds together, in the words of ctest's own closing line; status 0 when all passed.
set -euo pipefail
cd "$(dirname "$0")/.."

presets=(release asan tsan)
case "${1-}" in
  "") ;;
  --quick) presets=(release) ;;
  *) echo "usage: scripts/test.sh [--quick]" >&2; exit 2 ;;
esac

bash scripts/install_dependencies.sh build test bench

# Sanitizer builds leave out what is labelled slow, and take a share of the large matrices: another one for each commit.
sanitizer_share=8
STRATA_TEST_SEED=${STRATA_TEST_SEED:-$(git rev-parse --short=12 HEAD 2>/dev/null || echo 0)}
export STRATA_TEST_SEED
ran=0
failed=0
broken=()
summary=()

run_preset() {
  local preset=$1 began=$SECONDS status=0 closing of=0 fell=0 skipped=0
  echo "== $preset: build"
  if ! bash scripts/build.sh "$preset"; then
    broken+=("$preset does not build")
    return
  fi
  echo "== $preset: built in $((SECONDS - began)) s"
  began=$SECONDS
  local words=(--test-dir "build/$preset" --output-on-failure --no-tests=error -j "$(nproc)")
  [ "$preset" = release ] || words+=(-LE slow)
  local share=1
  [ "$preset" = release ] || share=$sanitizer_share
  STRATA_TEST_SHARE=$share ctest "${words[@]}" 2>&1 | tee "build/$preset-test.log" || status=$?
  # "97% tests passed, 3 tests failed out of 100"
  closing=$(grep -E '^[0-9]+% tests passed, [0-9]+ tests failed out of [0-9]+$' "build/$preset-test.log" | tail -n 1) || true
  if [ -z "$closing" ]; then
    broken+=("$preset ran no tests")
    return
  fi
  skipped=$(grep -c ' (Skipped)$' "build/$preset-test.log") || true
  read -r fell of < <(sed -E 's/.*passed, ([0-9]+) tests failed out of ([0-9]+)/\1 \2/' <<<"$closing")
  ran=$((ran + of))
  failed=$((failed + fell))
  [ "$status" -eq 0 ] || [ "$fell" -gt 0 ] || broken+=("ctest ended with status $status in $preset")
  summary+=("$preset: $((of - fell)) of $of tests passed ($skipped skipped) in $((SECONDS - began)) s")
}

for preset in "${presets[@]}"; do run_preset "$preset"; done

echo
[ ${#summary[@]} -eq 0 ] || printf '%s\n' "${summary[@]}" "matrices shared out by STRATA_TEST_SEED=$STRATA_TEST_SEED"
if [ ${#broken[@]} -gt 0 ]; then
  printf 'not run: %s\n' "${broken[@]}"
  exit 1
fi
echo "$(((ran - failed) * 100 / ran))% tests passed, $failed tests failed out of $ran"
[ "$failed" -eq 0 ]
