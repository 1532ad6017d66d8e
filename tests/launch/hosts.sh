#!/usr/bin/env bash
# jobscripts/vmss over a hostfile of three hosts that are network name spaces with addresses of their own, an sshd in
# each. A hostfile with a fault starts nothing; a run over the hosts equals one on this machine; a host that is cut off in
# mid-run ends every rank and is named.
# shellcheck source=tests/launch/nodes.sh
source "$(dirname "$0")/nodes.sh"
# shellcheck source=tests/cli/lib.sh
source "$SOURCE/tests/cli/lib.sh"
export SIZE=local GRACE=1 SSH_CONFIG=/run/ssh/config
mkdir -p /run/sshd /run/ssh
ssh-keygen -q -t ed25519 -N '' -f /run/ssh/host
ssh-keygen -q -t ed25519 -N '' -f /run/ssh/user
cp /run/ssh/user.pub /run/ssh/authorized
cat > /run/ssh/sshd <<CONF
HostKey /run/ssh/host
AuthorizedKeysFile /run/ssh/authorized .ssh/authorized_keys
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
SetEnv TMPDIR=/run/tmp OMP_NUM_THREADS=1
CONF
cat > "$SSH_CONFIG" <<CONF
Host *
    IdentityFile /run/ssh/user
    UserKnownHostsFile /run/ssh/known
    LogLevel ERROR
CONF
for i in 1 2 3; do
    node "h$i" "$i"
    echo "h$i,$network.$i $(cut -d' ' -f1,2 /run/ssh/host.pub)" >> /run/ssh/known
    on "h$i" /usr/sbin/sshd -f /run/ssh/sshd -E "/run/ssh/log-h$i"
done
for i in 1 2 3; do
    until_true 30 on h1 ssh -F "$SSH_CONFIG" -o BatchMode=yes "h$i" true 2> /dev/null || { cat "/run/ssh/log-h$i"; fail "no ssh to h$i"; }
done
train() { on h1 "$SOURCE/jobscripts/vmss/train.sh" "$@"; }
logins() { cat /run/ssh/log-h? | grep -c 'Accepted publickey' || true; }
columns() { cut -d, -f1-3 "$1/metrics.csv"; }

make_corpus 1000
make_run 60
launch 3 "$OGROM" train run.toml --set train.global_batch=6 --set run.output=straight > straight.log 2>&1 || { cat straight.log; fail "straight run"; }

# B43: every fault is found before the first ssh.
before=$(logins)
refused() { # text of the hostfile, pattern
    printf '%b' "$1" > bad
    expect_exit 2 train bad run.toml --set run.output=none
    expect_text "$2"
}
refused 'h1 slots=1\nh2 lots=8\n' 'bad:2: "h2 lots=8": unknown name "lots"; nearest: slots'
refused 'h1 slots=1\nh2:1\n' 'bad:2: .*would be right: h2 slots=1'
refused '' 'names no host'
refused 'h1 slots=1\nh1 slots=1\n' 'bad:2: .*host h1 stands at bad:1 already'
refused "h1 slots=1\n$network.1 slots=1\n" "bad:2: .*has the address $network.1 of h1"
refused 'h1 slots=1\nh2 slots=0\n' 'bad:2: .*no number of ranks'
refused 'h1 slots=1\nnowhere slots=1\n' 'bad:2: host "nowhere": does not resolve'
echo '127.0.1.1 own' >> /run/hosts
refused 'h1 slots=1\nown slots=1\n' 'bad:2: host "own": resolves to 127.0.1.1'
expect_exit 2 train absent run.toml
expect_text 'absent: there is no such file'
[ "$(logins)" -eq "$before" ] || fail "something was started on a host of a bad hostfile"
[ ! -e none ] || fail "a run was begun with a bad hostfile"
echo "bad hostfiles: refused before any remote start"

