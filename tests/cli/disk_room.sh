#!/usr/bin/env bash
# Room for a checkpoint is looked at before a run trains, and the need that is stated is that of the files.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
make_corpus 200
make_run 6

# A file system too small for one checkpoint, in a name space of our own.
small() {
    # shellcheck disable=SC2016  # for the inner shell
    unshare -rm bash -c 'mount -t tmpfs -o size="$1" none small && shift && exec "$@"' small "$@"
}
mkdir small
small 1m true 2> /dev/null || { echo "skip: no privilege to mount a small file system (unshare -rm)"; exit 77; }
expect_exit 0 launch 2 "$OGROM" train run.toml --set run.output=first
bytes=$(du -sb --apparent-size first/checkpoints/step-00000006 | cut -f1)
for save in checkpoint.interval_steps=4 checkpoint.interval_steps=0; do
    expect_exit 4 small $((bytes / 2)) "$OGROM" train run.toml --set run.output=small/run --set "$save"
    expect_text 'small/run: a checkpoint needs [0-9]+ bytes .* [0-9]+ bytes .* are free'
    if grep -qw 'loss' "$work/said"; then cat "$work/said"; fail "it trained first"; fi
done
# The need that is stated is that of the files (folders of the tmpfs and rounding to pages aside: 5 %).
need=$(sed -nE 's/.*a checkpoint needs ([0-9]+) bytes.*/\1/p' "$work/said" | head -1)
real=$(find first/checkpoints/step-00000006 -type f -printf '%s\n' | awk '{s += $1} END {print s}')
echo "one rank needs $need bytes; two ranks wrote $real bytes"
if [ "$need" -lt $((real * 90 / 100)) ] || [ "$need" -gt $((real * 110 / 100)) ]; then fail "a need of $need for $real bytes"; fi
# Nothing planned, nothing asked.
expect_exit 0 small $((bytes / 2)) "$OGROM" train run.toml --set run.output=small/run --set checkpoint.interval_steps=0 \
    --set checkpoint.at_end=false
echo "room for a checkpoint is looked at before the first step"
