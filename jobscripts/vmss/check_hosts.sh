#!/usr/bin/env bash
# check_hosts.sh HOSTFILE: looks at all hosts at once, before a run, and names those that would slow it down or end it.
#   SIZE=Standard_ND96isr_H100_v5 jobscripts/vmss/check_hosts.sh HOSTFILE > GOOD
# Standard output: the hostfile lines of the hosts without a fault. Standard error: a line per host, and each fault.
# Exit code 0: all are good; 6: some are not (replace_node.sh). LIMIT: seconds for a host (60); SSH_CONFIG, OGROM as in
# train.sh. Faults: no answer, clock off by more than 2 s, another ogrom or driver than most hosts have, a GPU missing,
# slowed down by heat or power, with uncorrected memory errors or an Xid in the kernel log, an InfiniBand port that is
# not active or slower than the others, a core that takes SLOW (2) times as long as on the middle host, a full disk.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
[ $# -eq 1 ] || { echo "check_hosts.sh: would be right: check_hosts.sh HOSTFILE" >&2; exit 2; }
# shellcheck source=jobscripts/vmss/settings.sh
source "$here/settings.sh"
ogrom=${OGROM:-$root/build/ogrom}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$ogrom" hosts --hostfile "$1" --resolve > "$folder/hosts"
flags=(-o BatchMode=yes -o ConnectTimeout=20)
[ -z "${SSH_CONFIG:-}" ] || flags=(-F "$SSH_CONFIG" "${flags[@]}")

# Runs on the host, told through standard input; answers are lines NAME=VALUE.
probe() {
    printf 'ogrom=%q gpus=%q\n' "$ogrom" "$gpus"
    cat << 'PROBE'
echo "time=$(date +%s.%N)"
echo "version=$("$ogrom" --version 2>&1 | md5sum | cut -c1-12)"
echo "full=$(df --output=pcent /var/tmp | tail -1 | tr -dc 0-9)"
# The same sum of two million numbers everywhere: a core that is throttled or shared takes longer.
start=$(date +%s%N)
awk 'BEGIN { for (i = 0; i < 2000000; i++) s += i * 0.5; print s > "/dev/null" }'
echo "core_ms=$(( ($(date +%s%N) - start) / 1000000 ))"
if [ "$gpus" -gt 0 ]; then
    fields=count,driver_version,ecc.errors.uncorrected.volatile.total,clocks_throttle_reasons.hw_slowdown
    nvidia-smi --query-gpu=$fields --format=csv,noheader > /tmp/ogrom-gpus.$$ 2>&1 || echo "gpu_fault=$(head -1 /tmp/ogrom-gpus.$$)"
    echo "gpus=$(grep -c , /tmp/ogrom-gpus.$$)"
    echo "driver=$(awk -F', ' 'NR == 1 { print $2 }' /tmp/ogrom-gpus.$$)"
    echo "memory_errors=$(awk -F', ' '$3 ~ /^[0-9]+$/ { n += $3 } END { print n + 0 }' /tmp/ogrom-gpus.$$)"
    echo "slowed=$(awk -F', ' '$4 == "Active" { n++ } END { print n + 0 }' /tmp/ogrom-gpus.$$)"
    rm -f /tmp/ogrom-gpus.$$
    echo "xid=$( (sudo -n dmesg 2> /dev/null || dmesg 2> /dev/null) | grep -o 'NVRM: Xid.*' | tail -1)"
    active=0 rates=
    for port in /sys/class/infiniband/mlx5_ib*/ports/1; do
        [ -e "$port/state" ] || continue
        if grep -q ACTIVE "$port/state"; then active=$((active + 1)); fi
        rates+="$(cut -d' ' -f1 "$port/rate") "
    done
    echo "ib=$active"
    echo "ib_rate=$(echo "$rates" | tr ' ' '\n' | sort -n | awk 'NF { print; exit }')"
fi
echo end=yes
PROBE
}
mapfile -t lines < "$folder/hosts"
for i in "${!lines[@]}"; do
    name=${lines[i]%% *}
    {
        # The host's clock must lie between question and answer, however long they take.
        date +%s.%N > "$folder/asked.$i"
        probe | timeout "${LIMIT:-60}" ssh "${flags[@]}" "$name" bash -s > "$folder/said.$i" 2> "$folder/error.$i" || true
        date +%s.%N > "$folder/ended.$i"
    } &
done
wait

value() { sed -n "s/^$2=//p" "$folder/said.$1"; }
# What most hosts say.
usual() { for i in "${!lines[@]}"; do value "$i" "$1"; done | grep . | sort | uniq -c | sort -rn | awk '{ $1 = ""; print substr($0, 2); exit }'; }
median() { for i in "${!lines[@]}"; do value "$i" "$1"; done | grep . | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
version=$(usual version) driver=$(usual driver) ib_rate=$(usual ib_rate) core=$(median core_ms)
status=0
for i in "${!lines[@]}"; do
    name=${lines[i]%% *} faults=()
    if [ "$(value "$i" end)" != yes ]; then
        faults+=("no answer within ${LIMIT:-60} s: $(tail -1 "$folder/error.$i")")
    else
        offset=$(awk -v a="$(cat "$folder/asked.$i")" -v e="$(cat "$folder/ended.$i")" -v t="$(value "$i" time)" \
            'BEGIN { printf "%.1f", (t < a) ? t - a : ((t > e) ? t - e : 0) }')
        awk -v d="$offset" 'BEGIN { exit !(d < -2 || d > 2) }' && faults+=("clock is off by $offset s")
        [ "$(value "$i" version)" = "$version" ] || faults+=("another ogrom than most hosts, or none: $ogrom --version")
        [ "$(value "$i" full)" -lt 97 ] || faults+=("/var/tmp is $(value "$i" full) % full")
        [ "$(value "$i" core_ms)" -le $((${SLOW:-2} * core + 20)) ] || faults+=("slow: $(value "$i" core_ms) ms for what takes $core ms on the middle host")
        if [ "$gpus" -gt 0 ]; then
            [ -z "$(value "$i" gpu_fault)" ] || faults+=("nvidia-smi: $(value "$i" gpu_fault)")
            [ "$(value "$i" gpus)" = "$gpus" ] || faults+=("$(value "$i" gpus) GPUs instead of $gpus")
            [ "$(value "$i" driver)" = "$driver" ] || faults+=("driver $(value "$i" driver), most hosts have $driver")
            [ "$(value "$i" memory_errors)" = 0 ] || faults+=("$(value "$i" memory_errors) uncorrected errors of GPU memory")
            [ "$(value "$i" slowed)" = 0 ] || faults+=("$(value "$i" slowed) GPUs slowed down by heat or power")
            [ -z "$(value "$i" xid)" ] || faults+=("kernel log: $(value "$i" xid)")
            [ "$(value "$i" ib)" = 8 ] || faults+=("$(value "$i" ib) active InfiniBand ports instead of 8")
            [ "$(value "$i" ib_rate)" = "$ib_rate" ] || faults+=("slowest InfiniBand port at $(value "$i" ib_rate) Gb/s, most hosts have $ib_rate")
        fi
    fi
    if [ "${#faults[@]}" -eq 0 ]; then
        echo "good: $name, core $(value "$i" core_ms) ms" >&2
        echo "${lines[i]}"
    else
        status=6
        for fault in "${faults[@]}"; do echo "bad:  $name: $fault" >&2; done
    fi
done
exit "$status"
