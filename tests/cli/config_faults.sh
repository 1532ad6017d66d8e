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

expect_exit 2 "$OGROM" train run.toml --set train.steps=5 --set train.steps=6
expect_text '--set 2: train.steps: given twice: 5 by --set 1, 6 here; would be right: once$'

# refused RANKS LINE option...: exit 2 and one message with that line, no place in our source behind it
refused() {
    local ranks=$1 line=$2
    shift 2
    expect_exit 2 launch "$ranks" "$OGROM" train run.toml "$@"
    expect_text "$line"
    [ "$(grep -cE -- "$line" said)" -eq 1 ] || { cat said; fail "not one message: $line"; }
    if grep -qE '\.(cpp|h):[0-9]+' said; then cat said; fail "a place in our source"; fi
}

# Layouts that do not fit the model (2 layers, hidden 32, 2 heads, sequence 32) or the ranks: both numbers, the nearest.
refused 3 'parallel.tensor: 3 does not divide model.heads 2 .*; would be right: parallel.tensor 2, or model.heads 3; with 3 ranks: tensor 1$' \
    --set parallel.tensor=3
refused 3 'parallel.pipeline: 3 stages for model.layers 2: .*: pipeline at most 2, or model.layers 3 or more$' \
    --set parallel.pipeline=3
refused 2 'parallel.stage_layers: \[1, 2\] has the sum 3, but model.layers is 2; .* as \[1, 1\], or without this key$' \
    --set parallel.pipeline=2 --set 'parallel.stage_layers=[1,2]'
refused 2 'train.sequence 31 is not a multiple of parallel.tensor 2; would be right: train.sequence 30 or 32, or false$' \
    --set parallel.tensor=2 --set parallel.sequence_parallel=true --set train.sequence=31
refused 2 'parallel.zero_group: 3 does not divide parallel.data 2; would be right: zero_group 2, or data 3$' \
    --set parallel.zero=3 --set parallel.zero_group=3
refused 2 'parallel.schedule: has no effect in this combination; would be right: .* parallel.pipeline > 1$' \
    --set parallel.schedule=gpipe
refused 2 'parallel.context: 2: context parallelism is not built yet; would be right: 1$' --set parallel.context=2
refused 3 'pipeline 1 x tensor 2 = 2 does not divide the 3 ranks .*, 1 would stand idle; would be right: start 2 or 4 ranks, a multiple of 2, or keys whose product divides 3 \(1 or 3\)$' \
    --set parallel.tensor=2

# Every rank refuses alike, one message is printed, no rank stays behind.
expect_exit 2 launch 2 "$OGROM" train run.toml --set parallel.data=1
[ "$(grep -c 'but 2 ranks were started' said)" -eq 1 ] || { cat said; fail "not one message"; }
if [ -e results ]; then fail "a refused run wrote files"; fi
echo "config faults: refused with exit 2"
