#!/usr/bin/env bash
# A whole training on a GPU, from text to checkpoint and back: golden run, tests against the CPU, then a 124M model in
# bf16 and fp16 with its rate and its memory against the ledger; small ones in fp16: against fp32, resumed, of two ranks.
# Prints; fails where a part fails.
#   OGROM=build/ogrom TESTS=build/tests [BACKEND=nccl] bash tests/device/train.sh [folder to work in]
# TESTS may be left out: the command alone then.
set -euo pipefail
ogrom=$(realpath "${OGROM:?the ogrom binary}")
tests=${TESTS:+$(realpath "$TESTS")}
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"

if [ -n "$tests" ]; then
    # Engines of one thread: the tiny models of the tests are cut for so many.
    OMP_NUM_THREADS=1 "$tests/golden/test_golden" --gtest_filter='*OnAGpu*'
    OMP_NUM_THREADS=1 "$tests/test_device_train"
fi

python3 - <<'PYTHON'
import random

random.seed(1)
words = ["".join(random.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(random.randint(2, 9))) for _ in range(3000)]
with open("text.txt", "w") as out:
    for _ in range(800):
        out.write(" ".join(random.choice(words[: int(50 + random.random() ** 2 * 2900)]) for _ in range(400)) + "\n\n")
PYTHON
"$ogrom" data --input text.txt --split-documents blank-lines --tokenizer byte --out tokens > /dev/null
cat > gpt.toml <<'TOML'
[model]
layers = 12
hidden = 768
heads = 12
vocab = 50257
sequence = 1024
[data]
train = "tokens"
tokenizer = "byte"
valid_fraction = 0.05
[train]
steps = 40
micro_batch = 16
accumulation = 1
sequence = 1024
logits_rows = 16384
eval_samples = 32
log_interval_steps = 10
[optimizer]
lr = 6e-4
warmup_steps = 5
[precision]
weights = "bf16"
[run]
device = "cuda"
TOML
"$ogrom" train gpt.toml --set run.output=bf16 2>&1 | tee bf16.log | grep -E "on the GPU|context|kernels.scratch|device:|step |saved|mean|ledger|launch"
# The same with the blocks' linear layers in fp8, where the GPU has it: near the losses of bf16.
code=0
"$ogrom" train gpt.toml --set run.output=fp8 --set numerics.linears=fp8 --set checkpoint.at_end=false > fp8.log 2>&1 || code=$?
if grep -q 'numerics.linears = "fp8": needs a GPU of compute capability 8.9' fp8.log; then
    echo "fp8: this GPU is older than compute capability 8.9"
else
    grep -E "fp8 linears|step " fp8.log
    [ "$code" -eq 0 ] || { tail -20 fp8.log; echo "fp8: exit $code"; exit 1; }
    python3 - <<'PYTHON'
import csv


def losses(name):
    with open(f"{name}/metrics.csv") as lines:
        return [float(row["loss"]) for row in csv.DictReader(line for line in lines if not line.startswith("#"))]


bf16, fp8 = losses("bf16"), losses("fp8")
assert len(bf16) == len(fp8) == 40
means = [sum(rows[-10:]) / 10 for rows in (bf16, fp8)]
print(f"mean loss of the last 10 of 40 steps: bf16 {means[0]:.4f}, fp8 {means[1]:.4f}")
assert abs(means[1] / means[0] - 1) <= 0.01 and bf16 != fp8
PYTHON
fi
# The checkpoint of a GPU is read on the CPU, and resumed there and back.
"$ogrom" sample bf16 --prompt "some " --tokens 4 --temperature 0
"$ogrom" inspect bf16 > /dev/null
"$ogrom" train gpt.toml --set run.output=fp16 --set precision.weights=fp16 2>&1 | tee fp16.log | grep -E "passes at first|step |mean"
small=(--set model.layers=2 --set model.vocab=300 --set model.hidden=96 --set model.heads=4 --set train.micro_batch=2
    --set train.sequence=64 --set train.logits_rows=128 --set train.eval_samples=4 --set numerics.compute=fp64
    --set precision.weights=fp64)
# part CODE OUTPUT arguments...: a run with that exit code, or its log
part() {
    local want=$1 output=$2 code=0
    shift 2
    "$ogrom" train gpt.toml "${small[@]}" --set "run.output=$output" "$@" > part.log 2>&1 || code=$?
    [ "$code" -eq "$want" ] || { cat part.log; echo "exit $code instead of $want: $output $*"; exit 1; }
}
part 75 moved --stop-after 10
part 75 moved --resume=auto --stop-after 10 --set run.device=cpu
part 0 moved --resume=auto
part 0 straight --set run.device=cpu
# fp16 beside fp32, the library's choice of algorithms for all; then with a loss scale that overflows at first and rises again, straight and resumed between.
small=(--set model.layers=2 --set model.vocab=300 --set model.hidden=96 --set model.heads=4 --set train.micro_batch=2
    --set train.sequence=64 --set train.logits_rows=128 --set train.eval_samples=4 --set numerics.deterministic=true
    --set run.product_search_s=0)
