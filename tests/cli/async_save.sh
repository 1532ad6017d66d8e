#!/usr/bin/env bash
# Saves that are written while training goes on: a signal and a kill within one, a disk that says no (tried again, then a
# stop or a warning), many of them without growth, and the plan that says what they take.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
preload=$BINARY/tests/libpreload_faults.so
make_corpus 300
make_run 12
slow=(--set checkpoint.async=true --set checkpoint.write_mb_per_s=0.02)  # the parts take longer than the run
async=(--set checkpoint.async=true)
left() { (cd "$1/checkpoints" && echo ./*); }
same_end() {
    cmp <(cut -d, -f1-3 straight/metrics.csv) <(cut -d, -f1-3 "$1/metrics.csv") || fail "$1: the loss column differs"
    "$OGROM" inspect straight/checkpoints --diff "$1/checkpoints" > diff.log 2>&1 || { cat diff.log; fail "$1: checkpoints differ"; }
}
expect_exit 0 launch 2 "$OGROM" train run.toml --set run.output=straight
expect_text 'saves hold the steps up until they are on the disk \(checkpoint.async = false\), written past the page cache'

# The plan names the copy and the choice; the ledger's lines are there with async alone.
expect_exit 0 "$OGROM" plan run.toml "${slow[@]}"
expect_text 'saves hold the steps up for a copy .* behind them, past the page cache .*, at most 0.02 MB/s per rank'
expect_text 'snapshot.moment2 '
expect_exit 0 "$OGROM" plan run.toml
if grep -q 'snapshot' "$work/said"; then fail "a copy is planned for saves that are waited for"; fi
expect_exit 2 "$OGROM" plan run.toml --set checkpoint.write_mb_per_s=10
expect_text 'checkpoint.async'

# SIGTERM while the save of step 4 is under way: it and the last one are complete.
launch 2 "$OGROM" train run.toml "${slow[@]}" --set checkpoint.interval_steps=30 --set train.steps=100000 \
    --set train.log_interval_steps=1 --set run.output=stopped > run.log 2>&1 &
job=$!
await "$job" grep -qE 'step +31/' run.log || { tail run.log; fail "step 31 was not reached"; }
if grep -q 'saved .*step-00000030' run.log; then fail "the save of step 30 was not under way"; fi
kill -TERM "$(pgrep -f "^$OGROM train run.toml .*run.output=stopped( |\$)" | tail -1)"
code=0
wait "$job" || code=$?
[ "$code" -eq 75 ] || { tail run.log; fail "exit $code instead of 75"; }
[ "$(grep -c 'saved .*/step-' run.log)" -eq 2 ] || { tail run.log; fail "not two saves"; }
[ "$(left stopped | wc -w)" -eq 3 ] || fail "left: $(left stopped)"

# kill -9 of all ranks while a save is under way: the one before is there, the resumed run ends as the straight one.
launch 2 "$OGROM" train run.toml "${slow[@]}" --set train.steps=100000 --set checkpoint.interval_steps=20 \
    --set train.log_interval_steps=1 --set run.output=killed > run.log 2>&1 &
job=$!
await "$job" grep -qE 'step +41/' run.log || { tail run.log; fail "step 41 was not reached"; }
victims=$(pgrep -f "^$OGROM train run.toml .*run.output=killed( |\$)")
# shellcheck disable=SC2086  # a list of processes
kill -9 $victims
wait "$job" || true
gone() { for pid in $victims; do [ ! -e "/proc/$pid" ] || return 1; done; }
await $$ gone || fail "the killed ranks are there"  # one that nobody has waited for yet counts as alive
expect_exit 75 launch 2 "$OGROM" train run.toml "${slow[@]}" --set train.steps=100000 --set checkpoint.interval_steps=20 \
    --set run.output=killed --resume=auto --stop-after 1
expect_text 'resumed from .*step-00000020'
[ -z "$(find killed -name '*.tmp*')" ] || fail "left: $(find killed -name '*.tmp*')"

# train OUTPUT RULES option...: the disk fails as RULES say
train() {
    local output=$1 rules=$2
    shift 2
    launch 2 env LD_PRELOAD="$preload" OGROM_PRELOAD="$rules" "$OGROM" train run.toml --set "run.output=$output" "$@"
}
once='1 fsync step-00000004.tmp-*part-00001 5 1 1'
always='1 write step-00000008.tmp-*part-00001 28 1 0'
for way in async waited; do
    options=(--set checkpoint.keep_last=5)
    [ "$way" = waited ] || options+=("${async[@]}")
    # An error that goes away (field case B16) is tried again.
    expect_exit 0 train "once-$way" "$once" "${options[@]}"
    expect_text 'save of step 4 failed \(try 1 of 3\), the next one in 1 s: rank 1: .*part-00001.h5: cannot flush'
    [ "$(left "once-$way")" = './latest ./step-00000004 ./step-00000008 ./step-00000012' ] || fail "left: $(left "once-$way")"
    same_end "once-$way"
    # One that stays stops the run with the message of its first try, or is warned of with the age of the last good one.
    expect_exit 4 train "stop-$way" "$always" "${options[@]}" --set checkpoint.retries=1
    [ "$(grep -c 'save of step 8 failed' "$work/said")" -eq 1 ] || { cat "$work/said"; fail "not one retry"; }
    grep -E '^ogrom: .*exit 4' "$work/said" | grep -q 'rank 1: .*part-00001.h5: cannot write: No space left' || { cat "$work/said"; fail "message"; }
    [ "$(left "stop-$way")" = './latest ./step-00000004' ] || fail "left: $(left "stop-$way")"
    expect_exit 0 train "warn-$way" "$always" "${options[@]}" --set checkpoint.retries=0 --set checkpoint.on_failure=warn
    expect_text 'NO CHECKPOINT of step 8: rank 1: .*No space left.*; the run goes on .* last good checkpoint is of step 4'
    [ "$(left "warn-$way")" = './latest ./step-00000004 ./step-00000012' ] || fail "left: $(left "warn-$way")"
    grep -q '"code":4.*NO CHECKPOINT of step 8' "warn-$way/events.jsonl" || fail "no event"
    same_end "warn-$way"
    # What the run ends with is never only warned of.
    expect_exit 4 train "end-$way" '1 write step-00000012.tmp-*part-00001 28 1 0' "${options[@]}" --set checkpoint.retries=0 \
        --set checkpoint.on_failure=warn
    expect_text '^ogrom: .*part-00001.h5: cannot write'
done

# Sixty saves, each due while the one before is under way, with one kept: descriptors and memory stay as they were.
launch 2 "$OGROM" train run.toml "${async[@]}" --set checkpoint.interval_steps=1 --set checkpoint.keep_last=1 --set train.steps=2000 \
    --set run.output=many > run.log 2>&1 &
job=$!
await "$job" grep -q 'saved .*step-00000020' run.log || { tail run.log; fail "no 20 saves"; }
pid=$(pgrep -f "^$OGROM train run.toml .*run.output=many( |\$)" | head -1)
most_open() { local n=0 i; for ((i = 0; i < 30; i++)); do n=$(($(find "/proc/$pid/fd" -mindepth 1 | wc -l) > n ? $(find "/proc/$pid/fd" -mindepth 1 | wc -l) : n)); done; echo "$n"; }
resident() { awk '/^VmRSS/ { print $2 }' "/proc/$pid/status"; }
first=$(most_open) memory=$(resident)
await "$job" grep -q 'saved .*step-00000080' run.log || { tail run.log; fail "no 80 saves"; }
later=$(most_open) grown=$(($(resident) - memory))
deleted=$(find "/proc/$pid/fd" -lname '*step-*(deleted)' | wc -l)
kill -TERM "$pid"
wait "$job" || true
[ "$later" -le $((first + 2)) ] || fail "$first descriptors open after 20 saves, $later after 80"
[ "$grown" -lt 4096 ] || fail "$grown KiB more after sixty saves"
[ "$deleted" -le 2 ] || fail "$deleted files of checkpoints are open though they were removed"
echo "60 saves: $first, then $later descriptors, $grown KiB more; faults of the disk tried again, stopped for or told of"
