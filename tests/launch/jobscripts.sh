#!/usr/bin/env bash
# What the job scripts decide by themselves, with machines made of files: the topology of a VM size against a PCI bus,
# the cores near a GPU, the az commands of a scale set, faults of use. No GPU, no cloud.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/../cli/lib.sh"
scripts=$SOURCE/jobscripts
mkdir bin
export PATH=$work/bin:$PATH

# bus TABLE: a /sys like that of a machine of this size
bus() {
    rm -rf sys
    while IFS=$'\t' read -r table numa _ kind address; do
        [ "$table" = "$1" ] || continue
        mkdir -p "sys/bus/pci/devices/$address" "sys/devices/system/node/node$numa"
        if [ "$kind" = gpu ]; then echo 0x030200; else echo 0x020700; fi > "sys/bus/pci/devices/$address/class"
        echo "$numa" > "sys/bus/pci/devices/$address/numa_node"
        echo "0000000$((numa + 1))" > "sys/devices/system/node/node$numa/cpumap"
        echo "$numa" > "sys/devices/system/node/node$numa/cpulist"
    done < "$scripts/vmss/topology.tsv"
    # What every machine has besides.
    mkdir -p sys/bus/pci/devices/0000:00:00.0
    echo 0x060000 > sys/bus/pci/devices/0000:00:00.0/class
}
export SYS=$work/sys
topology() { "$scripts/vmss/topology.sh" "$1" topology.xml; }
for pair in "Standard_ND96amsr_A100_v4 ND_A100_v4 4" "Standard_ND96isr_H100_v5 ND_H_v5 2" "Standard_ND96isr_H200_v5 ND_H_v5 2"; do
    read -r size table numa_nodes <<< "$pair"
    bus "$table"
    rm -f topology.xml
    expect_exit 0 topology "$size"
    python3 - "$numa_nodes" << 'CHECK' || fail "topology of $size"
import sys, xml.etree.ElementTree as tree
root = tree.parse("topology.xml").getroot()
assert root.tag == "system" and len(root.findall("cpu")) == int(sys.argv[1])
devices = [d for d in root.iter("pci") if d.get("class") != "0x060400"]
assert sum(d.get("class") == "0x030200" for d in devices) == 8
assert sum(d.get("class") == "0x020700" for d in devices) == 8
assert len({d.get("busid") for d in devices}) == 16
for group in root.findall("cpu/pci"):  # a GPU has an adapter in its group
    classes = [d.get("class") for d in group]
    assert classes.count("0x030200") == classes.count("0x020700") > 0
CHECK
done
# The wrong size, a GPU missing, a device that is another one, one too many, another NUMA node: refused, nothing written.
refused() {
    rm -f topology.xml
    expect_exit 2 topology "$1"
    expect_text "$2"
    [ ! -e topology.xml ] || fail "a topology was written: $2"
}
refused Standard_ND96amsr_A100_v4 'no device at 000d:00:00.0, where a gpu should be'
refused Standard_NC24 'no table of its bus'
rm -r sys/bus/pci/devices/0008:00:00.0
refused Standard_ND96isr_H100_v5 'no device at 0008:00:00.0, where a gpu should be'
bus ND_H_v5
echo 0x010802 > sys/bus/pci/devices/0102:00:00.0/class
refused Standard_ND96isr_H100_v5 '0102:00:00.0 has class 0x010802'
bus ND_H_v5
cp -r sys/bus/pci/devices/0001:00:00.0 sys/bus/pci/devices/00ff:00:00.0
refused Standard_ND96isr_H100_v5 'a GPU at 00ff:00:00.0 that the table does not have'
bus ND_H_v5
echo 1 > sys/bus/pci/devices/0001:00:00.0/numa_node
refused Standard_ND96isr_H100_v5 '0001:00:00.0 is on NUMA node 1; would be right: 0'

