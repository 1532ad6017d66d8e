#!/usr/bin/env bash
# train --init-from: a Hugging Face folder, a checkpoint of weights alone, a run's folder, on 1, 2 and 4 ranks: the same
# weights bit for bit and the same first loss, which is that of the logits of transformers; requeues; what does not fit
# is refused by name and leaves nothing, or is left out by name.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
golden=$SOURCE/tests/golden/hf-tiny

# A token set as another program writes it: the 10 ids whose logits stand beside the models, again and again, so that
# every sample of 10 is the same.
ids=(1 7 30 2 36 0 5 5 11 23)
rounds=120
number() { # number BYTES VALUE: little endian
    local i
    for ((i = 0; i < $1; i++)); do printf '%b' "\\x$(printf %02x $((($2 >> (8 * i)) & 255)))"; done
}
{
    printf 'MMIDIDX\0\0'
    number 8 1 && number 1 8 && number 8 1 && number 8 2   # version, uint16, one sequence, two entries of documents
    number 4 $((rounds * 10 + 1)) && number 8 0 && number 8 0 && number 8 1
} > ids.idx
for id in "${ids[@]}"; do number 2 "$id"; done > round
for ((i = 0; i < rounds; i++)); do cat round; done > ids.bin
number 2 "${ids[0]}" >> ids.bin

# tiny_run NAME: a run file of the model of $golden/NAME
tiny_run() {
    local layers=2 hidden=24 heads=4 ffn=96 tied=true
    [ "$1" != untied ] || { layers=1 hidden=16 heads=2 ffn=64 tied=false; }
    cat > "$1.toml" <<RUN
[model]
layers = $layers
hidden = $hidden
heads = $heads
ffn_hidden = $ffn
vocab = 37
sequence = 16
tied = $tied
[data]
train = "ids"
tokenizer = ""
[train]
steps = 5
sequence = 10
micro_batch = 1
global_batch = 4
[optimizer]
lr = 1e-3
[numerics]
deterministic = true
[run]
name = "$1"
threads = 1
RUN
}
first_loss() { awk -F, '$1 == 1 { print $2 }' "$1/metrics.csv"; }
near() { awk -v a="$1" -v b="$2" -v bar="$3" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a > 0 && d <= bar) }'; }

# The mean over the ten places of log(sum exp(logits)) - logit of the next id.
loss_of_logits() {
    od -An -v -tf4 -w148 "$1" | awk -v targets="${ids[*]:1} ${ids[0]}" '
        BEGIN { split(targets, want, " ") }
        { sum = 0; for (i = 1; i <= NF; i++) sum += exp($i); loss += log(sum) - $(want[NR] + 1); if (NF != 37) bad = 1 }
        END { if (NR != 10 || bad) exit 1; printf "%.9g\n", loss / NR }'
}

