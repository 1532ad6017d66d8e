#!/usr/bin/env bash
# Training on one node: sbatch jobscripts/slurm/single_node.sh RUN.toml [ogrom train options]
# A CPU node: sbatch --gpus-per-node=0 --ntasks-per-node=N ...
#SBATCH --job-name=ogrom
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --time=04:00:00
# One file per job, appended to when the job runs again.
#SBATCH --output=ogrom-%j.log
#SBATCH --open-mode=append
# 120 s before the time limit the batch shell (B:) gets USR1 and passes it on: saved, exit code 75.
#SBATCH --signal=B:USR1@120
# shellcheck source=jobscripts/slurm/common.sh
source "${OGROM_ROOT:-$SLURM_SUBMIT_DIR}/jobscripts/slurm/common.sh"
[ $# -ge 1 ] || { echo "$0: would be right: sbatch single_node.sh RUN.toml [options]" >&2; exit 2; }
# --resume=auto: the newest complete checkpoint of run.output, or the start. The same command goes on after a stop.
launch mpirun train "$@" --resume=auto
