#!/usr/bin/env bash
# run_all.sh BUILD FAULT_BUILD: every test; prints each skip; a skip for a reason that is not allowed fails the run.
set -euo pipefail
build=$1 faults=$2
status=0
export OGROM_POISON=1
ctest --test-dir "$build" --no-tests=error --output-on-failure -j "${TEST_JOBS:-2}" | tee "$build/ctest.log" || status=1
ctest --test-dir "$faults" -L faults --no-tests=error --output-on-failure -j "${TEST_JOBS:-2}" | tee "$faults/ctest.log" || status=1
skipped=$(sed -n 's/^ *[0-9]* - \(.*\) (Skipped)$/\1/p' "$build/ctest.log" "$faults/ctest.log")
while read -r name; do
    [ -n "$name" ] || continue
    reason=$(grep -hA40 "Testing: $name\$" "$build/Testing/Temporary/LastTest.log" |
        grep -hiE 'skip' | head -1 || true)
    echo "skipped: $name: $reason"
    if ! grep -qiE 'gpu|shared/|chromium|privilege|avx-?512' <<<"$reason"; then
        echo "skipped for a reason that is not allowed (GPU, shared/, Chromium, missing privilege, a processor without AVX-512): $name"
        status=1
    fi
done <<<"$skipped"
if [ "$status" -eq 0 ]; then echo "all tests passed"; else echo "some tests failed"; fi
exit "$status"
