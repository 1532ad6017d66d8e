#!/usr/bin/env bash
# kill -9 of one rank or of all at random times of a run that saves after every step, so that most kills fall into a save:
# every resume works, from the newest checkpoint that was complete, and the run ends as the one that nobody killed, bit for
# bit. OGROM_KILLS and OGROM_KILL_SEED ask for more kills, or for the same ones again.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
kills=${OGROM_KILLS:-6} seed=${OGROM_KILL_SEED:-$$} run=dense.$$
RANDOM=$seed
make_corpus 300
make_run 400
options=(--set checkpoint.keep_last=2 --set train.log_interval_steps=1000)
train() { launch 4 "$OGROM" train run.toml "${options[@]}" "$@" < /dev/null; }
ranks_of() { pgrep -f "^$OGROM train run.toml .*run.output=$run( |\$)"; }
pid_of() {
    local pid
    for pid in $(ranks_of); do
        if grep -zqx "OMPI_COMM_WORLD_RANK=$1" "/proc/$pid/environ" 2> /dev/null; then echo "$pid"; fi
    done
}
complete() { find "$run/checkpoints" -maxdepth 1 -name 'step-????????' | sed 's/.*step-0*\([0-9]*\).*/\1/' | sort -n | tail -1; }

expect_exit 0 train --set checkpoint.interval_steps=0 --set run.output=straight
finish_and_compare() {
    expect_exit 0 train --set checkpoint.interval_steps=1 --set "run.output=$run" --resume=auto
    cmp <(cut -d, -f1-3 straight/metrics.csv) <(cut -d, -f1-3 "$run/metrics.csv") || fail "the loss column differs"
    "$OGROM" inspect straight/checkpoints --diff "$run/checkpoints" > diff.log 2>&1 || { cat diff.log; fail "checkpoints differ"; }
    [ -z "$(find "$run" -name '*.tmp*' -o -name run.lock)" ] || fail "left behind: $(find "$run" -name '*.tmp*')"
    rm -rf "$run"
}

done_kills=0 within=0 launches=0 newest=''
while [ "$done_kills" -lt "$kills" ]; do
    launches=$((launches + 1))
    [ "$launches" -le $((4 * kills)) ] || fail "only $done_kills kills in $launches launches"
    async=false  # saves that are waited for, and saves behind the steps, in turn
    [ $((launches % 2)) -eq 1 ] || async=true
    : > kill.log
    train --set checkpoint.interval_steps=1 --set "checkpoint.async=$async" --set "run.output=$run" --resume=auto > kill.log 2>&1 &
    job=$!
    saved() { grep -q 'saved .*/step-' kill.log; }
    await "$job" saved || { cat kill.log; fail "no save (seed $seed)"; }
    # What the resume found against what the kill before had left.
    from=$(sed -nE 's/.*resumed from .*step-0*([0-9]+) at step.*/\1/p' kill.log | head -1)
    [ "$from" = "$newest" ] || { cat kill.log; fail "resumed from step '$from', step '$newest' was complete (seed $seed)"; }
    sleep "0.$((RANDOM % 10))$((RANDOM % 10))$((RANDOM % 10))"
    victim=$((RANDOM % 6))  # 4 and 5: all of them
    if [ "$victim" -lt 4 ]; then victims=$(pid_of "$victim"); else victims=$(ranks_of || true); fi
    # shellcheck disable=SC2086  # a list of processes
    kill -9 $victims 2> /dev/null || true
    code=0
    wait "$job" || code=$?
    gone() { ! ranks_of > /dev/null; }
    await $$ gone || fail "ranks are left"
    if [ "$code" -eq 0 ]; then
        newest=''
        finish_and_compare
        continue
    fi
    newest=$(complete) done_kills=$((done_kills + 1))
    if compgen -G "$run/checkpoints/*.tmp*" > /dev/null; then within=$((within + 1)); fi
done
finish_and_compare
echo "$kills kills (seed $seed), $within within a save: each resumed from the newest complete checkpoint, bit-equal at the end"
