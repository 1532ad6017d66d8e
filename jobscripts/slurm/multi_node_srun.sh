#!/usr/bin/env bash
# Training on several nodes, started by srun: sbatch --nodes=N jobscripts/slurm/multi_node_srun.sh RUN.toml [options]
# Needs a SLURM with the PMIx plug-in (srun --mpi=list shows pmix) of the PMIx that this Open MPI can talk to.
#SBATCH --job-name=ogrom
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --time=04:00:00
#SBATCH --output=ogrom-%j.log
#SBATCH --open-mode=append
# Without B: the tasks get the signal from SLURM itself, even if this shell should hang.
#SBATCH --signal=USR1@120
# shellcheck source=jobscripts/slurm/common.sh
source "${OGROM_ROOT:-$SLURM_SUBMIT_DIR}/jobscripts/slurm/common.sh"
[ $# -ge 1 ] || { echo "$0: would be right: sbatch multi_node_srun.sh RUN.toml [options]" >&2; exit 2; }
launch srun train "$@" --resume=auto
