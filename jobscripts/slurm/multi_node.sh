#!/usr/bin/env bash
# Training on several nodes, started by mpirun: sbatch --nodes=N jobscripts/slurm/multi_node.sh RUN.toml [options]
# For a cluster whose SLURM has no PMIx plug-in (srun --mpi=list). Else multi_node_srun.sh: SLURM then knows the ranks
# themselves, and a scancel reaches them without mpirun's daemons in between.
#SBATCH --job-name=ogrom
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
# Whole nodes: their links are not shared, and a rate means something.
#SBATCH --exclusive
#SBATCH --time=04:00:00
#SBATCH --output=ogrom-%j.log
#SBATCH --open-mode=append
# B: to the batch shell alone. Without it SLURM would send USR1 to mpirun's daemons, which know nothing of it.
#SBATCH --signal=B:USR1@120
# shellcheck source=jobscripts/slurm/common.sh
source "${OGROM_ROOT:-$SLURM_SUBMIT_DIR}/jobscripts/slurm/common.sh"
[ $# -ge 1 ] || { echo "$0: would be right: sbatch multi_node.sh RUN.toml [options]" >&2; exit 2; }
launch mpirun train "$@" --resume=auto
