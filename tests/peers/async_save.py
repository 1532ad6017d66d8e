#!/usr/bin/env python3
"""How much longer steps are while a save is written behind them: 57M parameters on two ranks of one thread each.

Two runs after the other, SAMPLES times: saves that are waited for, saves behind the steps with the writer limited to
RATE MB/s a rank. A step is the time between its line in log.txt and that of the step before, so what the save holds up
is within. Writes results/cpu/async_save.json. Needs no more than Python's standard library.
"""
import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys

from side_by_side import ROOT, call, token_set
from record import cpu_model

BAR = 1.15  # steps during a save over the others, on two busy cores
SETTINGS = {"model.layers": 8, "model.hidden": 768, "model.heads": 12, "model.vocab": 257, "model.sequence": 128,
            "train.micro_batch": 1, "train.accumulation": 2, "train.steps": 34, "run.threads": 1,
            "checkpoint.interval_steps": 12, "checkpoint.keep_last": 1, "checkpoint.at_end": "false"}


def run(ogrom, folder, prefix, settings):
    subprocess.run(["rm", "-rf", folder / "run"], check=True)
    sets = [text for key, value in (SETTINGS | settings | {"data.train": prefix, "run.output": folder / "run"}).items()
            for text in ("--set", f"{key}={value}")]
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    call(["mpirun", *root, "--bind-to", "none", "-n", "2", ogrom, "train", "inputs/runs/gpt2-124m-cpu.toml", *sets],
         env=dict(os.environ, OMP_NUM_THREADS="1"))
    return (folder / "run/log.txt").read_text().splitlines()


def times(lines):
    """Step -> seconds since the step before; saves as (step, end, the log's words)."""
    ends, saves = {}, []
    for line in lines:
        step, saved = re.search(r"info: step +(\d+)/", line), re.search(r"info: saved \S*step-0*(\d+) (in .*)", line)
        if step or saved:
            at = datetime.datetime.fromisoformat(line[:23]).timestamp()
        if step:
            ends[int(step[1])] = at
        elif saved:
            saves.append((int(saved[1]), at, saved[2]))
    return {step: end - ends[step - 1] for step, end in ends.items() if step - 1 in ends}, ends, saves


def look(lines):
    """Median of the steps without a save, means of those during each save, and what the log says of each."""
    took, ends, saves = times(lines)
    during = [[step for step in took if step > saved and ends[step] - took[step] < end] for saved, end, _ in saves]
    touched = {step for steps in during for step in steps}
    plain = statistics.median(value for step, value in took.items() if step not in touched and step > 2)
    if len(saves) != 2 or not all(during):
        sys.exit(f"async_save: {len(saves)} saves with {[len(steps) for steps in during]} steps in the log, two with some wanted")
    return plain, [statistics.mean(took[step] for step in steps) for steps in during], [len(steps) for steps in during], saves


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ogrom", default="build/bench/ogrom")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--rate", type=float, default=200)
    options = parser.parse_args()
    ogrom = (ROOT / options.ogrom).resolve()
    folder = ROOT / "results/runs/async-save-bench"
    prefix = token_set(ogrom, folder)
    ratios, held, counts, waited = [], [], [], []
    for _ in range(options.samples):
        plain, means, _, _ = look(run(ogrom, folder, prefix, {}))
        waited += [mean - plain for mean in means]
        plain, means, steps, saves = look(run(ogrom, folder, prefix, {"checkpoint.async": "true", "checkpoint.write_mb_per_s": options.rate}))
        ratios += [mean / plain for mean in means]
        held += [float(re.search(r"held up for (\d+) ms", text)[1]) / 1e3 for _, _, text in saves]
        counts += steps
    subprocess.run(["rm", "-rf", folder / "run"], check=True)
    commit = call(["git", "rev-parse", "--short", "HEAD"]).strip()
    common = dict(machine=f"{cpu_model()}, {os.cpu_count()} cores", commit=commit, date=datetime.date.today().isoformat(),
                  command="make bench ROWS=async_save", better="lower")
    value, stall, whole = statistics.median(ratios), statistics.median(held), statistics.median(waited)
    records = [
        dict(name="async_save.steps_during.57m.2_ranks", value=value, unit="of the other steps", limit=BAR, limit_name=f"bar: {BAR}",
             ratio_to_limit=value / BAR, peer=None, peer_name=None, ratio_to_peer=None, samples=ratios,
             extra={"write_mb_per_s": options.rate, "steps_during_each": counts}, **common),
        dict(name="async_save.held_up.57m.2_ranks", value=stall, unit="s", limit=whole, limit_name="a save that is waited for",
             ratio_to_limit=stall / whole, peer=None, peer_name=None, ratio_to_peer=None, samples=held, extra={"waited_for_s": waited}, **common),
    ]
    (ROOT / "results/cpu").mkdir(parents=True, exist_ok=True)
    (ROOT / "results/cpu/async_save.json").write_text(json.dumps(records, indent=1) + "\n")
    for row in records:
        print(f"{row['name']:<44} {row['value']:8.3f} {row['unit']:<18} {100 * row['ratio_to_limit']:6.1f} % of {row['limit_name']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
