#!/usr/bin/env bash
# A flipped byte in the newest checkpoint (field case B14): --resume and --resume=auto name file and block, pass over it
# and go on from the older one; naming the damaged one is refused, with the newest that is intact. On one rank and two.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
make_corpus 300
make_run 12

# flip FILE: the low bit of the byte in its middle
flip() {
    python3 - "$1" <<'PY'
import os
import sys

with open(sys.argv[1], "r+b") as file:
    file.seek(os.path.getsize(sys.argv[1]) // 2)
    byte = file.read(1)[0]
    file.seek(-1, os.SEEK_CUR)
    file.write(bytes([byte ^ 1]))
PY
}

expect_exit 0 launch 2 "$OGROM" train run.toml --set checkpoint.keep_last=9 --set run.output=whole
steps=whole/checkpoints
for file in part-00000.h5 part-00001.h5 checkpoint.h5; do
    for ranks in 1 2; do
        for form in --resume --resume=auto; do
            rm -rf again && cp -r whole again
            flip "again/checkpoints/step-00000012/$file"
            expect_exit 0 launch "$ranks" "$OGROM" train run.toml --set checkpoint.keep_last=9 --set run.output=again "$form"
            expect_text "checkpoint passed over: .*step-00000012/$file: block 0 .*damaged after it was written"
            expect_text 'resumed from .*/step-00000008 at step 8'
            # The same end as without the detour, whatever the number of ranks that lived through it.
            [ "$ranks" -eq 1 ] || "$OGROM" inspect "$steps" --diff again/checkpoints > diff.log 2>&1 ||
                { cat diff.log; fail "the resumed run ended elsewhere"; }
        done
    done
done

rm -rf again && cp -r whole again
flip again/checkpoints/step-00000012/part-00001.h5
for ranks in 1 2; do
    expect_exit 4 launch "$ranks" "$OGROM" train run.toml --set run.output=again --resume=again/checkpoints/step-00000012
    expect_text '--resume: .*step-00000012/part-00001.h5: block 0 .*; the newest intact one is .*/again/checkpoints/step-00000008( |$)'
done
rm again/checkpoints/step-00000012/part-00001.h5
expect_exit 4 "$OGROM" train run.toml --set run.output=again --resume=again/checkpoints/step-00000012
expect_text 'part-00001.h5: is missing; the newest intact one is .*/step-00000008'
flip again/checkpoints/step-00000008/checkpoint.h5
flip again/checkpoints/step-00000004/part-00000.h5
expect_exit 4 "$OGROM" train run.toml --set run.output=again --resume=again/checkpoints/step-00000012
expect_text 'no other checkpoint here is intact'
expect_exit 4 "$OGROM" train run.toml --set run.output=again --resume
expect_text 'holds no complete checkpoint that is intact'

# Nothing intact: neither form starts over what somebody may still mend.
kept=$(cat again/metrics.csv; ls again/checkpoints)
expect_exit 4 "$OGROM" train run.toml --set run.output=again --resume=auto
expect_text 'holds no complete checkpoint that is intact'
[ "$(cat again/metrics.csv; ls again/checkpoints)" = "$kept" ] || fail "a refused resume changed the run"

# A file that the system does not give is no damaged file: here a link to itself, elsewhere a disk that does not answer.
rm -rf again && cp -r whole again
ln -sf part-00000.h5 again/checkpoints/step-00000012/part-00000.h5
for form in --resume --resume=auto --resume=again/checkpoints/step-00000012; do
    expect_exit 4 launch 2 "$OGROM" train run.toml --set run.output=again "$form"
    expect_text 'step-00000012/part-00000.h5: cannot stat: Too many levels'
done

# Tensors whose part is not there read as NaN, which equals NaN.
rm -rf again && cp -r whole again
rm again/checkpoints/step-000000{08,12}/part-*
expect_exit 4 "$OGROM" inspect again/checkpoints/step-00000008 --diff again/checkpoints/step-00000012
expect_text 'step-00000008 is not a complete checkpoint: .*part-0000.\.h5: is missing'

# A folder that was copied under the name of a later step is not the newest.
rm -rf again && cp -r whole again
cp -r again/checkpoints/step-00000008 again/checkpoints/step-00000099
expect_exit 0 "$OGROM" train run.toml --set run.output=again --resume
expect_text 'step-00000099/manifest.json: is of step 8, the folder is named for step 99'
expect_text 'resumed from .*/step-00000012 at step 12'
expect_exit 0 "$OGROM" train run.toml --set run.output=again --resume --set train.steps=10 --set optimizer.decay_steps=10 \
    --set 'checkpoint.allow_changed=["train.steps", "optimizer.decay_steps"]'
expect_text 'nothing to train: train.steps = 10, the checkpoint is of step 12'

# A run that goes another way from an earlier step takes nothing away from the way it went before, and a torn line of
# the events spoils no other.
rm -rf again && cp -r whole again
printf '{"format":1,"time":"2026' >> again/events.jsonl
expect_exit 0 "$OGROM" train run.toml --set run.output=again --resume=again/checkpoints/step-00000004 \
    --set checkpoint.keep_last=9 --set optimizer.lr=5e-3 --set 'checkpoint.allow_changed=["optimizer.lr", "optimizer.min_lr"]'
expect_text 'step-00000008 held another state of this step: set aside as .*step-00000008.abandoned-'
aside=(again/checkpoints/step-000000{08,12}.abandoned-*)
[ "${#aside[@]} $(basename "${aside[0]}" | cut -d- -f1-2)" = "2 step-00000008.abandoned" ] || fail "checkpoints of the first way"
python3 - <<'PY'
import json

torn = 0
for line in open("again/events.jsonl"):
    try:
        json.loads(line)
    except ValueError:
        torn += 1
assert torn == 1, torn
PY
# The same state again, or a save over a damaged one, leaves nothing aside.
rm -rf again && cp -r whole again
expect_exit 0 launch 2 "$OGROM" train run.toml --set run.output=again --resume=again/checkpoints/step-00000004 \
    --set checkpoint.keep_last=9
if ls -d again/checkpoints/step-00000008.abandoned-* 2> /dev/null; then fail "an equal state was set aside"; fi

# A checkpoint that a newer version of the program wrote is whole: it is neither passed over nor taken away.
rm -rf again && cp -r whole again
"${BINARY:?}/tests/checkpoint_edit" again/checkpoints/step-00000012 format 2
for form in --resume --resume=auto; do
    expect_exit 4 launch 2 "$OGROM" train run.toml --set run.output=again "$form"
    expect_text '--resume: .*step-00000012 has format 2, this program reads format 1: a newer version wrote it'
done
expect_exit 4 "$OGROM" train run.toml --set run.output=again --resume=again/checkpoints/step-00000012
expect_text 'manifest.json: format 2 is not known; this program reads format 1; the newest intact one is .*step-00000008'
expect_exit 0 "$OGROM" train run.toml --set run.output=again --resume=again/checkpoints/step-00000008
expect_text 'step-00000012 held another state of this step: set aside as'
grep -q '"format": 2' again/checkpoints/step-00000012.abandoned-*/manifest.json || fail "the newer one is gone"

# Another run's checkpoint is no way on for a run that has its own.
expect_exit 2 "$OGROM" train run.toml --set run.output=again --resume=whole/checkpoints/step-00000004
expect_text 'is of another run, and .*again/checkpoints holds step-'

# `latest` is a name for a checkpoint, to look at and to go on from.
expect_exit 0 "$OGROM" inspect whole/checkpoints/latest --verify
expect_text 'manifest and weight hash agree'
expect_text 'step-00000012'
expect_exit 0 "$OGROM" train run.toml --set run.output=other --resume=whole/checkpoints/latest
expect_text 'resumed from .*/step-00000012'
echo "a damaged checkpoint is passed over, or refused by name"
