#!/usr/bin/env bash
# ogrom scale: weak and strong points of several layouts on parts of one launch, each a file whose causes sum to the step;
# refused sizes told with the reason; --resume makes what is missing and nothing else; a signal ends the study in order;
# a rank that dies, in a point or at rest beside it, ends all.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
make_corpus 200
make_run 6

# points FOLDER REPEATS: what the files say of each other; prints nothing where all is right
points() {
    python3 - "$@" <<'PY' || fail "the points in $1"
import glob
import json
import statistics
import sys

folder, repeats = sys.argv[1], int(sys.argv[2])
points = {p["id"]: p for p in (json.load(open(f)) for f in glob.glob(folder + "/points/*.json"))}
kinds, layouts, sizes = ("weak", "strong"), ("dp", "tp"), (1, 2, 4)
assert set(points) == {f"{k}-{l}-n{n}" for k in kinds for l in layouts for n in sizes}, sorted(points)
for kind in kinds:
    tall = points[f"{kind}-tp-n4"]
    assert "heads" in tall["refused"] and "step_s" not in tall, tall["refused"]
    for layout in layouts:
        for n in sizes:
            p = points[f"{kind}-{layout}-n{n}"]
            if p["refused"]:
                continue
            assert len(p["step_s"]) == repeats and all(len(row) == 3 for row in p["step_s"]), p["id"]
            assert p["data" if layout == "dp" else "tensor"] == n and p["threads_per_rank"] == 1
            assert p["global_batch"] == 8 * (n if kind == "weak" else 1), p["global_batch"]
            # real targets: each sample has at most 31 of 32 positions before another document's first token
            assert 0.8 * 32 * p["global_batch"] < p["tokens_per_step"] <= 32 * p["global_batch"], p["tokens_per_step"]
            medians = [statistics.median(row) for row in p["step_s"]]
            assert abs(p["step_median_s"]["median"] - statistics.median(medians)) < 1e-12
            assert p["step_median_s"]["low"] == min(medians) and p["step_median_s"]["high"] == max(medians)
            assert abs(p["tokens_per_s"]["high"] - p["tokens_per_step"] / min(medians)) < 1e-6 * p["tokens_per_s"]["high"]
            assert len(p["causes"]) == n
            for causes in p["causes"]:
                step = causes.pop("step")
                assert abs(sum(causes.values()) - step) <= 1e-9 * step and causes["compute"] > 0
                assert (causes["tensor_comm"] > 0) == (layout == "tp" and n > 1)
            # of a rank that the machine took away in the middle of something more may be unaccounted for
            assert min(c["other"] / sum(c.values()) for c in p["causes"]) <= 0.05, [p["id"], p["causes"]]
            axes = {t["axis"]: t["bytes"] for t in p["traffic"]}
            assert (("dp" if layout == "dp" else "tp") in axes) == (n > 1), axes
assert points["weak-dp-n2"]["parameters"] == points["strong-tp-n2"]["parameters"] > 0
assert points["weak-dp-n1"]["model_flops_per_token"] > 0 and points["weak-dp-n1"]["predicted_step_s"] is None
PY
}

study=("$OGROM" scale run.toml --both --ranks "4,1,2" --layout "dp: parallel.zero=1" --layout "tp: axis=tp" --steps 3 --warmup 1
    --output study)
