#!/usr/bin/env bash
# train.trace: a Chrome trace of the first steps with compute, communication of every axis, optimizer and waits of all
# ranks by name, and the schedule as simulated and as measured in the run's report folder.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
make_corpus 200
make_run 4
trace=(--set train.trace=trace.json --set train.trace_steps=2)

# check FILE RANKS NAME...: every rank has a span of each name; times, steps and bytes make sense
check() {
    python3 - "$@" <<'PY' || fail "the trace $1"
import json
import sys

path, ranks, wanted = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
spans = [e for e in json.load(open(path))["traceEvents"] if e["ph"] == "X"]
assert {e["pid"] for e in spans} == set(range(ranks)), "ranks"
assert all(e["ts"] >= 0 and e["dur"] >= 0 for e in spans), "times"
assert {e["args"]["step"] for e in spans} == {1, 2}, "steps"
for rank in range(ranks):
    names = {e["name"]: e for e in spans if e["pid"] == rank}
    for name in wanted:
        key, _, kind = name.partition(":")
        assert key in names, f"rank {rank} has no {key}: {sorted(names)}"
        assert not kind or names[key]["cat"] == kind, f"{key} is {names[key]['cat']}"
        if kind == "communication":
            assert names[key]["args"]["bytes"] > 0, f"{key} without bytes"
# what a rank computes is one thing after another
for rank in range(ranks):
    compute = sorted((e["ts"], e["ts"] + e["dur"]) for e in spans if e["pid"] == rank and e["cat"] == "compute")
    assert all(a[1] <= b[0] + 0.002 for a, b in zip(compute, compute[1:])), "passes overlap"
PY
}

expect_exit 0 launch 2 "$OGROM" train run.toml "${trace[@]}" --set parallel.pipeline=2 \
    --set parallel.schedule=zb-h1 --set run.output=stages
expect_text '^.*schedule stages/report/schedule.svg'
expect_text ' trace +baseline +[0-9.]+ [KM]iB'
check trace.json 2 forward:compute backward_input:compute backward_weight:compute "loss (world):communication" \
    "step control (world):communication" "tied gradient (tie):communication" update:optimizer "wait for data:data"
python3 - stages/report/schedule.svg <<'PY' || fail "the picture of the schedule"
import sys
import xml.etree.ElementTree as tree

root = tree.parse(sys.argv[1]).getroot()
svg = "{http://www.w3.org/2000/svg}"
assert root.tag == svg + "svg"
passes = [g for g in root.iter(svg + "g") if g.get("class", "").startswith("pass")]
# simulated and measured, 2 stages, 4 micro-batches, 3 passes each
assert len(passes) == 2 * 2 * 4 * 3, len(passes)
titles = [g.find(svg + "title").text for g in passes]
assert sum(t.startswith("measured, step 2,") for t in titles) == len(passes) / 2, titles[0]
assert sum(t.startswith("simulated") for t in titles) == len(passes) / 2
PY

expect_exit 0 launch 2 "$OGROM" train run.toml "${trace[@]}" --set parallel.data=2 --set parallel.zero=3 --set run.output=zero
check trace.json 2 forward:compute backward:compute "parameter gather (zero):communication" \
    "gradient reduce (zero):communication" update:optimizer
[ ! -e zero/report/schedule.svg ] || fail "a schedule without a pipeline"

expect_exit 0 launch 2 "$OGROM" train run.toml "${trace[@]}" --set parallel.tensor=2 --set run.output=tensor
python3 - trace.json <<'PY' || fail "no traffic of the tensor axis"
import json
import sys

spans = [e for e in json.load(open(sys.argv[1]))["traceEvents"] if e["ph"] == "X"]
assert {e["pid"] for e in spans if e["name"].endswith("(tp)") and e["args"].get("bytes", 0) > 0} == {0, 1}
PY
echo "traces name what every rank computes and sends"
