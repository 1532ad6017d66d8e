#!/usr/bin/env bash
# ogrom data from the outside: exit codes, counts, messages, held-out documents, the full check (B28, B29, B31).
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"

make_corpus 120
expect_exit 0 "$OGROM" data --check corpus
expect_text 'every id and hash is right'
expect_exit 0 "$OGROM" data --check corpus-valid --json
expect_text '"good": true'

# A flipped byte, and ids above a smaller vocabulary, are found.
expect_exit 3 "$OGROM" data --check corpus --vocab 200
expect_text 'corpus.bin: document 0, position [0-9]+: id 256 is outside the vocabulary of 200'
printf 'X' | dd of=corpus.bin bs=1 seek=100 conv=notrunc 2> /dev/null
expect_exit 3 "$OGROM" data --check corpus
expect_text 'corpus.bin: content hash'

# JSON Lines: one bad line stops, or is skipped with exit code 8.
printf '{"text":"one"}\r\n{"text":"b\xf4A"}\n{"text":null}\n{"text":"last"}' > c.jsonl
expect_exit 3 "$OGROM" data --input c.jsonl --tokenizer byte --out j
expect_text 'c.jsonl:2: byte 26: invalid UTF-8 \(0xF4\)'
[ ! -e j.bin ] || fail "a failed run left j.bin"
expect_exit 8 "$OGROM" data --input c.jsonl --tokenizer byte --out j --on-invalid skip
expect_text 'j: 2 documents, 9 tokens'
expect_text '2 documents or lines were skipped'
printf '{"text":""}\n{"text":""}\n' > empty.jsonl
expect_exit 3 "$OGROM" data --input empty.jsonl --tokenizer byte --out e
expect_text 'no tokens: 2 documents were empty'
printf '{\0"\0' > u.jsonl
expect_exit 3 "$OGROM" data --input u.jsonl --tokenizer byte --out u
expect_text 'UTF-16'

# A link to a text that is read anyway does not count it twice; a dangling one names the way round it.
mkdir folder
printf 'one text' > folder/b.txt
ln -s b.txt folder/a.txt
ln folder/b.txt folder/c.txt
expect_exit 0 "$OGROM" data --input folder folder/b.txt --tokenizer byte --out linked
expect_text 'linked: 1 documents, 9 tokens'
expect_text '^3 links or repeated names of these files left out'
expect_exit 0 "$OGROM" data --input folder --tokenizer byte --out linked --json
expect_text '"names_left_out": 2'
ln -s nowhere folder/d.txt
expect_exit 3 "$OGROM" data --input folder --tokenizer byte --out linked
expect_text 'folder/d.txt: a link to something that does not exist.*give the files by name \(--input folder/\*.txt\)'

# Usage.
expect_exit 2 "$OGROM" data --input corpus.txt --tokenizer byte
expect_exit 2 "$OGROM" data --input corpus.txt --tokenizer byte --out x --on-invalid maybe
expect_exit 3 "$OGROM" data --input nowhere.txt --tokenizer byte --out x
expect_text 'nowhere.txt: no such file or folder'
expect_exit 3 "$OGROM" data --input corpus.txt --tokenizer nothing.json --out x
expect_text 'nothing.json: no such tokenizer'
expect_exit 3 "$OGROM" data --input corpus.txt --tokenizer byte --valid-fraction 0.000001 --out x
expect_text 'holds out none of the 1 documents'
echo "passed"
