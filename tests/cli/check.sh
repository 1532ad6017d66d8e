#!/usr/bin/env bash
# ogrom check on 1, 2 and 4 ranks: every section is there, a healthy machine is found so, a slow rank, a folder that does
# not do what saves need and limits that are too small are named with the exit code of --help. Rates are compared with
# wide margins, delays are injected.
# shellcheck source=tests/cli/lib.sh
source "$(dirname "$0")/lib.sh"
preload=$BINARY/tests/libpreload_faults.so
[ -e "$preload" ] || fail "$preload is not built"
# A share of the median that no rank falls below because the machine does other work.
even=(--threshold 0.01 --seconds 1)
missing=""

# sections FILE RANKS AXES NODES: the JSON in FILE is whole
sections() {
    python3 - "$@" <<'PY' || fail "the JSON of $2 ranks"
import json, sys
path, ranks, axes, nodes = sys.argv[1], int(sys.argv[2]), set(sys.argv[3].split()), int(sys.argv[4])
found = json.load(open(path))
assert found["format"] == 1 and found["exit_code"] == 0 and found["verdict"].startswith("ok"), found["findings"]
launch = found["launch"]
assert launch["ranks"] == ranks == len(found["ranks"]) and launch["nodes"] == nodes, launch
assert launch["mpi"] and launch["thread_level"] in ("FUNNELED", "SERIALIZED", "MULTIPLE"), launch
for rank in found["ranks"]:
    assert rank["host"] and rank["cores"] != "none" and rank["threads"] >= 1 and rank["matmul_flops_per_s"] > 1e6, rank
    assert rank["gpu"] is None or rank["gpu"]["uuid"], rank
    assert rank["shared_memory_free_bytes"] > 0, rank
    assert abs(rank["clock_ahead_s"]) <= rank["clock_error_s"] + 1e-3, rank  # one machine has one clock
assert sorted({rank["node"] for rank in found["ranks"]}) == list(range(nodes))
pairs = {(link["a"], link["b"]) for link in found["links"]}
assert len(pairs) == len(found["links"])
if nodes == 1:
    assert len(pairs) == ranks * (ranks - 1) // 2, pairs
else:
    assert pairs == {(0, 1), (2, 3), (0, 2), (1, 3)}, pairs
    assert {link["span"] for link in found["links"]} == {"within a node", "between nodes"}
assert all(link["bytes_per_s"] > 0 and link["latency_s"] > 0 for link in found["links"])
assert {row["axis"] for row in found["collectives"]} == axes, found["collectives"]
for axis in axes:
    rows = [row for row in found["collectives"] if row["axis"] == axis]
    assert [r["call"] for r in rows] == ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "send"], rows
    for row in rows:
        n = row["ranks"]
        factor = {"all_reduce": 2 * (n - 1) / n, "all_gather": (n - 1) / n, "reduce_scatter": (n - 1) / n}.get(row["call"], 1)
        assert abs(row["bus_bytes_per_s"] / (row["bytes"] / row["seconds"] * factor) - 1) < 1e-9, row
folder = found["folder"]
assert folder["write_bytes_per_s"] > 0 and folder["written_bytes"] >= ranks << 22 and folder["locks"], folder
assert folder["replacements"] == 20 and folder["reads"] >= 20 and len(folder["rank_bytes_per_s"]) == ranks, folder
PY
}

mkdir results
expect_exit 0 "$OGROM" check --json "${even[@]}"
sections said 1 "" 1
expect_exit 0 launch 2 "$OGROM" check --json "${even[@]}"
sections said 2 all 1
expect_exit 0 launch 4 env OGROM_TEST_NODE_SPLIT=2 "$OGROM" check --json "${even[@]}"
sections said 4 "all node" 2
expect_exit 0 launch 4 "$OGROM" check --json --mesh 1,2,2 "${even[@]}"
sections said 4 "all tp dp" 1
expect_exit 0 launch 2 "$OGROM" check "${even[@]}"
for line in '^check +2 ranks on 1 node; launcher: mpirun' '^device +CPU' '^ranks' '^clocks ' '^limits ' '^links' '^collectives' \
    "^folder +$work/results: " '^verdict +ok'; do
    expect_text "$line"
done

# A run file says axes, device and folder; the folder of a run to come is looked at from above, and nothing is left.
make_corpus 50
make_run 4
expect_exit 0 launch 2 "$OGROM" check run.toml --set parallel.tensor=2 "${even[@]}"
expect_text "^folder +$work: "
expect_text '^tp +2 +1 +all_reduce'
expect_exit 4 "$OGROM" check run.toml --set model.hidden=100000 --set model.heads=500 "${even[@]}"
expect_text '^FAULT +folder: .* are free, one checkpoint of the run takes [0-9.]+ TiB; would be right: more room'
left=$(find . -name '.ogrom-check*')
[ -z "$left" ] || fail "left behind: $left"

# One rank that answers late is named, and nobody else.
expect_exit 6 launch 4 env OGROM_TEST_DELAY_RANK=3:0.2 "$OGROM" check --threshold 0.2 --seconds 2
expect_text '^FAULT +links within a node: rank 3 \(host .+\) is slow: large messages .* GB/s, over its best link; median of its peers .*%\)'
expect_text '^verdict +1 fault.*exit code 6'
if grep -E '^FAULT' said | grep -qvE 'rank 3 '; then cat said; fail "another rank was named"; fi

