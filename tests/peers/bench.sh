#!/usr/bin/env bash
# make bench: ROWS is a regular expression over {kernels, encode, train_step, start, layouts,
# checkpoint, async_save}; without it all rows run.
# kernels and products: verified, then rate and fraction of the limit; encode: MB/s of the tokenizer; train_step: one
# optimizer step beside PyTorch (PEER_PYTHON names a Python with torch; without it that row says so and is left out);
# start: launch to first step and memory against the ledger; layouts: step machinery, overlap, pipeline bubble,
# recomputation; checkpoint: saves and loads beside plain writes and reads;
# async_save: steps during a save that is written behind them.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:?}
rows=${ROWS:-.}
wanted() { [[ $1 =~ $rows ]]; }
some=no
for row in kernels encode train_step start layouts checkpoint async_save; do if wanted "$row"; then some=yes; fi; done
[ "$some" = yes ] || { echo "ROWS=$rows selects none of kernels, encode, train_step, start, layouts, checkpoint, async_save" >&2; exit 2; }

if wanted kernels; then
    for program in "$build"/kernels/bench/bench_*; do
        if [ ! -f "$program" ] || [ ! -x "$program" ]; then continue; fi
        case $program in *_device | */bench_cuda_*) continue ;; esac # a GPU's: make gpu-bench ROWS=kernels
        "$program" --benchmark_format=json --benchmark_repetitions=5 --benchmark_min_time=0.1 2>/dev/null
        printf '\x1e'
    done | python3 tests/peers/record.py results/cpu/kernels.json "make bench ROWS=kernels"
fi
if wanted encode; then
    bash tests/peers/encode.sh "$build"
fi
if wanted train_step; then
    if "${PEER_PYTHON:-python3}" -c 'import torch' 2>/dev/null; then
        python3 tests/peers/side_by_side.py --ogrom "$build/ogrom"
    else
        echo "train_step: no Python with torch (set PEER_PYTHON): left out"
    fi
fi
if wanted start; then
    python3 tests/peers/start.py --ogrom "$build/ogrom"
fi
if wanted layouts; then
    bash tests/peers/layouts.sh "$build"
fi
if wanted checkpoint; then
    bash tests/peers/checkpoint.sh "$build"
fi
if wanted async_save; then
    python3 tests/peers/async_save.py --ogrom "$build/ogrom"
fi
