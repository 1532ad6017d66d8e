#!/usr/bin/env bash
# Slips of a new user: wrong paths, signs, endings and launches. One message, the documented code, nothing written.
# shellcheck source=tests/cli/lib.sh
source "${SOURCE:?}/tests/cli/lib.sh"

# Commands without MPI are one process: under a launcher rank 0 works and the others end, so that no file is raced for.
make_corpus 60
expect_exit 0 launch 3 "$OGROM" data --input corpus.txt --document-separator % --tokenizer byte --out shared
[ "$(grep -c '^shared: ' said)" -eq 1 ] || { cat said; fail "not exactly one rank made the set"; }
expect_exit 0 "$OGROM" data --check shared
expect_exit 0 launch 2 "$OGROM" keys train.steps
[ "$(grep -c '^  steps ' said)" -eq 1 ] || { cat said; fail "keys printed by more than one rank"; }
expect_exit 3 launch 2 "$OGROM" data --input nowhere --tokenizer byte --out x
[ "$(grep -c 'nowhere: no such file' said)" -eq 1 ] || { cat said; fail "not one message"; }

# The user's own text is never overwritten, and a folder is no prefix.
cp corpus.txt notes.json
expect_exit 2 "$OGROM" data --input notes.json --tokenizer byte --out ./notes
expect_text 'notes.json would be overwritten while it is an input'
expect_exit 2 "$OGROM" tokenizer train --input notes.json --vocab 300 --out notes.json
expect_text 'notes.json would be overwritten'
cmp -s corpus.txt notes.json || fail "the input was overwritten"
mkdir "a folder"
expect_exit 2 "$OGROM" data --input corpus.txt --tokenizer byte --out "a folder/"
expect_text 'a folder/ names a folder; give the prefix of the files in it'
[ -z "$(ls -A 'a folder')" ] || fail "files in the folder"
expect_exit 0 "$OGROM" data --input corpus.txt --tokenizer byte --out "a folder/my set"
expect_exit 0 "$OGROM" inspect "a folder/my set" --verify
expect_text 'verified +every id and hash is right'
printf 'X' | dd of="a folder/my set.bin" bs=1 seek=100 conv=notrunc status=none
expect_exit 3 "$OGROM" inspect "a folder/my set" --verify
expect_text 'my set.bin: content hash'

# Numbers: signs are not wrapped round, underscores are read, NaN is no time.
for bad in -1 1.5 x 99999999999999999999; do
    expect_exit 2 "$OGROM" data --input corpus.txt --tokenizer byte --out x --seed "$bad"
    expect_text 'would be right: a whole number >= 0'
    expect_exit 2 "$OGROM" sample nowhere --seed "$bad"
done
expect_exit 0 "$OGROM" data --input corpus.txt --tokenizer byte --out seeded --seed 1_000
make_run 4
for bad in nan inf 0 -3; do
    expect_exit 2 "$OGROM" train run.toml --time-limit "$bad"
    expect_text 'would be right: a finite number > 0'
    expect_exit 2 "$OGROM" train run.toml --stop-after "$bad"
done
expect_exit 2 "$OGROM" data --input corpus.txt --tokenizer byte --out x --vocab 5
expect_exit 2 "$OGROM" data --check corpus --input corpus.txt --tokenizer byte --out x
expect_exit 2 "$OGROM" tokenizer train --input nowhere --vocab 12 --out x
expect_text 'at least 257'
if ls x* 2> /dev/null; then fail "refused commands wrote files"; fi

# Layouts in the words of other programs, and with the sections left out.
expect_exit 2 "$OGROM" train run.toml --set parallel.tp=2 --set tensor=2 --set train.activation_checkpointing=full
expect_text '--set 1: parallel.tp: unknown key; would be right: parallel.tensor$'
expect_text '--set 2: tensor: tensor belongs to \[parallel\]; would be right: parallel.tensor$'
expect_text '--set 3: train.activation_checkpointing: unknown key; would be right: train.recompute$'
expect_exit 2 "$OGROM" train --tensor-model-parallel-size 2 run.toml parallel.pipeline=2 --zero=1
expect_text 'error: --tensor-model-parallel-size 2: no option of train; would be right: --set parallel.tensor=2$'
expect_text '^parallel.pipeline=2: no option of train; would be right: --set parallel.pipeline=2$'
[ "$(tail -1 said)" = '--zero=1: no option of train; would be right: --set parallel.zero=1' ] || { cat said; fail "order of words"; }
expect_exit 2 launch 2 "$OGROM" plan run.toml --parallel.tensor=2
[ "$(grep -c 'would be right: --set parallel.tensor=2$' said)" -eq 1 ] || { cat said; fail "not one message"; }
expect_exit 2 "$OGROM" train run.toml --set tensor-model-parallel-size=2 --set bf16=true
expect_text '--set 1: tensor-model-parallel-size: unknown key; would be right: parallel.tensor$'
expect_text '--set 2: bf16: unknown key; would be right: precision.weights, with "bf16" or "fp16", on a GPU$'
expect_exit 2 "$OGROM" train run.toml --set parallel.zero=zero3 --set parallel.stage_layers=1,1 --set parallel.schedule=1F1B
expect_text '--set 1: parallel.zero: "zero3" is a text; would be right: an integer >= 0, <= 3'
expect_text '--set 2: parallel.stage_layers: "1,1" is a text; would be right: a list of integers >= 1.*, as in \[4, 3, 3\]$'
expect_text '--set 3: parallel.schedule: unknown value "1F1B"; would be right: .*nearest: "1f1b"'
expect_exit 0 "$OGROM" keys schedule
expect_text 'gpipe \| 1f1b \| interleaved \| zb-h1'

# What is there, and what is not.
expect_exit 3 "$OGROM" train run.toml --set data.train=corpus.idx
expect_text 'give the prefix of the token set without the ending: corpus'
expect_exit 3 "$OGROM" train run.toml --set data.train=corpus.txt
expect_text 'no token set has this prefix; make one: ogrom data'
expect_exit 4 "$OGROM" inspect corpus.txt
expect_text 'not a file that inspect knows; would be right: '
expect_exit 2 "$OGROM" inspect ""
expect_exit 0 "$OGROM" keys '[Optimizer]'
expect_text 'peak learning rate'
expect_exit 2 "$OGROM" keys optimiser
expect_text 'nearest: optimizer'
expect_exit 3 "$OGROM" data --input shared.bin --tokenizer byte --out x
expect_text 'no text at all'

# tokenizer train takes invalid text as the data command does.
printf 'good text\n' > good.txt
printf 'bad \xff text\n' > bad.txt
expect_exit 3 "$OGROM" tokenizer train --input good.txt bad.txt --vocab 260 --out t
expect_exit 8 "$OGROM" tokenizer train --input good.txt bad.txt --vocab 260 --out t --on-invalid skip
expect_text '1 documents or lines were skipped'
expect_exit 0 "$OGROM" tokenizer train --input good.txt bad.txt --vocab 260 --out t --on-invalid replace
echo "passed"
