#!/usr/bin/env bash
# Stops at awkward times (field cases B41, B47): while the token set is opened, in the first step, within a slow save,
# with too little time for it, again and again in short slices, by train.stop_before; and a launcher that is killed.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
preload=$BINARY/tests/libpreload_faults.so
make_corpus 4000
make_run 200
sed -i 's/interval_steps = 4/interval_steps = 1000/' run.toml
# shellcheck source=tests/cli/background.sh
source "$SOURCE/tests/cli/background.sh"
launch "$ranks" "$OGROM" train run.toml --set run.output=straight > straight.log 2>&1 || { cat straight.log; fail "straight run"; }
same_as_straight() {
    cmp <(columns straight) <(columns "$output") || fail "$what: the loss column differs"
    "$OGROM" inspect straight/checkpoints --diff "$output/checkpoints" > diff.log 2>&1 || { cat diff.log; fail "$what: checkpoints differ"; }
}
# slow RULE: calls of the file system of the runs that follow take longer
slow() { export LD_PRELOAD=$preload OGROM_PRELOAD=$1; }
quick() { unset LD_PRELOAD OGROM_PRELOAD; }
no_rank() { [ -z "$(pids)" ]; }

what="signal while the token set is opened"
slow '* open corpus.idx -3000 1 1'
begin opening
until [ "$(pids | wc -l)" -eq "$ranks" ]; do
    kill -0 "$job" 2> /dev/null || { cat run.log; fail "$what: ended by itself"; }
    sleep 0.02
done
# Signals are heard once MPI has been started, which a line per process tells.
handles_usr1() { [ $((0x$(sed -n 's/^SigCgt:\t//p' "/proc/$1/status") >> 9 & 1)) -eq 1 ]; }
await "$job" handles_usr1 "$(pids | tail -1)" || { cat run.log; fail "$what: no handler"; }
grep -q 'step ' run.log && fail "$what: was already training"
quick
send USR1 one
ends 75
begin opening --resume=auto
ends 0
same_as_straight

what="two signals near the first step"
begin first --set train.steps=100000
await_line 'device: '
send TERM all
send USR1 one
ends 75
grep -qE 'stopped by SIG(TERM|USR1) on rank' run.log || { cat run.log; fail "$what: not named"; }

what="signal within a save"
slow '0 fsync checkpoints/ -1500 1 1'
begin saving --set checkpoint.interval_steps=20 --set checkpoint.async=false
quick
await_line 'step +20/200'
send TERM one
ends 75
[ "$(grep -c 'saved .*step-00000020' run.log)" -eq 1 ] || { cat run.log; fail "$what: not saved once"; }
saved_at_last_row
begin saving --resume
ends 0
same_as_straight

# mpirun's 1 s between TERM and KILL is too short for this save: the checkpoint before stays, whole.
what="TERM to mpirun, a save of 4 s, no time for it"
begin short --stop-after 30
ends 75
slow '* fsync checkpoints/ -4000 1 1'
begin short --resume
quick
await_line 'step +4[0-9]/200'
send TERM mpirun
wait "$job" || true
output=short
await $$ no_rank || fail "$what: a rank is left"
[ "$(cat short/checkpoints/latest)" = step-00000030 ] || fail "$what: latest is $(cat short/checkpoints/latest)"
"$OGROM" inspect short/checkpoints --verify > verify.log 2>&1 || { cat verify.log; fail "$what: the checkpoint is damaged"; }
begin short --resume
ends 0
same_as_straight

# Slices far shorter than the interval of the saves: each one goes on from where the last was stopped.
what="five slices"
before=0
for slice in 1 2 3 4 5; do
    begin slices --resume=auto
    await_line "step +$((before + 7 * slice))/200"
    send "$([ $((slice % 2)) -eq 1 ] && echo TERM || echo USR1)" one
    ends 75
    saved_at_last_row
    [ "$(last_step)" -gt "$before" ] || fail "$what: slice $slice came no step further"
    before=$(last_step)
done
begin slices --resume=auto
ends 0
same_as_straight

what="train.stop_before"
begin before --set train.steps=100000 --set "train.stop_before=$(date -u -d '+8 seconds' +%Y-%m-%dT%H:%M:%SZ)"
ends 75
grep -q 'stopped by train.stop_before = "20' run.log || { cat run.log; fail "$what: not named"; }
saved_at_last_row
refused() {
    expect_exit 2 launch 2 "$OGROM" train run.toml --set run.output=none --set "train.stop_before=$1"
    expect_text "$2"
    [ "$(grep -c '^ogrom' said)" -eq 1 ] || { cat said; fail "$what: not one message"; }
    [ ! -e none/metrics.csv ] || fail "$what: trained"
}
refused soon 'train.stop_before: "soon" is no time; would be right: "2026-01-31T23:59:00Z"'
refused 2020-01-31T23:59:00Z 'train.stop_before = "2020-01-31T23:59:00Z": .* ago already'
refused job-end-60s 'SLURM_JOB_END_TIME is not set'

# No signal reaches the ranks: they notice that their launcher is gone.
what="SIGKILL to mpirun"
slow '0 fsync checkpoints/ -50 1 0' # a run of some seconds
begin orphans --set checkpoint.interval_steps=10
quick
await_line 'saved .*step-000000[1-9]0'
kill -KILL "$job"
wait "$job" 2> /dev/null || true
await $$ no_rank || fail "$what: a rank is left: $(pids)"
begin orphans --resume
ends 0
cmp <(columns straight) <(columns orphans) || fail "$what: the loss column differs"
echo "stops: every one heard, none lost"
