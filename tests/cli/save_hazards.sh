#!/usr/bin/env bash
# What lies around a save and must not cost it: metrics that the disk does not take, or that somebody spoilt; other things
# under the names of a step or of `latest`; a run folder that goes away and is another's now; the last save of a run, and
# one that is under way when the numbers go bad.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
preload=$BINARY/tests/libpreload_faults.so
make_corpus 200
make_run 12
every=4 steps_in_all=12
# train OUTPUT RULES option...: the disk fails as RULES say
train() {
    local output=$1 rules=$2
    shift 2
    launch 2 env LD_PRELOAD="$preload" OGROM_PRELOAD="$rules" "$OGROM" train run.toml --set "checkpoint.interval_steps=$every" \
        --set checkpoint.keep_last=9 --set checkpoint.retries=0 --set "train.steps=$steps_in_all" --set "run.output=$output" "$@"
}
all='./step-00000004 ./step-00000008 ./step-00000012'
steps() { (cd "$1/checkpoints" && echo ./step-*); }
expect_exit 0 train straight ''

# Rows that a full disk does not take wait; the next that it takes brings them along.
expect_exit 0 train full '0 write full/metrics.csv 28 3 5'
[ "$(grep -c 'metrics.csv: cannot write: No space left.*rows wait in memory' "$work/said")" -eq 1 ] || { cat "$work/said"; fail "not one warning"; }
expect_text 'metrics.csv: all rows are there again'
cmp <(cut -d, -f1-3 straight/metrics.csv) <(cut -d, -f1-3 full/metrics.csv) || fail "the rows differ"
[ "$(steps full)" = "$all" ] || fail "saved: $(steps full)"

# Spoilt metrics are told of; every save is made.
expect_exit 75 train spoilt '' --stop-after 2
printf 'garbage\n' >> spoilt/metrics.csv
expect_exit 0 train spoilt '0 open spoilt/metrics.h5 5 1 0' --resume
expect_text 'warning: .*metrics.h5 is not up to date'
[ "$(steps spoilt)" = "./step-00000002 $all" ] || fail "saved: $(steps spoilt)"

# Other things under the names that a save needs.
expect_exit 75 train names '' --stop-after 4
rm names/checkpoints/latest
mkdir names/checkpoints/latest
ln -s nowhere names/checkpoints/step-00000008
expect_exit 0 train names '' --resume=auto
expect_text 'latest does not name step-00000008'
expect_text 'step-00000008 was no folder: set aside as .*step-00000008.abandoned-'
[ "$(steps names | tr ' ' '\n' | grep -vc abandoned)" -eq 3 ] || fail "saved: $(steps names)"
"$OGROM" inspect straight --diff names > diff.log || { cat diff.log; fail "names: differs"; }

# What is no folder stands where the checkpoints go: found before anything is written. And a start that left no checkpoint
# keeps its figures.
mkdir gone
ln -s unmounted gone/checkpoints
expect_exit 4 train gone '' --resume=auto
expect_text 'gone/checkpoints: is a link to what is not there'
[ "$(ls gone)" = checkpoints ] || fail "left: $(ls gone)"
rm -r names/checkpoints
expect_exit 0 train names '' --resume=auto
expect_text '12 rows of an earlier start, which left no checkpoint, are kept as names/metrics.csv.earlier'
cmp <(cut -d, -f1-3 straight/metrics.csv) <(cut -d, -f1-3 names/metrics.csv) || fail "rows differ"

# The last save of a run is never only warned of, also where it is one at an interval.
expect_exit 4 train last '1 write step-00000012.tmp-*part-00001 28 1 0' --set checkpoint.on_failure=warn --set checkpoint.at_end=false
expect_text '^ogrom: .*part-00001.h5: cannot write: No space left'

# The folder is moved away and another run takes its name: the first writes nothing more there.
every=0 steps_in_all=1000000 train mine '' --set train.log_interval_steps=1 > first.log 2>&1 &
job=$!
await "$job" grep -qE 'step +5/' first.log || { tail first.log; fail "step 5 was not reached"; }
mv mine moved
expect_exit 75 train mine '' --stop-after 8
before=$(cd mine && find . -type f | sort)
kill -TERM "$(pgrep -f "^$OGROM train run.toml .*run.output=mine( |\$)" | head -1)"
code=0
wait "$job" || code=$?
[ "$code" -eq 2 ] || { tail first.log; fail "exit $code instead of 2"; }
grep -q 'run.lock: is not the file that this process locked' first.log || { tail first.log; fail "no message"; }
[ "$before" = "$(cd mine && find . -type f | sort)" ] || fail "the other run's folder changed"
expect_exit 0 train mine '' --resume

# Moved away and nobody there: what was trained is saved under the name.
every=0 steps_in_all=1000000 train mine '' --set train.log_interval_steps=1 --resume --set checkpoint.allow_changed=train.steps,optimizer.decay_steps \
    > first.log 2>&1 &
job=$!
await "$job" grep -qE 'step +15/' first.log || { tail first.log; fail "step 15 was not reached"; }
mv mine moved-too
kill -TERM "$(pgrep -f "^$OGROM train run.toml .*run.output=mine( |\$)" | head -1)"
code=0
wait "$job" || code=$?
[ "$code" -eq 75 ] || { tail first.log; fail "exit $code instead of 75"; }
grep -q 'mine was moved or removed while this run used it' first.log || { tail first.log; fail "no warning"; }
"$OGROM" inspect mine --verify > verify.log 2>&1 || { cat verify.log; fail "nothing is saved"; }

# A numerics stop of all ranks while a save is under way: the save is whole, and the row of the fatal step is there.
every=1
expect_exit 5 train bad '' --set checkpoint.async=true --set checkpoint.write_mb_per_s=0.02 --set optimizer.lr=1e30 --set optimizer.warmup_steps=0 \
    --set optimizer.clip_norm=0
expect_text '^ogrom: .*phase train'
if grep -q 'the save that was under way failed' "$work/said"; then cat "$work/said"; fail "a save that was whole is said to have failed"; fi
stopped=$(grep -oE 'step [0-9]+: ' "$work/said" | head -1 | grep -oE '[0-9]+')
[ "$(grep -cE "^$stopped," bad/metrics.csv)" -eq 1 ] || { cat bad/metrics.csv; fail "no row of step $stopped"; }

# Paths that say nothing, and a target that is a link.
expect_exit 2 "$OGROM" convert '' --to ogrom --out x
expect_exit 2 "$OGROM" sample '' --prompt x
expect_exit 2 "$OGROM" inspect straight --diff ''
ln -s elsewhere link
expect_exit 2 "$OGROM" convert straight --to ogrom --out link
expect_text 'link: is a symbolic link'
echo "saves stand beside spoilt metrics, odd names, a folder that went away and numbers that went bad"
