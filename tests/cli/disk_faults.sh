#!/usr/bin/env bash
# The disk says no in the middle of a save (tests/cli/preload_faults.cpp): full, quota, EIO, read-only, vanished NFS, on one
# rank of four or on the one that commits. Each time one line names file and reason, the exit code is 4, the checkpoint
# before stays and nothing temporary is left. File systems without locks, and a small one that fills up.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
preload=$BINARY/tests/libpreload_faults.so
[ -e "$preload" ] || fail "$preload is not built"
make_corpus 200
make_run 4
# Each fault is looked at by itself: no second try (cli/async_save.sh has those).
options=(--set checkpoint.interval_steps=2 --set checkpoint.keep_last=1 --set checkpoint.retries=0)

# train RANKS OUTPUT RULES option...: with file system calls that fail as RULES say
train() {
    local ranks=$1 output=$2 rules=$3
    shift 3
    launch "$ranks" env LD_PRELOAD="$preload" OGROM_PRELOAD="$rules" "$OGROM" train run.toml "${options[@]}" \
        --set "run.output=$output" "$@" < /dev/null
}

expect_exit 75 train 4 base '' --stop-after 2
one_line() {
    [ "$(grep -cE '^ogrom: .*exit 4' "$work/said")" -eq 1 ] || { cat "$work/said"; fail "not one message: $1"; }
    grep -E '^ogrom: .*exit 4' "$work/said" | grep -qE -- "$1" || { cat "$work/said"; fail "the message has no: $1"; }
}
entries() { (cd "$1/checkpoints" && echo ./*); }

# What fails, and the message. A rule: rank, call, part of the path, errno, first, count.
faults=0
while IFS='|' read -r rules message; do
    rm -rf run && cp -r base run
    expect_exit 4 train 4 run "$rules" --resume
    one_line "$message"
    [ "$(entries run)" = './latest ./step-00000002' ] || fail "$rules: left: $(entries run)"
    "$OGROM" inspect run/checkpoints/step-00000002 --verify > verify.log 2>&1 || { cat verify.log; fail "$rules: the checkpoint before"; }
    faults=$((faults + 1))
done < <(tr -s ' ' <<'FAULTS'
3 write .tmp-*part-00003 28 1 0|part-00003.h5: cannot write: No space left on device .*; free space there
1 write .tmp-*part-00001 122 1 0|part-00001.h5: cannot write: Disk quota exceeded .*; free space there
2 write .tmp-*part-00002 5 1 1|part-00002.h5: cannot write: Input/output error
3 open .tmp-*part-00003 116 1 0|part-00003.h5: cannot create: Stale file handle
2 fsync .tmp-*part-00002 5 1 1|part-00002.h5: cannot flush to disk: Input/output error
1 close .tmp-*part-00001 5 1 1|part-00001.h5: cannot close: Input/output error
0 write .tmp-*checkpoint.h5 28 1 0|checkpoint.h5: cannot write: No space left
0 fsync .tmp-*checkpoint.h5 122 1 1|checkpoint.h5: cannot flush to disk: Disk quota
0 open .tmp-*manifest.json 30 1 0|manifest.json: cannot create: Read-only file system .*; check the permissions
0 close .tmp-*manifest.json 5 1 1|manifest.json: cannot close: Input/output error
0 mkdir step-00000004.tmp 30 1 0|step-00000004.tmp-.*: cannot make the folder: Read-only file system
0 rename step-00000004 116 1 0|cannot rename to .*step-00000004: Stale file handle
* statvfs run 5 2 0|run/checkpoints: cannot ask for the free space of: Input/output error
FAULTS
)
[ "$faults" -eq 13 ] || fail "$faults faults"

# The last one that failed goes on where it was, once the disk is well.
expect_exit 0 train 4 run '' --resume=auto
expect_text 'resumed from .*/step-00000002'
[ "$(entries run)" = './latest ./step-00000004' ] || fail "left: $(entries run)"

# Only the name `latest` could not be replaced: the new checkpoint is durable and the one that a resume takes, so this is
# a warning.
rm -rf run && cp -r base run
expect_exit 0 train 4 run '0 rename checkpoints/latest 116 1 0' --resume
expect_text 'warning: .*latest does not name step-00000004: .*cannot rename to .*latest: Stale file handle'
[ "$(entries run)" = './latest ./step-00000004' ] || fail "left: $(entries run)"
expect_exit 0 train 4 run '' --resume=auto
expect_text 'resumed from .*/step-00000004'

# The old one cannot be removed: the new one is durable, so this is a warning.
rm -rf run && cp -r base run
expect_exit 0 train 4 run '0 rename step-00000002.tmp 5 1 0' --resume
expect_text 'an old checkpoint could not be removed: .*Input/output error'

# No locks (field case B22): ENOLCK, ENOSYS and the kernel's ENOTSUPP, whatever HDF5 is told.
for number in 37 38 524; do
    rm -rf run
    expect_exit 0 train 1 run "* flock * $number 1 0"
    [ "$(grep -c "this file system has no locks (errno $number)" "$work/said")" -eq 1 ] || { cat "$work/said"; fail "no locks: not said once"; }
    expect_exit 0 train 1 run "* flock * $number 1 0" --resume
done
HDF5_USE_FILE_LOCKING=FALSE expect_exit 0 train 1 run '* flock * 524 1 0' --resume
# Whoever insists on locks gets what they asked for, with the way out.
HDF5_USE_FILE_LOCKING=TRUE expect_exit 4 train 1 run '* flock * 524 1 0' --resume
expect_text 'unable to lock file.*; unset HDF5_USE_FILE_LOCKING, or set it to FALSE'
# The name in the file still refuses a second run of this host, and one of another host is told of.
sleep 300 &
sleeper=$!
echo "$(hostname) $sleeper $(awk '{print $22}' /proc/$sleeper/stat) 2026-01-01T00:00:00Z" > run/run.lock
expect_exit 2 train 1 run '* flock * 37 1 0' --resume
expect_text "in use by process $sleeper on $(hostname)"
kill "$sleeper"
echo "another-host 77 1 2026-01-01T00:00:00Z" > run/run.lock
expect_exit 0 train 1 run '* flock * 37 1 0' --resume
expect_text 'process 77 on another-host since .* may still live: make sure that it has ended'
echo "$faults faults of the disk: named, the checkpoint before intact, nothing left; no locks needed"
