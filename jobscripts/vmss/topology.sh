#!/usr/bin/env bash
# topology.sh SIZE OUT: writes the topology file that NCCL_TOPO_FILE names, after comparing it with this machine's PCI
# bus. A virtual machine shows each device on a bus of its own; without the file NCCL thinks GPU and adapter far apart and
# sends through host memory. With a file of another size it would take wrong pairs, or fail: so any difference is refused
# (exit 2), and nothing is written.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 2 ] || { echo "topology.sh: would be right: topology.sh SIZE OUT" >&2; exit 2; }
size=$1 out=$2
sys=${SYS:-/sys} # another root: for the test
case $size in
    Standard_ND96asr_v4 | Standard_ND96amsr_A100_v4) table=ND_A100_v4 speed='16.0 GT/s PCIe' ;;
    Standard_ND96isr_H100_v5 | Standard_ND96isr_H200_v5) table=ND_H_v5 speed='32.0 GT/s PCIe' ;;
    *)
        echo "topology.sh: $size: no table of its bus; would be right: a size in jobscripts/vmss/settings.sh" >&2
        exit 2
        ;;
esac
mapfile -t rows < <(awk -F'\t' -v table="$table" '$1 == table' "$here/topology.tsv")
status=0
wrong() {
    echo "topology.sh: $(hostname): $size: $*" >&2
    status=2
}
# Classes: 0x0302.. a GPU, 0x0207.. an InfiniBand adapter.
declare -A class_of=([gpu]=0x0302 [ib]=0x0207) expected=()
for row in "${rows[@]}"; do
    IFS=$'\t' read -r _ numa _ kind bus <<< "$row"
    expected[$bus]=yes
    device=$sys/bus/pci/devices/$bus
    if [ ! -e "$device/class" ]; then
        wrong "no device at $bus, where a $kind should be"
        continue
    fi
    class=$(cat "$device/class")
    [ "${class:0:6}" = "${class_of[$kind]}" ] || wrong "$bus has class $class; would be right: ${class_of[$kind]}.. ($kind)"
    node=$(cat "$device/numa_node" 2> /dev/null || echo -1)
    [ "$node" -lt 0 ] || [ "$node" -eq "$numa" ] || wrong "$bus is on NUMA node $node; would be right: $numa"
    [ -e "$sys/devices/system/node/node$numa/cpumap" ] || wrong "no NUMA node $numa"
done
for device in "$sys"/bus/pci/devices/*; do
    bus=${device##*/}
    if [ ! -e "$device/class" ] || [ -n "${expected[$bus]:-}" ]; then continue; fi
    class=$(cat "$device/class")
    case ${class:0:6} in
        0x0302) wrong "a GPU at $bus that the table does not have" ;;
        0x0207) wrong "an InfiniBand adapter at $bus that the table does not have" ;;
    esac
done
if [ "$status" -ne 0 ]; then
    echo "topology.sh: $(hostname): not written; would be right: the size that this machine has, or a new node for it (replace_node.sh)" >&2
    exit "$status"
fi

case $(awk -F': ' '/^vendor_id/ { print $2; exit }' "${CPUINFO:-/proc/cpuinfo}") in
    AuthenticAMD) vendor=AuthenticAMD ;;
    *) vendor=GenuineIntel ;;
esac
new=$(mktemp "$out.XXXXXX")
trap 'rm -f "$new"' EXIT
{
    echo '<system version="1">'
    numa=-1 group=0
    for row in "${rows[@]}"; do
        IFS=$'\t' read -r _ row_numa row_group kind bus <<< "$row"
        if [ "$row_group" != "$group" ] && [ "$group" != 0 ]; then echo '    </pci>'; fi
        if [ "$row_numa" != "$numa" ]; then
            [ "$numa" = -1 ] || echo '  </cpu>'
            numa=$row_numa
            echo "  <cpu numaid=\"$numa\" affinity=\"$(cat "$sys/devices/system/node/node$numa/cpumap")\" arch=\"x86_64\" vendor=\"$vendor\">"
        fi
        if [ "$row_group" != "$group" ]; then
            group=$row_group
            # A switch that is not on the visible bus: an address that no device has.
            printf '    <pci busid="ffff:ff:%02x.0" class="0x060400" link_speed="%s" link_width="16">\n' "$group" "$speed"
        fi
        [ "$kind" = gpu ] && class=0x030200 || class=0x020700
        echo "      <pci busid=\"$bus\" class=\"$class\" link_speed=\"$speed\" link_width=\"16\"/>"
    done
    printf '    </pci>\n  </cpu>\n</system>\n'
} > "$new"
chmod 644 "$new"
mv "$new" "$out"
trap - EXIT
