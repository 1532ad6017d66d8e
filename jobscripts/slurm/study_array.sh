#!/usr/bin/env bash
# A scaling study as a job array, one layout of the ranks per job; the report joins them:
#   sbatch --nodes=N --array=0-2 jobscripts/slurm/study_array.sh RUN.toml LAYOUTS [ogrom scale options]
#   build/ogrom report results/studies/ogrom-array-JOBID-*
# LAYOUTS: a text file, one --layout per line, as in `zero3: parallel.zero=3`; # begins a comment. The array counts its
# lines from 0.
#SBATCH --job-name=ogrom-array
#SBATCH --array=0
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --time=02:00:00
# %A: id of the array, %a: number of the job in it.
#SBATCH --output=ogrom-array-%A-%a.log
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
# shellcheck source=jobscripts/slurm/common.sh
source "${OGROM_ROOT:-$SLURM_SUBMIT_DIR}/jobscripts/slurm/common.sh"
[ $# -ge 2 ] || { echo "$0: would be right: sbatch --array=0-N study_array.sh RUN.toml LAYOUTS [options]" >&2; exit 2; }
run=$1 layouts=$2
shift 2
mapfile -t lines < <(sed 's/[[:space:]]*#.*//; /^[[:space:]]*$/d' "$layouts")
if [ "$SLURM_ARRAY_TASK_ID" -ge "${#lines[@]}" ]; then
    echo "$0: $layouts has ${#lines[@]} layouts, this is number $SLURM_ARRAY_TASK_ID; would be right: --array=0-$((${#lines[@]} - 1))" >&2
    exit 2
fi
study=${STUDY:-results/studies/$SLURM_JOB_NAME-$SLURM_ARRAY_JOB_ID}-$SLURM_ARRAY_TASK_ID
again=()
[ ! -d "$study" ] || again=(--resume)
launch mpirun scale "$run" --both --ranks "$(sizes)" --layout "${lines[SLURM_ARRAY_TASK_ID]}" --output "$study" "${again[@]}" "$@"
