#!/usr/bin/env bash
# rank.sh ARGUMENTS: one rank inside an Azure Machine Learning job, started by the service's mpirun. Each rank writes
# the topology file of its host, of its own name; SIZE is asked from the machine itself.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if command -v nvidia-smi > /dev/null; then
    topology=/tmp/ogrom-topology-${OMPI_COMM_WORLD_LOCAL_RANK:-0}.xml
    # The machine's own description, from the address that Azure gives to every machine; no proxy may answer for it.
    size=${SIZE:-$(curl -sf --noproxy '*' -m 10 -H Metadata:true \
        'http://169.254.169.254/metadata/instance/compute/vmSize?api-version=2021-02-01&format=text' || true)}
    if "$here/../vmss/topology.sh" "${size:-unknown}" "$topology"; then
        export NCCL_TOPO_FILE=$topology
    else
        echo "rank.sh: NCCL finds the topology itself" >&2
    fi
fi
exec "$here/../near_gpu.sh" ogrom "$@"
