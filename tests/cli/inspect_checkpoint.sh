#!/usr/bin/env bash
# inspect on what a run leaves behind: tree, JSON, verification, differences, exit codes, and h5dump on the same file.
# shellcheck source=tests/cli/lib.sh
source "${SOURCE:?}/tests/cli/lib.sh"

make_corpus 60
make_run 4
expect_exit 0 "$OGROM" train run.toml --set train.steps=2 --set checkpoint.interval_steps=1 --set run.output=trained
step=trained/checkpoints/step-00000002

expect_exit 0 "$OGROM" inspect trained
expect_text '^  step +2$'
expect_text '/weights/embedding.token.weight +fp32 +\[257, 32\]'
expect_exit 0 "$OGROM" inspect "$step" --verify --json
expect_text '"verified": "manifest and weight hash agree"'
expect_exit 0 "$OGROM" inspect "$step" --diff "$step/checkpoint.h5"
expect_text '^0 of [0-9]+ tensors differ$'
expect_exit 1 "$OGROM" inspect "$step" --diff trained/checkpoints/step-00000001
expect_text '/weights/final_norm.weight +[0-9]+ elements differ, at most by'
expect_exit 0 "$OGROM" inspect corpus
expect_text '^  documents '
expect_exit 0 "$OGROM" inspect trained/metrics.csv
expect_text '^  last_step +2$'
expect_exit 0 "$OGROM" inspect trained/metrics.h5
expect_text '/metrics/loss +fp64 +\[2\]'
if command -v h5dump > /dev/null; then
    h5dump -d /weights/final_norm.weight "$step/checkpoint.h5" > dump || fail "h5dump cannot read the checkpoint"
    grep -q 'H5T_IEEE_F32LE' dump || fail "h5dump shows another type"
fi
# Two ranks write two parts; whoever reads sees the same whole tensors.
expect_exit 0 launch 2 "$OGROM" train run.toml --set train.steps=2 --set run.output=two
expect_exit 0 "$OGROM" inspect two --verify --json
expect_text '"part-00001.h5"'
expect_text '"verified": "manifest and weight hash agree"'
expect_exit 1 "$OGROM" inspect "$step" --diff two
grep -qE 'only in|shape|type' said && fail "another number of ranks gives another tree"

expect_exit 4 "$OGROM" inspect nowhere
expect_text 'nowhere'
expect_exit 2 "$OGROM" inspect
printf '\x7f' | dd of="$step/part-00000.h5" bs=1 seek=9000 conv=notrunc status=none
expect_exit 4 "$OGROM" inspect "$step" --verify
expect_text 'part-00000.h5: block 0'
rm "$step/checkpoint.h5"
expect_exit 4 "$OGROM" inspect "$step" --verify
expect_text 'checkpoint.h5: is missing'
echo "inspect: tree, verification, differences and faults"
