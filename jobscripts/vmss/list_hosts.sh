#!/usr/bin/env bash
# list_hosts.sh: writes HOSTS, the hostfile of scale set NAME in GROUP, with SIZE's number of GPUs as slots. Private
# addresses: names of a scale set resolve only where its network has a DNS zone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
for needed in GROUP NAME SIZE HOSTS; do
    [ -n "${!needed:-}" ] || { echo "list_hosts.sh: $needed is not set; see the top of provision.sh" >&2; exit 2; }
done
# shellcheck source=jobscripts/vmss/settings.sh
source "$here/settings.sh"
list=(az vmss nic list --resource-group "$GROUP" --vmss-name "$NAME"
    --query '[].ipConfigurations[0].privateIPAddress' --output tsv)
if [ -n "${DRY:-}" ]; then
    printf '%q ' "${list[@]}"
    echo "> $HOSTS"
    exit 0
fi
new=$(mktemp "$HOSTS.XXXXXX")
trap 'rm -f "$new"' EXIT
"${list[@]}" | tr -d '\r' | awk -v slots="$gpus" 'NF { print $1 " slots=" slots }' > "$new"
# The same reader as before each run; what az could not tell is found here.
"${OGROM:-$root/build/ogrom}" hosts --hostfile "$new" > /dev/null
mv "$new" "$HOSTS"
trap - EXIT
echo "list_hosts.sh: $(wc -l < "$HOSTS") hosts in $HOSTS"
