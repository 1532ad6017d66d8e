#!/usr/bin/env bash
# Installs the Debian packages that building, testing and the demo need and that are missing here. With neither root nor
# sudo it prints the exact command and stops, so nothing half-installed is left. `setup.sh tests` also installs the
# daemons that tests/launch starts in name spaces of its own (4 MB); as services of this machine they stay off.
set -euo pipefail
packages=(
    g++ clang libomp-dev clang-format clang-tidy cmake ninja-build make git ccache pkg-config python3 shellcheck
    libopenmpi-dev openmpi-bin libhdf5-dev hdf5-tools libtomlplusplus-dev libcli11-dev libspdlog-dev libfmt-dev
    nlohmann-json3-dev libopenblas-openmp-dev libxxhash-dev libgtest-dev libbenchmark-dev gnuplot-nox
    bible-kjv
)
daemons=()
if [ "${1:-}" = tests ]; then
    daemons=(slurmctld slurmd slurm-client munge openssh-server openssh-client iproute2 util-linux procps)
    packages+=("${daemons[@]}")
fi
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
# Services that this call installs: a package starts its own at once and at each boot, unless told not to.
services=()
for service in slurmctld slurmd munge openssh-server; do
    if [[ " ${daemons[*]} " == *" $service "* && " ${missing[*]} " == *" $service "* ]]; then
        services+=("${service/openssh-server/ssh}.service")
    fi
done
policy=/usr/sbin/policy-rc.d
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
if [ "${#services[@]}" -gt 0 ] && [ ! -e "$policy" ]; then
    # Debian asks this file before a package starts a service; 101 = no.
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" > /dev/null
    "${as_root[@]}" chmod 755 "$policy"
    trap '"${as_root[@]}" rm -f "$policy"' EXIT
fi
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}" >/dev/null
if [ "${#services[@]}" -gt 0 ] && command -v systemctl > /dev/null; then
    "${as_root[@]}" systemctl disable --quiet "${services[@]}" 2> /dev/null || true
fi
