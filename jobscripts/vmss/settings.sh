# shellcheck shell=bash
# Settings per VM size, sourced by the scripts of this folder. SIZE: an Azure VM size of the ND family, or `local` for
# machines without GPU and InfiniBand. Sets gpus (per host) and environment (NAME=value for every rank).
size=${SIZE:-}
environment=()
case $size in
    Standard_ND96asr_v4 | Standard_ND96amsr_A100_v4 | Standard_ND96isr_H100_v5 | Standard_ND96isr_H200_v5)
        gpus=8
        ;;
    local) gpus=0 ;;
    *)
        echo "$0: SIZE=$size; would be right: Standard_ND96asr_v4, Standard_ND96amsr_A100_v4 (A100), Standard_ND96isr_H100_v5, Standard_ND96isr_H200_v5, or local" >&2
        exit 2
        ;;
esac
if [ "$gpus" -gt 0 ]; then
    environment+=(
        # GPUs are counted as they lie on the bus: the topology file and near_gpu.sh count so too.
        CUDA_DEVICE_ORDER=PCI_BUS_ID
        # Relaxed ordering lets a virtual machine's adapter write past earlier writes; without it transfers of several
        # hundred Gbit/s between GPU memory and adapter stall in the host bridge.
        NCCL_IB_PCI_RELAXED_ORDERING=1 UCX_IB_PCI_RELAXED_ORDERING=on
        # The hypervisor hides PCI switches, so NCCL would think GPU and adapter far apart.
        "NCCL_TOPO_FILE=${TOPOLOGY:-/var/tmp/ogrom-topology.xml}"
        # Set-up of NCCL and of MPI goes over the Ethernet port; only the data goes over InfiniBand.
        NCCL_SOCKET_IFNAME=eth0
        # UCX carries MPI's small control messages: through memory on a host, over Ethernet between hosts. The eight
        # InfiniBand ports are left to NCCL.
        "UCX_TLS=tcp,self,sm" UCX_NET_DEVICES=eth0
        # Azure's InfiniBand is one plane without Mellanox's collective offload daemon.
        OMPI_MCA_coll_hcoll_enable=0
        # The adapters of InfiniBand are mlx5_ib0..7; mlx5_0 and the like would be accelerated Ethernet.
        NCCL_IB_HCA=mlx5_ib
    )
fi
