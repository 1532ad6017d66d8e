#!/usr/bin/env bash
# run_all.sh BUILD FAULT_BUILD [LABEL]: every test, or those with LABEL (checkpoint); prints each skip; a skip for a reason that is not allowed fails the run.
set -euo pipefail
build=$1 faults=$2 only=()
if [ -n "${3:-}" ]; then only=(-L "$3"); fi
status=0
export OGROM_POISON=1
# Tests share the cores: a thread that waits for its team must sleep, or a region lasts as long as its neighbours' turns.
export OMP_WAIT_POLICY=passive
ctest --test-dir "$build" "${only[@]}" --no-tests=error --output-on-failure -j "${TEST_JOBS:-2}" | tee "$build/ctest.log" || status=1
ctest --test-dir "$faults" -L faults "${only[@]}" --no-tests=error --output-on-failure -j "${TEST_JOBS:-2}" | tee "$faults/ctest.log" || status=1
# What a skipped test said: the line behind GoogleTest's "file:line: Skipped", else a script's own line "skip...: why".
reason_of() {
    awk -v name="Testing: $1" '
        substr($0, length($0) - length(name) + 1) == name { inside = 1; next }
        inside && /\/[0-9]+ Testing: / { exit }
        inside && /: Skipped$/ { getline; print; exit }
        inside && /^skip/ { print; exit }' "$build/Testing/Temporary/LastTest.log" "$faults/Testing/Temporary/LastTest.log"
}
skipped=$(sed -n 's/^[[:space:]]*[0-9]* - \(.*\) (Skipped)$/\1/p' "$build/ctest.log" "$faults/ctest.log")
# What ctest counts as skipped, by its own word for each: none may be lost on the way here.
counted=$(awk '/\*\*\*Skipped/ { n++ } END { print n + 0 }' "$build/ctest.log" "$faults/ctest.log")
if [ "$(grep -c . <<<"$skipped")" -ne "$counted" ]; then
    echo "ctest skipped $counted tests, but names other ones"
    status=1
fi
while read -r name; do
    [ -n "$name" ] || continue
    reason=$(reason_of "$name")
    echo "skipped: $name: $reason"
    if ! grep -qiE 'gpu|shared/|chromium|privilege|avx-?512' <<<"$reason"; then
        echo "skipped for a reason that is not allowed (GPU, shared/, Chromium, missing privilege, a processor without AVX-512): $name"
        status=1
    fi
done <<<"$skipped"
if [ "$status" -eq 0 ]; then echo "all tests passed"; else echo "some tests failed"; fi
exit "$status"
