#!/usr/bin/env bash
# An edited checkpoint under --resume (field case B20), on one rank and on four: a tensor that is missing, unknown, of
# another shape or type stops the run with a list (exit 4); checkpoint.strict = false goes on and lists what it left
# out, by name, once.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
: "${BINARY:?}"
make_corpus 100
make_run 6
edit() { "$BINARY/tests/checkpoint_edit" "$@" || fail "edit $*"; }

expect_exit 0 launch 2 "$OGROM" train run.toml --set run.output=whole
cp -r whole straight
rm -r whole/checkpoints/step-00000006

# resume RANKS STRICT: from an edited copy of step 4, on four ranks under another layout than that which saved
resume() {
    local layout=()
    [ "$1" -lt 4 ] || layout=(--set parallel.tensor=2 --set parallel.pipeline=2)
    launch "$1" "$OGROM" train run.toml --set run.output=edited "${layout[@]}" --set "checkpoint.strict=$2" --resume
}
# listed RANKS LINE...: strict stops with these lines, not strict goes on and says each once, and no other
listed() {
    local ranks=$1 line
    shift
    expect_exit 4 resume "$ranks" true
    for line in "$@"; do expect_text "^  $line\$"; done
    expect_text 'checkpoint.h5: [0-9]+ tensors do not match this run'
    [ ! -e edited/checkpoints/step-00000006 ] || fail "it trained"
    expect_exit 0 resume "$ranks" false
    for line in "$@"; do
        [ "$(grep -cE "resume: $line\$" said)" -eq 1 ] || { cat said; fail "not said once: $line"; }
    done
    [ "$(grep -cE 'resume: (missing|unexpected|does not fit): ' said)" -eq $# ] || { cat said; fail "another list"; }
    expect_exit 0 "$OGROM" inspect edited --verify
}

# Each edit alone on one rank, all of them together on four.
edits=('rename /weights/final_norm.bias /weights/final_norm.beta' 'delete /moment2/block.1.mlp.up.bias'
    'shape /weights/block.0.norm1.weight 33' 'type /weights/block.1.norm1.weight 32' 'group /moment3'
    'shape /moment1/extra.weight 3')
lines=('missing: /weights/final_norm.bias' 'unexpected: /weights/final_norm.beta' 'missing: /moment2/block.1.mlp.up.bias'
    'does not fit: /weights/block.0.norm1.weight: shape \[33\] in the checkpoint, \[32\] in the model'
    'does not fit: /weights/block.1.norm1.weight: type fp64 in the checkpoint, fp32 in the run'
    'unexpected: /moment3' 'unexpected: /moment1/extra.weight')
fresh() { rm -rf edited && cp -r whole edited; }
# change WORDS: an edit as one text
change() {
    local words
    read -ra words <<< "$1"
    edit edited/checkpoints/step-00000004 "${words[@]}"
}
fresh
change "${edits[0]}"
listed 1 "${lines[@]:0:2}"
for i in 1 2 3 4 5; do
    fresh
    change "${edits[$i]}"
    listed 1 "${lines[$((i + 1))]}"
done
fresh
for words in "${edits[@]}"; do change "$words"; done
listed 4 "${lines[@]}"
# What is unknown was left out and nothing else: under the same layout the end is that of the run that never stopped.
fresh
change "${edits[5]}"
expect_exit 0 resume 2 false
expect_exit 0 "$OGROM" inspect straight --diff edited
# Of another model: refused by the keys that differ, whatever checkpoint.strict says.
for strict in true false; do
    expect_exit 2 "$OGROM" train run.toml --set run.output=edited --set model.layers=1 --set checkpoint.strict=$strict --resume
    expect_text 'model.layers: 2 in the checkpoint, 1 in the run file; would be right: 2'
done
echo "edited checkpoints: listed and refused, or listed and left out, on one rank and on four"
