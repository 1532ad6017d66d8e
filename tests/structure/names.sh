#!/usr/bin/env bash
# One definition of each type name outside unnamed namespaces: two headers that both define ogrom::Entry link without a
# word and crash.
set -euo pipefail
cd "${SOURCE:-$(dirname "$0")/../..}"
# shellcheck disable=SC2016  # awk's dollars
twice=$(git ls-files --cached --others --exclude-standard 'src/*.h' 'kernels/*.h' | xargs awk '
    FNR == 1 { space = "" }
    /^namespace / { space = $2 }
    /^(struct|class|enum class) [A-Z][A-Za-z]*.*\{/ {
        name = ($1 == "enum") ? $3 : $2
        sub(/[:{].*/, "", name)
        print space "::" name, FILENAME
    }' | sort -u | awk '{ count[$1]++; files[$1] = files[$1] " " $2 } END { for (n in count) if (count[n] > 1) print n ":" files[n] }')
if [ -n "$twice" ]; then
    echo "FAIL: defined twice"
    echo "$twice"
    exit 1
fi
echo "every type name has one definition"
