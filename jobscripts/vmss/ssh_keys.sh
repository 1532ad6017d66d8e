#!/usr/bin/env bash
# ssh_keys.sh HOSTFILE: a key pair of the run's own on every host, so that mpirun on one host reaches the others without
# a password, and every host's key in known_hosts. Call it where you can log in to all hosts (ssh -A, or the first host).
# SSH_CONFIG: another file than ~/.ssh/config. The private key stays on the hosts; it is none of yours.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
[ $# -eq 1 ] || { echo "ssh_keys.sh: would be right: ssh_keys.sh HOSTFILE" >&2; exit 2; }
hosts=$("${OGROM:-$root/build/ogrom}" hosts --hostfile "$1" --resolve --slots 1)
mapfile -t names < <(awk '{ print $1 }' <<< "$hosts")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ssh-keygen -q -t ed25519 -N '' -C ogrom-run -f "$folder/ogrom_run"
# The hosts' keys are taken as they come: right for machines that were made a minute ago in a network of your own.
ssh-keyscan -T 20 -t ed25519 "${names[@]##*@}" 2> /dev/null | sort -u > "$folder/known"
for name in "${names[@]##*@}"; do
    grep -q "^$name " "$folder/known" || { echo "ssh_keys.sh: $name gave no host key within 20 s" >&2; exit 6; }
done
flags=(-o BatchMode=yes -o ConnectTimeout=20 -o "UserKnownHostsFile=$folder/known")
[ -z "${SSH_CONFIG:-}" ] || flags=(-F "$SSH_CONFIG" "${flags[@]}")
# One line of shell on each host, no value from outside in it; the files come through standard input.
# shellcheck disable=SC2016,SC2029
put='set -e; umask 077; mkdir -p ~/.ssh; cd ~/.ssh; tar -xf -; touch authorized_keys known_hosts config
grep -qxF "$(cat ogrom_run.pub)" authorized_keys || cat ogrom_run.pub >> authorized_keys
cat known >> known_hosts; sort -u known_hosts -o known_hosts; rm known
grep -qx "IdentityFile ~/.ssh/ogrom_run" config || { printf "IdentityFile ~/.ssh/ogrom_run\n"; cat config; } > config.new
[ ! -s config.new ] || mv config.new config; rm -f config.new'
status=0
for name in "${names[@]}"; do
    # shellcheck disable=SC2029 # the text is meant as it stands
    if ! tar -C "$folder" -cf - ogrom_run ogrom_run.pub known | ssh "${flags[@]}" "$name" "$put"; then
        echo "ssh_keys.sh: $name: not done" >&2
        status=6
    fi
done
exit "$status"
