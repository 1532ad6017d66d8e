#!/usr/bin/env bash
# ogrom plan prints what train then chooses and takes, line by line; threads by the environment; and a demo that does
# not fit is refused before it removes the last one.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
make_corpus 200
make_run 2
# Ledger lines that hold before a run: all but the libraries, which are measured, and the sum with them.
lines() { sed -E 's/^.* info: //' "$1" | grep -E ' (device|host|baseline) +[0-9.]+ [KMGT]?i?B ' | grep -v '^libraries'; }

for layout in parallel.zero=2 parallel.tensor=2 parallel.pipeline=2; do
    expect_exit 0 "$OGROM" plan run.toml --ranks 2 --set "$layout"
    expect_text '^rank 0 takes '
    cp "$work/said" planned
    expect_exit 0 launch 2 "$OGROM" train run.toml --set "$layout" --set "run.output=$layout"
    [ "$(lines planned | wc -l)" -gt 20 ] || { cat planned; fail "$layout: the plan has no ledger"; }
    # A plan without rank 0 as the largest prints that rank's lines behind its own.
    diff <(lines planned | head -n "$(lines "$work/said" | wc -l)") <(lines "$work/said") || fail "$layout: train took another ledger"
done
expect_exit 2 "$OGROM" plan run.toml --ranks 3 --set parallel.tensor=2
expect_text 'parallel.tensor: pipeline 1 x tensor 2 = 2 does not divide the 3 ranks that were planned, .*: --ranks 2 or 4,'
expect_exit 2 "$OGROM" plan run.toml --set parallel.tensor=2
expect_text 'the 1 rank that was planned, too few; would be right: --ranks 2,'

# The last line says whether it fits, and the ledger's letters are told.
expect_exit 0 "$OGROM" plan run.toml --ranks 2
[[ $(tail -1 said) =~ ^'fits: all 2 ranks on this machine in fp32 need ' ]] || { cat said; fail "no verdict"; }
expect_text '^letters: P weights of this rank, .*B micro-batch 2, T sequence 32, C hidden 32, '
if grep -qE '^letters: .*, (W|Lk) ' said; then fail "a letter that no formula has"; fi
expect_exit 0 "$OGROM" plan run.toml --set model.layers=90 --set model.hidden=100000 --set model.heads=500
[[ $(tail -1 said) =~ ^'does not fit on this machine: 1 rank in fp32 needs '.*', free '.*'(train would end with exit code 7)'$ ]] ||
    { cat said; fail "no verdict of a model too large"; }

# Which device it is planned for, and how that was decided.
expect_exit 0 "$OGROM" plan run.toml --set run.device=cpu
expect_text '^device: cpu \(run.device\)'
expect_exit 0 "$OGROM" plan run.toml --set run.device=auto
expect_text '^device: (cpu|cuda) \(run.device = "auto", here: .+; "cuda" or "cpu" plan for machines of that kind\)'
expect_exit 0 "$OGROM" plan run.toml --set run.device=auto --set precision.weights=bf16
expect_text '^device: cuda \(precision.weights = "bf16"\)'
expect_text ' device +[0-9.]+ [KMGT]?i?B '
expect_text '^rank 0 takes [0-9.]+ [KMGT]?i?B, of it [0-9.]+ [KMGT]?i?B on its GPU'
expect_exit 2 "$OGROM" plan run.toml --set precision.weights=bf16 --set numerics.linears=fp8 --set model.hidden=40 \
    --set model.heads=2 --set model.ffn_hidden=72
expect_text 'numerics.linears = "fp8": .* no linear layer is made of them: .*MLP up \(72 x 40: 72 and 40\)'
expect_exit 2 "$OGROM" selftest --backend gloo
expect_text 'backend.*gloo'

# Without --ranks those of the launcher, told once; --ranks wins over it.
expect_exit 0 launch 2 "$OGROM" plan run.toml --set parallel.tensor=2
expect_text '^ranks: 2 \(mpirun'
[ "$(grep -c '^rank 0 takes ' said)" -eq 1 ] || { cat said; fail "not one plan"; }
expect_exit 0 launch 2 "$OGROM" plan run.toml --ranks 4
expect_text '^ranks: 4 \(--ranks\)'
SLURM_NTASKS=4 expect_exit 0 "$OGROM" plan run.toml
expect_text '^ranks: 4 \(SLURM_NTASKS\)'
SLURM_PROCID=1 SLURM_NTASKS=4 expect_exit 0 "$OGROM" plan run.toml
[ ! -s said ] || { cat said; fail "a rank behind the first said something"; }

# Without the token set only the vocabulary is missing; the example of --help is of that kind.
expect_exit 3 "$OGROM" plan run.toml --set model.vocab=0 --set data.train=nowhere
expect_text 'no token set has this prefix.*; --set model.vocab=N plans without data$'
expect_exit 0 "$OGROM" plan run.toml --set model.vocab=4096 --set data.train=nowhere
read -ra example < <("$OGROM" plan --help | sed -n 's/^ *Example: ogrom //p')
mkdir clone
cp -r "$SOURCE/inputs" clone/
(cd clone && expect_exit 0 "$OGROM" "${example[@]}")
expect_text '^ranks: 4 '

OMP_NUM_THREADS=1,2 expect_exit 0 launch 1 "$OGROM" train run.toml --set run.output=one --set run.threads=0
expect_text 'threads as OMP_NUM_THREADS = 1 asks'
expect_text '1 thread per rank'
OMP_NUM_THREADS=7 expect_exit 0 launch 1 "$OGROM" train run.toml --set run.output=other # run.threads = 1 in the file
expect_text '1 thread per rank'
if grep -q 'OMP_NUM_THREADS' "$work/said"; then fail "the environment won over run.threads"; fi

mkdir -p jobscripts/local results/runs/demo
cp "$SOURCE/jobscripts/local/demo.sh" jobscripts/local/
touch results/runs/demo/kept
for ranks in 3 0 6 x; do
    RANKS=$ranks expect_exit 2 bash jobscripts/local/demo.sh
    expect_text "RANKS=$ranks does not fit.*2, 4, 8, 16, 32 or 64"
    [ -e results/runs/demo/kept ] || fail "RANKS=$ranks removed the last demo"
done
echo "plans, threads and refusals are as said"
