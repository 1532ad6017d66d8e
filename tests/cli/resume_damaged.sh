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

# `latest` is a name for a checkpoint, to look at and to go on from.
expect_exit 0 "$OGROM" inspect whole/checkpoints/latest --verify
expect_text 'manifest and weight hash agree'
expect_text 'step-00000012'
expect_exit 0 "$OGROM" train run.toml --set run.output=other --resume=whole/checkpoints/latest
expect_text 'resumed from .*/step-00000012'
echo "a damaged checkpoint is passed over, or refused by name"
