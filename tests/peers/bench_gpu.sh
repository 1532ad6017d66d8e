#!/usr/bin/env bash
# make gpu-bench: ROWS is a regular expression over {kernels, curve} and the rows of side_by_side_gpu.py. Each call ends
# within 8 minutes; what there was no time for is told with the ROWS that make it up, and the exit code is 1.
#   kernels   every kernel against its limit (results/gpu/kernels.json)
#   curve     200 steps on real text beside PyTorch in bf16, TEXT=path (results/gpu/curve.json)
#   others    a training step beside PyTorch and beside its floor (results/gpu/peers.json)
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:?} rows=${ROWS:-.} limit_s=470 status=0
[ "$(jobscripts/local/has_gpu.sh)" = ON ] || { echo "skip: no GPU driver on this machine"; exit 77; }
if [[ kernels =~ $rows ]]; then
    python3 tests/peers/kernels_gpu.py --build "$build" || status=1
fi
if [[ curve =~ $rows ]]; then
    if [ "$SECONDS" -gt 200 ]; then
        echo "no time left in this call; now: make gpu-bench ROWS=curve"
        status=1
    else
        timeout -k 10 $((limit_s - SECONDS)) python3 tests/peers/curve_gpu.py --build "$build" || status=1
    fi
fi
case $rows in kernels | curve | ^kernels\$ | ^curve\$ | "^(kernels|curve)\$" | "kernels|curve") exit "$status" ;; esac
python3 tests/peers/side_by_side_gpu.py --ogrom "$build/ogrom" --floor "$build/tests/peers/bench_floor" --rows "$rows" \
    --limit $((limit_s - SECONDS)) || status=1
exit "$status"
