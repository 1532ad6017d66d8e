#!/usr/bin/env bash
# A run longer than a job may be, or in a partition that pre-empts: the job saves, puts itself back into the queue and
# goes on from there until the run is done.
#   sbatch --nodes=N jobscripts/slurm/requeue.sh RUN.toml [options]; FORM=mpirun where srun has no PMIx
# Before the time limit USR1 comes (--signal). At a pre-emption SLURM sends TERM to the tasks, which srun's ranks take as
# they take USR1 (for the batch shell too: PreemptParameters=send_user_signal in slurm.conf); the partition's GraceTime
# must cover a step and a save. Exit code 75 = saved: back into the queue. Any other code ends it.
#SBATCH --job-name=ogrom
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --time=01:00:00
#SBATCH --output=ogrom-%j.log
#SBATCH --open-mode=append
# SLURM may start the job again from this script: after a pre-emption, a node failure, or scontrol requeue.
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
# shellcheck source=jobscripts/slurm/common.sh
source "${OGROM_ROOT:-$SLURM_SUBMIT_DIR}/jobscripts/slurm/common.sh"
[ $# -ge 1 ] || { echo "$0: would be right: sbatch requeue.sh RUN.toml [options]" >&2; exit 2; }
# The id stays the same when the job is requeued, so every slice finds the folder, and no other job does.
output=${OUTPUT:-results/runs/$SLURM_JOB_NAME-$SLURM_JOB_ID}
newest() { cat "$output/checkpoints/latest" 2> /dev/null || echo none; }

before=$(newest)
code=0
launch "${FORM:-srun}" train "$@" --set "run.output=$output" --resume=auto || code=$?
[ "$code" -eq 75 ] || exit "$code"
if [ "$(newest)" = "$before" ]; then
    echo "$0: this slice came no step further ($before): not requeued. Would be right: a longer --time, or a smaller train.global_batch" >&2
    exit 75
fi
# After a scancel the job is no longer RUNNING, and whoever cancelled it does not want it back; after a pre-emption SLURM
# itself requeues it.
state=$(squeue -h -j "$SLURM_JOB_ID" -o %T)
if [ "$state" != RUNNING ]; then
    echo "$0: saved $(newest); the job is $state: not requeued from here" >&2
    exit 75
fi
echo "$0: saved $(newest): back into the queue (restart ${SLURM_RESTART_COUNT:-0})"
scontrol requeue "$SLURM_JOB_ID"
# SLURM now ends this shell. It must not end first: a job that has ended is not requeued.
sleep 60
