#!/usr/bin/env bash
# A whole training on a GPU, from text to checkpoint and back: golden run, tests against the CPU, then a 124M model in
# bf16 with its rate and its memory against the ledger. Prints; fails where a part fails.
#   OGROM=build/ogrom TESTS=build/tests bash tests/device/train.sh [folder to work in]
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
python3 - <<'PYTHON'
import csv



def losses(name):
    with open(f"{name}/metrics.csv") as lines:
        return [float(row["loss"]) for row in csv.DictReader(line for line in lines if not line.startswith("#"))]


rows = {name: losses(name) for name in ("moved", "straight")}
assert len(rows["moved"]) == len(rows["straight"]) == 40, {k: len(v) for k, v in rows.items()}
worst = max(abs(a - b) / b for a, b in zip(rows["moved"], rows["straight"]))
print(f"GPU, CPU, GPU against the CPU alone: losses differ by {worst:.1e} at most (fp64)")
assert worst <= 1e-10
PYTHON