for name in tiny untied; do
    tiny_run $name
    expected=$(loss_of_logits "$golden/$name/logits.bin") || fail "no logits"
    expect_exit 0 "$OGROM" convert "$golden/$name" --from hf --out "$name-start"
    hash=$("$OGROM" inspect "$name-start" | awk '$1 == "weight_hash" { print $2 }')
    [ ${#hash} -eq 16 ] || fail "no weight hash: $hash"
    n=0
    # ranks, form, layout
    while read -r ranks from layout; do
        n=$((n + 1))
        [ "$from" = hf ] && from=$golden/$name || from=$name-start
        words=()
        for word in $layout; do words+=(--set "parallel.$word"); done
        expect_exit 0 launch "$ranks" "$OGROM" train "$name.toml" --set "run.output=$name-$n" "${words[@]}" --init-from "$from"
        expect_text "fresh start, weights from /.*$name.*, weight hash $hash\$"
        loss=$(first_loss "$name-$n")
        # fp32 against transformers' logits in fp32
        near "$loss" "$expected" 1e-5 || fail "$name $ranks $layout: first loss $loss, by the logits $expected"
    done <<LAYOUTS
1 hf
1 checkpoint
2 hf tensor=2
2 checkpoint pipeline=$([ $name = tiny ] && echo 2 || echo 1)
2 hf data=2 zero=3
4 checkpoint tensor=2 data=2 zero=3
4 hf data=4 zero=2
LAYOUTS
done
expect_exit 0 launch 4 "$OGROM" train tiny.toml --set run.output=tiny-pipe --set parallel.pipeline=2 --set parallel.tensor=2 \
    --set parallel.schedule=zb-h1 --init-from tiny-start
near "$(first_loss tiny-pipe)" "$(first_loss tiny-1)" 1e-6 || fail "another loss in the pipeline"
"$OGROM" inspect tiny-start > said
hash=$(awk '$1 == "weight_hash" { print $2 }' said)

# The checkpoints of the run remember; a run that starts from them is another one.
expect_exit 0 "$OGROM" inspect tiny-1
expect_text "^ +extra.init_from +/.*hf-tiny/tiny\$"
expect_text '^ +extra.init_form +Hugging Face GPT-2$'
expect_text "^ +extra.init_weight_hash +$hash\$"
[ ! -e tiny-2/checkpoints/step-00000000 ] || fail "a checkpoint of step 0"
expect_exit 0 launch 2 "$OGROM" train tiny.toml --set run.output=second --init-from tiny-1 --set train.steps=1
expect_text 'tiny-1/checkpoints/step-00000005 \(checkpoint of step 5\), weight hash'
[ "$(tail -1 second/metrics.csv | cut -d, -f1)" = 1 ] || fail "it did not begin at step 0"
grep -q 'fresh start, weights from .*step-00000005' second/events.jsonl || fail "no event"

# A requeue: the same command again; the run's own checkpoint wins, and the source may be gone.
cp -r "$golden/tiny" source
again=(launch 2 "$OGROM" train tiny.toml --set run.output=requeue --init-from source --resume=auto)
expect_exit 75 "${again[@]}" --stop-after 2
expect_text 'fresh start, weights from .*/source \(Hugging Face GPT-2\)'
rm -r source
expect_exit 0 "${again[@]}"
expect_text 'resumed from .*requeue/checkpoints/step-00000002 at step 2'
expect_text 'checkpoint.init_from = "source" was not read: this run has begun'
expect_exit 0 launch 2 "$OGROM" train tiny.toml --set run.output=at-once --init-from "$golden/tiny"
expect_exit 0 "$OGROM" inspect requeue --diff at-once
expect_exit 0 "$OGROM" inspect requeue
expect_text '^ +extra.init_from +/.*/source$'

# Refused on every rank with one message, nothing left.
refused() { # refused CODE TEXT ARGUMENT...
    local code=$1 text=$2
    shift 2
    expect_exit "$code" launch 2 "$OGROM" train tiny.toml --set run.output=refused "$@"
    expect_text "$text"
    [ ! -e refused ] || { cat said; fail "something was left"; }
}
# From a folder of ours, tied=false: what it has more is named, what it lacks too.
refused 2 'model.hidden: 24 in .*, 32 in the run file; would be right: model.hidden = 24' \
    --init-from "$golden/tiny" --set model.hidden=32 --set model.ffn_hidden=128
refused 2 'model.sequence: 16 in .*, 12 in the run file; .* = 16 .train.sequence may be shorter' \
    --init-from tiny-1 --set model.sequence=12
refused 2 'model.heads: 4 in .*, 2 in the run file' --init-from "$golden/tiny" --set model.heads=2 --set checkpoint.strict=false
refused 2 'model.layers: 2 in .*, 1 in the run file' --init-from tiny-start --set model.layers=1
mkdir empty
refused 4 'checkpoint.init_from: no config.json .*, and empty: no complete checkpoint here' --init-from empty
refused 4 'checkpoint.init_from = "gpt2": does not exist; would be right: .*nothing is downloaded' --init-from gpt2
refused 4 'model.safetensors": is a file; would be right: its folder' --init-from "$golden/tiny/model.safetensors"
refused 2 '--init-from: no path' --init-from ""
refused 2 'one of the two, or --init-from with --resume=auto' --init-from tiny-1 --resume=tiny-1
refused 2 'one of the two, or --init-from with --resume=auto' --init-from tiny-1 --resume
refused 2 'given twice' --init-from tiny-1 --set checkpoint.init_from=tiny-2
mkdir broken
sed 's/"n_layer": 2/"n_layer": 3/' "$golden/tiny/config.json" > broken/config.json
cp "$golden/tiny/model.safetensors" broken/
refused 3 'missing: h.2.attn.c_attn.weight' --init-from broken --set model.layers=3
truncate -s -1 broken/model.safetensors
refused 3 'model.safetensors: ' --init-from broken --set model.layers=3
cp -r tiny-1 damaged
part=damaged/checkpoints/step-00000005/part-00000.h5
printf 'x' | dd of="$part" bs=1 seek=$(($(stat -c %s "$part") - 9)) conv=notrunc status=none
refused 4 'checkpoint.init_from: .*part-00000.h5.*; no other checkpoint here is intact' --init-from damaged
# What resumes cannot take, this can.
expect_exit 4 "$OGROM" train tiny.toml --set run.output=refused --resume=tiny-start
expect_text 'would be right: --init-from .*tiny-start, which starts a new run'

# checkpoint.strict = false: what fits, and a line for each of the rest.
expect_exit 0 launch 2 "$OGROM" train tiny.toml --set run.output=grown --init-from "$golden/tiny" --set checkpoint.strict=false \
    --set model.layers=3 --set model.sequence=20
expect_text 'model.layers: 2 in .*, 3 in the run file; tensors that do not fit are left out'
[ "$(grep -c 'checkpoint.init_from: missing: h.2\.' said)" -eq 12 ] || { cat said; fail "12 tensors are missing"; }
expect_text 'does not fit: transformer.wpe.weight: shape \[16, 24\] in the file, \[20, 24\] in the model'
expect_text '13 tensors were not loaded; those of the model among them begin with values drawn from train.seed'
expect_exit 0 launch 2 "$OGROM" train tiny.toml --set run.output=cut --init-from tiny-start --set checkpoint.strict=false --set model.layers=1
[ "$(grep -c 'checkpoint.init_from: unexpected: /weights/block.1\.' said)" -eq 16 ] || { cat said; fail "16 rows are unexpected"; }

# Tokenizers: the one of the data must be that of the weights, where both are known; a byte-level run's own export is.
make_corpus 60
make_run 2
expect_exit 0 "$OGROM" train run.toml
expect_exit 0 "$OGROM" convert out --to hf --out own
for from in out own; do
    expect_exit 0 launch 2 "$OGROM" train run.toml --set "run.output=from-$from" --init-from $from
    if grep -q 'not checked' said; then fail "$from: the tokenizer was not compared"; fi
done
[ "$(first_loss from-out)" = "$(first_loss from-own)" ] || fail "another first loss from the export"
"$OGROM" tokenizer train --input corpus.txt --vocab 300 --out other.json > said 2>&1 || { cat said; fail "tokenizer"; }
cp other.json own/tokenizer.json
expect_exit 4 launch 2 "$OGROM" train run.toml --set run.output=refused --init-from own
expect_text 'own is of the tokenizer .*, the token set corpus was made by .*; would be right: a token set made by'
expect_exit 0 launch 2 "$OGROM" train run.toml --set run.output=other --init-from own --set checkpoint.strict=false
expect_text 'own is of the tokenizer .* \(checkpoint.strict = false\)'
echo "started from weights of both forms on 1, 2 and 4 ranks: the same bits, the loss of transformers' logits"
