#!/usr/bin/env bash
# Every header compiles alone.
set -euo pipefail
cd "${SOURCE:-$(dirname "$0")/../..}"
flags=(-std=c++20 -fsyntax-only -fopenmp -I. -I/usr/include/hdf5/serial -x c++)
read -ra mpi <<<"$(mpicxx --showme:compile)"
status=0
check() {
    echo "#include \"$1\"" | g++ "${flags[@]}" "${mpi[@]}" - || { echo "FAIL: $1 does not compile alone"; return 1; }
}
while read -r header; do
    check "$header" &
    if [ "$(jobs -rp | wc -l)" -ge 2 ]; then wait -n || status=1; fi
done < <(git ls-files --cached --others --exclude-standard 'src/*.h' 'kernels/*.h' 'tests/*.h' | grep -v '^kernels/cuda/.*internal')
while [ -n "$(jobs -rp)" ]; do wait -n || status=1; done
[ "$status" -eq 0 ] && echo "every header compiles alone"
exit "$status"
