#!/usr/bin/env bash
# Installs the Debian packages that building, testing and the demo need and that are missing here. With neither root nor
# sudo it prints the exact command and stops, so nothing half-installed is left.
set -euo pipefail
packages=(
    g++ clang libomp-dev clang-format clang-tidy cmake ninja-build make git ccache pkg-config python3 shellcheck
    libopenmpi-dev openmpi-bin libhdf5-dev hdf5-tools libtomlplusplus-dev libcli11-dev libspdlog-dev libfmt-dev
    nlohmann-json3-dev libopenblas-openmp-dev libxxhash-dev libgtest-dev libbenchmark-dev gnuplot-nox
    bible-kjv
)
missing=()
for package in "${packages[@]}"; do
    if ! dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed; then
        missing+=("$package")
    fi
done
if [ "${#missing[@]}" -eq 0 ]; then
    exit 0
fi
install=(apt-get install -y --no-install-recommends "${missing[@]}")
if [ "$(id -u)" -eq 0 ]; then
    as_root=()
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root=(sudo)
else
    echo "setup: these packages are missing and there is neither root nor password-less sudo. Install them with:" >&2
    echo "  sudo ${install[*]}" >&2
    exit 2
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}" >/dev/null
