#!/usr/bin/env bash
# train --resume-verify: the steps that a run recorded after a save are made again and compared. Bit for bit on the same
# layout, and on any stages and ZeRO stage in the fixed order; within the bound elsewhere; 5 and the first quantity where
# the course is another; 4 without a record; and nothing of the run is touched.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
make_corpus 200
make_run 12
expect_exit 0 launch 2 "$OGROM" train run.toml --set checkpoint.keep_last=9 --set run.output=out
steps=out/checkpoints
[ "$(grep -c '"loss_bits"' "$steps/step-00000004/trace.json")" -eq 3 ] || fail "three steps after step 4 were to be recorded"
[ ! -e "$steps/step-00000012/trace.json" ] || fail "a record of steps after the last one"

# What the folder holds, with times and contents.
picture() { find out -printf '%p %s %T@ %i\n' | sort; find out -type f -exec cksum {} + | sort; }
picture > before
verify() { launch 2 "$OGROM" train run.toml --resume-verify "$@"; }

expect_exit 0 verify "--resume=$steps/step-00000004"
expect_text '^step 5: loss [0-9.]+ = [0-9.]+; gradient norm [0-9.]+ = [0-9.]+; weight hash ([0-9a-f]{16}) = '
expect_text '^equal bit for bit: 3 of 3 recorded steps$'
expect_exit 0 verify "--resume=$steps/step-00000008" --json
expect_text '"compared": "bits"'
expect_text '"equal": true'
# The fixed order: other stages and ZeRO stages keep the bits.
expect_exit 0 launch 4 "$OGROM" train run.toml --resume-verify "--resume=$steps/step-00000004" \
    --set parallel.data=2 --set parallel.pipeline=2 --set parallel.zero=1
expect_text '^equal bit for bit: 3 of 3'
# Another number of data ranks, and tensor ranks: within the bound.
expect_exit 0 launch 4 "$OGROM" train run.toml --resume-verify "--resume=$steps/step-00000004"
expect_text 'bits need not agree: parallel.data: 2 when it was recorded, 4 now'
expect_text '^equal within the bound: 3 of 3'
expect_exit 0 "$OGROM" train run.toml --resume-verify "--resume=$steps/step-00000004" --json
expect_text '"compared": "bound"'
expect_exit 0 verify "--resume=$steps/step-00000004" --set parallel.data=1 --set parallel.tensor=2
expect_text '^equal within the bound: 3 of 3'

# Another course: the first step has the same loss and gradient, and other weights after it.
expect_exit 5 verify "--resume=$steps/step-00000004" --set optimizer.beta2=0.9 \
    --set 'checkpoint.allow_changed=["optimizer.beta2"]'
expect_text '^DIFFERS: step 5, weight hash'
expect_exit 5 verify "--resume=$steps/step-00000004" --set optimizer.lr=2e-3 --set optimizer.min_lr=1e-4 \
    --set 'checkpoint.allow_changed=["optimizer.lr"]'
expect_text '^DIFFERS: step 5, learning rate'
expect_exit 5 launch 4 "$OGROM" train run.toml --resume-verify "--resume=$steps/step-00000004" --json \
    --set optimizer.beta2=0.9 --set 'checkpoint.allow_changed=["optimizer.beta2"]'
expect_text '"quantity": "loss"'

# No record; how to get one.
expect_exit 4 verify --resume
expect_text 'step-00000012 has no trace.json: .*checkpoint.trace_steps > 0.*step-00000004, step-00000008'
expect_exit 4 verify --resume=auto --set run.output=elsewhere
expect_text 'there is no checkpoint to verify'
[ ! -e elsewhere ] || fail "a folder for a run that was not there"
expect_exit 2 verify
expect_text 'would be right: --resume --resume-verify'
expect_exit 2 verify --resume --stop-after 3
expect_text 'stop-after says nothing there'
picture > after
cmp before after || { diff before after; fail "a verification changed the run"; }

# The run of another folder, while this one has checkpoints of its own.
cp -r out other
expect_exit 0 verify --resume=other/checkpoints/step-00000004
# A run that ended in between recorded what it did; a record with a changed byte is no record.
expect_exit 75 launch 2 "$OGROM" train run.toml --set run.output=short --stop-after 5
expect_exit 0 verify --resume=short/checkpoints/step-00000004
expect_text '^equal bit for bit: 1 of 1 recorded steps \(checkpoint.trace_steps was 3: that run ended before\)$'
sed -i 's/"weight_hash": "./"weight_hash": "g/' short/checkpoints/step-00000004/trace.json
expect_exit 4 verify --resume=short/checkpoints/step-00000004
expect_text 'trace.json: .*is not a word of 16 hex digits'
# The record of another checkpoint.
cp other/checkpoints/step-00000004/trace.json other/checkpoints/step-00000008/
expect_exit 4 verify --resume=other/checkpoints/step-00000008
expect_text 'trace.json: is of a checkpoint with the weight hash [0-9a-f]{16}, this one has'
# inspect reads such checkpoints as ever; no record where none is wanted.
expect_exit 0 "$OGROM" inspect out/checkpoints/step-00000004 --verify
expect_text '^  recorded_steps +5 to 7 '
expect_exit 0 "$OGROM" inspect out/checkpoints/step-00000012
expect_text '^  recorded_steps +none$'
expect_exit 0 "$OGROM" inspect short/checkpoints/step-00000004 --verify
expect_text '^  recorded_steps .*trace.json: '
expect_exit 0 launch 2 "$OGROM" train run.toml --set run.output=none --set checkpoint.trace_steps=0
[ -z "$(find none -name trace.json)" ] || fail "a record with checkpoint.trace_steps = 0"
# A resumed run goes on beside the record of the first.
rm -rf out/checkpoints/step-00000012
expect_exit 0 launch 2 "$OGROM" train run.toml --set run.output=out --resume --set checkpoint.keep_last=9
cmp "$steps/step-00000004/trace.json" other/checkpoints/step-00000004/trace.json || fail "the record of step 4 changed"
expect_exit 0 verify "--resume=$steps/step-00000008"
echo "replay: equal bits, bounds, differences, and nothing written"
