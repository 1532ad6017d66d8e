#!/usr/bin/env bash
# The steps of the image, shared by Dockerfile and ogrom.def; on a bare Debian 12 as root:
#   install.sh build    what compiling needs, CUDA too unless CUDA=0
#   install.sh compile  builds SOURCE (/src), installs /opt/ogrom
#   install.sh run      what running needs, and nothing that compiles
# CUDA_VERSION=13-0: the toolkit of NVIDIA's repository; the host's driver must know it (13.0: 580 or later).
set -euo pipefail
cuda=${CUDA:-1}
version=${CUDA_VERSION:-13-0}
source=${SOURCE:-/src}
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y --no-install-recommends "$@"; }

# Open MPI, HDF5, OpenBLAS of Debian; openssh-client: mpirun starts its daemons on other hosts with it; procps and
# util-linux: pkill and taskset in jobscripts; gnuplot-nox: charts.
running=(openmpi-bin libopenmpi3 libhdf5-103-1 libopenblas0-openmp libspdlog1.10 libfmt9 libxxhash0 libgomp1
    openssh-client procps util-linux gnuplot-nox ca-certificates)
building=(g++ cmake ninja-build make git pkg-config libopenmpi-dev libhdf5-dev libopenblas-openmp-dev libspdlog-dev
    libfmt-dev libxxhash-dev libtomlplusplus-dev libcli11-dev nlohmann-json3-dev ca-certificates)

nvidia() { # NVIDIA's own Debian repository, with its key by a package that Debian's curl fetches over TLS
    [ ! -e /usr/share/keyrings/cuda-archive-keyring.gpg ] || return 0
    install curl ca-certificates
    curl -fsSLo /tmp/keyring.deb https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/cuda-keyring_1.1-1_all.deb
    dpkg -i /tmp/keyring.deb
    rm /tmp/keyring.deb
    apt-get update -qq
}
case ${1:-} in
    build)
        apt-get update -qq
        install "${building[@]}"
        if [ "$cuda" -eq 1 ]; then
            nvidia
            # nvcc and the headers of what is linked or opened; NCCL's and cuDNN's libraries come with `run`.
            install "cuda-nvcc-$version" "cuda-cudart-dev-$version" "cuda-nvrtc-dev-$version" "libcublas-dev-$version" \
                libnccl-dev libcudnn9-dev-cuda-13
        fi
        ;;
    compile)
        [ "$cuda" -eq 1 ] && onoff=ON || onoff=OFF
        export PATH=/usr/local/cuda/bin:$PATH
        # x86-64-v3, not native: the machine that builds the image need not be the one that runs it.
        cmake -S "$source" -B /tmp/build -G Ninja -DOGROM_TESTS=OFF -DOGROM_CUDA="$onoff" -DOGROM_MARCH=x86-64-v3
        cmake --build /tmp/build -j "${JOBS:-$(nproc)}"
        mkdir -p /opt/ogrom/build
        cp /tmp/build/ogrom /opt/ogrom/build/
        cp -r "$source/jobscripts" "$source/inputs" "$source/LICENSE" /opt/ogrom/
        rm -rf /tmp/build
        ;;
    run)
        apt-get update -qq
        install "${running[@]}"
        if [ "$cuda" -eq 1 ]; then
            nvidia
            # libcuda itself belongs to the driver: the container runtime brings the host's.
            install "libcublas-$version" "cuda-nvrtc-$version" libnccl2 libcudnn9-cuda-13
        fi
        rm -rf /var/lib/apt/lists/*
        # Copying from one process's memory straight into another's needs ptrace rights, which a container has not by
        # default: ranks of a host go through shared memory instead.
        echo 'btl_vader_single_copy_mechanism = none' >> /etc/openmpi/openmpi-mca-params.conf
        ln -sf /opt/ogrom/build/ogrom /usr/local/bin/ogrom
        ;;
    *)
        echo "install.sh: would be right: install.sh build|compile|run" >&2
        exit 2
        ;;
esac
