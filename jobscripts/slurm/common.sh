# shellcheck shell=bash
# What the scripts of this folder share; they source it. sbatch runs a copy of a script from its own folder, so this is
# found from where sbatch was called: call it in the root of the repository, or set OGROM_ROOT to that.
# OGROM: the program (build/ogrom). GRACE: seconds for a save (30). `launch mpirun|srun` runs ogrom on all tasks.
set -euo pipefail
root=${OGROM_ROOT:-$SLURM_SUBMIT_DIR}
ogrom=${OGROM:-$root/build/ogrom}
grace=${GRACE:-30}
cd "$root"
[ -x "$ogrom" ] || { echo "$0: $ogrom is not there; would be right: make build, or OGROM=path" >&2; exit 2; }

# ogrom as one process: SLURM counts this shell as one of the job's tasks.
tool() { env -u SLURM_PROCID "$ogrom" "$@"; }

# SLURM's own description of the job, read by the parser of the program: a node that does not resolve, or resolves to
# 127.0.1.1, is named here and not by a rank that waits for it.
tool hosts --nodelist "$SLURM_JOB_NODELIST" --slots "$SLURM_TASKS_PER_NODE" --resolve > /dev/null

# train.stop_before = "job-end-..." needs the end of the job; SLURM sets this from 23.02 on.
if [ -z "${SLURM_JOB_END_TIME:-}" ]; then
    end=$(squeue -h -j "$SLURM_JOB_ID" -o %e)
    # "N/A", "NONE" and the like: a partition without a time limit.
    if end=$(date -d "$end" +%s 2> /dev/null); then export SLURM_JOB_END_TIME=$end; fi
fi

# Cores for each task: all that the node gives, not the one per task that SLURM counts by default.
cores=$((SLURM_CPUS_ON_NODE / SLURM_NTASKS_PER_NODE))
[ "$cores" -ge 1 ] || cores=1
near=()
bind=(--map-by "ppr:$SLURM_NTASKS_PER_NODE:node:PE=$cores" --bind-to core)
if command -v nvidia-smi > /dev/null; then
    # near_gpu.sh binds each rank to the NUMA node of its GPU, which mpirun does not know.
    near=("$root/jobscripts/near_gpu.sh")
    bind=(--map-by "ppr:$SLURM_NTASKS_PER_NODE:node" --bind-to none)
fi

# mpirun finds the nodes through SLURM and starts its daemons there by srun: no hostfile, no ssh.
mpi_run() {
    local flags=("${bind[@]}")
    # On SIGTERM mpirun waits 1 s before it kills the ranks, too short for a save. It waits up to twice that long after
    # any exit code but 0 too, so it is not set higher than a save needs.
    flags+=(--mca odls_base_sigkill_timeout "$grace")
    [ "$(id -u)" -ne 0 ] || flags+=(--allow-run-as-root)
    exec mpirun -n "${ranks:-$SLURM_NTASKS}" "${flags[@]}" "${near[@]}" "$ogrom" "$@"
}
# --mpi=pmix: without it every task would be rank 0 of 1 (ogrom refuses that). --cpus-per-task and --cpu-bind: srun does
# not take them over from sbatch since SLURM 22.05. --kill-on-bad-exit=0: a rank that has saved ends with 75, and its
# neighbours must get to their own end.
srun_run() {
    local flags=(--mpi=pmix --kill-on-bad-exit=0 --cpus-per-task="$cores")
    [ "${#near[@]}" -eq 0 ] || flags+=(--cpu-bind=none)
    exec srun -n "${ranks:-$SLURM_NTASKS}" "${flags[@]}" "${near[@]}" "$ogrom" "$@"
}

# launch mpirun|srun ARGUMENTS OF OGROM...: its exit code. In the background, because bash runs a trap only between two
# commands. The job's USR1 (sbatch --signal) and TERM go to the launcher as USR1: mpirun and srun pass that to all
# ranks, while mpirun turns TERM into KILL.
launch() {
    local form=$1 code=0 again launcher='' signalled=''
    shift
    trap 'signalled=yes; [ -z "$launcher" ] || kill -USR1 "$launcher" 2> /dev/null || true' USR1 TERM
    if [ "$form" = srun ]; then srun_run "$@" & else mpi_run "$@" & fi
    launcher=$!
    while true; do
        signalled='' again=0
        wait "$launcher" || again=$?
        [ "$again" -eq 127 ] || code=$again # 127: it had ended by the time of the signal, and its code was taken
        [ -n "$signalled" ] || break
    done
    trap - USR1 TERM
    return "$code"
}

# 1, 2, 4 ... up to the number of tasks, and that number itself: the sizes of a study.
sizes() {
    local n list=
    for ((n = 1; n < SLURM_NTASKS; n *= 2)); do list+=$n,; done
    echo "$list$SLURM_NTASKS"
}
