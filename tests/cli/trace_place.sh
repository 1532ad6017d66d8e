#!/usr/bin/env bash
# The trace's place is looked at before a run trains; a trace that cannot be written later costs no step.
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
mkdir -p gone
mapfile -t arguments < <(trace gone/t.json)
launch 2 "$OGROM" train run.toml --set train.steps=3000 --set run.output=run --set checkpoint.interval_steps=0 \
    "${arguments[@]}" --set train.trace_steps=2000 > trained.log 2>&1 &
job=$!
await "$job" test -s run/metrics.csv || { cat trained.log; fail "no first step"; }
rmdir gone
code=0
wait "$job" || code=$?
[ "$code" -eq 0 ] || { cat trained.log; fail "exit $code: a trace stopped the run"; }
grep -q 'train.trace: not written: .*; training goes on' trained.log || { cat trained.log; fail "no warning"; }
[ -e run/checkpoints/step-00003000/manifest.json ] || fail "no checkpoint at the end"

echo "the trace's place is looked at before the first step"
