#!/usr/bin/env bash
# make gpu-racecheck, or tests/device/sanitize.sh BUILD [PARTS]: compute-sanitizer over the kernel tests at small sizes.
# Every error or hazard that a tool reports fails the part, and so does a failing test. PARTS is a regular expression over
#   {memcheck, racecheck, initcheck}-{kernels, attention}
# memcheck and initcheck look at every kernel, the libraries' too (what those write is initialised); racecheck at ours
# alone: without the tests of bf16 products, of which the tool ends in an error of its own ("failed to handle a hardware
# exception") at the first kernel of the library, and of attention only what is cut to its pace (attention_small.cpp). Each part under a time limit,
# all under LIMIT seconds (470); what there was no time for is told, and the exit code is 1. Writes
# results/gpu/sanitizer.json. Exit 77 without a GPU or the tool.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${1:?the build folder}") parts=${2:-.} limit_s=${LIMIT:-470}
[ "$(jobscripts/local/has_gpu.sh)" = ON ] || { echo "skip: no GPU driver on this machine"; exit 77; }
sanitizer=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer) ||
    { echo "skip: no compute-sanitizer on this machine (it is part of the CUDA toolkit)"; exit 77; }
out=$(mktemp -d "${TMPDIR:-/tmp}/ogrom-sanitizer.XXXXXX")
trap 'rm -rf "$out"' EXIT
status=0 unrun=()

# What takes long under a tool and says nothing more at its size: gigabytes; the search over the library's algorithms;
# many blocks of the same code.
left_out='*Large*:*TheSearchKeeps*:*ManyBlocks*'
ours=(--kernel-name kernel_substring=ogrom)

# check TOOL TESTS SECONDS options...
check() {
    local name=$1-$2 limit=$3 code=0 left=$((limit_s - SECONDS))
    local tool=$1 program=$build/tests/test_cuda_$2 filter
    shift 3
    [[ $name =~ $parts ]] || return 0
    if [ "$left" -lt 15 ]; then
        unrun+=("$name")
        return 0
    fi
    [ "$limit" -le "$left" ] || limit=$left
    case $name in
        racecheck-kernels) filter="-$left_out:DeviceProducts.*" ;;
        racecheck-attention) filter="DeviceAttentionSmall.*" ;;
        *) filter="-$left_out" ;;
    esac
    echo "== $name"
    # API errors: a test that asks for what cannot be had is no fault.
    timeout -k 10 "$limit" "$sanitizer" --tool "$tool" --error-exitcode 9 --report-api-errors no "$@" "$program" \
        "--gtest_filter=$filter" > "$out/$name.log" 2>&1 || code=$?
    grep -E '^\[ *(PASSED|FAILED|SKIPPED) *\]|: Failure|SUMMARY' "$out/$name.log" | sort | uniq -c | sort -rn | head -20 || true
    [ "$code" -eq 0 ] || { status=1; echo "$name: exit $code"; grep -E '^=========' "$out/$name.log" | grep -v 'Host Frame' | head -60 || true; tail -15 "$out/$name.log"; }
    echo "$code $limit $sanitizer --tool $tool $program" > "$out/$name.code"
}

for tests in kernels attention; do
    check memcheck "$tests" 240
    check racecheck "$tests" 300 "${ours[@]}"
    check initcheck "$tests" 240
done
if [ -z "$(ls "$out"/*.code 2> /dev/null)" ]; then
    echo "no part is named like $parts" >&2
    exit 2
fi
python3 tests/device/record_tests.py "$out" "$build/ogrom" results/gpu/sanitizer.json "make gpu-racecheck" || status=1
if [ "${#unrun[@]}" -gt 0 ]; then
    names=$(IFS='|' && echo "${unrun[*]}")
    echo "no time left in this call; now: make gpu-racecheck PARTS='^($names)\$'"
    status=1
fi
exit "$status"
