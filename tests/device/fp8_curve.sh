#!/usr/bin/env bash
# The 124M model 500 steps in bf16 and again with its linear layers in fp8, same text, order and initial weights: the
# losses, each the mean of 50 steps, must end within 0.5 % of each other. Prints both curves; exit 1 where they part, 77
# without a GPU that has fp8.
#   OGROM=build/ogrom TEXT=corpus.txt bash tests/device/fp8_curve.sh [folder to work in]
# TEXT: real text of some megabytes, documents apart by blank lines. STEPS and MICRO_BATCH (16) may be set.
set -euo pipefail
ogrom=$(realpath "${OGROM:?the ogrom binary}")
text=$(realpath "${TEXT:?a file of text}")
steps=${STEPS:-500} window=50
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"
if [ ! -f tokens.idx ]; then
    "$ogrom" tokenizer train --input "$text" --vocab 8192 --out tokenizer.json > /dev/null 2>&1 ||
        { echo "fp8_curve: no tokenizer from $text"; exit 1; }
    "$ogrom" data --input "$text" --split-documents blank-lines --tokenizer tokenizer.json --out tokens > /dev/null
fi
cat > gpt.toml <<TOML
[model]
layers = 12
hidden = 768
heads = 12
vocab = 50257
sequence = 1024
[data]
train = "tokens"
tokenizer = "tokenizer.json"
[train]
steps = $steps
micro_batch = ${MICRO_BATCH:-16}
accumulation = 1
sequence = 1024
logits_rows = 16384
log_interval_steps = $steps
[optimizer]
lr = 6e-4
warmup_steps = 50
[precision]
weights = "bf16"
[checkpoint]
at_end = false
[run]
device = "cuda"
TOML
for linears in compute fp8; do
    code=0
    "$ogrom" train gpt.toml --set "run.output=$linears" --set "numerics.linears=$linears" > "$linears.log" 2>&1 || code=$?
    if [ "$code" -ne 0 ]; then
        ! grep -qE 'compute capability 8.9|needs a GPU|no CUDA|no GPU' "$linears.log" ||
            { echo "skip: no GPU with fp8"; exit 77; }
        tail -20 "$linears.log"
        exit 1
    fi
    grep -m 1 'fp8 linears' "$linears.log" || true
done
# curve FILE: "step mean" of the last `window` steps, each 50 steps
curve() {
    grep -v '^#' "$1" | awk -F, -v window="$window" '
        NR == 1 { for (i = 1; i <= NF; ++i) { if ($i == "loss") loss = i; if ($i == "step") step = i }; next }
        { last[NR % window] = $loss }
        ++n >= window && $step % 50 == 0 {
            sum = 0
            for (k in last) sum += last[k]
            printf "%d %.6f\n", $step, sum / window
        }'
}
curve compute/metrics.csv > compute.curve
curve fp8/metrics.csv > fp8.curve
paste -d ' ' compute.curve fp8.curve | awk '
    {
        off = 100 * ($4 - $2) / $2
        printf "step %5d: bf16 %.4f, fp8 %.4f, %+.3f %%\n", $1, $2, $4, off
        last = off < 0 ? -off : off
        ++n
    }
    END {
        printf "fp8_curve: the smoothed losses end %.3f %% apart, 0.5 %% is allowed\n", last
        exit n == 0 || !(last <= 0.5)
    }'
