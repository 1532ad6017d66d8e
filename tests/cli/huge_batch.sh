#!/usr/bin/env bash
# A batch of millions of micro-batches is refused by its count, at once,.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
make_corpus 60
make_run 2
ulimit -v $((16 << 20)) # KiB: what libraries map, but no list of 2^31
for batch in 2147483648 20000000 2000002; do
    for layout in pipeline=2 data=2 tensor=2; do
        expect_exit 2 timeout 60 mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 "$OGROM" train run.toml --set run.output=run \
            --set "train.global_batch=$batch" --set train.micro_batch=1 --set "parallel.$layout"
        expect_text 'train.accumulation [0-9]+: the schedule of a step would have [0-9]+ actions .* at most 1000000 in all'
        [ ! -e run ] || fail "a refused run left its folder"
    done
done
expect_exit 2 timeout 20 "$OGROM" train run.toml --set train.accumulation=500001 --set train.micro_batch=1
expect_text 'train.accumulation: 500001 is out of range; would be right: >= 1, <= 500_000'
echo "huge batches are refused at once"
