#!/usr/bin/env bash
# SIGTERM and SIGUSR1, to one rank, to all and to mpirun, once and twice: saved at one common step, exit code 75, and the
# run that was stopped again and again ends as the one that never was, bit for bit. A stop is heard within a step and
# within an evaluation, and leaves the weights of the last finished step.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
make_corpus 4000
make_run 600
sed -i 's/interval_steps = 4/interval_steps = 20/' run.toml
# shellcheck source=tests/cli/background.sh
source "$SOURCE/tests/cli/background.sh"

launch "$ranks" "$OGROM" train run.toml --set run.output=straight > straight.log 2>&1 || { cat straight.log; fail "straight run"; }

for what in "TERM one" "USR1 all" "TERM all twice" "USR1 mpirun" "TERM one late"; do
    read -r signal target more <<< "$what"
    begin stopped --resume=auto
    if [ "$more" = late ]; then await_line 'saved '; else await_line 'step +[0-9]+/600'; fi
    send "$signal" "$target"
    [ "$more" != twice ] || { sleep 0.01; send "$signal" "$target" 2> /dev/null || true; }
    ends 75
    grep -qE "stopped by SIG$signal on rank [0-9]" run.log || { cat run.log; fail "$what: not named"; }
    saved_at_last_row
done
what="TERM mpirun"
# Few lines here: mpirun reads no output any more once it was told to end, and a full pipe blocks the writer.
grace=(--mca odls_base_sigkill_timeout 1) every=200
begin stopped --resume --set train.steps=600
await_line 'step +[0-9]+/600'
send TERM mpirun
code=0
wait "$job" || code=$? # mpirun's own code for a job it was told to end, or ours
[ "$code" -ne 0 ] || fail "$what: exit 0"
echo "$what: exit $code"
saved_at_last_row
grace=() every=1
begin stopped --resume
what=resume
ends 0
cmp <(columns straight) <(columns stopped) || fail "the loss column differs"
"$OGROM" inspect straight/checkpoints --diff stopped/checkpoints > diff.log 2>&1 || { cat diff.log; fail "checkpoints differ"; }

what="signal in set-up"
begin setup
await_line 'data: '
send TERM one
ends 75

# A step of minutes and an evaluation of minutes: both are left at the next micro-batch, on 3 ranks.
ranks=3
what="signal within a step"
begin long --set train.global_batch=300000 --set train.micro_batch=1
await_line 'device: '
sleep 2
send TERM one
ends 75
[ "$(cat long/checkpoints/latest)" = step-00000000 ] || fail "$what: half a step was saved"
what="time limit within a step"
begin limited --set train.global_batch=300000 --set train.micro_batch=1 --time-limit 0.05
ends 75
grep -q 'stopped by --time-limit 0.05' run.log || { cat run.log; fail "$what: not named"; }
[ "$(cat limited/checkpoints/latest)" = step-00000000 ] || fail "$what: half a step was saved"

what="signal within an evaluation"
begin evaluated --set data.valid=corpus --set train.eval_interval_steps=1 --set train.micro_batch=1 --set train.global_batch=3
await_line 'step +1/600'
sleep 0.3
send USR1 one
ends 75
saved_at_last_row
echo "signals: heard, saved, resumed bit-equal"