# The run's own key on every host, then the hosts looked at: all good, one with another program, one cut off.
# Comments, a blank line, CRLF, an address for a name.
printf '# three hosts\r\n\r\nh1 slots=1 # first\r\nroot@h2 slots=1\r\n%s slots = 1\r\n' "$network.3" > hostfile
on h1 "$SOURCE/jobscripts/vmss/ssh_keys.sh" hostfile > keys.log 2>&1 || { cat keys.log; fail "ssh_keys.sh"; }
on h1 "$SOURCE/jobscripts/vmss/ssh_keys.sh" hostfile > keys.log 2>&1 || { cat keys.log; fail "ssh_keys.sh, once more"; }
unset SSH_CONFIG # from here on with the run's own key
for to in h1 h2 "$network.3"; do on h2 ssh -o BatchMode=yes "$to" true || fail "ssh_keys.sh: no way from h2 to $to"; done
[ "$(on h2 grep -c . /run/home/.ssh/authorized_keys)" -eq 2 ] || fail "ssh_keys.sh: not one key per call"
# SLOW: three hosts share the cores of this machine, so how long one takes says nothing here.
check() { on h1 env LIMIT=30 SLOW=1000 "$SOURCE/jobscripts/vmss/check_hosts.sh" "$1" > good 2> check.log; }
check hostfile || { cat check.log; fail "check_hosts.sh"; }
[ "$(wc -l < good)" -eq 3 ] || fail "check_hosts.sh: not all hosts are good"
on h3 mount --bind /bin/true "$OGROM"
ip link set v-h2 down
printf 'h1 slots=1\nh2 slots=1\n%s slots=1\nhead slots=1\n' "$network.3" > four
/usr/sbin/sshd -f /run/ssh/sshd -E /run/ssh/log-head
mkdir -m 700 "$HOME/.ssh"
on h1 cat /run/home/.ssh/authorized_keys > "$HOME/.ssh/authorized_keys"
echo "head $(cut -d' ' -f1,2 /run/ssh/host.pub)" | on h1 tee -a /run/home/.ssh/known_hosts > /dev/null
code=0
check four || code=$?
[ "$code" -eq 6 ] || { cat check.log; fail "check_hosts.sh: exit $code instead of 6"; }
grep -qE '^bad: +h2: no answer within' check.log || { cat check.log; fail "check_hosts.sh: h2, cut off, is not named"; }
grep -qE "^bad: +$network.3: another ogrom" check.log || { cat check.log; fail "check_hosts.sh: h3, with another ogrom, is not named"; }
[ "$(cat good)" = $'h1 slots=1\nhead slots=1' ] || { cat good check.log; fail "check_hosts.sh: the good hosts"; }
on h3 umount "$OGROM"
ip link set v-h2 up
on h2 ip route replace default via "$network.254"
echo "ssh keys, host checks: $SECONDS s"

# One rank on each host.
train hostfile run.toml --set train.global_batch=6 --set run.output=hosts > hosts.log 2>&1 || { cat hosts.log; fail "run over three hosts"; }
cmp <(columns straight) <(columns hosts) || { cat hosts.log; fail "the loss column differs"; }
"$OGROM" inspect straight/checkpoints --diff hosts/checkpoints > diff.log 2>&1 || { cat diff.log; fail "checkpoints differ"; }
echo "three hosts: bit-equal, $SECONDS s"

# USR1 to the script: saved at a common step on all hosts.
on h1 "$SOURCE/jobscripts/vmss/train.sh" hostfile run.toml --set train.global_batch=6 --set train.steps=100000 --set run.output=stopped > stopped.log 2>&1 &
job=$!
await "$job" grep -qsE 'step +10/' stopped.log || { cat stopped.log; fail "does not start"; }
kill -USR1 "$(pgrep -f "^bash $SOURCE/jobscripts/vmss/train.sh hostfile .*run.output=stopped" | head -1)"
code=0
wait "$job" || code=$?
[ "$code" -eq 75 ] || { cat stopped.log; fail "USR1: exit $code instead of 75"; }
grep -q 'stopped by SIGUSR1' stopped.log || { cat stopped.log; fail "USR1: not named"; }
echo "USR1: saved $(cat stopped/checkpoints/latest), $SECONDS s"

# The cable of h3 is pulled.
ranks_on() { pgrep --ns "${node_pid[$1]}" --nslist net -f "^$OGROM train " || true; }
no_rank_on() { [ -z "$(ranks_on "$1")" ]; }
on h1 "$SOURCE/jobscripts/vmss/train.sh" hostfile run.toml --set train.global_batch=6 --set train.steps=100000 --set comm.timeout_s=10 \
    --set run.output=cut > cut.log 2>&1 &
job=$!
await "$job" grep -qsE 'step +10/' cut.log || { cat cut.log; fail "does not start"; }
[ -n "$(ranks_on h3)" ] || fail "no rank on h3"
ip link set v-h3 down
start=$SECONDS
for host in h1 h2; do
    until_true 240 no_rank_on "$host" || { cat cut.log; fail "a rank on $host is left"; }
done
echo "cut off: the ranks of h1 and h2 ended after $((SECONDS - start)) s"
until_true 240 no_rank_on h3 || fail "a rank on h3, cut off, is left"
echo "cut off: the rank of h3 ended after $((SECONDS - start)) s"
gone() { ! kill -0 "$job" 2> /dev/null; }
until_true 240 gone || { cat cut.log; fail "mpirun does not end"; }
code=0
wait "$job" || code=$?
echo "cut off: mpirun ended with $code after $((SECONDS - start)) s"
grep '^ogrom:' cut.log || true
[ "$code" -eq 6 ] || { cat cut.log; fail "cut off: exit $code instead of 6"; }
[ "$(grep -c '^ogrom:' cut.log)" -eq 1 ] || { cat cut.log; fail "not one message"; }
grep -qE '^ogrom: rank 2 \(host h3' cut.log || { cat cut.log; fail "the host is not named"; }
echo "hosts: $SECONDS s"
