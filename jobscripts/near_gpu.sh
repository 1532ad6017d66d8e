#!/usr/bin/env bash
# near_gpu.sh COMMAND...: one rank, bound to the cores next to its GPU; put between mpirun or srun and ogrom. The order
# of cores and of GPUs differ on many machines (on ND A100 v4 the first two GPUs hang on the second NUMA node), so
# mpirun's --map-by numa would bind to the far side. This asks the PCI bus. Without a GPU it changes nothing.
set -euo pipefail
[ $# -gt 0 ] || { echo "near_gpu.sh: would be right: near_gpu.sh COMMAND..." >&2; exit 2; }
sys=${SYS:-/sys} # another root: for the test
local_rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-}}
if [ -z "$local_rank" ] || ! command -v nvidia-smi > /dev/null; then exec "$@"; fi
# The order that nvidia-smi has, and then CUDA too.
export CUDA_DEVICE_ORDER=PCI_BUS_ID
mapfile -t gpus < <(nvidia-smi --query-gpu=index,uuid,pci.bus_id --format=csv,noheader)
if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
    visible=()
    IFS=, read -ra wanted <<< "$CUDA_VISIBLE_DEVICES"
    for one in "${wanted[@]}"; do
        for gpu in "${gpus[@]}"; do
            IFS=', ' read -r index uuid _ <<< "$gpu"
            if [ "$one" = "$index" ] || [[ "$one" = GPU-* && "$uuid" = "$one"* ]]; then visible+=("$gpu"); fi
        done
    done
    gpus=("${visible[@]}")
fi
[ "${#gpus[@]}" -gt 0 ] || exec "$@" # ogrom says what is wrong
IFS=', ' read -r _ _ bus <<< "${gpus[local_rank % ${#gpus[@]}]}"
bus=${bus,,}
bus=${bus#0000} # nvidia-smi writes eight digits of the domain, the kernel four
node=$(cat "$sys/bus/pci/devices/$bus/numa_node" 2> /dev/null || echo -1)
if [ "$node" -lt 0 ]; then # a machine with one NUMA node, or one that does not say
    exec "$@"
fi
cores=$(cat "$sys/devices/system/node/node$node/cpulist")
# What the job may use of them; a job that was given none of them keeps what it has.
taskset -c -p "$cores" $$ > /dev/null 2>&1 || echo "near_gpu.sh: no core of NUMA node $node ($cores) may be used by this job" >&2
exec "$@"
