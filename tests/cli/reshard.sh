#!/usr/bin/env bash
# One run over 4, 2, 8 and 1 ranks, each time under another layout: the losses are those of one rank that was never
# stopped, in fp64 within 1e-9. What each layout loads and saves again at once is the same checkpoint, bit for bit.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
make_corpus 60
make_run 12
common=(--set numerics.compute=fp64 --set model.layers=4 --set model.dropout_attention=0.1 --set checkpoint.keep_last=9
    --set checkpoint.interval_steps=3 --set train.log_interval_steps=1000)
expect_exit 0 "$OGROM" train run.toml "${common[@]}" --set run.output=straight

# Ranks, and what each layout is.
four=(--set parallel.zero=1)
two=(--set parallel.tensor=2)
eight=(--set parallel.tensor=2 --set parallel.pipeline=2 --set parallel.schedule=interleaved --set parallel.virtual_stages=2
    --set parallel.zero=3)
one=()
pair=(--set parallel.pipeline=2 --set parallel.schedule=zb-h1)

# bytes_said RANKS: a load says what each rank read.
bytes_said() {
    if [ "$1" -gt 1 ]; then
        expect_text "resume: read [0-9.]+ [KM]iB \(rank [0-9]\) to [0-9.]+ [KM]iB \(rank [0-9]\), [0-9.]+ [KM]iB on $1 ranks$"
    else
        expect_text 'resume: read [0-9.]+ [KM]iB$'
    fi
}

# again CHECKPOINT STEP RANKS OVERRIDES...: loads, has nothing to train, and saves into a folder of its own: no tensor differs.
agains=0
again() {
    local checkpoint=$1 step=$2 ranks=$3
    shift 3
    agains=$((agains + 1))
    expect_exit 0 launch "$ranks" "$OGROM" train run.toml "${common[@]}" "$@" --set "run.output=again-$agains" "--resume=$checkpoint" \
        --set "train.steps=$step" --set checkpoint.allow_changed=train.steps,optimizer.decay_steps
    bytes_said "$ranks"
    expect_exit 0 "$OGROM" inspect "$checkpoint" --diff "again-$agains" --verify
    expect_text '^0 of [0-9]+ tensors differ$'
}

# go_on RANKS OVERRIDES...: three more steps of the run.
go_on() {
    local ranks=$1
    shift
    expect_exit 75 launch "$ranks" "$OGROM" train run.toml "${common[@]}" "$@" --set run.output=moved --resume=auto --stop-after 3
}

go_on 4 "${four[@]}"
again moved/checkpoints/step-00000003 3 2 "${two[@]}"
go_on 2 "${two[@]}"
bytes_said 2
again moved/checkpoints/step-00000006 6 8 "${eight[@]}"
go_on 8 "${eight[@]}"
bytes_said 8
expect_exit 0 "$OGROM" convert moved/checkpoints/step-00000009 --to ogrom --writers 3 --out parts
expect_exit 0 "$OGROM" inspect moved/checkpoints/step-00000009 --diff parts
expect_text '^0 of [0-9]+ tensors differ$'
again parts 9 2 "${pair[@]}"
expect_exit 0 "$OGROM" train run.toml "${common[@]}" "${one[@]}" --set run.output=moved --resume=auto
bytes_said 1

# Losses and norms of every step, from every layout.
paste -d, <(grep '^[0-9]' straight/metrics.csv | cut -d, -f1-3) <(grep '^[0-9]' moved/metrics.csv | cut -d, -f1-3) | awk -F, '
    function off(a, b) { return (a > b ? a - b : b - a) / (a > 0 ? a : 1) }
    $1 != NR || $4 != NR { print "row " NR " is of steps " $1 " and " $4; bad = 1 }
    off($2, $5) > 1e-9 || off($3, $6) > 1e-9 { print "step " $1 ": " $0; bad = 1 }
    { for (i = 1; i <= 6; i++) if (NF != 6 || $i !~ /^[0-9][0-9.]*(e[-+]?[0-9]+)?$/) { print "no numbers: " $0; bad = 1 } }
    { n++; if (off($2, $5) > worst) worst = off($2, $5) }
    END { if (n != 12) { print n " steps of 12"; bad = 1 } printf "largest difference of a loss: %.1e\n", worst; exit bad }' || fail "another run"
echo "4 -> 2 -> 8 -> 1 ranks trained on as one; $agains loads saved again bit for bit"
