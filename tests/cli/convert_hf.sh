#!/usr/bin/env bash
# ogrom convert --from hf and --to hf: models as transformers saves them (tests/golden/make_hf.py) give its logits and
# come back byte for byte; other types, shards, a tokenizer; what is refused by name leaves nothing.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
golden=$SOURCE/tests/golden/hf-tiny

# floats FILE: one number a line
floats() { od -An -v -tf4 -w4 "$1"; }
# values FILE...: the tensors behind the headers, in the order of their names, without what stands around them
header_of() { head -c $(($(od -An -tu8 -N8 "$1") + 8)) "$1" | tail -c +9; }
# tensors FILE...: "name type shape md5" of each tensor, sorted
tensors() {
    local file start name type shape first last
    for file in "$@"; do
        start=$(($(od -An -tu8 -N8 "$file") + 8))
        header_of "$file" | grep -oE '"[^"]+":\{"(dtype|shape|data_offsets)"[^}]*\}' | while read -r item; do
            name=$(sed -E 's/^"([^"]+)".*/\1/' <<< "$item")
            type=$(sed -E 's/.*"dtype":"([^"]+)".*/\1/' <<< "$item")
            shape=$(sed -E 's/.*"shape":\[([^]]*)\].*/\1/' <<< "$item")
            first=$(sed -E 's/.*"data_offsets":\[([0-9]+),.*/\1/' <<< "$item")
            last=$(sed -E 's/.*"data_offsets":\[[0-9]+,([0-9]+)\].*/\1/' <<< "$item")
            echo "$name $type $shape $(tail -c +$((start + first + 1)) "$file" | head -c $((last - first)) | md5sum)"
        done
    done | sort
}

for name in tiny square untied; do
    expect_exit 0 "$OGROM" convert "$golden/$name" --from hf --out "$name"
    expect_text "$name: step 0, [0-9]+ weights in fp32"
    expect_exit 0 "$OGROM" inspect "$name" --verify
    expect_exit 0 "$OGROM" sample "$name" --ids 1,7,30,2,36,0,5,5,11,23 --logits logits
    paste <(floats logits) <(floats "$golden/$name/logits.bin") | awk '
        NF != 2 { exit 1 }
        { d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d; n++ }
        END { print n " logits, largest difference " most; exit !(n == 370 && most < 1e-4) }' || fail "other logits: $name"
    expect_exit 0 "$OGROM" convert "$name" --to hf --out "$name-back"
    tensors "$golden/$name"/*.safetensors > wanted
    tensors "$name-back/model.safetensors" > found
    [ "$(wc -l < wanted)" -ge 16 ] || fail "the test reads no tensors"
    diff wanted found || fail "$name: other tensors"
    grep -q '"vocab_size": 37' "$name-back/config.json" || fail "another vocabulary"
done

# Shards: the same tensors, each in the file that the index names; and the way back in.
expect_exit 0 "$OGROM" convert tiny --to hf --shard-bytes 20000 --out shards
expect_text 'in [0-9]+ files'
[ "$(find shards -name 'model-*.safetensors' | wc -l)" -ge 3 ] || fail "no shards"
tensors shards/*.safetensors > found
tensors "$golden/tiny/model.safetensors" | diff - found || fail "shards: other tensors"
expect_exit 0 "$OGROM" convert shards --from hf --out tiny-again
expect_exit 0 "$OGROM" inspect tiny --diff tiny-again
expect_text '^0 of [0-9]+ tensors differ$'

# 16 bits: rounded once, then kept byte for byte.
for type in bf16 fp16; do
    expect_exit 0 "$OGROM" convert tiny --to hf --dtype "$type" --out "$type-1"
    expect_exit 0 "$OGROM" convert "$type-1" --from hf --out "$type-2"
    # The type of the files is remembered (field case B64: it never changes without a key).
    expect_exit 0 "$OGROM" convert "$type-2" --to hf --out "$type-3"
    expect_text "tensors of $type,"
    cmp "$type-1/model.safetensors" "$type-3/model.safetensors" || fail "$type: other bytes"
    expect_exit 0 "$OGROM" convert "$type-2" --to hf --dtype fp32 --out "$type-4"
    expect_text 'tensors of fp32,'
done

# A run of our own, with its tokenizer: the true vocabulary, no rows of padding.
make_corpus 60
make_run 4
expect_exit 0 launch 2 "$OGROM" train run.toml --set parallel.tensor=2
expect_exit 0 "$OGROM" convert out --to hf --out own
header_of own/model.safetensors | grep -q '"transformer.wte.weight":{"dtype":"F32","shape":\[257,32\]' || fail "rows of the table"
[ -s own/tokenizer.json ] || fail "no tokenizer"
expect_text 'own: tokenizer from byte'
expect_exit 0 "$OGROM" convert own --from hf --out own-again
# No run wrote this one: no run goes on from it.
expect_exit 4 "$OGROM" train run.toml --set run.output=fresh --resume=own-again
expect_text 'own-again.*: was not written by a run .*weights alone'
expect_exit 0 "$OGROM" sample own-again --prompt Rain --tokens 3
for model in out own-again; do
    expect_exit 0 "$OGROM" sample "$model" --ids 1,2,256 --logits "logits-$model"
done
cmp logits-out logits-own-again || fail "other logits after the round trip"

# Refused by name, before anything is written.
before=$(find . -path ./said -prune -o -print | sort)
expect_exit 2 "$OGROM" convert tiny --to hf --from hf --out new
expect_text 'give one of'
expect_exit 2 "$OGROM" convert tiny --out new
expect_exit 2 "$OGROM" convert tiny --to onnx --dtype bf16 --out new
expect_text '--dtype and --shard-bytes go with --to hf'
expect_exit 2 "$OGROM" convert "$golden/tiny" --from hf --out own
expect_text 'is there already'
expect_exit 3 "$OGROM" convert nowhere --from hf --out new
expect_text 'nowhere: holds no config.json'
[ "$(find . -path ./said -prune -o -print | sort)" = "$before" ] || fail "something was left"
cp -r "$golden/untied" broken
rm broken/model-00003-of-00005.safetensors
expect_exit 3 "$OGROM" convert broken --from hf --out new
expect_text '"model-00003-of-00005.safetensors", which is missing'
cp "$golden/tiny"/* tiny-back/
sed -i 's/gelu_new/relu/' tiny-back/config.json
expect_exit 3 "$OGROM" convert tiny-back --from hf --out new
expect_text 'activation_function = "relu"; would be right: "gelu_new"'
truncate -s -1 tiny-back/model.safetensors
sed -i 's/relu/gelu_new/' tiny-back/config.json
expect_exit 3 "$OGROM" convert tiny-back --from hf --out new
expect_text 'model.safetensors: '
[ ! -e new ] || fail "a refused command wrote"
echo "converted: from and to Hugging Face's form, byte for byte"
