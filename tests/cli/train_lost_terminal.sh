#!/usr/bin/env bash
# A single process meets what a user's terminal does to it: Ctrl-C once and twice, hang-up with and without nohup, a
# reader that goes away; and what a disk does: a token set that shrinks, a history that is lost.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
set -m # background jobs get SIGINT as a terminal would send it
make_corpus 2000
make_run 100000
sed -i -e 's/interval_steps = 4/interval_steps = 0/' -e 's/output = "out"/output = "ended"/' run.toml

begin() {
    rm -rf ended
    "$@" > run.log 2>&1 &
    job=$!
}
third_step() { [ -s ended/metrics.csv ] && [ "$(wc -l < ended/metrics.csv)" -ge 5 ]; }
await_third() { await "$job" third_step || { cat run.log; fail "the run did not come to its third step"; }; }
ends() {
    local code=0
    wait "$job" || code=$?
    [ "$code" -eq "$1" ] || { cat run.log; fail "$what: exit $code instead of $1"; }
    echo "$what: exit $code"
}
saved() {
    local step
    step=$(tail -n 1 ended/metrics.csv | cut -d, -f1)
    [ "$(cat ended/checkpoints/latest)" = "$(printf 'step-%08d' "$step")" ] || fail "$what: not saved at step $step"
}

for signal in INT HUP USR2; do
    what="SIG$signal"
    begin "$OGROM" train run.toml
    await_third
    kill "-$signal" "$job"
    ends 75
    saved
done

what="SIGHUP under nohup"
begin nohup "$OGROM" train run.toml
await_third
kill -HUP "$job"
sleep 0.5
kill -0 "$job" 2> /dev/null || fail "$what: the run ended"
kill -TERM "$job"
ends 75
saved

# A micro-batch of seconds: the second press comes before its end, and so before the save.
what="SIGINT twice"
begin "$OGROM" train run.toml --set model.hidden=256 --set model.layers=4 \
    --set train.micro_batch=120 --set train.global_batch=120
await "$job" grep -q 'device: ' run.log || { cat run.log; fail "no plan"; }
sleep 0.5
kill -INT "$job"
sleep 0.4
if kill -0 "$job" 2> /dev/null; then
    kill -INT "$job"
    ends 130
    grep -q 'interrupted twice' run.log || { cat run.log; fail "$what: nothing was said"; }
else
    echo "$what: the step was over before the second one; not tried"
    wait "$job" || true
fi

# The reader ends after one line; the run goes on to its stop, and the file has every line.
what="train | head"
rm -rf ended
{ "$OGROM" train run.toml --set train.steps=33 --stop-after 30 2>&1 || echo "$?" > code; } | head -n 1 > head.log
[ "$(cat code)" = 75 ] || fail "$what: exit $(cat code)"
grep -q 'nobody reads standard error any more' ended/log.txt || { cat ended/log.txt; fail "$what: not noted"; }
grep -q 'saved: step 30' ended/log.txt || { cat ended/log.txt; fail "$what: the end is not in log.txt"; }
saved

what="history lost"
rm ended/metrics.csv
expect_exit 0 "$OGROM" train run.toml --set train.steps=33 --resume
expect_text '30 of 30 steps restored in ended/metrics.csv from ended/metrics.h5'
[ "$(wc -l < ended/metrics.csv)" -eq 35 ] || { cat ended/metrics.csv; fail "$what: not 33 rows"; }

# The run reads on, so that it comes to the part that is gone.
what="token set that shrinks"
begin "$OGROM" train run.toml
await_third
truncate -s 100 corpus.bin
ends 3
grep -q 'corpus.bin: the file became shorter' run.log || { cat run.log; fail "$what: not named"; }
echo "passed"
