#!/usr/bin/env python3
"""Efficiencies of a study as records in the form of results/README.md: record_study.py STUDY OUT.json

One row for each layout and number of ranks that is not oversubscribed, beside the smallest of its kind. A sample is a
repeat: its median step against the median of the base. extra.other is the share of the step that no cause explains, of
the rank with the largest.
"""
import json
import pathlib
import statistics
import sys


def per_rank(point, step_s):
    return point["tokens_per_step"] / step_s / point["ranks"]


def row(point, base):
    of_base = per_rank(base, base["step_median_s"]["median"])
    samples = [100 * per_rank(point, statistics.median(repeat)) / of_base for repeat in point["step_s"]]
    value = 100 * per_rank(point, point["step_median_s"]["median"]) / of_base
    other = max(causes["other"] / causes["step"] for causes in point["causes"])
    return dict(name=f"study {point['kind']} {point['layout']}, {point['ranks']} ranks", value=value, unit="%", better="higher",
                limit=100, limit_name=f"throughput per rank at {base['ranks']} rank{'s' if base['ranks'] > 1 else ''}",
                ratio_to_limit=value / 100, peer=None, peer_name=None, ratio_to_peer=None, samples=samples,
                machine=point["machine"], commit=point["commit"], date=point["date"][:10], command="make study",
                extra=dict(tokens_per_s=point["tokens_per_s"]["median"], other=other, repeats=len(samples),
                           steps=point["steps"], model=point["model"]))


def main():
    study, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    points = [json.loads(path.read_text()) for path in sorted(study.glob("points/*.json"))]
    measured = [point for point in points if not point["refused"] and not point["oversubscribed"]]
    rows = []
    for point in measured:
        same = [other for other in measured if (other["kind"], other["layout"]) == (point["kind"], point["layout"])]
        base = min(same, key=lambda other: other["ranks"])
        if point is not base:
            rows.append(row(point, base))
    if not rows:
        sys.exit(f"{study}: no layout with two sizes that are not oversubscribed")
    out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
