#!/usr/bin/env bash
# encode.sh BUILD: the 50k-entry BPE is learned from the same English text (Debian's bible-kjv and fortunes) that is encoded.
set -euo pipefail
build=$1
folder=results/runs/encode-bench
mkdir -p "$folder" results/cpu
bible -f "gen1:1-rev22:21" | sed 's/^[^ ]* //' > "$folder/text.txt"
if [ -d /usr/share/games/fortunes ]; then
    find /usr/share/games/fortunes -type f ! -name '*.dat' ! -name '*.u8' -print0 | sort -z | xargs -0 cat >> "$folder/text.txt"
fi
[ -f "$folder/tokenizer.json" ] ||
    "$build/ogrom" tokenizer train --input "$folder/text.txt" --vocab 50257 --out "$folder/tokenizer.json" > /dev/null
"$build/tests/peers/bench_encode" "$folder/tokenizer.json" "$folder/text.txt" > results/cpu/encode.json
python3 - <<'PY'
import json
for row in json.load(open("results/cpu/encode.json")):
    print(f"{row['name']:<44} {row['value']:10.1f} {row['unit']:<8} {100 * row['ratio_to_limit']:6.1f} % of {row['limit_name']}")
PY
