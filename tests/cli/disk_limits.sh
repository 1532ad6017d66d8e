#!/usr/bin/env bash
# What a run will write is looked at before it trains: the trace's place, room for a checkpoint. A trace that cannot be
# written later costs no step.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
make_corpus 200
make_run 6
trace() { printf -- '--set\ntrain.trace=%s\n' "$1"; }

# refused_trace PATH REASON: exit 4 before step 1, and no run folder is left
refused_trace() {
    local arguments
    mapfile -t arguments < <(trace "$1")
    expect_exit 4 launch 2 "$OGROM" train run.toml --set run.output=run "${arguments[@]}"
    expect_text "train.trace: $1: $2"
    [ ! -e run ] || fail "a refused run left its folder"
}
mkdir folder
mkfifo pipe
refused_trace nope/t.json 'the folder nope does not exist'
refused_trace corpus.txt/t.json 'the folder corpus.txt is a file'
refused_trace folder 'is a folder'
refused_trace pipe 'is a pipe, socket or device'
refused_trace /proc/t.json '.*(No such file|Permission denied|not permitted)'

# Gone by the time it is written: a warning, and all steps.
expect_exit 0 launch 2 "$OGROM" train run.toml --set run.output=first
mkdir -p gone
mapfile -t arguments < <(trace gone/t.json)
launch 2 "$OGROM" train run.toml --set train.steps=3000 --set run.output=run --set checkpoint.interval_steps=0 \
    "${arguments[@]}" --set train.trace_steps=2000 > trained.log 2>&1 &
job=$!
for ((i = 0; i < 600; i++)); do
    [ -s run/metrics.csv ] && break
    sleep 0.05
done
[ -s run/metrics.csv ] || { cat trained.log; fail "no first step"; }
rmdir gone
code=0
wait "$job" || code=$?
[ "$code" -eq 0 ] || { cat trained.log; fail "exit $code: a trace stopped the run"; }
grep -q 'train.trace: not written: .*; training goes on' trained.log || { cat trained.log; fail "no warning"; }
[ -e run/checkpoints/step-00003000/manifest.json ] || fail "no checkpoint at the end"

# A file system too small for one checkpoint, in a name space of our own.
small() {
    # shellcheck disable=SC2016  # for the inner shell
    unshare -rm bash -c 'mount -t tmpfs -o size="$1" none small && shift && exec "$@"' small "$@"
}
mkdir small
small 1m true 2> /dev/null || { echo "no room on a small disk: this machine lets us mount none"; exit 0; }
bytes=$(du -sb --apparent-size first/checkpoints/step-00000006 | cut -f1)
for save in checkpoint.interval_steps=4 checkpoint.interval_steps=0; do
    expect_exit 4 small $((bytes / 2)) "$OGROM" train run.toml --set run.output=small/run --set "$save"
    expect_text 'small/run: a checkpoint needs [0-9]+ bytes .* [0-9]+ bytes .* are free'
    if grep -q 'loss' "$work/out"; then cat "$work/out"; fail "it trained first"; fi
done
# The need that is stated is that of the files (folders of the tmpfs and rounding to pages aside: 5 %).
need=$(sed -nE 's/.*a checkpoint needs ([0-9]+) bytes.*/\1/p' "$work/out" | head -1)
real=$(find first/checkpoints/step-00000006 -type f -printf '%s\n' | awk '{s += $1} END {print s}')
echo "one rank needs $need bytes; two ranks wrote $real bytes"
if [ "$need" -lt $((real * 90 / 100)) ] || [ "$need" -gt $((real * 110 / 100)) ]; then fail "a need of $need for $real bytes"; fi
# Nothing planned, nothing asked.
expect_exit 0 small $((bytes / 2)) "$OGROM" train run.toml --set run.output=small/run --set checkpoint.interval_steps=0 \
    --set checkpoint.at_end=false
echo "places and room are looked at before the first step"