expect_exit 0 launch 4 "${study[@]}" --repeats 1
expect_text 'weak-tp-n4: refused: .*heads'
expect_text '^weak +dp +1 .* 1 x 3 +100.0 % of 1 '
expect_text '^strong +tp +4 +refused: '
expect_text 'ogrom report study'
points study 1
[ ! -e out ] || fail "a run folder was made"
sum() { cat study/points/*.json | sha256sum; }
before=$(sum)
expect_exit 2 launch 4 "${study[@]}" --repeats 1
expect_text 'study/points holds points.*--resume'
expect_exit 2 launch 4 "${study[@]}" --repeats 1 --resume --set optimizer.lr=2e-3
expect_text 'of another study: its run file has "lr = .*--output'
[ "$(sum)" = "$before" ] || fail "a refused study wrote"
rm study/points/weak-dp-n2.json
expect_exit 0 launch 4 "${study[@]}" --repeats 1 --resume
[ "$(grep -c 'repeat 1 of 1' said)" -eq 1 ] || { cat said; fail "more than the missing point was made"; }
launch 4 "${study[@]}" --repeats 2 --resume --json > table.json 2> said || { cat said; fail "a second repeat"; }
points study 2
python3 - <<'PY' || fail "the table as JSON"
import json

root = json.load(open("table.json"))
assert root["folder"] == "study" and len(root["points"]) == 12
for p in root["points"]:
    if not p["refused"]:
        assert p["repeats"] == 2 and (p["efficiency"] is None) == p["oversubscribed"], p
        assert p["oversubscribed"] or p["base_ranks"] == 1
PY

# What a user can do wrong is found before anything runs.
refused() { # pattern, arguments...
    local pattern=$1
    shift
    expect_exit 2 "$OGROM" scale run.toml --output none "$@"
    expect_text "$pattern"
    [ ! -e none ] || fail "a refused study made its folder: $*"
}
refused '--weak .*--strong .*--both'
refused '--ranks 1,4: 4 ranks, but 1 was started' --weak --ranks 1,4
refused '--ranks 0: "0" is no number' --weak --ranks 0
refused '--ranks 1,1: 1 stands twice' --weak --ranks 1,1
refused '--ranks 1,,2: "" is no number' --weak --ranks 1,,2
refused 'parallel.zeroo' --weak --layout "a: parallel.zeroo=1"
refused 'no name' --weak --layout parallel.zero=1
refused 'axis zero .*without --layout' --weak --axis zero --layout "a: parallel.zero=1"
refused 'repeats' --weak --repeats 0
refused 'more than 1000 steps' --weak --steps 1001
refused 'no point of the study can run' --weak --ranks 1 --set parallel.tensor=2
expect_exit 3 "$OGROM" scale run.toml --output none --weak --set data.train=nothing
: > file
expect_exit 4 "$OGROM" scale run.toml --output file/none --weak

# begin FOLDER RANKS: a long point on RANKS of 2 ranks, in the background
begin() {
    mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 "$OGROM" scale run.toml --strong --ranks "$2" --steps 1000 --warmup 1000 --repeats 100 --output "$1" \
        --set model.layers=4 --set model.hidden=64 > run.log 2>&1 &
    job=$!
    await "$job" phase || { cat run.log; fail "no point began in $1"; }
}
pid_of() {
    local pid
    for pid in $(pgrep -f "^$OGROM scale run.toml .*--output $folder( |\$)"); do
        if tr '\0' '\n' < "/proc/$pid/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1"; then
            echo "$pid"
        fi
    done
}
# its exit code goes to $code
ended() {
    code=0
    wait "$job" || code=$?
}
# Rank 0 has taken a second of processor time since the folder was there: it is in the point.
phase() {
    local pid
    pid=$(pid_of 0)
    [ -d "$folder/points" ] && [ -n "$pid" ] && [ "$(ps -o times= -p "$pid")" -ge 1 ]
}

for dead in 0 1; do # in the point, and at rest beside it
    folder=kill$dead
    begin "$folder" 1
    # Two studies cannot write one folder.
    expect_exit 2 "$OGROM" scale run.toml --strong --ranks 1 --output "$folder" --resume
    expect_text "$folder is in use by process [0-9]+ .*two studies cannot write one folder"
    pid=$(pid_of "$dead")
    kill -9 "$pid"
    ended
    [ "$code" -eq 137 ] || [ "$code" -eq 6 ] || { cat run.log; fail "rank $dead killed: exit $code"; }
    grep -qE "^ogrom: rank $dead \(host .*, pid $pid\), exit 6: died in phase" run.log || { cat run.log; fail "rank $dead is not named"; }
    [ "$dead" -eq 0 ] || grep -q 'died in phase idle' run.log || { cat run.log; fail "rank 1 did not rest"; }
done

folder=stopped
begin "$folder" 2
kill -TERM "$(pid_of 1)"
ended
[ "$code" -eq 75 ] || { cat run.log; fail "stopped: exit $code"; }
grep -q 'stopped by SIGTERM on rank 1: .*--resume' run.log || { cat run.log; fail "the stop is not told"; }
echo "points, refusals, resume, signals and deaths are as they should be"
