#!/usr/bin/env bash
# Every seeded fault of the sources has one line in tests/faults/list.txt, and every line a fault, a test program and
# tests that exist by name.
set -euo pipefail
cd "${SOURCE:-$(dirname "$0")/../..}"
status=0
complain() { echo "FAIL: $*"; status=1; }

seeded=$(grep -rhoE 'fault_active\("[^"]*"' src kernels --include='*.h' --include='*.cpp' --include='*.cu' --include='*.cuh' |
    sed -E 's/.*"([^"]*)"/\1/' | sort -u)
lines=$(grep -vE '^ *(#|$)' tests/faults/list.txt)
listed=$(cut -d'|' -f1 <<<"$lines" | tr -d ' ' | sort)
while read -r name; do [ -z "$name" ] || complain "fault '$name' has two lines in tests/faults/list.txt"; done < <(uniq -d <<<"$listed")
while read -r name; do [ -z "$name" ] || complain "fault '$name' has no line in tests/faults/list.txt"; done < <(comm -23 <(echo "$seeded") <(uniq <<<"$listed"))
while read -r name; do [ -z "$name" ] || complain "tests/faults/list.txt names '$name', which no source holds"; done < <(comm -13 <(echo "$seeded") <(uniq <<<"$listed"))

# Folders whose sources make a test program.
folders_of() {
    case $1 in
        test_kernels) echo tests/kernels ;;
        test_unit_*) echo "tests/unit/${1#test_unit_}" ;;
        test_cuda_*) echo tests/device ;;
        *) echo "tests/${1#test_}" | sed -E 's#^tests/mpi_.*#tests/mpi#' ;;
    esac
}
# Each positive pattern SUITE.TEST of a filter: a suite and a test of these names, as far as they have no wildcard.
check_pattern() {
    local name=$1 folder=$2 pattern=$3 suite test
    suite=$(awk -F. '{ print $1 }' <<<"$pattern" | awk -F/ '{ for (i = 1; i <= NF; ++i) if ($i ~ /^[A-Za-z_0-9]+$/) print $i }')
    test=$(awk -F. '{ print $2 }' <<<"$pattern" | cut -d/ -f1 | sed 's/\*.*//')
    for word in $suite $test; do
        [[ $word =~ ^[0-9]+$ ]] || grep -rqE "\b$word" "$folder" --include='*.cpp' --include='*.h' ||
            complain "fault '$name': $folder has no '$word' ($pattern)"
    done
}
while IFS='|' read -r name program filter; do
    name=${name// /} program=${program// /} filter=${filter// /}
    if [ -z "$program" ] || [ -z "$filter" ]; then
        complain "fault '$name': a line is NAME | PROGRAM | FILTER"
        continue
    fi
    folder=$(folders_of "$program")
    if [[ $program != test_unit_* ]] && ! grep -rq "$program" tests --include=CMakeLists.txt; then
        complain "fault '$name': no CMakeLists.txt makes $program"
    fi
    [ -d "$folder" ] || { complain "fault '$name': $program has no sources in $folder"; continue; }
    [[ ! $filter =~ ^mpi[0-9]+: ]] || filter=${filter#*:}
    IFS=: read -ra patterns <<<"$filter"
    for pattern in "${patterns[@]}"; do check_pattern "$name" "$folder" "$pattern"; done
done <<<"$lines"
[ "$status" -eq 0 ] && echo "$(wc -l <<<"$lines") seeded faults have their tests"
exit "$status"
