#!/usr/bin/env python3
"""The figures of the root README from results/*/*.json: prints the table, or with --write puts it between the markers."""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- figures: tests/peers/table.py --write -->", "<!-- end of figures -->"


def number(value, unit):
    if value is None:
        return "failed"
    if unit == "bytes":
        return f"{value / 2**20:,.0f} MiB"
    return f"{value:.2g} {unit}" if 0 < value < 0.01 else f"{value:,.{0 if value >= 100 else 2}f} {unit}"


def line(row, bench):
    limit = f"{100 * row['ratio_to_limit']:.3g} % of {row['limit_name']}" if row.get("ratio_to_limit") is not None else ""
    extra = row.get("extra") or {}
    if extra.get("void"):
        limit = "void: " + "; ".join(extra["void"])
    if extra.get("exit"):
        limit += f" (ended with exit {extra['exit']})"
    peer = f"{row['ratio_to_peer']:.2f}x {row['peer_name']}" if row.get("ratio_to_peer") else ""
    return f"| {row['name']} | {number(row['value'], row['unit'])} | {limit} | {peer} | `{row['command'] if row['command'].startswith('make ') else bench}` | {row['date'][:10]} {row['commit'][:7]}{'-dirty' if row['commit'].endswith('-dirty') else ''} |"


def table():
    rows = ["| figure | value | beside its limit | beside a peer | how to make it again | when |", "|---|---|---|---|---|---|"]
    machines = set()
    for path in sorted(ROOT.glob("results/*/*.json")):
        # The kernels' rows, one per shape, stand in their own file.
        if path.parts[-2] == "runs" or path.name == "kernels.json":
            continue
        for row in json.loads(path.read_text()):
            # The rows of a CPU's file are made together; the others each by its own command.
            rows.append(line(row, f"make bench ROWS={path.stem}" if path.parts[-2] == "cpu" else row["command"]))
            machines.add(f"{path.parts[-2]}: {row['machine']}")
    return "\n".join(rows + ["", "Medians of the samples in `results/`, where the exact command of each row stands. " + "; ".join(sorted(machines)) + "."])


def main():
    if "--write" not in sys.argv:
        print(table())
        return
    path = ROOT / "README.md"
    text = path.read_text()
    head, rest = text.split(BEGIN)
    path.write_text(head + BEGIN + "\n" + table() + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
