#!/usr/bin/env bash
# clang-format, include order and shellcheck on everything; clang-tidy on .cpp of src and kernels (its release cannot
# parse CUDA 13). BUILD is a configured build folder with compile_commands.json.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build/test}
status=0
mapfile -t sources < <(git ls-files '*.h' '*.cpp' '*.cu' '*.cuh')
clang-format --dry-run -Werror "${sources[@]}" || { echo "lint: run make format"; status=1; }
SOURCE=. bash tests/structure/includes.sh || status=1
SOURCE=. bash tests/structure/scripts.sh || status=1
# A file that this build leaves out (CUDA or cuDNN absent, or the stand-in where it is there) has no flags to be read with.
mapfile -t units < <(git ls-files 'src/*.cpp' 'kernels/*.cpp' | grep -v '^kernels/bench/' | while read -r unit; do
    if grep -qF "/$unit\"" "$build/compile_commands.json"; then echo "$unit"; else echo "lint: not in this build: $unit" >&2; fi
done)
printf '%s\n' "${units[@]}" |
    xargs -P "${JOBS:-2}" -n 4 clang-tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option --warnings-as-errors='*' 2> "$build/tidy.err" || status=1
[ "$status" -eq 0 ] || grep -vE 'warnings? generated|^Suppressed|^Use -header' "$build/tidy.err" || true
[ "$status" -eq 0 ] && echo "lint clean: ${#sources[@]} files formatted, ${#units[@]} checked by clang-tidy"
exit "$status"
