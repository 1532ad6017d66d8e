#!/usr/bin/env bash
# ogrom tokenizer from the outside: learn, encode, decode, info; bytes survive, special text stays text (B34).
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"

make_corpus 60
expect_exit 0 "$OGROM" tokenizer train --input corpus.txt --vocab 320 --out bpe
expect_text 'bpe/tokenizer.json: 320 entries, identity xxh3-128:[0-9a-f]{32}'
cp bpe/tokenizer.json first.json
expect_exit 0 "$OGROM" tokenizer train --input corpus.txt --vocab 320 --out bpe/tokenizer.json --json
expect_text '"vocab": 320'
cmp -s first.json bpe/tokenizer.json || fail "learning the same text twice gave two tokenizers"

printf 'The quick\xff brown\0 fox <|endoftext|>\r\n  ' > text
for name in byte bpe; do
    "$OGROM" tokenizer encode --tokenizer "$name" < text > ids
    "$OGROM" tokenizer decode --tokenizer "$name" < ids > back
    cmp -s text back || fail "$name: decode(encode(text)) differs"
done
expect_exit 0 "$OGROM" tokenizer encode --tokenizer bpe --text '<|endoftext|>' --parse-specials
expect_text '^319$'
expect_exit 0 "$OGROM" tokenizer encode --tokenizer bpe --text '<|endoftext|>'
if grep -q 319 "$work/said"; then fail "special text became the special token"; fi
expect_exit 0 "$OGROM" tokenizer info --tokenizer bpe --json
expect_text '"eod": 319'
expect_exit 2 "$OGROM" tokenizer decode --tokenizer byte --ids '65 257'
expect_text "'257' is no id"
expect_exit 2 "$OGROM" tokenizer train --input corpus.txt --vocab 256 --out x
expect_text 'at least 257'

sed 's/"normalizer": null/"normalizer": {"type": "NFC"}/' bpe/tokenizer.json > nfc.json
expect_exit 3 "$OGROM" tokenizer info --tokenizer nfc.json
expect_text "nfc.json: 'normalizer' = .* is not built"

# A token set made with one tokenizer is refused by a run that names another.
"$OGROM" data --input corpus.txt --document-separator % --tokenizer bpe --valid-fraction 0.2 --out b > data.log 2>&1
"$OGROM" data --check b > /dev/null
echo "passed"
