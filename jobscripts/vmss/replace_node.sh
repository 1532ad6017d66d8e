#!/usr/bin/env bash
# replace_node.sh ADDRESS: takes the host with that private address out of scale set NAME in GROUP, adds a new machine in
# its place and writes HOSTS anew. A sick machine is deleted, not restarted: a restart may bring the same hardware back.
#   GROUP=rg-train NAME=gpt SIZE=Standard_ND96isr_H100_v5 HOSTS=hosts.txt jobscripts/vmss/replace_node.sh 10.0.0.7
# Then: ssh_keys.sh HOSTS, check_hosts.sh HOSTS, and the same train.sh command, which goes on from the newest checkpoint.
# DRY=1 prints what would change things, and changes nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
for needed in GROUP NAME SIZE HOSTS; do
    [ -n "${!needed:-}" ] || { echo "replace_node.sh: $needed is not set; see the top of this file" >&2; exit 2; }
done
[ $# -eq 1 ] || { echo "replace_node.sh: would be right: replace_node.sh ADDRESS" >&2; exit 2; }
address=$1
[[ "$address" =~ ^[0-9a-fA-F.:]+$ ]] || { echo "replace_node.sh: $address is no address; would be right: as in HOSTS" >&2; exit 2; }
run() {
    if [ -n "${DRY:-}" ]; then printf '%q ' "$@" && echo; else "$@"; fi
}
# Which machine has the address: the number stands in the id of its network card, .../virtualMachines/7/...
nics=$(az vmss nic list --resource-group "$GROUP" --vmss-name "$NAME" \
    --query '[].[ipConfigurations[0].privateIPAddress, virtualMachine.id]' --output tsv | tr -d '\r')
id=$(awk -v address="$address" '$1 == address { sub(/.*\//, "", $2); print $2 }' <<< "$nics")
[[ "$id" =~ ^[0-9]+$ ]] || { echo "replace_node.sh: no machine of $NAME has the address $address; there are:" >&2; cut -f1 <<< "$nics" >&2; exit 2; }
count=$(wc -l <<< "$nics")
# First out, then in: a quota for one machine more may not be there.
run az vmss delete-instances --resource-group "$GROUP" --name "$NAME" --instance-ids "$id" --output none
run az vmss scale --resource-group "$GROUP" --name "$NAME" --new-capacity "$count" --output none
"$here/list_hosts.sh"
