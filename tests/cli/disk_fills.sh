#!/usr/bin/env bash
# A file system of 64 MiB and checkpoints of about 40 MiB (field case B16): the second save does not fit beside the first
# one; the first stays, whether the room is looked at before or is gone in the middle. Many saves where there is room for
# two leave nothing behind.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
preload=$BINARY/tests/libpreload_faults.so
make_corpus 200
make_run 6
model=(--set model.layers=4 --set model.hidden=256 --set model.heads=4 --set train.global_batch=4 --set train.micro_batch=1
    --set checkpoint.interval_steps=1 --set checkpoint.keep_last=1 --set checkpoint.retries=0)

# small SIZE command...: in a name space of its own with SIZE at ./small, then what is left there
small() {
    # shellcheck disable=SC2016  # for the inner shell
    unshare -rm bash -c 'mount -t tmpfs -o size="$1" none small && shift && { "$@"; code=$?; } 2>&1
        echo "left: $(cd small/run/checkpoints 2> /dev/null && echo *), $(du -sm small | cut -f1) MiB"
        latest=$(ls -d small/run/checkpoints/step-* 2> /dev/null | head -1)
        [ -z "$latest" ] || "$OGROM" inspect "$latest" --verify 2>&1
        exit "$code"' small "$@"
}
mkdir small
export OGROM
export -f launch
unshare -rm mount -t tmpfs -o size=1m none small 2> /dev/null || { echo "skip: no privilege to mount a small file system (unshare -rm)"; exit 77; }

expect_exit 4 small 64m launch 2 "$OGROM" train run.toml "${model[@]}" --set run.output=small/run
expect_text 'small/run/checkpoints: a checkpoint needs [0-9]+ bytes \([34][0-9][0-9.]* MiB\), [0-9]+ bytes \(.*\) are free'
expect_text 'small/run: 2 more checkpoints of [34][0-9.]* MiB will stand here at once, .* room for 1'
expect_text '^left: latest step-00000001, [34][0-9] MiB'
expect_text 'manifest and weight hash agree'

# The room that was there is gone when it is written to: the system's own ENOSPC, in the middle of the parts.
expect_exit 4 small 64m launch 2 env LD_PRELOAD="$preload" OGROM_PRELOAD='0 statvfs small 0 1 0' "$OGROM" train run.toml \
    "${model[@]}" --set run.output=small/run
expect_text 'step-00000002.tmp-.*/part-0000[01].h5: cannot write: No space left on device .*; free space there'
[ "$(grep -cE '^ogrom: .*exit 4' "$work/said")" -eq 1 ] || { cat "$work/said"; fail "not one message"; }
expect_text '^left: latest step-00000001, [34][0-9] MiB'
expect_text 'manifest and weight hash agree'

expect_exit 0 small 90m launch 2 "$OGROM" train run.toml "${model[@]}" --set run.output=small/run
if grep -q 'more checkpoints' "$work/said"; then cat "$work/said"; fail "a warning where there is room for two"; fi
expect_text '^left: latest step-00000006, [34][0-9] MiB'
echo "a disk that is full keeps the checkpoint before; six saves take the room of one"