moving=(--set precision.weights=fp16 --set precision.loss_scale_initial=16777216 --set precision.loss_scale_window=4)
part 0 single --set precision.weights=fp32
part 0 half --set precision.weights=fp16 --set precision.loss_scale_initial=1024
part 0 half-straight "${moving[@]}"
part 75 half-cut "${moving[@]}" --stop-after 11
part 0 half-cut "${moving[@]}" --resume=auto
grep -q "overflow in fp16 with the loss scale 16777216, 8388608 from now on" half-straight/log.txt
# Saves behind the steps, from a page-locked copy: each checkpoint is that of a run that waits.
# same_saves A B: the checkpoints of two runs, tensor by tensor
same_saves() {
    local step
    for step in 00000010 00000025 00000040; do
        "$ogrom" inspect "$1/checkpoints/step-$step" --diff "$2/checkpoints/step-$step" > part.log 2>&1 ||
            { cat part.log; echo "$1 and $2 differ at $step"; exit 1; }
    done
}
saves=(--set precision.weights=bf16 --set checkpoint.keep_last=9)
every=(--set checkpoint.interval_steps=5)
part 0 waited "${saves[@]}" "${every[@]}"
part 0 behind "${saves[@]}" "${every[@]}" --set checkpoint.async=true
same_saves waited behind
grep -m1 -o 'saved .*steps held up.*' behind/log.txt
# Two ranks that share the GPU, their copies compared at each save.
if command -v mpirun > /dev/null; then
    # two OUTPUT arguments...
    two() {
        local output=$1
        shift
        mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 "$ogrom" train gpt.toml "${small[@]}" \
            --set "run.output=$output" --set run.share_gpu=true --set "comm.backend=${BACKEND:-mpi}" \
            "${every[@]}" "$@" > "$output.log" 2>&1 || { cat "$output.log"; exit 1; }
    }
    two half-zero0 "${moving[@]}" --set parallel.zero=0
    two half-zero2 "${moving[@]}" --set parallel.zero=2
    two half-pipeline "${moving[@]}" --set parallel.pipeline=2
    two two-waited "${saves[@]}" --set parallel.zero=2
    two two-behind "${saves[@]}" --set parallel.zero=2 --set checkpoint.async=true
    same_saves two-waited two-behind
    two half-tensor --set precision.weights=fp16 --set precision.loss_scale_initial=1024 --set parallel.tensor=2
fi
python3 - <<'PYTHON'
import csv
import os


def rows_of(name):
    with open(f"{name}/metrics.csv") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def losses(name):
    return [float(row["loss"]) for row in rows_of(name)]


rows = {name: losses(name) for name in ("moved", "straight")}
assert len(rows["moved"]) == len(rows["straight"]) == 40, {k: len(v) for k, v in rows.items()}
worst = max(abs(a - b) / b for a, b in zip(rows["moved"], rows["straight"]))
print(f"GPU, CPU, GPU against the CPU alone: losses differ by {worst:.1e} at most (fp64)")
assert worst <= 1e-10

# fp16 rounds each activation by 2^-12 = 2.4e-4; the losses are means over 128 tokens.
worst = max(abs(a - b) / b for a, b in zip(losses("half"), losses("single")))
print(f"fp16 against fp32: losses differ by {worst:.1e} at most")
assert worst <= 1e-3, worst
worst = max(abs(a - b) / b for a, b in zip(losses("fp16"), losses("bf16")))
print(f"124M, fp16 against bf16: losses differ by {worst:.1e} at most")
assert worst <= 1e-2, worst

# Bit for bit, the loss scale and the steps left out among it; an infinite norm is text like any other.
columns = ("step", "loss", "gradient_norm", "clip_factor", "loss_scale", "skipped")
straight, cut = ([tuple(row[c] for c in columns) for row in rows_of(name)] for name in ("half-straight", "half-cut"))
assert straight == cut, [pair for pair in zip(straight, cut) if pair[0] != pair[1]][:3]
skipped = sum(row[5] == "1" for row in straight)
scales = [float(row[4]) for row in straight]
print(f"fp16: {skipped} of 40 steps left out; loss scale {scales[0]:.0f}, at least {min(scales):.0f}, then {scales[-1]:.0f}")
assert skipped >= 1 and min(scales) < scales[0] and straight[-1][5] in "01"
assert any(b > a for a, b in zip(scales, scales[1:])), "it never rose"
for name in ("half-zero0", "half-zero2"):
    if os.path.exists(f"{name}/metrics.csv"):
        two = rows_of(name)
        assert len(two) == 40 and two[0]["skipped"] == "1", two[0]
        assert float(two[-1]["loss"]) < float(two[0]["loss"])
if os.path.exists("half-zero0/metrics.csv"):
    a, b = (rows_of(name) for name in ("half-zero0", "half-zero2"))
    assert [r["loss"] for r in a] == [r["loss"] for r in b], "ZeRO 0 and 2 differ"
    assert [tuple(row[c] for c in columns) for row in rows_of("half-pipeline")] == straight, "a pipeline differs"
    print("fp16 on two ranks: ZeRO 0 and 2, and a pipeline and one rank, have the same losses and scales, bit for bit")
    worst = max(abs(a - b) / b for a, b in zip(losses("half-tensor"), losses("half")))
    print(f"fp16, tensor parallel against one rank: losses differ by {worst:.1e} at most")
    assert worst <= 1e-3, worst
PYTHON
