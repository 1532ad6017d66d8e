#!/usr/bin/env bash
# ogrom convert: a checkpoint in other parts, equal bit for bit, that any layout goes on from; the ONNX files; names that
# are taken, damage, a full disk and a kill leave nothing half written.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
make_corpus 100
make_run 6
expect_exit 0 launch 2 "$OGROM" train run.toml --set run.output=whole
cp -r whole straight
rm -r whole/checkpoints/step-00000006
step=whole/checkpoints/step-00000004

# Other parts, the same state; a run goes on from them as from the source, under the layout that saved and another.
for writers in 1 3; do
    expect_exit 0 "$OGROM" convert whole --to ogrom --writers "$writers" --out "parts-$writers"
    expect_text 'equal to the source bit for bit'
    [ "$(find "parts-$writers" -name 'part-*.h5' | wc -l)" -eq "$writers" ] || fail "not $writers parts"
    expect_exit 0 "$OGROM" inspect "$step" --diff "parts-$writers" --verify
    expect_text '^0 of [0-9]+ tensors differ$'
done
# header_of CHECKPOINT: what inspect says of it, but for the place and the parts
header_of() { "$OGROM" inspect "$1" --verify | grep -vE '^  (path|bytes) |^  /'; }
[ "$(header_of "$step")" = "$(header_of parts-3)" ] || fail "another header"
expect_exit 0 launch 2 "$OGROM" train run.toml --set run.output=again --resume=parts-3
expect_exit 0 "$OGROM" inspect straight --diff again
expect_exit 0 launch 4 "$OGROM" train run.toml --set run.output=four --set parallel.tensor=2 --set parallel.zero=2 --resume=parts-3
expect_text 'resumed from .*/parts-3 at step 4'
# The name of its step: a folder of checkpoints, and back into one part.
expect_exit 0 "$OGROM" convert parts-3 --to ogrom --out moved/checkpoints/step-00000004
expect_exit 0 "$OGROM" inspect parts-1 --diff moved
cmp parts-1/part-00000.h5 moved/checkpoints/step-00000004/part-00000.h5 || fail "other bytes in one part"
expect_exit 2 "$OGROM" convert parts-3 --to ogrom --out step-00000005
expect_text 'step-00000005: is named for step 5, .*/parts-3 is of step 4; would be right: step-00000004'

# Weights alone: enough for a text, not for a resume.
expect_exit 0 "$OGROM" convert whole --to ogrom --weights-only --out weights
expect_exit 0 "$OGROM" sample weights --prompt Rain --tokens 3
expect_exit 4 "$OGROM" train run.toml --set run.output=never --resume=weights
expect_text 'missing: /moment1 \(all tensors\)'

# ONNX: two files, the tied table once: bytes of the parameters and at most a page a tensor.
expect_exit 0 "$OGROM" convert whole --to onnx --out model
[ "$(ls model)" = "$(printf 'model.onnx\nmodel.onnx.data')" ] || fail "other files: $(ls model)"
expect_text '[0-9]+ parameters in 36 tensors'
parameters=$(sed -nE 's/.* ([0-9]+) parameters in .*/\1/p' said)
bytes=$(stat -c %s model/model.onnx.data)
if [ "$bytes" -lt $((4 * parameters)) ] || [ "$bytes" -gt $((4 * parameters + 36 * 4096)) ]; then fail "$bytes bytes for $parameters parameters"; fi
grep -qa 'model.onnx.data' model/model.onnx || fail "no relative name of the data"
! grep -qa "$work" model/model.onnx || fail "a path of this machine in the model"

# Logits after given ids: one row of the vocabulary for each.
expect_exit 0 "$OGROM" sample whole --ids 1,2,256 --logits logits
[ "$(stat -c %s logits)" -eq $((3 * 257 * 4)) ] || fail "logits of another size"
expect_exit 2 "$OGROM" sample whole --ids 1,257 --logits other
expect_text '"257" is no token id of the model; would be right: whole numbers from 0 to 256'
expect_exit 2 "$OGROM" sample whole --ids 1,2
expect_exit 2 "$OGROM" sample whole --logits other --prompt Rain
[ ! -e other ] || fail "a refused command wrote a file"

# Refused by name, before anything is written.
before=$(find . -path ./said -prune -o -print | sort)
unchanged() { [ "$(find . -path ./said -prune -o -print | sort)" = "$before" ] || fail "something was left: $*"; }
for to in onnx ogrom; do
    expect_exit 2 "$OGROM" convert whole --to "$to" --out parts-1
    expect_text 'parts-1: is there already and is not overwritten'
    expect_exit 4 "$OGROM" convert nowhere --to "$to" --out new
    expect_text 'nowhere: no complete checkpoint here'
    expect_exit 2 "$OGROM" convert whole --to "$to"
    expect_text 'out'
done
expect_exit 2 "$OGROM" convert whole --to ogrom --writers 0 --out new
expect_text '--writers 0 is out of range: 1 to 99999'
expect_exit 2 "$OGROM" convert whole --to onnx --writers 2 --out new
expect_text '--writers and --weights-only go with --to ogrom'
expect_exit 2 "$OGROM" convert whole --to pickle --out new
unchanged refused
printf '\x7f' | dd of=parts-3/part-00001.h5 bs=1 seek=90000 conv=notrunc status=none
for to in onnx ogrom; do
    expect_exit 4 "$OGROM" convert parts-3 --to "$to" --out new
    expect_text 'part-00001.h5: block 0'
done
unchanged damaged

# A full disk, found before the first byte and found while writing (room for the values but not for the header).
small() {
    # shellcheck disable=SC2016  # for the inner shell
    unshare -rm bash -c 'mount -t tmpfs -o size="$1" none small && shift && { "$@"; code=$?; ls -A small; exit $code; }' small "$@"
}
mkdir small
if small 1m true 2> /dev/null; then
    values=$((3 * 4 * parameters))
    for to in onnx ogrom; do
        expect_exit 4 small 65536 "$OGROM" convert whole --to "$to" --out small/new
        expect_text 'small/new: needs [0-9]+ bytes .*, [0-9]+ bytes .* are free: free space or choose another --out'
        [ "$(grep -c new said)" -eq 1 ] || { cat said; fail "something was left"; }
    done
    expect_exit 4 small $(((values / 4096 + 3) * 4096)) "$OGROM" convert whole --to ogrom --out small/new
    expect_text 'cannot write: No space left on device'
    [ "$(grep -c new said)" -eq 1 ] || { cat said; fail "something was left"; }
else
    echo "without the full disk: no privilege to mount a small file system (unshare -rm)"
fi
echo "converted: other parts, ONNX, and nothing half written"
