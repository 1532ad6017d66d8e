# shellcheck shell=bash
# Shared by the end-to-end tests; sourced. OGROM is the program, SOURCE the repository, BINARY the build folder.
# Each test works in a fresh folder that is removed at the end.
set -euo pipefail
: "${OGROM:?}" "${SOURCE:?}"
export OMP_NUM_THREADS=1
work=$(mktemp -d "${TMPDIR:-/tmp}/ogrom-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "FAIL: $*"
    exit 1
}

# launch N command...: N ranks on this machine, whoever we are
launch() {
    local ranks=$1
    shift
    mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$ranks" "$@"
}

# expect_exit CODE command...: output in $work/said, checked exit code
expect_exit() {
    local want=$1 got=0
    shift
    "$@" > "$work/said" 2>&1 || got=$?
    [ "$got" -eq "$want" ] || { cat "$work/said"; fail "exit $got instead of $want: $*"; }
}

expect_text() {
    grep -qE -- "$1" "$work/said" || { cat "$work/said"; fail "no line matches: $1"; }
}

# await JOB COMMAND...: until the command succeeds; false once the process JOB is gone without, or after two minutes (a
# machine that does other work is slow, not wrong)
await() {
    local job=$1 deadline=$((SECONDS + 120))
    shift
    until "$@"; do
        if ! kill -0 "$job" 2> /dev/null || [ "$SECONDS" -ge "$deadline" ]; then
            "$@"
            return
        fi
        sleep 0.02
    done
}

# A small corpus of English-like documents, a byte-token set of it, and a tiny run file on it.
make_corpus() {
    local i
    for ((i = 0; i < ${1:-300}; i++)); do
        printf 'Document %d. The quick brown fox number %d jumps over %d lazy dogs.\n' "$i" $((i * 7 % 31)) $((i % 5))
        printf 'Rain fell on hill %d and the river rose by %d feet before dawn.\n%%\n' $((i % 17)) $((i % 9))
    done > corpus.txt
    "$OGROM" data --input corpus.txt --document-separator % --tokenizer byte --valid-fraction 0.1 --out corpus > data.log 2>&1 ||
        { cat data.log; fail "data"; }
}

make_run() {
    cat > run.toml <<RUN
[model]
layers = 2
hidden = 32
heads = 2
vocab = 257
sequence = 32
dropout_residual = 0.1
[data]
train = "corpus"
valid = "corpus-valid"
tokenizer = "byte"
[train]
steps = ${1:-12}
micro_batch = 2
global_batch = 8
[optimizer]
lr = 1e-3
warmup_steps = 2
[numerics]
deterministic = true
[checkpoint]
interval_steps = 4
[run]
name = "t"
output = "out"
threads = 1
RUN
}
