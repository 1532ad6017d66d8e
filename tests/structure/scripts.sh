#!/usr/bin/env bash
# Shell scripts parse and pass shellcheck.
set -euo pipefail
cd "${SOURCE:-$(dirname "$0")/../..}"
mapfile -t scripts < <(git ls-files --cached --others --exclude-standard '*.sh' .ci/run)
for script in "${scripts[@]}"; do bash -n "$script"; done
shellcheck -x "${scripts[@]}"
echo "${#scripts[@]} scripts clean"
