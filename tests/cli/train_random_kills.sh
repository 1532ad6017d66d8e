#!/usr/bin/env bash
# kill -9 of a random rank at random times (MPI start-up, set-up, steps, evaluation, save): every time all ranks end
# (the time is printed), nothing is left that blocks a resume, and one message names the rank once the session was up. The run
# that was killed again and again ends as the one that never was, bit for bit.
# OGROM_KILLS and OGROM_KILL_SEED ask for more, or for the same ones again.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
kills=${OGROM_KILLS:-6}
RANDOM=${OGROM_KILL_SEED:-$$}
echo "seed ${OGROM_KILL_SEED:-$$}"
make_corpus 300
make_run 1500
small=(--set train.global_batch=12 --set train.micro_batch=1 --set train.eval_interval_steps=100
    --set train.eval_samples=64 --set train.log_interval_steps=100 --set checkpoint.interval_steps=50)

# run RANKS FOLDER option...: one launch
run() {
    local ranks=$1 output=$2
    shift 2
    launch "$ranks" "$OGROM" train run.toml "${small[@]}" --set "run.output=$output" "$@"
}

# pid_of FOLDER RANK: process of that rank, once it has become ogrom and knows its rank
pid_of() {
    local pid
    for pid in $(pgrep -f "^$OGROM train run.toml .*run.output=$1( |\$)"); do
        if grep -zqx "OMPI_COMM_WORLD_RANK=$2" "/proc/$pid/environ" 2> /dev/null; then
            echo "$pid"
            return
        fi
    done
}

# kill_once RANKS FOLDER: launches, kills; sets `hit` to where the run was, `ended` to yes where it was over by then
kill_once() {
    local ranks=$1 output=$2 victim=$((RANDOM % $1)) pid='' start took code=0 up=no left
    run "$ranks" "$output" --resume=auto > kill.log 2>&1 &
    local job=$!
    found() { pid=$(pid_of "$output" "$victim") && [ -n "$pid" ]; }
    await "$job" found || { cat kill.log; fail "rank $victim did not start"; }
    sleep "$((RANDOM % 3)).$((RANDOM % 900 + 100))"
    grep -q 'data: ' kill.log && up=yes
    start=$(date +%s%N)
    kill -9 "$pid" 2> /dev/null || true
    wait "$job" || code=$?
    took=$((($(date +%s%N) - start) / 1000000))
    [ "$took" -lt 60000 ] || { cat kill.log; fail "took $took ms to end"; }
    for ((i = 0; i < 200; i++)); do
        left=$(pgrep -f "^$OGROM train run.toml .*run.output=$output" || true)
        [ -z "$left" ] && break
        sleep 0.05
    done
    [ -z "$left" ] || { cat kill.log; fail "orphans left: $left"; }
    hit="rank $victim of $ranks: ended before the kill"
    ended=yes
    [ "$code" -ne 0 ] || return 0
    ended=no
    hit=$(grep -m1 -oE "^ogrom: rank $victim .*died in phase [a-z]+, step [0-9]+" kill.log || true)
    local named
    named=$(grep -cE '^ogrom: (rank|stopped|the launcher|MPI)' kill.log || true)
    if [ "$up" = yes ]; then
        [ -n "$hit" ] || { cat kill.log; fail "no message names rank $victim"; }
        [ "$named" -eq 1 ] || { cat kill.log; fail "$named messages instead of one"; }
    else
        [ "$named" -le 1 ] || { cat kill.log; fail "$named messages during start-up"; }
        hit=${hit:-rank $victim of $ranks: in MPI start-up}
    fi
    hit="$hit ($took ms)"
}

columns() { cut -d, -f1-3 "$1/metrics.csv"; }

# Takes the run to its end and compares it with the straight one.
finish_and_compare() {
    local ranks=$1 left
    run "$ranks" "killed$ranks" --resume=auto > resumed.log 2>&1 || { cat resumed.log; fail "resume"; }
    cmp <(columns "straight$ranks") <(columns "killed$ranks") || fail "the loss column differs on $ranks ranks"
    "$OGROM" inspect "straight$ranks/checkpoints" --diff "killed$ranks/checkpoints" > diff.log 2>&1 ||
        { cat diff.log; fail "checkpoints differ on $ranks ranks"; }
    left=$(find "killed$ranks" -name '*.tmp-*' -o -name run.lock)
    [ -z "$left" ] || fail "left behind: $left"
    rm -rf "killed$ranks"
}

for ranks in 2 3; do
    run "$ranks" "straight$ranks" > straight.log 2>&1 || { cat straight.log; fail "straight run"; }
done
done_kills=0 launches=0
while [ "$done_kills" -lt "$kills" ]; do
    launches=$((launches + 1))
    [ "$launches" -le $((4 * kills)) ] || fail "only $done_kills kills in $launches launches"
    ranks=$((2 + launches % 2))
    kill_once "$ranks" "killed$ranks"
    echo "$launches: $hit"
    if [ "$ended" = yes ]; then finish_and_compare "$ranks"; else done_kills=$((done_kills + 1)); fi
done
finish_and_compare 2
finish_and_compare 3
echo "$kills kills: each named, nothing left, bit-equal after them"