# The folder: none of these leaves a rank waiting for another.
with_fault() {
    local ranks=$1 rule=$2
    launch "$ranks" env LD_PRELOAD="$preload" OGROM_PRELOAD="$rule" "$OGROM" check "${even[@]}"
}
expect_exit 4 launch 2 "$OGROM" check --output /proc/results "${even[@]}"
expect_text '^FAULT +folder: rank 0 \(host .+\): /proc/'
expect_exit 4 with_fault 4 '2 write ogrom-check 28 1 0'
expect_text '^FAULT +folder: rank 2 \(host .+\): .*rank-2.*No space left on device'
expect_exit 4 with_fault 2 '0 rename ogrom-check 30 3 0'
expect_text '^FAULT +folder: rank 0 \(host .+\): .*replaced.*Read-only file system'
expect_exit 0 with_fault 2 '* flock ogrom-check 95 1 0'
expect_text '^warning +folder: .*knows no locks'
expect_exit 4 with_fault 2 '1 flock ogrom-check 95 1 0'
expect_text '^FAULT +folder: rank 1 .*still locked here after'
left=$(find . -name '.ogrom-check*')
[ -z "$left" ] || fail "left behind: $left"
# A folder that only one host has. (A mount of its own stands for the other host.)
# shellcheck disable=SC2016  # for the inner shell
if unshare -m mount -t tmpfs none results 2> /dev/null; then
    expect_exit 4 mpirun --allow-run-as-root --oversubscribe --bind-to none -n 1 "$OGROM" check "${even[@]}" : \
        -n 1 unshare -m bash -c 'mount -t tmpfs none results && exec "$0" check --threshold 0.01 --seconds 1' "$OGROM"
    expect_text '^FAULT +folder: rank 1 \(host .+\): .*made on rank 0, not seen here after 10 s; checkpoints need one file system'
else
    missing="no privilege to mount (unshare -m)"
fi

# Limits.
few_files() { (ulimit -n 64 && "$OGROM" check "${even[@]}"); }
expect_exit 7 few_files
expect_text '^FAULT +limits: rank 0 \(host .+\): at most 64 open files, 1 ranks need 257; would be right: ulimit -n 257'
# shellcheck disable=SC2016
if unshare -rm mount -t tmpfs -o size=1m none /dev/shm 2> /dev/null; then
    expect_exit 7 unshare -rm bash -c 'mount -t tmpfs -o size=1m none /dev/shm && exec "$0" check --threshold 0.01 --seconds 1' "$OGROM"
    expect_text '^FAULT +limits: rank 0 \(host .+\): .* of /dev/shm are free, the ranks of its node need 8.0 MiB'
else
    missing="no privilege to mount (unshare -rm)"
fi

# The machine file: written once, read by plan, kept without --force.
expect_exit 0 launch 2 "$OGROM" check --write here.toml "${even[@]}"
expect_text '^written +here.toml'
cp here.toml first.toml
expect_exit 2 launch 2 "$OGROM" check --write here.toml "${even[@]}"
expect_text 'check: --write here.toml: is there already; would be right: another name, or --force'
cmp here.toml first.toml || fail "a refused check changed the machine file"
expect_exit 0 "$OGROM" plan run.toml --ranks 2 --machine here.toml
expect_text '^machine: here, measured 20.*: fp32 products at .* Tflop/s on each rank .*takes at least .* s on 2 ranks$'
expect_exit 0 launch 2 "$OGROM" check --write here.toml --force "${even[@]}"
cmp -s here.toml first.toml && fail "--force did not write"
echo 'speed = 1' >> here.toml
expect_exit 2 "$OGROM" plan run.toml --machine here.toml
expect_text 'here.toml:[0-9]+: disk.speed: no key of a machine file'
expect_exit 2 "$OGROM" plan run.toml --machine nowhere
expect_text 'inputs/machines/nowhere.toml'
[ -z "$(find . -name '*.tmp*')" ] || fail "a temporary file is left"

# Slips of the command line.
expect_exit 2 launch 2 "$OGROM" check --mesh 1,3,1
expect_text 'parallel.data = 3 does not fit 2 ranks'
expect_exit 2 "$OGROM" check --mesh 1x1
expect_text '"1x1" is not PP,DP,TP; would be right: three whole numbers'
expect_exit 2 "$OGROM" check --set train.steps=3
expect_text 'check: --set changes a key of a run file, and none is named'
for slip in '--threshold 2' '--seconds 0' '--force' '--device gpu' 'absent.toml' 'run.toml --device cpu'; do
    # shellcheck disable=SC2086  # words
    expect_exit 2 "$OGROM" check $slip
done
expect_exit 2 "$OGROM" check --output ''
expect_exit 2 "$OGROM" check --write results
expect_exit 2 "$OGROM" check --write results/none/x.toml
expect_text 'there is no folder results/none'
if [ -n "$missing" ]; then
    echo "skip: $missing"
    exit 77
fi
echo "ranks, links, folder and limits are checked, and what is wrong is named"
