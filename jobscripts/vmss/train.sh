#!/usr/bin/env bash
# Training over the hosts of a hostfile: SIZE=Standard_ND96isr_H100_v5 jobscripts/vmss/train.sh HOSTFILE RUN.toml [options]
# Call it on the first host, in the root of the repository, which all hosts see under the same path (as OUTPUT and data).
# HOSTFILE: `10.0.0.4 slots=8` per line; provision.sh writes it. OGROM: the program (build/ogrom); GRACE: seconds for a
# save (30); SSH_CONFIG: another file than ~/.ssh/config; INTERFACE: network of MPI's own messages (eth0).
# USR1 to this script saves and ends it with exit code 75; the same command goes on from there.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
[ $# -ge 2 ] || { echo "$0: would be right: train.sh HOSTFILE RUN.toml [options]" >&2; exit 2; }
# shellcheck source=jobscripts/vmss/settings.sh
source "$root/jobscripts/vmss/settings.sh"
hostfile=$1
shift
ogrom=${OGROM:-$root/build/ogrom}
# mpirun would run everything on this host if the file named none, and count cores for a host without slots.
checked=$(mktemp)
trap 'rm -f "$checked"' EXIT
"$ogrom" hosts --hostfile "$hostfile" --resolve > "$checked"
ranks=$(awk '{ sub(/.*slots=/, ""); n += $1 } END { print n }' "$checked")

flags=(
    -n "$ranks" --hostfile "$checked"
    # Slots of a host are filled before those of the next: tensor ranks, which talk most, stay on one host.
    --map-by slot
    # mpirun has 1 s between TERM and KILL by default.
    --mca odls_base_sigkill_timeout "${GRACE:-30}"
    # Daemons and MPI's TCP on the network that all hosts share, not on docker0 and the like.
    --mca oob_tcp_if_include "${INTERFACE:-eth0}" --mca btl_tcp_if_include "${INTERFACE:-eth0}"
    # No question for a password that nobody answers; a host that is not there is told after 20 s.
    --mca plm_rsh_args "${SSH_CONFIG:+-F $SSH_CONFIG }-o BatchMode=yes -o ConnectTimeout=20"
    # Every daemon by an ssh of mpirun's own: in a tree, a host that is cut off would take those behind it along.
    --mca plm_rsh_no_tree_spawn 1
)
[ "$(id -u)" -ne 0 ] || flags+=(--allow-run-as-root)
near=()
if [ "$gpus" -gt 0 ]; then
    flags+=(--bind-to none)
    near=("$root/jobscripts/near_gpu.sh")
    # Each host writes the topology of its own bus, or says how the bus differs from what the size promises.
    mpirun --hostfile "$checked" --map-by ppr:1:node "${flags[@]:6}" \
        "$root/jobscripts/vmss/topology.sh" "$size" "${TOPOLOGY:-/var/tmp/ogrom-topology.xml}"
else
    flags+=(--bind-to core)
fi
for one in "${environment[@]}"; do flags+=(-x "$one"); done
# A host that is cut off: the ranks of the others notice within comm.timeout_s, say so and end, but mpirun waits for the
# lost host's daemon until TCP gives up, a quarter of an hour. So mpirun is ended when its ranks on this host, the first,
# have been gone for longer than it needs otherwise (twice the grace time after an exit code that is not 0).
guard() {
    local seen='' idle=0
    while kill -0 "$1" 2> /dev/null; do
        if pgrep -P "$1" -x "${name:0:15}" > /dev/null; then
            seen=yes idle=0
        elif [ -n "$seen" ] && [ $((++idle)) -gt $((2 * ${GRACE:-30} + 15)) ]; then
            echo "$0: the ranks of this host have ended, mpirun still waits for a host: ended" >&2
            kill -KILL "$1"
            return 6
        fi
        sleep 1
    done
}
name=$(basename "$ogrom")
code=0 signalled='' launcher=''
# mpirun passes USR1 on to all ranks; of TERM it would make TERM and KILL.
trap 'signalled=yes; [ -z "$launcher" ] || kill -USR1 "$launcher" 2> /dev/null || true' USR1 TERM
mpirun "${flags[@]}" "${near[@]}" "$ogrom" train "$@" --resume=auto &
launcher=$!
guard "$launcher" &
guard=$!
while true; do
    signalled='' again=0
    wait "$launcher" || again=$?
    [ "$again" -eq 127 ] || code=$again
    [ -n "$signalled" ] || break
done
wait "$guard" || code=$? # 6: a rank or communicator failed
exit "$code"
