# shellcheck shell=bash
# A machine of this test's own, sourced first: the script starts again as process 1 of new mount, network, process, host
# name and IPC name spaces. All daemons end with it, whatever ends it; files are in a tmpfs that goes with it; ports and
# addresses are its own, so two runs at once do not meet. In it, node NAME ADDRESS makes further "hosts": network and
# host name spaces of their own, joined by a bridge.
set -euo pipefail
if [ -z "${OGROM_OWN_MACHINE:-}" ]; then
    spaces=(--mount --net --pid --uts --ipc --fork --kill-child --mount-proc)
    if ! why=$(unshare "${spaces[@]}" bash -c 'ip link add b0 type bridge && mount -t tmpfs none /run' 2>&1); then
        echo "skip: missing privilege for name spaces and a bridge: $why"
        exit 77
    fi
    export OGROM_OWN_MACHINE=1
    exec unshare "${spaces[@]}" bash "$0" "$@"
fi
[ $$ -eq 1 ] || { echo "FAIL: not process 1 of its own name space"; exit 1; }
mount --make-rshared / # what is mounted later is seen by the hosts too; the outside is no peer of these name spaces
mount -t tmpfs -o mode=755 none /run
mount -t tmpfs none /dev/shm
mkdir -p /run/test /run/tmp
chmod 1777 /run/tmp
export TMPDIR=/run/tmp OMPI_MCA_orte_tmpdir_base=/run/tmp
# Open MPI on a bridge of this machine: TCP, no search for fabrics.
export OMPI_MCA_btl=self,vader,tcp OMPI_MCA_pml=ob1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
network=10.77.0
hostname head
ip link set lo up
ip link add br0 type bridge
ip addr add "$network.254/24" dev br0
ip link set br0 up
printf '127.0.0.1 localhost\n%s.254 head\n' "$network" > /run/hosts
mount --bind /run/hosts /etc/hosts
# A home of this test's own, and one more on each host.
mkdir -m 700 /run/home
sed 's|^\(root:[^:]*:[^:]*:[^:]*:[^:]*\):[^:]*:|\1:/run/home:|' /etc/passwd > /run/passwd
mount --bind /run/passwd /etc/passwd
export HOME=/run/home
declare -A node_pid=()

# node NAME NUMBER: a host of that name at $network.NUMBER
node() {
    local name=$1 address=$network.$2 pid
    unshare --net --uts --mount --propagation slave bash -c "hostname $name; mount -t tmpfs none /dev/shm; mount -t tmpfs -o mode=700 none /run/home; exec sleep infinity" &
    pid=$!
    node_pid[$name]=$pid
    until [ "$(nsenter -t "$pid" -u hostname)" = "$name" ]; do sleep 0.02; done
    ip link add "v-$name" type veth peer name eth0 netns "$pid"
    ip link set "v-$name" master br0 up
    nsenter -t "$pid" -n bash -c "ip link set lo up; ip addr add $address/24 dev eth0; ip link set eth0 up; ip route add default via $network.254"
    echo "$address $name" >> /run/hosts
}
# on NAME COMMAND...: on that host
on() {
    local name=$1
    shift
    nsenter -t "${node_pid[$name]}" -n -u -m --wdns="$PWD" "$@"
}
# until_true SECONDS COMMAND...: false when it does not come true in time
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1
    done
}
