#!/usr/bin/env bash
# veth.sh RATE COMMAND...: runs COMMAND as two MPI ranks over TCP, one in each of two network namespaces that a veth pair
# of that rate (tc's spelling: 2gbit) connects. Exit 77 with a reason where the machine does not allow it. Namespaces are
# removed whatever happens.
set -euo pipefail
rate=${1:?rate} && shift

skip() {
    echo "veth: left out: $*" >&2
    exit 77
}
[ "$(id -u)" -eq 0 ] || skip "not root"
for tool in ip tc unshare mpirun; do
    command -v "$tool" > /dev/null || skip "no $tool"
done

name=ogrom$$
near=$name-a
far=$name-b
agent=$(mktemp "${TMPDIR:-/tmp}/ogrom-agent.XXXXXX")
cleanup() {
    local space
    for space in "$near" "$far"; do
        ip netns pids "$space" 2> /dev/null | xargs -r kill -9 2> /dev/null || true
        ip netns del "$space" 2> /dev/null || true
    done
    ip link del "$name"a 2> /dev/null || true
    rm -f "$agent"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

ip netns add "$near" 2> /dev/null || skip "no network namespaces here"
ip netns add "$far" || skip "no second network namespace"
ip link add "$name"a type veth peer name "$name"b || skip "no veth"
ip link set "$name"a netns "$near"
ip link set "$name"b netns "$far"
ip -n "$near" addr add 10.203.7.1/24 dev "$name"a
ip -n "$far" addr add 10.203.7.2/24 dev "$name"b
for side in "$near a" "$far b"; do
    read -r space letter <<< "$side"
    ip -n "$space" link set lo up
    ip -n "$space" link set "$name$letter" up
    ip netns exec "$space" tc qdisc add dev "$name$letter" root tbf rate "$rate" burst 1mb latency 20ms ||
        skip "no token bucket filter (tc tbf)"
done

# What mpirun calls in place of ssh: HOST COMMAND...; a host name of its own, or Open MPI takes both for one host.
cat > "$agent" <<AGENT
#!/usr/bin/env bash
shift
exec ip netns exec $far unshare --uts sh -c 'hostname $far; shift 0; exec sh -c "\$*"' agent "\$@"
AGENT
chmod +x "$agent"

export OGROM_BENCH_LINK="veth, tbf $rate, TCP"
# shellcheck disable=SC2016
ip netns exec "$near" unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' near "$near" \
    mpirun --allow-run-as-root --bind-to none -x OGROM_BENCH_LINK -x OMP_NUM_THREADS \
    --host 10.203.7.1:1,10.203.7.2:1 -n 2 --map-by node \
    --mca plm_rsh_agent "$agent" --mca plm rsh --mca oob_tcp_if_include 10.203.7.0/24 \
    --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.203.7.0/24 "$@"
