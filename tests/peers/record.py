#!/usr/bin/env python3
"""Turns Google Benchmark JSON (standard input) into records in the form of results/README.md.

record.py OUT.json COMMAND < benchmark.json; rows that failed their check are refused.
"""
import datetime
import json
import pathlib
import platform
import statistics
import subprocess
import sys


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.machine()


def record(name, runs, common):
    failed = [run for run in runs if run.get("error_occurred")]
    if failed:
        sys.exit(f"{name}: {failed[0]['error_message']}")
    of = "of_sgemm" if "of_sgemm" in runs[0] else "of_copy"
    key, unit = ("GFLOP/s", "GFLOP/s") if of == "of_sgemm" else ("GB/s", "GB/s")
    if key not in runs[0]:  # a row of another kind, with no limit to stand beside
        return None
    samples = [run[key] for run in runs]
    value = statistics.median(samples)
    ratio = statistics.median(run[of] for run in runs)
    return dict(name=name, value=value, unit=unit, better="higher", limit=value / ratio,
                limit_name="OpenBLAS SGEMM 1024x3072x768" if of == "of_sgemm" else "copy bandwidth", ratio_to_limit=ratio,
                peer=None, peer_name=None, ratio_to_peer=None, samples=samples, **common)


def main():
    out, command = pathlib.Path(sys.argv[1]), sys.argv[2]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], text=True, capture_output=True, check=True).stdout.strip()
    groups = {}
    threads = None
    for text in sys.stdin.read().split("\x1e"):
        if not text.strip():
            continue
        report = json.loads(text)
        threads = report["context"]["num_cpus"]
        for run in report["benchmarks"]:
            if run.get("run_type") != "aggregate":
                groups.setdefault(run["run_name"] if "run_name" in run else run["name"], []).append(run)
    common = dict(machine=f"{cpu_model()}, {threads} cores", commit=commit, date=datetime.date.today().isoformat(), command=command,
                  extra={})
    records = [row for row in (record(name, runs, common) for name, runs in groups.items()) if row]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(records, indent=1) + "\n")
    for row in records:
        print(f"{row['name']:<44} {row['value']:10.1f} {row['unit']:<8} {100 * row['ratio_to_limit']:6.1f} % of {row['limit_name']}")


if __name__ == "__main__":
    main()
