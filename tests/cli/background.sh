# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # read and set by the scripts that source it, after lib.sh
# A run in the background that is sent signals: for train_signals.sh and train_stops.sh. `what` names the case.
# odls_base_sigkill_timeout: what mpirun waits between SIGTERM and SIGKILL, and twice that after any exit code but 0.
grace=() every=1
ranks=2

# begin FOLDER option...: a run in the background, its output in run.log
begin() {
    output=$1
    shift
    rm -f run.log
    mpirun --allow-run-as-root --oversubscribe --bind-to none "${grace[@]}" -n "$ranks" "$OGROM" train run.toml \
        --set "run.output=$output" --set "train.log_interval_steps=$every" "$@" > run.log 2>&1 &
    job=$!
}
await_line() {
    await "$job" grep -qsE -- "$1" run.log || { cat run.log; fail "the run did not come to: $1"; }
}
pids() { pgrep -f "^$OGROM train run.toml .*run.output=$output( |\$)"; }
# send SIGNAL one|all|mpirun
send() {
    case $2 in
        one) kill "-$1" "$(pids | tail -1)" ;;
        all) pids | while read -r pid; do kill "-$1" "$pid"; done ;;
        mpirun) kill "-$1" "$job" ;;
    esac
}
# ends with exit code $1; a run that hangs is ended by the test's own limit
ends() {
    local code=0 start took
    start=$(date +%s%N)
    wait "$job" || code=$?
    took=$((($(date +%s%N) - start) / 1000000))
    [ "$code" -eq "$1" ] || { cat run.log; fail "$what: exit $code instead of $1"; }
    echo "$what: exit $code after $took ms, step $(last_step)"
}
last_step() { tail -qn 1 "$output/metrics.csv" | cut -d, -f1; }
columns() { cut -d, -f1-3 "$1/metrics.csv"; }
# The newest checkpoint is that of the last row of the metrics: nothing was lost, nothing is half a step ahead.
saved_at_last_row() {
    local wanted
    wanted=$(printf 'step-%08d' "$(last_step)")
    [ "$(cat "$output/checkpoints/latest")" = "$wanted" ] || fail "$what: latest is not $wanted"
    [ ! -e "$output/run.lock" ] || fail "$what: the lease is left"
}
