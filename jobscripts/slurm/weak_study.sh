#!/usr/bin/env bash
# A weak-scaling study (the tokens of a rank stay the same) at 1, 2, 4 ... ranks, all in one job:
#   sbatch --nodes=N jobscripts/slurm/weak_study.sh RUN.toml [ogrom scale options]
# Points go to results/studies/JOB-NAME-JOB-ID (STUDY=folder for another), and the report with them.
#SBATCH --job-name=ogrom-weak
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
# Whole nodes, or the neighbours are part of the figure.
#SBATCH --exclusive
#SBATCH --time=02:00:00
#SBATCH --output=ogrom-weak-%j.log
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
# shellcheck source=jobscripts/slurm/common.sh
source "${OGROM_ROOT:-$SLURM_SUBMIT_DIR}/jobscripts/slurm/common.sh"
[ $# -ge 1 ] || { echo "$0: would be right: sbatch weak_study.sh RUN.toml [options]" >&2; exit 2; }
run=$1
shift
# One world of all tasks; ogrom lets the ranks that a size does not need wait without using their cores.
study=${STUDY:-results/studies/$SLURM_JOB_NAME-$SLURM_JOB_ID}
# The job's folder is there already when the job was requeued: its points are kept.
again=()
[ ! -d "$study" ] || again=(--resume)
launch mpirun scale "$run" --weak --ranks "$(sizes)" --output "$study" "${again[@]}" "$@"
tool report "$study"
