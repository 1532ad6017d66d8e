#!/usr/bin/env python3
"""record_tests.py LOGS OGROM: what GoogleTest programs said (NAME.log, NAME.code), as results/gpu/tests.json."""
import datetime
import json
import pathlib
import re
import subprocess
import sys


def counts(log):
    """Tests that passed, failed and were skipped; of several ranks the worst rank counts."""
    def of_ranks(word, choose):
        return choose((int(n) for n in re.findall(rf"\[ *{word} *\] (\d+) test", log)), default=0)

    skipped = len(set(re.findall(r"\[ *SKIPPED *\] (\S+)", log)))
    return of_ranks("PASSED", min), of_ranks("FAILED", max), skipped


def machine():
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, text=True, capture_output=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "a GPU that nvidia-smi does not name"


def main():
    logs, ogrom = pathlib.Path(sys.argv[1]), sys.argv[2]
    version = subprocess.run([ogrom, "--version"], text=True, capture_output=True, check=True).stdout
    commit = re.search(r"^commit (\S+)", version, re.M)
    rows = []
    for code_file in sorted(logs.glob("*.code")):
        code, limit, _ = code_file.read_text().split(maxsplit=2)
        part = {"golden": "engine"}.get(code_file.stem, code_file.stem.split("-")[0])
        passed, failed, skipped = counts(code_file.with_suffix(".log").read_text(errors="replace"))
        # A rank that died printed nothing of its own: what the others passed is not all of it.
        ran = max(passed + max(failed, int(code != "0")), 1)
        rows.append(dict(name=f"tests.{code_file.stem}", value=passed, unit="tests", better="higher", limit=ran,
                         limit_name="tests that ran", ratio_to_limit=passed / ran, peer=None, peer_name=None,
                         ratio_to_peer=None, samples=[passed], machine=machine(),
                         commit=commit.group(1) if commit else "unknown", date=datetime.date.today().isoformat(),
                         command=f"make gpu-test PARTS={part}", extra=dict(exit=int(code), failed=failed, skipped=skipped, limit_s=int(limit))))
    if not rows:
        return
    out = pathlib.Path("results/gpu/tests.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(out.read_text()) if out.exists() else []
    names = {row["name"] for row in rows}
    rows = [row for row in kept if row["name"] not in names] + rows
    out.write_text(json.dumps(rows, indent=1) + "\n")
    for row in rows:
        print(f"{row['name']:<24} {row['value']:5} of {row['limit']:5} passed, {row['extra']['skipped']} skipped, exit {row['extra']['exit']}")


main()
