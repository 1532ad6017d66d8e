#!/usr/bin/env bash
# The batch scripts of jobscripts/slurm as they are shipped, in a real SLURM of four nodes: mpirun and srun across them,
# a run that is stopped and requeued ends as the one that never was, bit for bit, a cancelled job stays cancelled, a
# study completes, four tasks without PMIx are refused.
# shellcheck source=tests/launch/nodes.sh
source "$(dirname "$0")/nodes.sh"
# shellcheck source=tests/cli/lib.sh
source "$SOURCE/tests/cli/lib.sh"
# shellcheck source=tests/launch/cluster.sh
source "$SOURCE/tests/launch/cluster.sh"
export OGROM_ROOT=$work GRACE=1
ln -s "$SOURCE/jobscripts" "$SOURCE/inputs" .
for i in 1 2 3 4; do node "n$i" "$i"; done
slurm_up

# job SCRIPT OPTIONS... -- ARGUMENTS...: submits; the id in $id. CPU nodes: no GPU is asked for.
job() {
    local script=$1 options=(--gpus-per-node=0 --time=10)
    shift
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    id=$(sbatch --parsable "${options[@]}" "jobscripts/slurm/$script.sh" "$@") || fail "$script: not submitted"
    log=$(field "$id" StdOut)
}
# ends STATE CODE: the job of $id
ends() {
    until_true 240 has_ended "$id" || { cat "$log"; scontrol show job "$id"; fail "$what: job $id does not end"; }
    if [ "$(state_of "$id")" != "$1" ] || [ "$(field "$id" ExitCode)" != "$2:0" ]; then
        cat "$log"
        fail "$what: $(state_of "$id"), exit $(field "$id" ExitCode) instead of $1, $2:0"
    fi
    echo "$what: $1, exit $2, $SECONDS s"
}
columns() { cut -d, -f1-3 "$1/metrics.csv"; }
same_as_straight() {
    cmp <(columns straight) <(columns "$1") || fail "$what: the loss column differs"
    "$OGROM" inspect straight/checkpoints --diff "$1/checkpoints" > diff.log 2>&1 || { cat diff.log; fail "$what: checkpoints differ"; }
}
says() { grep -qE -- "$1" "$log" || { cat "$log"; fail "$what: no line matches: $1"; }; }
has_line() { grep -qsE -- "$1" "$log"; }

make_corpus 1000
make_run 150
sed -i 's/interval_steps = 4/interval_steps = 50/' run.toml
launch 4 "$OGROM" train run.toml --set run.output=straight > straight.log 2>&1 || { cat straight.log; fail "straight run"; }

what="B40: srun --mpi=none"
expect_exit 2 srun --mpi=none -N 2 -n 4 "$OGROM" train run.toml --set run.output=none
[ "$(grep -c 'ogrom: error' said)" -eq 1 ] || { cat said; fail "$what: not one message"; }
expect_text 'SLURM announces 4 tasks, but MPI sees 1.*srun --mpi=pmix'
[ ! -e none ] || fail "$what: something was written"
echo "$what: refused"

what="mpirun over 4 nodes"
job multi_node --nodes=4 --ntasks-per-node=1 -- run.toml --set run.output=mpirun
ends COMPLETED 0
grep -q '"n4"' mpirun/provenance.json || says 'n4'
same_as_straight mpirun
what="srun over 2 nodes"
job multi_node_srun --nodes=2 --ntasks-per-node=2 -- run.toml --set run.output=srun
ends COMPLETED 0
same_as_straight srun
what="one node"
job single_node --ntasks-per-node=2 -- run.toml --set run.output=single
ends COMPLETED 0

# next_slice STEP: the running job gets USR1 after that step, and is back in the queue
next_slice() {
    local restarts
    restarts=$(field "$id" Restarts)
    until_true 150 has_line "step +$1/150" || { cat "$log"; fail "$what: does not come to step $1"; }
    scancel --batch --signal=USR1 "$id"
    until_true 150 was_requeued "$restarts" || { cat "$log"; scontrol show job "$id"; fail "$what: not requeued"; }
    still=0
    # SLURM lets a requeued job wait two minutes, in case its nodes were ill.
    until_true 150 start_now || { cat "$log"; scontrol show job "$id"; fail "$what: does not start again"; }
}
was_requeued() { [ "$(field "$id" Restarts)" -gt "$1" ]; }
# The nodes are through with the last slice: a start that meets the end of the one before fails (SLURM's two minutes are
# there for that).
is_put_away() {
    all_idle && ! pgrep -f "^slurmstepd: \[${id}[.]" > /dev/null && ! compgen -G "$slurm/n*/job$(printf %05d "$id")*" > /dev/null
}
# For three seconds on end: what is put away last comes a moment after the rest.
start_now() {
    if [ "$(state_of "$id")" = PENDING ]; then
        if is_put_away; then still=$((still + 1)); else still=0; fi
        if [ "$still" -ge 30 ]; then
            scontrol update "JobId=$id" StartTime=now 2> /dev/null || true
            still=0
        fi
    fi
    [ "$(state_of "$id")" = RUNNING ]
}
for form in srun mpirun; do
    what="requeue, $form"
    # A step of 150 lasts long enough to be met by the signal.
    FORM=$form OUTPUT=requeue-$form job requeue --nodes=2 --ntasks-per-node=2 -- run.toml
    next_slice 10
    [ "$form" = mpirun ] || next_slice 60
    ends COMPLETED 0
    says 'stopped by SIGUSR1'
    says 'back into the queue'
    same_as_straight "requeue-$form"
done

what="scancel"
OUTPUT=cancelled job requeue --nodes=2 --ntasks-per-node=2 -- run.toml --set train.steps=100000
until_true 150 has_line 'step +10/100000' || { cat "$log"; fail "$what: does not start"; }
scancel "$id"
until_true 150 has_ended "$id" || fail "$what: does not end"
[ "$(state_of "$id")" = CANCELLED ] || fail "$what: $(state_of "$id")"
[ "$(cat cancelled/checkpoints/latest)" != step-00000000 ] || fail "$what: nothing was saved"
grep -q 'back into the queue' "$log" && fail "$what: put back into the queue"
echo "$what: saved $(cat cancelled/checkpoints/latest), stays cancelled, $SECONDS s"

what="train.stop_before"
job multi_node_srun --nodes=1 --ntasks-per-node=2 --time=1 --signal=USR1@1 -- run.toml --set run.output=before --set train.steps=100000 \
    --set train.stop_before=job-end-45s
ends FAILED 75
says 'stopped by train.stop_before = "job-end-45s"'

# shellcheck source=tests/launch/studies.sh
source "$SOURCE/tests/launch/studies.sh"
echo "slurm: $SECONDS s"
