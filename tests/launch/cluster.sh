# shellcheck shell=bash
# A SLURM of four nodes n1..n4 with two CPUs each on the machine of nodes.sh; sourced after it. Controller and
# submission are on the host `head`.
slurm=/run/slurm
mkdir -p /run/munge "$slurm/state" /run/log
mount -t tmpfs none /etc/munge
mount -t tmpfs none /etc/slurm
head -c 1024 /dev/urandom > /etc/munge/munge.key
chmod 400 /etc/munge/munge.key
cat > /etc/slurm/slurm.conf <<CONF
ClusterName=test
SlurmctldHost=head
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=5,batch_sched_delay=0,sched_interval=5
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
SlurmctldLogFile=/run/log/slurmctld
SlurmdLogFile=/run/log/slurmd-%n
TmpFS=/run/tmp/%n
SlurmdParameters=config_overrides
SlurmctldParameters=idle_on_node_suspend
MailProg=/bin/true
ReturnToService=2
KillWait=30
MinJobAge=3600
NodeName=n[1-4] CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=60 State=UP OverSubscribe=NO
CONF
printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n' > /etc/slurm/cgroup.conf

slurm_up() {
    local name
    munged --force --key-file /etc/munge/munge.key --socket /run/munge/munge.socket.2 --pid-file /run/munge/pid \
        --log-file /run/log/munged --seed-file /run/munge/seed
    until_true 20 munge -n > /dev/null || { cat /run/log/munged; fail "munge does not answer"; }
    slurmctld
    for name in n1 n2 n3 n4; do
        mkdir -p "$slurm/$name" "/run/tmp/$name"
        on "$name" slurmd -N "$name" || { tail -20 "/run/log/slurmd-$name"; fail "slurmd of $name"; }
    done
    until_true 60 all_idle || { sinfo -N; tail -30 /run/log/*; fail "the nodes do not come up"; }
}
all_idle() { [ "$(sinfo -h -t idle -o %D)" = 4 ] 2> /dev/null; }
state_of() { scontrol -o show job "$1" | sed -n 's/.* JobState=\([A-Z_]*\).*/\1/p'; }
# field JOB NAME
field() { scontrol -o show job "$1" | tr ' ' '\n' | sed -n "s/^$2=//p" | head -1; }
has_ended() { [[ "$(state_of "$1")" =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|PREEMPTED|OUT_OF_MEMORY)$ ]]; }
