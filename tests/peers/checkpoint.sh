#!/usr/bin/env bash
# checkpoint.sh BUILD: rates of saves and loads beside plain writes and reads on the same file system, at one total size
# for 1, 4 and 8 ranks (results/cpu/checkpoint.json). SAMPLES: 5 each. FOLDER: on the file system to measure.
# MODELS="124m 1558m" adds a checkpoint of 18.7 GB with full optimizer state (one rank; as much memory and twice the
# disk).
set -euo pipefail
build=${1:?}
folder=${FOLDER:-results/runs/checkpoint-bench}
parts=$(mktemp -d "${TMPDIR:-/tmp}/ogrom-checkpoint.XXXXXX")
trap 'rm -rf "$parts" "$folder"' EXIT
export OMP_NUM_THREADS=1
for model in ${MODELS:-124m}; do
    for ranks in 1 4 8; do
        [ "$model" = 124m ] || [ "$ranks" -eq 1 ] || continue
        rm -rf "$folder"
        mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$ranks" "$build/tests/peers/bench_checkpoint" \
            "$folder" "$model" "${SAMPLES:-5}" > "$parts/$model-$ranks.json"
    done
done
mkdir -p results/cpu
python3 - results/cpu/checkpoint.json "$parts"/*.json <<'PY'
import json
import sys

rows = [row for part in sys.argv[2:] for row in json.load(open(part))]
with open(sys.argv[1], "w") as out:
    out.write(json.dumps(rows, indent=1) + "\n")
for row in rows:
    print(f"{row['name']:<44} {row['value']:8.3f} {row['unit']:<6} {100 * row['ratio_to_limit']:6.1f} % of {row['limit_name']}")
PY
