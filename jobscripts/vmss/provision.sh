#!/usr/bin/env bash
# provision.sh: makes a scale set of COUNT virtual machines and writes its hostfile. Needs the az program, logged in.
#   GROUP=rg-train NAME=gpt REGION=southcentralus SIZE=Standard_ND96isr_H100_v5 COUNT=4 HOSTS=hosts.txt jobscripts/vmss/provision.sh
# KEY: public ssh key (~/.ssh/id_ed25519.pub). IMAGE: with drivers for GPU and InfiniBand. DRY=1 prints the commands only.
# The machines cost money from here on: az vmss delete -g GROUP -n NAME ends that.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
for needed in GROUP NAME REGION SIZE COUNT HOSTS; do
    [ -n "${!needed:-}" ] || { echo "provision.sh: $needed is not set; see the top of this file" >&2; exit 2; }
done
[[ "$COUNT" =~ ^[1-9][0-9]{0,2}$ ]] || { echo "provision.sh: COUNT=$COUNT; would be right: 1 to 999" >&2; exit 2; }
[[ "$NAME" =~ ^[a-z][a-z0-9-]{0,30}$ ]] || { echo "provision.sh: NAME=$NAME; would be right: small letters, digits and -" >&2; exit 2; }
# shellcheck source=jobscripts/vmss/settings.sh
source "$here/settings.sh"
[ "$gpus" -gt 0 ] || { echo "provision.sh: SIZE=local is no VM size" >&2; exit 2; }
key=${KEY:-$HOME/.ssh/id_ed25519.pub}
image=${IMAGE:-microsoft-dsvm:ubuntu-hpc:2204:latest}
[ -r "$key" ] || { echo "provision.sh: KEY=$key is not there; would be right: ssh-keygen -t ed25519" >&2; exit 2; }
run() {
    if [ -n "${DRY:-}" ]; then printf '%q ' "$@" && echo; else "$@"; fi
}

run az group create --name "$GROUP" --location "$REGION" --output none
flags=(
    --resource-group "$GROUP" --name "$NAME" --location "$REGION"
    --vm-sku "$SIZE" --image "$image" --instance-count "$COUNT"
    # One InfiniBand network reaches over one placement group only; machines in two of them do not see each other's ports.
    --orchestration-mode Uniform --single-placement-group true
    # No machines beyond COUNT that are deleted again: their addresses would change under the hostfile.
    --disable-overprovision
    # Nothing is updated or restarted under a run.
    --upgrade-policy-mode Manual
    --admin-username azureuser --ssh-key-values "$key" --authentication-type ssh
    # SSH from outside to the first host goes through the load balancer's NAT rules; between hosts all is open.
    --lb-sku Standard --accelerated-networking true
    --os-disk-size-gb 256
)
run az vmss create "${flags[@]}" --output none
"$here/list_hosts.sh"
