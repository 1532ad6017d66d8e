#!/usr/bin/env bash
# must_fail.sh FAULT PROGRAM FILTER: the tests pass without the fault and fail by assertion with it. FILTER may carry the
# prefix "mpiN:" to run the program on N ranks.
set -u
fault=$1 program=$2 filter=$3
launch=()
if [[ $filter =~ ^mpi([0-9]+):(.*)$ ]]; then
    launch=(mpirun --allow-run-as-root --oversubscribe --bind-to none -n "${BASH_REMATCH[1]}")
    filter=${BASH_REMATCH[2]}
fi
run() { OMP_NUM_THREADS=1 OGROM_FAULT=$1 timeout 120 "${launch[@]}" "$program" --gtest_color=no --gtest_filter="$filter" 2>&1; }
clean=$(run none) || { echo "$clean"; echo "FAIL: the tests fail without the fault"; exit 1; }
if grep -q '\[  SKIPPED \]' <<<"$clean" && ! grep -q '\[       OK \]' <<<"$clean"; then
    echo "fault '$fault': this processor does not run the code it sits in; nothing to catch"
    exit 0
fi
grep -qE '\[  PASSED  \] [1-9]' <<<"$clean" || { echo "$clean"; echo "FAIL: the filter selects no test"; exit 1; }
seeded=$(run "$fault")
status=$?
if [ "$status" -eq 0 ] || ! grep -q '\[  FAILED  \]' <<<"$seeded"; then
    echo "$seeded"
    echo "FAIL: fault '$fault' was not caught (exit $status)"
    exit 1
fi
echo "fault '$fault' caught"
