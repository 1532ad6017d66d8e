#!/usr/bin/env python3
"""Launch to first step, and peak memory against the ledger, for the demo model on two ranks and the 124M shape on one.

Reads the JSON summary that `ogrom train --json` prints. Needs no more than Python's standard library.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys

from side_by_side import ROOT, SHAPES, call, token_set
from record import cpu_model


def train(ogrom, launch, settings, threads):
    folder = ROOT / "results/runs/start-bench"
    subprocess.run(["rm", "-rf", folder / "run"], check=True)
    sets = [text for key, value in settings.items() for text in ("--set", f"{key}={value}")]
    env = dict(os.environ, OMP_NUM_THREADS=str(threads))
    return json.loads(call([*launch, ogrom, "train", "inputs/runs/gpt2-124m-cpu.toml", "--json", "--set", f"run.output={folder / 'run'}",
                            *sets], env=env))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ogrom", default="build/bench/ogrom")
    options = parser.parse_args()
    ogrom = (ROOT / options.ogrom).resolve()
    prefix = token_set(ogrom, ROOT / "results/runs/start-bench")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    mpirun = ["mpirun", *root, "--bind-to", "none", "-n", "2"]
    demo = {"model.layers": 4, "model.hidden": 128, "model.heads": 4, "model.sequence": 128, "model.vocab": 4096,
            "train.micro_batch": 4, "train.accumulation": 4, "train.steps": 3, "data.train": prefix}
    large = {f"model.{k}": SHAPES["124m"][k] for k in ("layers", "hidden", "heads", "sequence", "vocab")}
    large |= {"train.micro_batch": 4, "train.accumulation": 1, "train.steps": 3, "data.train": prefix}
    starts = [train(ogrom, mpirun, demo, 1) for _ in range(5)]
    memory = [train(ogrom, [], large, 2) for _ in range(2)]
    commit = call(["git", "rev-parse", "--short", "HEAD"]).strip()
    common = dict(peer=None, peer_name=None, ratio_to_peer=None, machine=f"{cpu_model()}, {os.cpu_count()} cores", commit=commit,
                  date=datetime.date.today().isoformat(), command="make bench ROWS=start")
    seconds = [run["launch_to_first_step_s"] for run in starts]
    ratios = [run["memory_peak_bytes"] / run["memory_ledger_bytes"] for run in memory]
    peak = memory[0]["memory_peak_bytes"]
    records = [
        dict(name="start.demo_model.2_ranks", value=statistics.median(seconds), unit="s", better="lower", limit=2.0,
             limit_name="bar: 2 s", ratio_to_limit=statistics.median(seconds) / 2.0, samples=seconds, extra={}, **common),
        dict(name="memory.124m", value=peak, unit="bytes", better="lower", limit=memory[0]["memory_ledger_bytes"], limit_name="ledger",
             ratio_to_limit=ratios[0], samples=ratios, extra={}, **common),
    ]
    (ROOT / "results/cpu").mkdir(parents=True, exist_ok=True)
    (ROOT / "results/cpu/start.json").write_text(json.dumps(records, indent=1) + "\n")
    for row in records:
        print(f"{row['name']:<44} {row['value']:12.4g} {row['unit']:<8} {100 * row['ratio_to_limit']:6.1f} % of {row['limit_name']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