# near_gpu.sh: the second GPU lies next to core 0, the first next to core 1 (where this machine has two).
bus ND_A100_v4
cat > bin/nvidia-smi << 'FAKE'
#!/bin/sh
echo '0, GPU-aaaa, 00000001:00:00.0'
echo '1, GPU-bbbb, 00000003:00:00.0'
FAKE
chmod +x bin/nvidia-smi
cores=$(taskset -c -p $$ | sed 's/.*: //')
first=${cores%%[,-]*}
echo "$first" > sys/devices/system/node/node0/cpulist
# shellcheck disable=SC2016 # for the shell that it starts
near() { env "$@" "$scripts/near_gpu.sh" bash -c 'echo "$CUDA_DEVICE_ORDER $(taskset -c -p $$ | sed "s/.*: //")"' 2> near.err; }
[ "$(near OMPI_COMM_WORLD_LOCAL_RANK=1)" = "PCI_BUS_ID $first" ] || fail "near_gpu.sh: rank 1 is not bound to core $first"
[ "$(near SLURM_LOCALID=0 CUDA_VISIBLE_DEVICES=1)" = "PCI_BUS_ID $first" ] || fail "near_gpu.sh: CUDA_VISIBLE_DEVICES by number"
[ "$(near SLURM_LOCALID=0 CUDA_VISIBLE_DEVICES=GPU-bbbb)" = "PCI_BUS_ID $first" ] || fail "near_gpu.sh: CUDA_VISIBLE_DEVICES by UUID"
echo 4095 > sys/devices/system/node/node1/cpulist
[ "$(near OMPI_COMM_WORLD_LOCAL_RANK=0)" = "PCI_BUS_ID $cores" ] || fail "near_gpu.sh: cores that may not be used"
grep -q 'no core of NUMA node 1' near.err || fail "near_gpu.sh: says nothing of cores that may not be used"
[ "$(near X=1)" = " $cores" ] || fail "near_gpu.sh: without a local rank"
expect_exit 2 "$scripts/near_gpu.sh"
rm bin/nvidia-smi

# The scale set, with an az that writes down what it is asked.
cat > bin/az << 'FAKE'
#!/bin/bash
printf '%q ' "$@" >> "$AZ_LOG"
echo >> "$AZ_LOG"
case "$*" in
    *'nic list'*'virtualMachine.id'*) printf '10.0.0.4\t/x/virtualMachines/0\n10.0.0.5\t/x/virtualMachines/7\n' ;;
    *'nic list'*) printf '10.0.0.4\n10.0.0.5\n' ;;
esac
FAKE
chmod +x bin/az
export AZ_LOG=$work/az.log GROUP='rg; touch hacked' NAME=gpt REGION=here SIZE=Standard_ND96isr_H100_v5 COUNT=2 HOSTS=$work/hosts KEY=$work/key.pub
echo key > key.pub
expect_exit 0 "$scripts/vmss/provision.sh"
grep -q -- '--vm-sku Standard_ND96isr_H100_v5 .*--instance-count 2' az.log || { cat az.log; fail "provision.sh"; }
[ "$(cat hosts)" = $'10.0.0.4 slots=8\n10.0.0.5 slots=8' ] || { cat hosts; fail "the hostfile"; }
expect_exit 0 "$scripts/vmss/replace_node.sh" 10.0.0.5
grep -q -- 'delete-instances .*--instance-ids 7' az.log || { cat az.log; fail "replace_node.sh"; }
grep -q -- 'scale .*--new-capacity 2' az.log || { cat az.log; fail "replace_node.sh: capacity"; }
expect_exit 2 "$scripts/vmss/replace_node.sh" 10.0.0.9
expect_text 'no machine of gpt has the address 10.0.0.9'
rm az.log
DRY=1 expect_exit 0 "$scripts/vmss/provision.sh"
[ ! -e az.log ] || fail "DRY=1 asked for something"
COUNT=0 expect_exit 2 "$scripts/vmss/provision.sh"
SIZE=Standard_D2 expect_exit 2 "$scripts/vmss/provision.sh"
expect_text 'SIZE=Standard_D2; would be right: Standard_ND96asr_v4'
[ ! -e hacked ] || fail "a value was read by the shell"
expect_exit 2 "$scripts/vmss/train.sh" hosts
expect_exit 2 "$scripts/container/install.sh" all

# Every script says at its top what it is; that the files parse is structure.scripts.
for script in "$scripts"/*/*.sh; do
    sed -n '2p;3p' "$script" | grep -q '^# ' || fail "$script says nothing of itself"
done
echo "job scripts: topologies, binding, commands and faults of use are right"
