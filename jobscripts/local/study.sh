#!/usr/bin/env bash
# A weak and a strong scaling study on this machine at 1, 2 and 4 ranks, two layouts side by side: data parallel with a
# sharded optimizer, and tensor parallel. Then the report. Writes results/studies/study (replaced on each call).
# Ranks beyond the cores are marked oversubscribed: they show that it runs, not how it scales.
set -euo pipefail
cd "$(dirname "$0")/../.."
ogrom=${OGROM:-build/ogrom}
ranks=4
out=results/studies/study
work=results/runs/study-data
for program in "$ogrom" mpirun; do
    command -v "$program" > /dev/null || { echo "study: $program is not there; make study builds and installs what is missing" >&2; exit 2; }
done
rm -rf "$out" "$work"
mkdir -p "$work"

# mpirun refuses root unless told that it is meant, and more ranks than cores unless allowed. No binding: the ranks of a
# small point may use any core that those at rest leave free.
launch=(mpirun -n "$ranks" --bind-to none)
[ "$(id -u)" -ne 0 ] || launch+=(--allow-run-as-root)
[ "$(nproc)" -ge "$ranks" ] || launch+=(--oversubscribe)
# On SIGTERM mpirun waits N seconds before it kills: enough for the step under way, after which the study ends in order.
launch+=(--mca odls_base_sigkill_timeout 10)

echo "== token set: this program's own text, a byte a token"
cat src/*/*.cpp > "$work/text.txt"
"$ogrom" data --input "$work/text.txt" --split-documents blank-lines --tokenizer byte --out "$work/text"
echo "== study: weak and strong, 1, 2 and 4 ranks, two layouts, 3 repeats"
"${launch[@]}" "$ogrom" scale inputs/runs/study.toml --both --ranks 1,2,4 --steps 5 --repeats 3 \
    --layout "dp zero1: parallel.zero=1" --layout "tp: axis=tp"
echo "== report"
"$ogrom" report "$out"
