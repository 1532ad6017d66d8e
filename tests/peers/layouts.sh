#!/usr/bin/env bash
# layouts.sh BUILD: what parallel layouts cost and hide (results/cpu/layouts.json). Each program verifies before it
# measures; SAMPLES (default: each program's own, at least 5) changes how often. PARTS, a regular expression over
# {overhead, delay, link, timed, kernels, recompute}, measures some rows anew and leaves the others as recorded.
set -euo pipefail
build=${1:?}
programs=$build/tests/peers
parts=$(mktemp -d "${TMPDIR:-/tmp}/ogrom-layouts.XXXXXX")
trap 'rm -rf "$parts"' EXIT
export OMP_NUM_THREADS=2
samples=${SAMPLES:-} chosen=${PARTS:-.}
wanted() { [[ $1 =~ $chosen ]]; }
mpi() { mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$@"; }

! wanted overhead || mpi 1 "$programs/bench_overhead" ${samples:+"$samples"} > "$parts/1.json"
! wanted delay || mpi 2 "$programs/bench_overlap" delay ${samples:+"$samples"} > "$parts/2.json"
if wanted link; then
    code=0
    bash tests/peers/veth.sh 2gbit "$programs/bench_overlap" link ${samples:+"$samples"} > "$parts/3.json" || code=$?
    [ "$code" -eq 0 ] || { [ "$code" -eq 77 ] && rm "$parts/3.json"; } || exit "$code"
fi
! wanted timed || mpi 4 "$programs/bench_bubble" timed ${samples:+"$samples"} > "$parts/4.json"
! wanted kernels || mpi 2 "$programs/bench_bubble" kernels ${samples:+"$samples"} > "$parts/5.json"
! wanted recompute || mpi 1 "$programs/bench_recompute" ${samples:+"$samples"} > "$parts/6.json"
mkdir -p results/cpu
python3 - results/cpu/layouts.json "$parts"/*.json <<'PY'
import json
import os
import sys

rows = [row for part in sys.argv[2:] for row in json.load(open(part))]
measured = {row["name"]: row for row in rows}
recorded = json.load(open(sys.argv[1])) if os.environ.get("PARTS") else []
names = {row["name"] for row in recorded}
rows = [measured.get(row["name"], row) for row in recorded] + [row for row in rows if row["name"] not in names]
with open(sys.argv[1], "w") as out:
    out.write(json.dumps(rows, indent=1) + "\n")
for row in rows:
    met = row["ratio_to_limit"] <= 1 if row["better"] == "lower" else row["ratio_to_limit"] >= 1
    print(f"{row['name']:<72} {row['value']:8.3f} {row['unit']:<6} {'' if met else 'NOT '}{row['limit_name']}")
PY
