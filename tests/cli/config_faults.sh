#!/usr/bin/env bash
# The run-file reference and the faults of a run file, as a user meets them: exit codes, one message, nothing written.
# shellcheck source=tests/cli/lib.sh
source "${SOURCE:?}/tests/cli/lib.sh"

"$OGROM" keys --markdown > reference.md
cmp reference.md "$SOURCE/inputs/README.md" || fail "inputs/README.md is not what keys --markdown prints"
expect_exit 0 "$OGROM" keys optimizer.lr
expect_text 'peak learning rate'
expect_exit 0 "$OGROM" keys --json train.steps
expect_text '"key": "train.steps"'
expect_exit 2 "$OGROM" keys nosuchkey
expect_exit 2 "$OGROM" keys --json --markdown

make_run 12
expect_exit 2 "$OGROM" train nowhere.toml
expect_text 'nowhere.toml'
expect_exit 2 "$OGROM" train run.toml --set train.stepz=3 --set optimizer.warmup_steps=10m --set model.heads=3
expect_text '^.*--set 1: train.stepz: unknown key; would be right: train.steps$'
expect_text '--set 2: optimizer.warmup_steps: "10m" is a text'
expect_text '--set 3: model.heads: 3 does not divide model.hidden 32; would be right: heads 2 or 4'
sed 's/^micro_batch = 2$/micro_batch = 2\nmicro_batch = 4/' run.toml > twice.toml
expect_exit 2 "$OGROM" train twice.toml
expect_text 'twice.toml:15: train.micro_batch: given twice \(first in line 14\)'

# Every rank refuses alike, one message is printed, no rank stays behind.
expect_exit 2 launch 2 "$OGROM" train run.toml --set parallel.data=1
[ "$(grep -c 'but 2 ranks were started' out)" -eq 1 ] || { cat out; fail "not one message"; }
if [ -e results ]; then fail "a refused run wrote files"; fi
echo "config faults: refused with exit 2"
