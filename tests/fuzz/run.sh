#!/usr/bin/env bash
# run.sh TARGET SECONDS: fuzzes TARGET (its inputs: corpus/TARGET) with one process for that time. BUILD is a build
# folder made with -DOGROM_FUZZ=ON -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ (build/fuzz, made where it is
# missing). New inputs go to BUILD/corpus/TARGET, those that fail to BUILD/found; run.sh TARGET merge takes what adds
# coverage into corpus/TARGET. TIMEOUT: seconds for one input (10). Exit code 0: nothing was found.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -ne 2 ]; then
    sed -n '2,5s/^# //p' "$0" >&2
    exit 2
fi
target=$1 seconds=$2
build=$(realpath -m "${BUILD:-$here/../../build/fuzz}")
program=$build/tests/fuzz/fuzz_$target
[ -e "$here/$target.cpp" ] || { echo "run.sh: there is no $here/$target.cpp" >&2; exit 2; }
if [ -z "${PROGRAM:-}" ]; then
    [ -e "$build/CMakeCache.txt" ] || cmake -S "$here/../.." -B "$build" -G Ninja -DOGROM_FUZZ=ON -DOGROM_CUDA=OFF \
        -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++
    cmake --build "$build" --target "fuzz_$target"
fi
program=${PROGRAM:-$program}
mkdir -p "$build/corpus/$target" "$build/found"
# A master file of a few KiB is the largest input that tells something new. Debian's HDF5 leaks on some broken files.
limits=(-rss_limit_mb=2048 -malloc_limit_mb=512 -timeout="${TIMEOUT:-10}" -max_len=40000 -print_funcs=0 -detect_leaks=0)
export UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=0
case $target in
    master*) ;;
    *)
        limits=("${limits[@]/-detect_leaks=0/-detect_leaks=1}")
        ASAN_OPTIONS=allocator_may_return_null=1
        ;;
esac
if [ "$seconds" = merge ]; then
    exec "$program" -merge=1 "${limits[@]}" "$here/corpus/$target" "$build/corpus/$target"
fi
words=()
case $target in
    master*) ;;
    *) words=("-dict=$here/words.dict") ;;
esac
exec "$program" "${limits[@]}" "${words[@]}" -max_total_time="$seconds" -print_final_stats=1 \
    "-artifact_prefix=$build/found/$target-" "$build/corpus/$target" "$here/corpus/$target"
