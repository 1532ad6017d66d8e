#!/usr/bin/env bash
# SIGKILL at every place of a save (a program built with OGROM_FAULTS; src/base/kill_point.h), of one rank and of all
# four, while the steps wait for the save and while it is written behind them. Each launch resumes what the one before left and is the next victim, so a place costs one
# launch. After each: the resume works, has lost at most the save that was under way, and names what it passed over. At
# the end of each series the run ends with exit 0 and the bits of the run that nobody killed.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
options=(--set checkpoint.keep_last=1 --set train.eval_interval_steps=0 --set train.log_interval_steps=1000)
make_corpus 300
make_run 66  # two for each place of the longest series
ranks=4

# The places: rank, operation, name (@ is the step, ^ the one before), percent of the file, how often before, what a
# resume must find: the checkpoint before (old), the new one (new), or one of them where nobody can tell (either).
places() {
    cat <<'PLACES'
1 draft step-@.tmp - 1 old
0 make_folder step-@.tmp - 1 old
1 create part-00001.h5 - 1 old
1 write part-00001.h5 1 1 old
1 write part-00001.h5 50 1 old
1 write part-00001.h5 99 1 old
1 sync_file part-00001.h5 - 1 old
1 close part-00001.h5 - 1 old
1 sync_folder step-@.tmp - 1 old
2 gathered step-@.tmp - 1 either
0 gathered step-@.tmp - 1 old
0 create checkpoint.h5 - 1 old
0 write checkpoint.h5 50 1 old
0 sync_file checkpoint.h5 - 1 old
0 create manifest.json - 1 old
0 write manifest.json 50 1 old
0 sync_file manifest.json - 1 old
0 sync_folder step-@.tmp - 2 old
0 rename step-@ - 1 old
0 sync_folder checkpoints - 1 new
0 create latest.tmp - 1 new
0 write latest.tmp 50 1 new
0 sync_file latest.tmp - 1 new
0 rename latest - 1 new
0 sync_folder checkpoints - 2 new
0 rename step-^.tmp - 1 new
0 remove step-^.tmp - 1 new
0 remove step-^.tmp 100 1 new
0 exchange step-@ - 1 old
0 sync_folder checkpoints exchanged 1 new
0 remove step-@.tmp exchanged 1 new
PLACES
}

train() { launch "$ranks" env "OGROM_KILL_AT=${1:-}" "$OGROM" train run.toml "${options[@]}" --resume=auto --set checkpoint.interval_steps=1 --set "run.output=$2" --set "checkpoint.async=$3" < /dev/null; }

# What the launch after a kill says: from where it goes on, and what it passed over.
check_resume() {
    local log=$1 want=$2 step=$3 what=$4 left=$5 from
    from=$(sed -nE 's/.*resumed from .*step-0*([0-9]+) at step.*/\1/p' "$log" | head -1)
    case $want in
        old) [ "$from" = $((step - 1)) ] ;;
        new) [ "$from" = "$step" ] ;;
        either) [ "$from" = "$step" ] || [ "$from" = $((step - 1)) ] ;;
    esac || { cat "$log"; fail "$what: resumed from step '$from'"; }
    if [ -n "$left" ] && [ "$from" != "$step" ]; then
        grep -qE "passed over: $left is a save that did not finish: .*(manifest.json: |it was not renamed)" "$log" ||
            { cat "$log"; fail "$what: nothing says why $left was passed over"; }
    fi
}

# series VICTIM ASYNC: one run, killed at each place of the list on standard input. VICTIM: `own`, `all` or a rank.
series() {
    local victim=$1 async=$2 run=killed-$1-$2 kills=0 step=0 want='' what='' left='' at operation name percent nth expect bytes log killed code
    while read -r at operation name percent nth expect; do
        step=$((step + 2))
        killed=$([ "$victim" = own ] && echo "$at" || echo "$victim")
        name=${name//@/$(printf '%08d' "$step")}
        name=${name//^/$(printf '%08d' $((step - 1)))}
        bytes=-1
        case $percent in
            -) ;;
            exchanged) junk "$run" "$step" ;;
            *) bytes=$(($(size_of "$name") * percent / 100)) ;;
        esac
        [ "$operation" != exchange ] || junk "$run" "$step"
        log=$run-$step.log code=0
        train "$at $killed $step $operation $name $bytes $nth" "$run" "$async" > "$log" 2>&1 || code=$?
        [ "$code" -ne 0 ] || { cat "$log"; fail "$operation $name of step $step was never reached"; }
        [ -z "$what" ] || check_resume "$log" "$want" $((step - 2)) "$what" "$left"
        what="$killed killed at $operation $name $percent of step $step" want=$expect kills=$((kills + 1))
        left=$(cd "$run/checkpoints" 2> /dev/null && compgen -G "step-$(printf '%08d' "$step").tmp-*" | head -1) || true
        # A rank that dies while another one commits: nobody can tell how far that one came.
        [ "$victim" = own ] || [ "$victim" = all ] || want=either
    done
    train '' "$run" "$async" > "$run.log" 2>&1 || { cat "$run.log"; fail "the last resume of $run"; }
    check_resume "$run.log" "$want" "$step" "$what" "$left"
    cmp <(cut -d, -f1-3 straight/metrics.csv) <(cut -d, -f1-3 "$run/metrics.csv") || fail "$run: the loss column differs"
    "$OGROM" inspect straight/checkpoints --diff "$run/checkpoints" > "$run-diff.log" 2>&1 || { cat "$run-diff.log"; fail "$run: checkpoints differ"; }
    left=$(ls "$run/checkpoints")
    [ "$left" = $'latest\nstep-00000066' ] || fail "$run: left behind: $left"
    echo "victim $victim, async $async: $kills places, $SECONDS s"
}

size_of() { if [ "$1" = latest.tmp ]; then echo 14; else stat -c %s "straight/checkpoints/step-00000066/$1" 2> /dev/null || echo 100; fi; }

# A step folder that is no checkpoint, in whose place the save comes.
junk() {
    local folder
    folder=$1/checkpoints/step-$(printf '%08d' "$2")
    mkdir "$folder"
    echo rest > "$folder/part-00000.h5"
}

launch "$ranks" "$OGROM" train run.toml "${options[@]}" --set checkpoint.interval_steps=0 --set run.output=straight > straight.log 2>&1 ||
    { cat straight.log; fail "straight run"; }
SECONDS=0
# Most of a launch is waiting: the series run beside each other.
for async in false true; do
    series own "$async" < <(places) > "own-$async.said" 2>&1 &
    series all "$async" < <(places) > "all-$async.said" 2>&1 &
    # The last rank dies while another one is there.
    series 3 "$async" < <(places | grep -E '^0 (create (part|checkpoint|manifest)|write checkpoint|rename|sync_folder checkpoints - 1|remove step-\^.tmp -)') > "3-$async.said" 2>&1 &
done
status=0
for job in $(jobs -p); do wait "$job" || status=1; done
cat ./*.said
[ "$status" -eq 0 ] || fail "see above"
total=$(awk '/places,/ { n += $5 } END { print n + 0 }' ./*-*.said)
[ "$total" -ge 132 ] || fail "only $total kills"
echo "$total kills: each resumed, at most the unfinished save lost, bit-equal at the end; $SECONDS s"
