#!/usr/bin/env bash
# make gpu-test, or on a machine that has a build but no build tools: tests/device/run.sh BUILD [PARTS]
# Every test that needs a GPU, each program under a time limit: PARTS is a regular expression over {kernels, attention,
# engine, comm, train}. Writes results/gpu/tests.json: of each part what passed of what ran. Exit 1 where a part fails,
# 77 without a GPU. Tests that find no second GPU for their ranks share one where NCCL can (2.30 and later).
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${1:?the build folder}") parts=${2:-.}
[ "$(jobscripts/local/has_gpu.sh)" = ON ] || { echo "skip: no GPU driver on this machine"; exit 77; }
out=$(mktemp -d "${TMPDIR:-/tmp}/ogrom-gpu-test.XXXXXX")
trap 'rm -rf "$out"' EXIT
status=0
wanted() { [[ $1 =~ $parts ]]; }

# part NAME SECONDS command...: a GoogleTest program, or ranks of one
part() {
    local name=$1 limit=$2 code=0
    shift 2
    echo "== $name"
    timeout -k 10 "$limit" "$@" > "$out/$name.log" 2>&1 || code=$?
    grep -E '^\[ *(PASSED|FAILED|SKIPPED) *\]|: Failure|: Skipped' "$out/$name.log" | sort | uniq -c | sort -rn | head -40 || true
    [ "$code" -eq 0 ] || { status=1; echo "$name: exit $code"; tail -40 "$out/$name.log"; }
    echo "$code $limit $*" > "$out/$name.code"
}
mpi=(mpirun --allow-run-as-root --oversubscribe --bind-to none)

# Engines of one thread: the tiny models of the tests are cut for so many.
export OMP_NUM_THREADS=1 NCCL_MULTI_RANK_GPU_ENABLE=1
! wanted kernels || part kernels 240 "$build/tests/test_cuda_kernels"
! wanted attention || part attention 240 "$build/tests/test_cuda_attention"
if wanted engine; then
    part golden 120 "$build/tests/golden/test_golden" '--gtest_filter=*OnAGpu*'
    part engine 240 "$build/tests/test_device_train"
fi
if wanted comm; then
    for n in 2 4; do
        part "comm-$n" 120 "${mpi[@]}" -n "$n" "$build/tests/mpi/test_cuda_comm"
    done
fi
if wanted train; then
    echo "== train"
    code=0
    OGROM=$build/ogrom timeout -k 10 300 bash tests/device/train.sh "$out/train" || code=$?
    [ "$code" -eq 0 ] || { status=1; echo "train: exit $code"; }
fi
python3 tests/device/record_tests.py "$out" "$build/ogrom" || status=1
exit "$status"
