#!/usr/bin/env bash
# make gpu-test, or on a machine that has a build but no build tools: tests/device/run.sh BUILD [PARTS]
# Every test that needs a GPU, each program under a time limit and all together under LIMIT seconds (470, so that a call
# ends within 8 minutes); what there was no time for is told with the PARTS that make it up, and the exit code is 1.
# PARTS is a regular expression over these names:
#   kernels attention         every kernel against the CPU, at odd sizes
#   large large-attention     extents past 2^32, which need 90 GB of GPU memory (less: skipped with the figure)
#   golden engine             the PyTorch run in fp32, whole steps against the CPU
#   comm-2 comm-4 large-comm  communicators over device memory, by MPI staging and by NCCL
#   train                     text to checkpoint and back, GPU against CPU
#   selftest-mpi-N            every layout of N = 2, 4, 8 ranks by MPI staging; selftest-mpi-8 is cut into 3 slices, -8a -8b -8c
#   selftest-nccl-N           the chosen layouts of N = 2, 4, 8 ranks by NCCL
# Writes results/gpu/tests.json: of each part what passed of what ran. Exit 1 where a part fails, 77 without a GPU. Ranks
# share a GPU where there are fewer GPUs than ranks: NCCL 2.30 or later, else the parts that need it fail and say so.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${1:?the build folder}") parts=${2:-.} limit_s=${LIMIT:-470}
[ "$(jobscripts/local/has_gpu.sh)" = ON ] || { echo "skip: no GPU driver on this machine"; exit 77; }
out=$(mktemp -d "${TMPDIR:-/tmp}/ogrom-gpu-test.XXXXXX")
trap 'rm -rf "$out"' EXIT
status=0 unrun=()

# part NAME SECONDS command...: a program or ranks of one, if PARTS wants it and time is left
part() {
    local name=$1 limit=$2 code=0 left=$((limit_s - SECONDS))
    shift 2
    [[ $name =~ $parts ]] || return 0
    if [ "$left" -lt 15 ]; then
        unrun+=("$name")
        return 0
    fi
    [ "$limit" -le "$left" ] || limit=$left
    echo "== $name"
    timeout -k 10 "$limit" "$@" > "$out/$name.log" 2>&1 || code=$?
    grep -E '^\[ *(PASSED|FAILED|SKIPPED) *\]|: Failure|: Skipped|^DISAGREES|layouts agree' "$out/$name.log" | sort | uniq -c | sort -rn | head -40 || true
    [ "$code" -eq 0 ] || { status=1; echo "$name: exit $code"; tail -40 "$out/$name.log"; }
    echo "$code $limit $*" > "$out/$name.code"
}
mpi=(mpirun --allow-run-as-root --oversubscribe --bind-to none)
selftest() {
    local name=$1 limit=$2 ranks=$3
    shift 3
    part "selftest-$name" "$limit" "${mpi[@]}" -n "$ranks" "$build/ogrom" selftest --device cuda "$@"
}

# Engines of one thread: the tiny models of the tests are cut for so many.
export OMP_NUM_THREADS=1 NCCL_MULTI_RANK_GPU_ENABLE=1
part kernels 240 "$build/tests/test_cuda_kernels" '--gtest_filter=-*Large*'
part attention 240 "$build/tests/test_cuda_attention" '--gtest_filter=-*Large*'
part large 240 "$build/tests/test_cuda_kernels" '--gtest_filter=*Large*'
part large-attention 240 "$build/tests/test_cuda_attention" '--gtest_filter=*Large*'
part golden 120 "$build/tests/golden/test_golden" '--gtest_filter=*OnAGpu*'
part engine 240 "$build/tests/test_device_train"
for n in 2 4; do
    part "comm-$n" 120 "${mpi[@]}" -n "$n" "$build/tests/mpi/test_cuda_comm" '--gtest_filter=-*Large*'
done
part large-comm 240 "${mpi[@]}" -n 2 "$build/tests/mpi/test_cuda_comm" '--gtest_filter=*Large*'
part train 300 env -u OMP_NUM_THREADS "OGROM=$build/ogrom" bash tests/device/train.sh "$out/train"
for n in 2 4; do
    selftest "mpi-$n" 400 "$n" --backend mpi
done
slice=0
for letter in a b c; do
    slice=$((slice + 1))
    selftest "mpi-8$letter" 460 8 --backend mpi --slice "$slice/3"
done
for n in 2 4 8; do
    selftest "nccl-$n" 460 "$n" --backend nccl --chosen
done
if [ -z "$(ls "$out"/*.code 2> /dev/null)" ]; then
    echo "no part is named like $parts" >&2
    exit 2
fi
python3 tests/device/record_tests.py "$out" "$build/ogrom" results/gpu/tests.json "make gpu-test" || status=1
if [ "${#unrun[@]}" -gt 0 ]; then
    names=$(IFS='|' && echo "${unrun[*]}")
    echo "no time left in this call; now: make gpu-test PARTS='^($names)\$'"
    status=1
fi
exit "$status"
