#!/usr/bin/env bash
# From a text to a trained GPT on this machine: tokenizer, token set, training on RANKS ranks (2, 4, 8, 16, 32 or 64), a look into the checkpoint,
# generated text, a loss chart. TEXT=path takes your own text (file or directory); else the King James Bible that
# Debian's bible-kjv ships, one chapter a document. Writes results/runs/demo (replaced on each call).
set -euo pipefail
cd "$(dirname "$0")/../.."
ogrom=${OGROM:-build/demo/ogrom}
ranks=${RANKS:-4}
out=results/runs/demo
work=results/runs/demo-data
if [ -n "${TEXT:-}" ] && [ ! -e "$TEXT" ]; then
    echo "demo: TEXT=$TEXT does not exist" >&2
    exit 2
fi
# inputs/runs/demo.toml spreads each layer over 2 tensor ranks, and its 32 samples a step over the pairs.
if ! [[ "$ranks" =~ ^[1-9][0-9]{0,3}$ ]] || [ $((ranks % 2)) -ne 0 ] || [ $((32 % (ranks / 2))) -ne 0 ]; then
    echo "demo: RANKS=$ranks does not fit: 2 tensor ranks x a data rank count that divides 32; would be right: 2, 4, 8, 16, 32 or 64" >&2
    exit 2
fi
for program in "$ogrom" mpirun h5dump; do
    command -v "$program" > /dev/null || { echo "demo: $program is not there; make demo builds and installs what is missing" >&2; exit 2; }
done
rm -rf "$out" "$work"
mkdir -p "$work"

# mpirun refuses root unless told that it is meant, and more ranks than cores unless allowed.
launch=(mpirun -n "$ranks" --bind-to none)
[ "$(id -u)" -ne 0 ] || launch+=(--allow-run-as-root)
[ "$(nproc)" -ge "$ranks" ] || launch+=(--oversubscribe)
# On SIGTERM mpirun waits N seconds before it passes the signal on and N more before it kills; it also sleeps about 2 N
# after a rank has failed. 5 s are plenty for a save of this size.
launch+=(--mca odls_base_sigkill_timeout 5)

if [ -n "${TEXT:-}" ]; then
    text=$TEXT
    # Held-out documents need several: files of a folder, pieces between empty lines or SEPARATOR lines of a file.
    if [ -n "${SEPARATOR:-}" ]; then
        documents=(--document-separator "$SEPARATOR")
    elif [ -d "$TEXT" ]; then
        documents=()
    else
        documents=(--split-documents blank-lines)
    fi
else
    text=$work/text.txt
    # "Ge1:1 In the beginning ..." becomes plain verses; an empty line closes each chapter.
    bible -f "gen1:1-rev22:21" | awk '{ split($1, r, ":"); if (NR > 1 && r[1] != chapter) print ""; chapter = r[1];
        sub(/^[^ ]+ /, ""); print }' > "$text"
    documents=(--split-documents blank-lines)
fi

echo "== tokenizer: byte-level BPE of 4096 entries"
"$ogrom" tokenizer train --input "$text" --vocab 4096 --out "$work/tokenizer.json"
echo "== token set, 5 % of the documents held out"
"$ogrom" data --input "$text" "${documents[@]}" --tokenizer "$work/tokenizer.json" --valid-fraction 0.05 --out "$work/text"
echo "== training on $ranks ranks"
"${launch[@]}" "$ogrom" train inputs/runs/demo.toml --set "data.train=$work/text" --set "data.valid=$work/text-valid" \
    --set "data.tokenizer=$work/tokenizer.json"
checkpoint=$out/checkpoints/$(cat "$out/checkpoints/latest")
echo "== the checkpoint, read by h5dump"
h5dump -H -d /weights/final_norm.weight "$checkpoint/checkpoint.h5"
echo "== generated text"
"$ogrom" sample "$checkpoint" --prompt "${PROMPT:-And it came to pass}" --tokens 80 --temperature 0.8 --top-k 40 --seed 1
echo "== written: $checkpoint, $out/metrics.h5, $out/loss.svg"
