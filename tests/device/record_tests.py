#!/usr/bin/env python3
"""record_tests.py LOGS OGROM OUT COMMAND: what the parts of a test run said (NAME.log, NAME.code), as records.

A log is that of a GoogleTest program (of one or several ranks, or under compute-sanitizer), of `ogrom selftest`, or of a
script that passes or fails as a whole. Records of other parts in OUT stay. Exit 1 where there is nothing to record.
"""
import datetime
import json
import pathlib
import re
import subprocess
import sys


def number(pattern, log):
    found = re.search(pattern, log)
    return int(found.group(1)) if found else None


def of_tests(log, code):
    """Of several ranks the worst rank counts; a program that was ended has passed what it finished of what it had."""
    def of_ranks(word, choose):
        return choose((int(n) for n in re.findall(rf"\[ *{word} *\] (\d+) test", log)), default=None)

    planned = number(r"Running (\d+) tests? from", log)
    passed, failed = of_ranks("PASSED", min), of_ranks("FAILED", max) or 0
    skipped = len(set(re.findall(r"\[ *SKIPPED *\] (\S+\.\S+)", log)))
    if passed is None:
        passed = len(set(re.findall(r"\[ *OK *\] (\S+)", log)))
        ran = max(passed + 1, (planned or 0) - skipped)
    else:
        # A rank that died printed nothing of its own: what the others passed is not all of it.
        ran = max(passed + max(failed, int(code != 0)), 1)
    return passed, ran, "tests", dict(failed=failed, skipped=skipped)


def of_layouts(log, code):
    planned = number(r"^(\d+) layouts over", log) or number(r"\n(\d+) layouts over", log) or 1
    agree, disagree, refused = (len(re.findall(rf"^{word} ", log, re.M)) for word in ("agrees", "DISAGREES", "refused"))
    last = re.search(r"^\d+ layouts agree.*", log, re.M)
    times = [float(t) for t in re.findall(r"^agrees .*? ([0-9.]+) s$", log, re.M)]
    return agree, max(planned - refused, agree + int(code != 0)), "layouts", dict(
        disagree=disagree, refused=refused, summary=last.group(0) if last else None, longest_s=max(times, default=None))


def of_script(log, code):
    said = [re.sub(r"^\S+Z rank \d+ \S+ info: ", "", line) for line in log.splitlines()]
    return int(code == 0), 1, "runs", dict(said=said[-12:])


def of_sanitizer(log, code):
    passed, ran, unit, extra = of_tests(log, code)
    errors = number(r"ERROR SUMMARY: (\d+) error", log)
    hazards = number(r"RACECHECK SUMMARY: (\d+) hazard", log)
    found = next((n for n in (hazards, errors) if n is not None), None)
    extra |= dict(found=found, tool=tool_version(log))
    if code != 0 and found != 0 and passed >= ran:
        ran = passed + 1
    return passed, ran, unit, extra


def tool_version(log):
    found = re.search(r"========= (COMPUTE-SANITIZER.*)", log)
    return found.group(1) if found else None


def reader(name, log):
    if "COMPUTE-SANITIZER" in log:
        return of_sanitizer
    if name.startswith("selftest"):
        return of_layouts
    return of_tests if "[====" in log else of_script


def machine():
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, text=True, capture_output=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "a GPU that nvidia-smi does not name"


def main():
    logs, ogrom, out, command = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4]
    version = subprocess.run([ogrom, "--version"], text=True, capture_output=True, check=True).stdout
    commit = re.search(r"^commit (\S+)", version, re.M)
    rows = []
    for code_file in sorted(logs.glob("*.code")):
        code, limit, _ = code_file.read_text().split(maxsplit=2)
        log = re.sub(r"\x1b\[[0-9;]*m", "", code_file.with_suffix(".log").read_text(errors="replace"))
        passed, ran, unit, extra = reader(code_file.stem, log)(log, int(code))
        rows.append(dict(name=f"tests.{code_file.stem}", value=passed, unit=unit, better="higher", limit=ran,
                         limit_name=f"{unit} that ran", ratio_to_limit=passed / ran, peer=None, peer_name=None,
                         ratio_to_peer=None, samples=[passed], machine=machine(),
                         commit=commit.group(1) if commit else "unknown", date=datetime.date.today().isoformat(),
                         command=f"{command} PARTS='^{code_file.stem}$'",
                         extra=dict(exit=int(code), limit_s=int(limit)) | extra))
    if not rows:
        sys.exit("nothing to record")
    out.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(out.read_text()) if out.exists() else []
    names = {row["name"] for row in rows}
    both = sorted([row for row in kept if row["name"] not in names] + rows, key=lambda row: row["name"])
    out.write_text(json.dumps(both, indent=1) + "\n")
    for row in rows:
        print(f"{row['name']:<28} {row['value']:5} of {row['limit']:5} {row['unit']}, exit {row['extra']['exit']}")


main()
