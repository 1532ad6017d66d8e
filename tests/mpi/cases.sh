#!/usr/bin/env bash
# cases.sh PROBE CASE: one launch or kill case with the small job of probe.cpp. Passes when exactly one Ogrom message
# says what happened, the exit code is the documented one, and no process of the job is left. Times are printed.
set -u
probe=$1 case=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PROBE_PIDS=$folder/pids PROBE_EVENTS=$folder/events OMP_NUM_THREADS=1
mkdir "$PROBE_PIDS"

fail() {
    echo "FAIL: $*"
    echo "--- output"
    cat "$folder/out"
    exit 1
}
launch() { # ranks, probe arguments: in the background, output to $folder/out
    mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$1" "$probe" "${@:2}" >"$folder/out" 2>&1 &
    job=$!
}
pid_of() { cat "$PROBE_PIDS/$1"; }
await_ranks() { # until every rank has written its process id and a few steps have passed
    for _ in $(seq 600); do
        [ "$(find "$PROBE_PIDS" -type f -size +0 | wc -l)" -eq "$1" ] && sleep 1.5 && return # three heartbeats between nodes
        sleep 0.1
    done
    fail "the ranks did not start"
}
await_end() { # its exit code goes to $status; a job that does not end within a minute hangs
    local clock start=$SECONDS
    sleep 60 >/dev/null 2>&1 &
    clock=$!
    wait -n "$job" "$clock"
    status=$?
    if ! kill "$clock" 2>/dev/null; then
        kill -9 "$job"
        fail "not ended after 60 s"
    fi
    echo "ended after $((SECONDS - start)) s"
}
alive() { # a zombie that nobody collects is gone
    [ -r "/proc/$1/stat" ] && ! grep -q ') Z ' "/proc/$1/stat" 2>/dev/null
}
no_process_left() {
    for _ in $(seq 300); do
        local left=0
        for file in "$PROBE_PIDS"/*; do
            [ -e "$file" ] && alive "$(cat "$file")" && left=1
        done
        [ "$left" -eq 0 ] && return
        sleep 0.1
    done
    fail "a process of the job is left"
}
one_message() { # pattern
    local count
    count=$(grep -c '^ogrom:' "$folder/out")
    [ "$count" -eq 1 ] || fail "$count messages of Ogrom instead of one"
    grep -qE "$1" "$folder/out" || fail "the message does not match: $1"
}
expect_status() {
    for wanted in "$@"; do
        [ "$status" -eq "$wanted" ] && return
    done
    fail "exit code $status, expected $*"
}
failures_recorded() { # exit code, pattern: the hook of one process was called once, with the message that was printed
    local count
    count=$(wc -l <"$PROBE_EVENTS") || fail "no failure was recorded"
    [ "$count" -eq 1 ] || fail "$count failures recorded instead of one"
    grep -qE "^[0-9]+ $1 .*$2" "$PROBE_EVENTS" || fail "recorded: $(cat "$PROBE_EVENTS")"
    grep -qF "ogrom: $(cut -d' ' -f3- "$PROBE_EVENTS")" "$folder/out" || fail "recorded another text than printed"
}
mismatch() { # mode, pattern: found by comparing, although nobody is silent
    OGROM_CHECK_COLLECTIVES=1 launch 3 "$1" 2
    await_end
    one_message "$2"
    expect_status 6
    failures_recorded 6 "$2"
    no_process_left
}
work='in phase train, step [0-9]+, last collective #[0-9]+ .probe'

kill_rank() { # ranks, rank to kill
    launch "$1" loop
    await_ranks "$1"
    kill -9 "$(pid_of "$2")"
    await_end
    one_message "^ogrom: rank $2 \(host .*, pid $(pid_of "$2")\), exit 6: died $work"
    expect_status 137 6 # mpirun's own code for a killed rank, or ours
    failures_recorded 6 "rank $2 .*died"
    no_process_left
}

case $case in
    finish)
        launch 3 finish
        await_end
        expect_status 0
        grep -q ogrom: "$folder/out" && fail "a message without a failure"
        ;;
    kill_rank) kill_rank 4 2 ;;
    kill_first_rank) kill_rank 3 0 ;;
    staged_kill_rank)
        export PROBE_STAGED=1
        kill_rank 4 2
        ;;
    staged_leave)
        export PROBE_STAGED=1
        launch 3 leave 1 2
        await_end 10
        one_message "^ogrom: rank [0-9] .*, exit 6: stalled .*rank 1 has left"
        expect_status 6
        no_process_left
        ;;
    staged_mismatch)
        export PROBE_STAGED=1
        mismatch mismatch_root 'collectives differ on dp: rank 0 of it calls .*root 0.*, rank 2 calls .*root 1'
        ;;
    kill_on_other_node)
        export OGROM_TEST_NODE_SPLIT=2
        kill_rank 4 3
        ;;
    kill_node_leader)
        export OGROM_TEST_NODE_SPLIT=2
        kill_rank 4 2
        ;;
    kill_hub)
        export OGROM_TEST_NODE_SPLIT=2
        kill_rank 4 0
        ;;
    kill_hub_alone)
        export OGROM_TEST_NODE_SPLIT=2
        kill_rank 2 0
        ;;
    part_kill_active)
        launch 4 part
        await_ranks 4
        kill -9 "$(pid_of 1)"
        await_end
        one_message "^ogrom: rank 1 \(host .*, pid $(pid_of 1)\), exit 6: died in phase train, step [0-9]+, last collective"
        expect_status 137 6
        failures_recorded 6 "rank 1 .*died"
        no_process_left
        ;;
    part_kill_resting)
        launch 4 part
        await_ranks 4
        kill -9 "$(pid_of 3)"
        await_end
        one_message "^ogrom: rank 3 \(host .*, pid $(pid_of 3)\), exit 6: died in phase idle"
        expect_status 137 6
        failures_recorded 6 "rank 3 .*died"
        no_process_left
        ;;
    part_stall) # those who rest neither hide a stall nor are blamed for it
        launch 4 part_stall 1 2
        await_end
        one_message "^ogrom: rank [01] .*, exit 6: stalled in phase train, step 3"
        expect_status 6
        no_process_left
        ;;
    part_rests) # longer than the timeout, without an alarm and without taking a core
        launch 4 part -1 5 # MPI_Finalize takes a while too
        await_ranks 4
        sleep 4
        for rank in 2 3; do
            read -r -a stat <"/proc/$(pid_of "$rank")/stat"
            echo "rank $rank: $((stat[13] + stat[14])) ticks of processor time since its start"
        done
        before=$((stat[13] + stat[14]))
        sleep 4
        read -r -a stat <"/proc/$(pid_of 3)/stat"
        [ $((stat[13] + stat[14] - before)) -lt 100 ] || fail "a resting rank took a quarter of a core or more"
        kill -TERM "$(pid_of 0)"
        await_end
        expect_status 75
        grep -q ogrom: "$folder/out" && fail "a message without a failure"
        no_process_left
        ;;
    kill_launcher)
        launch 3 loop
        await_ranks 3
        kill -9 "$job"
        wait "$job" 2>/dev/null
        no_process_left
        ;;
    stop_rank)
        launch 3 loop -1 2
        await_ranks 3
        kill -STOP "$(pid_of 1)"
        await_end
        one_message "^ogrom: rank 1 .*, exit 6: silent $work"
        expect_status 6
        no_process_left
        ;;
    stop_node)
        export OGROM_TEST_NODE_SPLIT=2
        launch 4 loop -1 2
        await_ranks 4
        kill -STOP "$(pid_of 2)" "$(pid_of 3)"
        await_end
        one_message "^ogrom: rank 2 .*, exit 6: silent $work"
        expect_status 6
        no_process_left
        ;;
    throw)
        launch 4 throw 3
        await_end
        one_message "^ogrom: rank 3 .*, exit 3: failed $work.*document 17 is broken \[tests/mpi/probe.cpp:[0-9]+\]"
        expect_status 3
        failures_recorded 3 'rank 3 .*document 17 is broken'
        no_process_left
        ;;
    throw_on_other_node)
        export OGROM_TEST_NODE_SPLIT=2
        launch 4 throw 3
        await_end
        one_message "^ogrom: rank 3 .*, exit 3: failed $work.*document 17 is broken"
        expect_status 3
        no_process_left
        ;;
    throw_all)
        launch 4 throw_all
        await_end
        one_message "^ogrom: rank .*, exit 2: failed in phase train, step 3.*model.layers is wrong everywhere(;.*)?$"
        expect_status 2
        no_process_left
        ;;
    unwind)
        launch 3 unwind 1
        await_end
        one_message "^ogrom: rank 1 .*, exit 6: failed $work.*an exception left the program"
        expect_status 6
        no_process_left
        ;;
    vanish)
        launch 4 vanish 2
        await_end
        one_message "^ogrom: rank 2 .*, exit 6: died $work"
        expect_status 6 1 # mpirun's own code for a rank that left MPI out is 1
        no_process_left
        ;;
    leave)
        launch 3 leave 1 2
        await_end
        one_message "^ogrom: rank [0-9] .*, exit 6: stalled .*rank 1 has left"
        expect_status 6
        no_process_left
        ;;
    late)
        launch 3 late 1
        await_end
        one_message "^ogrom: left before MPI"
        expect_status 3
        no_process_left
        ;;
    busy)
        launch 3 busy 1 1
        await_end
        expect_status 0
        one_message '^ogrom: note: rank 1 .* is busy in phase evaluate, step 3' # and no failure
        ;;
    mismatch)
        mismatch mismatch "collectives differ on dp: rank 0 of it calls #3 'probe.bucket'.*rank 2 calls #3 'probe.other'"
        ;;
    mismatch_kind)
        mismatch mismatch_kind "rank 0 of it calls #3 'probe.sum' .*: all_reduce of 99 fp64 \(sum\), rank 2 calls #3 'probe.sum' .*: reduce of 99 fp64 with root 0"
        ;;
    mismatch_root)
        mismatch mismatch_root "rank 0 of it calls .* with root 0 .*, rank 2 calls .* with root 1 "
        ;;
    mismatch_message_label)
        mismatch mismatch_message_label "messages differ on world: rank 0 of it receives #1 'probe.activations' from rank 2: 10000 fp64, but rank 2 sent #1 'probe.other': 10000 fp64"
        ;;
    mismatch_message) # always checked
        launch 3 mismatch_message 2
        await_end
        one_message "messages differ on world: rank 0 of it receives #1 'probe.activations' from rank 2: 10000 fp64, but rank 2 sent #1 'probe.activations': 20000 fp64"
        expect_status 6
            no_process_left
        ;;
    cores) # the cores that the ranks may use, not those of the machine
        first=$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')
        taskset -c "$first" mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 "$probe" cores >"$folder/out" 2>&1
        [ "$(grep -c 'oversubscribed 1' "$folder/out")" -eq 2 ] || fail "two ranks on one core are oversubscribed"
        mpirun --allow-run-as-root --oversubscribe --bind-to none -n 1 "$probe" cores >"$folder/out" 2>&1
        grep -q 'oversubscribed 0' "$folder/out" || fail "one rank is not oversubscribed"
        if [ "$(nproc)" -ge 2 ]; then # each bound to a core of its own
            mpirun --allow-run-as-root --oversubscribe --bind-to core -n 2 "$probe" cores >"$folder/out" 2>&1
            [ "$(grep -c 'oversubscribed 0' "$folder/out")" -eq 2 ] || fail "two ranks on two cores are not oversubscribed"
        fi
        ;;
    sigterm)
        launch 3 loop
        await_ranks 3
        kill -TERM "$(pid_of 1)"
        await_end
        expect_status 75
        grep -q '^ogrom:' "$folder/out" && fail "a stop request is no failure"
        no_process_left
        ;;
    singleton)
        "$probe" finish >"$folder/out" 2>&1
        status=$?
        expect_status 0
        ;;
    singleton_throw)
        "$probe" throw 0 >"$folder/out" 2>&1
        status=$?
        one_message 'document 17 is broken'
        expect_status 3
        ;;
    slurm_without_pmi) # B40, faked: four processes of a step, each alone in its MPI world
        for rank in 3 1 2 0; do
            SLURM_NTASKS=4 SLURM_PROCID=$rank SLURM_STEP_ID=0 "$probe" finish >>"$folder/out" 2>&1 &
        done
        for job in $(jobs -p); do
            wait "$job"
            status=$?
            expect_status 2
        done
        one_message 'SLURM announces 4 tasks, but MPI sees 1.*srun --mpi=pmix'
        ;;
    foreign_mpirun)
        OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 "$probe" finish >"$folder/out" 2>&1
        status=$?
        expect_status 2
        one_message 'announces 2 tasks, but MPI sees 1'
        ;;
    mpirun_in_batch) # a batch script's own variables do not disturb mpirun
        export SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_JOB_ID=
        launch 2 finish
        await_end
        expect_status 0
        ;;
    thread_level) # B46
        export PROBE_PROVIDED=0
        launch 2 finish
        await_end
        expect_status 2
        one_message 'thread level SINGLE, but FUNNELED is needed'
        ;;
    *) fail "no case $case" ;;
esac
echo "case $case passed"
