#!/usr/bin/env bash
# kill -9 of one rank in the middle: all ranks end within 10 s with one message naming it; --resume then ends at the
# same loss and weights, bit for bit, as the run that was never interrupted.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
# A name of this run alone: other tests kill and count processes at the same time.
killed=killed.$$
make_corpus 300
make_run 2000
steps=(--set train.steps=2000 --set checkpoint.interval_steps=100)
launch 2 "$OGROM" train run.toml "${steps[@]}" --set run.output=straight > straight.log 2>&1 || { cat straight.log; fail "straight run"; }

launch 2 "$OGROM" train run.toml "${steps[@]}" --set "run.output=$killed" > killed.log 2>&1 &
job=$!
await "$job" test -e "$killed/checkpoints/latest" || { cat killed.log; fail "no checkpoint"; }
victim=$(pgrep -f "$OGROM train run.toml .*run.output=$killed( |\$)" | while read -r pid; do
    if grep -zqx OMPI_COMM_WORLD_RANK=1 "/proc/$pid/environ" 2> /dev/null; then echo "$pid"; fi
done)
[ -n "$victim" ] || { cat killed.log; fail "rank 1 not found (the run ended before the kill?)"; }
kill -9 "$victim"
start=$(date +%s%N)
code=0
wait "$job" || code=$?
took=$((($(date +%s%N) - start) / 1000000))
[ "$code" -ne 0 ] || fail "exit 0 after a killed rank"
[ "$took" -lt 10000 ] || fail "took $took ms to end"
for ((i = 0; i < 100; i++)); do
    pgrep -f "run.output=$killed" > /dev/null || break
    sleep 0.1
done
if pgrep -f "run.output=$killed" > /dev/null; then fail "orphans left"; fi
count=$(grep -c '^ogrom: .*rank 1' killed.log || true)
[ "$count" -eq 1 ] || { cat killed.log; fail "$count messages name rank 1, expected one"; }

expect_exit 2 launch 2 "$OGROM" train run.toml "${steps[@]}" --set "run.output=$killed"
expect_text 'resume'
launch 2 "$OGROM" train run.toml "${steps[@]}" --set "run.output=$killed" --resume > resumed.log 2>&1 || { cat resumed.log; fail "resume"; }
# loss and norm of the last row, and the weight hash of the last checkpoint
last() { tail -1 "$1/metrics.csv" | cut -d, -f1-3; }
[ "$(last straight)" = "$(last "$killed")" ] || fail "last row differs: $(last straight) against $(last "$killed")"
rows=$(wc -l < straight/metrics.csv)
[ "$rows" -eq "$(wc -l < "$killed/metrics.csv")" ] || fail "row counts differ"
"$OGROM" inspect straight/checkpoints --diff "$killed/checkpoints" > diff.log 2>&1 || { cat diff.log; fail "checkpoints differ"; }
echo "killed rank named in $took ms; resumed run equals the straight run"
