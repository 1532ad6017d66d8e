#!/usr/bin/env bash
# What happens to files around a run: two jobs on one token set, damaged sets, pipes, full disks, lost output.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
make_corpus 300
make_run 4
data() { "$OGROM" data --input "$1" --document-separator % --tokenizer byte --out "$2" "${@:3}"; }

# Two jobs on one prefix: one writes, the other is refused and names it; the set is whole.
for ((i = 0; i < 400; i++)); do cat corpus.txt; done > large.txt
"$OGROM" data --input large.txt --document-separator % --tokenizer byte --out two --valid-fraction 0.1 > first.log 2>&1 &
first=$!
await "$first" test -s two.lock || { cat first.log; fail "no lock"; }
expect_exit 2 data corpus.txt ./two
expect_text "two is in use by process $first on .*two jobs cannot write one token set"
wait "$first" || { cat first.log; fail "the first job"; }
expect_exit 0 "$OGROM" data --check two
expect_exit 0 "$OGROM" data --check two-valid
# A job that is killed leaves a lock that binds nobody, and its temporary files go with the next.
"$OGROM" data --input large.txt --document-separator % --tokenizer byte --out two > killed.log 2>&1 &
first=$!
await "$first" test -e two.bin.tmp || { cat killed.log; fail "no temporary file"; }
kill -KILL "$first"
wait "$first" 2> /dev/null || true
[ -e two.bin.tmp ] || fail "the job ended before it was killed"
expect_exit 0 data corpus.txt two
expect_text "two.lock: process $first on .* ended without removing it"
if ls two.lock two.*tmp 2> /dev/null; then fail "left over"; fi
expect_exit 0 "$OGROM" data --check two
expect_exit 2 data corpus.txt two --valid-fraction 0.1 --valid-out ./two
expect_text 'are the same prefix'
expect_exit 0 "$OGROM" data --check two
mkdir bpe bpe/tokenizer.json
expect_exit 4 "$OGROM" tokenizer train --input corpus.txt --vocab 300 --out bpe
expect_text 'bpe/tokenizer.json: is a folder'
mkdir two-wrong.idx
expect_exit 4 data corpus.txt two-wrong
expect_text 'two-wrong.idx: is a folder'

# A set that is damaged under its record is refused at once, by the run too.
cp corpus.bin kept.bin
printf 'X' | dd of=corpus.bin bs=1 seek=1000 conv=notrunc status=none
expect_exit 3 "$OGROM" train run.toml
expect_text 'corpus.bin: content hash is .*ogrom data --check corpus'
[ ! -e out ] || fail "a refused run left its folder"
expect_exit 3 "$OGROM" data --check corpus
truncate -s 1000 corpus.bin
expect_exit 4 "$OGROM" inspect corpus
expect_text 'corpus.bin: 1000 bytes, the record corpus.json says [0-9]+: cut'
rm corpus.bin
expect_exit 4 "$OGROM" inspect corpus
expect_text 'corpus.bin: does not exist'
cp kept.bin corpus.bin
expect_exit 0 "$OGROM" inspect corpus
# A pair without a record, as another program makes it.
cp corpus.bin bare.bin
cp corpus.idx bare.idx
for name in bare bare.idx; do
    expect_exit 0 "$OGROM" inspect "$name"
    expect_text 'record +none'
done
expect_exit 2 "$OGROM" inspect bare --verify
expect_text 'ogrom data --check bare --vocab N'

# Pipes are refused by name and never waited for; so are links to nothing.
mkdir texts
cp corpus.txt texts
mkfifo texts/pipe ff.h5 run-pipe.toml
expect_exit 3 timeout 20 "$OGROM" data --input texts --tokenizer byte --out t
expect_text 'texts/pipe: a pipe, socket or device'
expect_exit 4 timeout 20 "$OGROM" inspect ff.h5
expect_text 'ff.h5: a pipe, socket or device'
expect_exit 2 timeout 20 "$OGROM" train run-pipe.toml
expect_text 'run-pipe.toml: is a pipe'
expect_exit 2 timeout 20 "$OGROM" train <(cat run.toml)
expect_text 'is a pipe'
rm texts/pipe
ln -s nowhere texts/dangling
expect_exit 3 "$OGROM" data --input texts --tokenizer byte --out t
expect_text 'texts/dangling: a link to something that does not exist'
if ls t.* 2> /dev/null; then fail "refused commands wrote files"; fi

# A full disk behind the standard output is a failure of every command.
full() { "$OGROM" "$@" > /dev/full; }
for words in "--help" "--version" "keys" "keys train" "data --help" "data --check corpus" "data --check corpus --json" \
    "inspect corpus" "tokenizer info --tokenizer byte" "data --input corpus.txt --tokenizer byte --out f --json" \
    "data --input corpus.txt --tokenizer byte --out f"; do
    # shellcheck disable=SC2086
    expect_exit 4 full $words
    expect_text 'cannot write to the standard output'
done

# Numbers.
expect_exit 2 "$OGROM" data --input corpus.txt --tokenizer byte --out x --seed 18446744073709551615
expect_text 'would be right: a whole number >= 0, at most 9_223_372_036_854_775_807'
printf 'one document only' > one.txt
expect_exit 3 "$OGROM" data --input one.txt --tokenizer byte --out one --valid-fraction 0.999999999
expect_text 'holds out all 1 documents'
echo "passed"
