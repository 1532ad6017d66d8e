#!/usr/bin/env bash
# Where checkpoints stand: behind links, on a file system that turned read-only, in a folder that goes away, under a clock
# that is wrong, in use by another run; and what many saves leave behind (files, descriptors).
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
make_corpus 200
make_run 8
options=(--set checkpoint.interval_steps=2 --set checkpoint.keep_last=2)
train() {
    local ranks=$1 output=$2
    shift 2
    launch "$ranks" "$OGROM" train run.toml "${options[@]}" --set "run.output=$output" "$@" < /dev/null
}
entries() { (cd "$1/checkpoints" && echo ./*); }

expect_exit 75 train 2 base --stop-after 6
[ "$(entries base)" = './latest ./step-00000004 ./step-00000006' ] || fail "base holds $(entries base)"
train 2 base --resume=auto > /dev/null 2>&1 && cp -r base whole
expect_exit 75 train 2 fresh --stop-after 6
rm -rf base && mv fresh base
same_end() { "$OGROM" inspect whole/checkpoints --diff "$1/checkpoints" > diff.log 2>&1 || { cat diff.log; fail "$1 ended elsewhere"; }; }

# The step number decides, not the time of a file.
cp -r base clock
touch -d '2099-01-01' clock/checkpoints/step-00000004 clock/checkpoints/step-00000004/*
touch -d '1990-01-01' clock/checkpoints/step-00000006 clock/checkpoints/step-00000006/*
expect_exit 0 train 2 clock --resume=auto
expect_text 'resumed from .*/step-00000006 at step 6'
[ "$(entries clock)" = './latest ./step-00000006 ./step-00000008' ] || fail "the wrong one was removed: $(entries clock)"
same_end clock

# `latest` as a link (other tools make it one): it can be named, and is replaced, not written through.
cp -r base links
ln -sfn step-00000004 links/checkpoints/latest
expect_exit 0 train 2 links --resume=links/checkpoints/latest
expect_text 'resumed from .* at step 4'
if [ -L links/checkpoints/latest ]; then fail "latest is a link still"; fi
same_end links
echo precious > precious
ln -sfn "$PWD/precious" links/checkpoints/latest
rm -rf links/checkpoints/step-00000008
expect_exit 0 train 2 links --resume=auto
[ "$(cat precious)" = precious ] || fail "the save wrote through a link"

# The folder of checkpoints as a link to another disk.
mkdir -p elsewhere linked && ln -s ../elsewhere linked/checkpoints
expect_exit 75 train 2 linked --resume=auto --stop-after 6
expect_exit 0 train 2 linked --resume=auto
expect_text 'resumed from .*/step-00000006 at step 6'
if [ ! -L linked/checkpoints ] || [ ! -f elsewhere/step-00000008/manifest.json ]; then fail "the link was not followed"; fi
same_end linked

# One run at a time in a folder; the lock of a process that is gone, here or elsewhere, blocks nobody.
run=long.$$
train 2 "$run" --set train.steps=100000 > long.log 2>&1 &
job=$!
await "$job" test -e "$run/checkpoints/latest" || { cat long.log; fail "no checkpoint"; }
expect_exit 2 train 2 "$run" --set train.steps=100000 --resume=auto
expect_text "$run is in use by process [0-9]+ on $(hostname) since"

# Many saves: no descriptor, no deleted file, no name is left (the least of several looks: a save has some open).
ranks_of() { pgrep -f "^$OGROM train run.toml .*run.output=$run( |\$)"; }
open_files() {
    local i pid total least=999999 deleted gone=999999
    for ((i = 0; i < 12; i++)); do
        total=0 deleted=0
        for pid in $(ranks_of); do
            total=$((total + $(find "/proc/$pid/fd" -mindepth 1 2> /dev/null | wc -l)))
            deleted=$((deleted + $(find "/proc/$pid/fd" -mindepth 1 -lname "*$run*(deleted)" 2> /dev/null | wc -l)))
        done
        least=$((total < least ? total : least)) gone=$((deleted < gone ? deleted : gone))
    done
    echo "$least $gone"
}
saves() { grep -c 'saved .*/step-' long.log || true; }
before=$(open_files) first=$(saves)
fifty() { [ "$(saves)" -ge $((first + 50)) ]; }
await "$job" fifty || { cat long.log; fail "no 50 saves"; }
after=$(open_files)
[ "${before%% *}" -gt 10 ] || fail "the descriptors of no process were counted: $before"
if [ "${after%% *}" -gt "${before%% *}" ] || [ "${after##* }" -ne 0 ]; then fail "descriptors and deleted files: $before, then $after"; fi
echo "open descriptors and deleted files: $before; 50 saves later: $after"

# The folder goes away: the next save makes it again, or says what it could not do; nothing hangs.
mv "$run/checkpoints" away
gone() { ! kill -0 "$job" 2> /dev/null; }
back() { gone || [ -e "$run/checkpoints/latest" ]; }
await "$job" back || true
code=0
if gone; then
    wait "$job" || code=$?
    [ "$code" -eq 4 ] || { tail -20 long.log; fail "exit $code after its folder went"; }
    grep -qE '^ogrom: .*exit 4.*checkpoints' long.log || { tail -20 long.log; fail "no message names the folder"; }
else
    pid=$(ranks_of | head -1)
    kill -9 "$pid"
    wait "$job" || code=$?
    [ "$code" -ne 0 ] || fail "exit 0 after a kill"
fi
echo "after the folder went: exit $code"
await $$ bash -c "! pgrep -f '^$OGROM train run.toml .*run.output=$run( |\$)' > /dev/null"
echo "another-host 77 1 2026-01-01T00:00:00Z" > "$run/run.lock"
# What a rank leaves that is killed while it writes the record of steps.
[ "$code" -eq 4 ] || : > "$run/checkpoints/$(cat "$run/checkpoints/latest")/trace.json.another-host-77.tmp"
expect_exit 75 train 2 "$run" --set train.steps=100000 --resume=auto --stop-after 2
expect_text "run.lock: process 77 on another-host since 2026-01-01T00:00:00Z ended without removing it; replaced"
left=$(find "$run" -name '*.tmp*')
[ -z "$left" ] || fail "left behind: $left"

# A file system that has turned read-only.
mkdir frozen
# shellcheck disable=SC2016  # for the inner shell
if unshare -rm mount -t tmpfs none frozen 2> /dev/null; then
    export -f launch train
    export OGROM
    expect_exit 4 unshare -rm bash -c 'mount -t tmpfs none frozen && cp -r base frozen/run && mount -o remount,ro frozen &&
        exec mpirun --allow-run-as-root --oversubscribe -n 2 "$OGROM" train run.toml --set run.output=frozen/run --resume'
    expect_text 'frozen/run.*: cannot .*Read-only file system; run.output must be a folder'
else
    echo "skip: no privilege to mount a small file system (unshare -rm)"
    exit 77
fi
echo "checkpoints are found by step, behind links, and leave nothing"
