#!/usr/bin/env bash
# ogrom plan prints what train then chooses and takes, line by line; threads by the environment; and a demo that does
# not fit is refused before it removes the last one.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
make_corpus 200
make_run 2
# Ledger lines that hold before a run: all but the libraries, which are measured, and the sum with them.
lines() { sed -E 's/^.* info: //' "$1" | grep -E ' (device|host|baseline) +[0-9.]+ [KMGT]?i?B ' | grep -v '^libraries'; }

for layout in parallel.zero=2 parallel.tensor=2 parallel.pipeline=2; do
    expect_exit 0 "$OGROM" plan run.toml --ranks 2 --set "$layout"
    expect_text '^rank 0 takes '
    cp "$work/said" planned
    expect_exit 0 launch 2 "$OGROM" train run.toml --set "$layout" --set "run.output=$layout"
    [ "$(lines planned | wc -l)" -gt 20 ] || { cat planned; fail "$layout: the plan has no ledger"; }
    # A plan without rank 0 as the largest prints that rank's lines behind its own.
    diff <(lines planned | head -n "$(lines "$work/said" | wc -l)") <(lines "$work/said") || fail "$layout: train took another ledger"
done
expect_exit 2 "$OGROM" plan run.toml --ranks 3 --set parallel.tensor=2
expect_text 'parallel.tensor'

OMP_NUM_THREADS=1,2 expect_exit 0 launch 1 "$OGROM" train run.toml --set run.output=one --set run.threads=0
expect_text 'threads as OMP_NUM_THREADS = 1 asks'
expect_text '1 thread per rank'
OMP_NUM_THREADS=7 expect_exit 0 launch 1 "$OGROM" train run.toml --set run.output=other # run.threads = 1 in the file
expect_text '1 thread per rank'
if grep -q 'OMP_NUM_THREADS' "$work/said"; then fail "the environment won over run.threads"; fi

mkdir -p jobscripts/local results/runs/demo
cp "$SOURCE/jobscripts/local/demo.sh" jobscripts/local/
touch results/runs/demo/kept
for ranks in 3 0 6 x; do
    RANKS=$ranks expect_exit 2 bash jobscripts/local/demo.sh
    expect_text "RANKS=$ranks does not fit.*2, 4, 8, 16, 32 or 64"
    [ -e results/runs/demo/kept ] || fail "RANKS=$ranks removed the last demo"
done
echo "plans, threads and refusals are as said"
