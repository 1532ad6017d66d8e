#!/usr/bin/env bash
# The dependency order as a test: the includes of src and kernels against the one line below, headers compiled alone.
set -euo pipefail
cd "${SOURCE:-$(dirname "$0")/../..}"
order="base config device comm data model pipeline optim io plan train report commands"
with_ops=" device comm model optim io plan "
status=0
complain() { echo "FAIL: $*"; status=1; }

allowed=" "
for folder in $order; do
    allowed+="$folder "
    while IFS=: read -r file target; do
        [ -n "$file" ] || continue
        case $target in
            kernels/common/*) ;;
            kernels/ops/*) [[ $with_ops == *" $folder "* ]] || complain "$file includes $target: kernels/ops is open to$with_ops only" ;;
            kernels/cuda/device.h | kernels/cuda/scratch.h | kernels/cuda/products.h) [ "$folder" = device ] || complain "$file includes $target: only src/device asks for CUDA devices" ;;
            kernels/cuda/runtime.h) [[ $with_ops == *" $folder "* ]] || complain "$file includes $target: the CUDA runtime is open to$with_ops only" ;;
            kernels/*) complain "$file includes $target: only kernels/common and kernels/ops are open" ;;
            src/*)
                to=${target#src/}
                to=${to%%/*}
                [[ $allowed == *" $to "* ]] || complain "$file includes $target: $to stands to the right of $folder"
                ;;
            ogrom_build.h) ;; # generated: commit, compiler, flags
            *) complain "$file includes \"$target\": write the path from the root" ;;
        esac
    done < <(grep -rHoE '^#include "[^"]+"' "src/$folder" --include='*.h' --include='*.cpp' | sed -E 's/#include "(.*)"/\1/')
done
while IFS=: read -r file target; do
    [ -n "$file" ] || continue
    case $file:$target in
        *:kernels/* | kernels/bench/*:tests/reference/*) ;;
        *) complain "$file includes $target: kernels depends on nothing outside kernels" ;;
    esac
done < <(grep -rHoE '^#include "[^"]+"' kernels --include='*.h' --include='*.cpp' --include='*.cu' | sed -E 's/#include "(.*)"/\1/')

while read -r file; do
    lines=$(wc -l < "$file")
    [ "$lines" -le 400 ] || complain "$file has $lines lines (400 at most)"
done < <(git ls-files --cached --others --exclude-standard 'src/*' 'kernels/*' 'tests/*' 'jobscripts/*' |
    grep -E '\.(h|cpp|cu|cuh|sh|py|cmake)$|CMakeLists.txt$')

[ "$(wc -l < src/train/step.cpp)" -le 80 ] || complain "src/train/step.cpp: one optimizer step on one page, 80 lines at most"

while read -r name; do
    case $name in
        .* | Makefile | CMakeLists.txt | src | kernels | inputs | jobscripts | tests | results | README.md | LICENSE | build*) ;;
        *) complain "$name: not a name of the root" ;;
    esac
done < <(git ls-files --cached --others --exclude-standard | cut -d/ -f1 | sort -u)
[ "$status" -eq 0 ] && echo "dependency order, file lengths and root names hold"
exit "$status"
