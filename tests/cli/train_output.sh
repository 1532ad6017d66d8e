#!/usr/bin/env bash
# The folder of a run: one writer at a time, whoever started first; a writer that was killed blocks nobody; a file that
# may not grow any further fails the save with a message and leaves the checkpoints before it.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
make_corpus 300
make_run 100000
run() { launch 2 "$OGROM" train run.toml "$@"; }

run --set run.output=one > first.log 2>&1 &
job=$!
await "$job" test -s one/checkpoints/latest || { cat first.log; fail "no checkpoint"; }
[ -s one/run.lock ] || { cat first.log; fail "a run without its lock file"; }
holder=$(cut -d' ' -f2 one/run.lock)
for resume in '' --resume --resume=auto; do
    expect_exit 2 run --set run.output=one ${resume:+"$resume"}
    expect_text "^ogrom: rank 0 .*one is in use by process $holder on .* since 20"
done
run --set run.output=two --set train.steps=8 > two.log 2>&1 || { cat two.log; fail "a run into another folder"; }
[ ! -e two/run.lock ] || fail "a run that ended left its lock"
kill -0 "$job" 2> /dev/null || { cat first.log; fail "the first run was disturbed"; }
kill -9 "$holder"
wait "$job" && fail "exit 0 after a killed rank"
[ -s one/run.lock ] || fail "a killed run cannot have removed its lock"
expect_exit 75 run --set run.output=one --resume --stop-after 3
expect_text "run.lock: process $holder on .* ended without removing it; replaced"
expect_text 'resumed from .*one/checkpoints/step-'
[ ! -e one/run.lock ] || fail "the lock is left"

# 2.4 M parameters in two parts of 14 MB; MPI's own files stay below the limit of 12 MB
large=(--set model.hidden=512 --set model.layers=1 --set model.heads=8 --set train.steps=6 --set train.micro_batch=1
    --set train.global_batch=2 --set run.output=limited)
run "${large[@]}" --stop-after 2 > large.log 2>&1 || [ "$?" -eq 75 ] || { cat large.log; fail "large run"; }
before=$(cat limited/checkpoints/latest)
# shellcheck disable=SC2016
expect_exit 4 launch 2 bash -c 'ulimit -f 12000; exec "$@"' limited "$OGROM" train run.toml "${large[@]}" --resume
expect_text '^ogrom: .*failed in phase save'
[ "$(grep -c '^ogrom: ' "$work/said")" -eq 1 ] || { cat "$work/said"; fail "more than one message"; }
[ "$(cat limited/checkpoints/latest)" = "$before" ] || fail "latest moved"
[ -z "$(find limited -name '*.tmp-*')" ] || fail "a part of the failed save is left"
expect_exit 0 run "${large[@]}" --resume
echo "one writer at a time; a killed one and a full file block nobody"
