"""What is true of every report: report_check.py FOLDER run|study; --make A B writes points of two parts of a study."""
import csv
import html.parser
import json
import math
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as xml


def spread(rate):
    return {"median": 1.05 * rate, "low": rate, "high": 1.1 * rate}


def point(layout, ranks, rate, refused="", crowded=False):
    tokens = 40 * ranks
    low, high = tokens / (1.1 * rate), tokens / rate
    step = tokens / (1.05 * rate)
    causes = {"compute": 0.7 * step, "tensor_comm": 0, "data_comm": 0.1 * step, "pipeline_comm": 0, "bubble": 0,
              "optimizer": 0.15 * step, "offload": 0, "data_wait": 0.02 * step, "other": 0.03 * step, "step": step}
    name = re.sub(r"[^A-Za-z0-9.+-]", "_", layout)
    figures = {
        "step_s": [[low], [high]], "tokens_per_s": spread(rate),
        "step_median_s": {"median": step, "low": low, "high": high}, "matmul_rate": 1e11, "causes": [causes] * ranks,
        "ledger": [{"name": "weights", "tier": "device", "bytes": 1 << 20}],
        "traffic": [{"axis": "dp", "bytes": 4096 * (ranks - 1)}], "predicted_step_s": 0.9 * step}
    return {
        "format": 1, "id": f"weak-{name}-n{ranks}", "study": "s", "kind": "weak", "layout": layout, "axis": "dp",
        "ranks": ranks, "nodes": 1, "ranks_per_node": ranks, "pipeline": 1, "data": ranks, "tensor": 1, "zero": 0,
        "schedule": "1f1b", "oversubscribed": crowded, "threads_per_rank": 1, "device": "cpu", "model": "tiny",
        "parameters": 1000000, "layers": 2, "hidden": 64, "heads": 4, "sequence": 10, "vocabulary": 100,
        "weights_dtype": "fp32", "recompute": "none", "micro_batch": 1, "accumulation": 4, "global_batch": 4 * ranks,
        "tokens_per_step": tokens, "warmup_steps": 1, "steps": 1, "skipped_steps": 0, "model_flops_per_token": 6e6,
        "model_flops_square_per_token": 7e6, "hardware_flops_per_token": 8e6, "refused": refused, "machine": "m",
        "host": "h", "commit": "c", "date": "2026-01-01T00:00:00Z", "command": "ogrom scale",
        "run_file": "[model]\n# </pre><script>", "versions": {"MPI": "4.1"}, **({} if refused else figures)}


def make(folders):
    points = [point("dp", 1, 100), point("dp", 2, 180), point("dp", 4, 200, crowded=True),
              point("dp", 8, 1, refused="8 ranks, 4 sequences"), point("=<b>1+1", 1, 90), point("=<b>1+1", 2, 150)]
    for i, each in enumerate(points):
        folder = os.path.join(folders[i % 2], "points")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, each["id"] + ".json"), "w", encoding="utf-8") as file:
            json.dump(each, file)


class Page(html.parser.HTMLParser):
    """Exact values of each table, tags that are open, and what would reach out of the file."""

    void = {"meta", "br", "img", "link", "input", "hr"}

    def __init__(self):
        super().__init__()
        self.open, self.tables, self.table, self.ids = [], {}, None, set()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        assert tag not in ("script", "link", "iframe", "img", "object"), f"<{tag}>"
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} {name}"
            assert name not in ("src", "href") or value.startswith("#"), f"{tag} {name}={value}"
        if "id" in attributes:
            assert attributes["id"] not in self.ids, f"id {attributes['id']} twice"
            self.ids.add(attributes["id"])
        if tag == "table":
            self.table = self.tables.setdefault(attributes["id"], [])
        elif tag == "tr":
            self.row = []
        elif tag in ("td", "th"):
            assert tag == "td" or attributes.get("scope") in ("row", "col"), "th without scope"
            self.cell, self.text = None, ""
        elif tag == "data":
            self.cell = attributes["value"]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.void:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> within {self.open[-3:]}"
        self.open.pop()
        if tag in ("td", "th"):
            self.row.append(self.cell if self.cell is not None else "" if self.text == "\u2212" else self.text)
        elif tag == "tr":
            self.table.append(self.row)

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th", "span"):
            self.text = getattr(self, "text", "") + data


def same(a, b):
    """The same figure, or the same text; a formula of a CSV has an apostrophe in front."""
    if a in (None, "") or b in (None, ""):
        return a in (None, "") and b in (None, "")
    try:
        return float(a) == float(b)
    except ValueError:
        return str(a).lstrip("'") == str(b).lstrip("'")


def dumped(path, dataset):
    """Values of a dataset as h5dump prints them: texts without what fills them up, doubles with 17 digits."""
    out = subprocess.run(["h5dump", "-m", "%.17g", "-y", "-w", "0", "-d", dataset, path], check=True,
                         capture_output=True, text=True).stdout
    body = re.search(r"\n   DATA \{\n(.*?)\n   \}", out, re.S).group(1)
    if '"' in body:
        return [re.sub(r"(\\000)+$", "", text) for text in re.findall(r'"((?:[^"\\]|\\.)*)"', body)]
    return [value.strip() for value in body.split(",") if value.strip()]


def check(folder, kind):
    text = open(os.path.join(folder, "report.html"), encoding="utf-8").read()
    page = Page()
    page.feed(text)
    assert not page.open, page.open
    root = xml.fromstring(text.replace("<!DOCTYPE html>", ""))  # strict: every chart too
    charts = list(root.iter("figure"))
    assert charts and all(figure.find("svg") is not None for figure in charts), "a figure without a chart"
    for svg in root.iter("svg"):
        if svg.get("role") == "img":
            assert svg.get("viewBox") and svg.find("title").text
            assert "rgb(" not in xml.tostring(svg, "unicode"), "a colour that is not the page's"
    assert "http" not in re.sub(r'http-equiv', "", text), "an address"
    data = json.load(open(os.path.join(folder, "report.json"), encoding="utf-8"))
    assert set(page.tables) == set(data["tables"]), (set(page.tables), set(data["tables"]))
    cells = 0
    for name, table in data["tables"].items():
        rows = list(csv.reader(open(os.path.join(folder, "tables", name + ".csv"), newline="", encoding="utf-8")))
        keys = [column["key"] for column in table["columns"]]
        assert rows[0] == keys and len(set(keys)) == len(keys), name
        shown = page.tables[name]
        assert len(rows) == len(shown) == len(table["rows"]) + 1, name
        for line, seen, row in zip(rows[1:], shown[1:], table["rows"]):
            for key, exact, html_value in zip(keys, line, seen):
                assert same(exact, row[key]), (name, key, exact, row[key])
                assert same(exact, html_value), (name, key, exact, html_value)
                cells += 1
    main = data["main_table"]
    assert open(os.path.join(folder, "report.csv"), encoding="utf-8").read() == \
        open(os.path.join(folder, "tables", main + ".csv"), encoding="utf-8").read()
    for name in [main, "causes"] if kind == "study" else [main, "ranks"]:
        for column in data["tables"][name]["columns"]:
            values = dumped(os.path.join(folder, "report.h5"), f"/tables/{name}/{column['key']}")
            rows = data["tables"][name]["rows"]
            assert len(values) == len(rows), (name, column["key"], values)
            for stored, row in zip(values, rows):
                value = row[column["key"]]
                if value is None:
                    assert stored in ("nan", "-nan", "-9223372036854775808"), stored
                else:
                    assert same(stored, value), (name, column["key"], stored, value)
    if kind == "study":
        study(data["tables"], text)
    else:
        run(data["tables"])
    print(f"{folder}: {len(data['tables'])} tables, {cells} cells the same in HTML, CSV and JSON, {len(charts)} charts")


def run(tables):
    ranks = tables["ranks"]["rows"]
    for row in ranks:
        assert 0 < row["waited_ms"] < row["step_ms"] and 0 < row["longest_work_ms"] and row["longest_step"] > 1, row
        assert math.isclose(row["work_ms"], row["step_ms"] - row["waited_ms"], rel_tol=1e-9), row
    assert [row["work_ms"] for row in ranks] == sorted((row["work_ms"] for row in ranks), reverse=True)
    steps = sum(row["steps"] for row in tables["step-histogram"]["rows"])
    assert steps == len(tables["steps"]["rows"]) - 1, steps  # without the first


def study(tables, text):
    parts = ["compute", "tensor_comm", "data_comm", "pipeline_comm", "bubble", "optimizer", "offload", "data_wait", "other"]
    for row in tables["causes"]["rows"]:
        total = sum(row[part + "_ms"] for part in parts)
        assert math.isclose(total, row["step_ms"], rel_tol=1e-9), row
    by = {(row["layout"], row["ranks"]): row for row in tables["points"]["rows"]}
    assert math.isclose(by["dp", 2]["efficiency"], 0.9) and by["dp", 2]["efficiency_base_ranks"] == 1
    assert by["dp", 4]["efficiency"] is None and by["dp", 4]["oversubscribed"] == "yes"
    assert by["dp", 8]["refused"] == "8 ranks, 4 sequences" and by["dp", 8]["tokens_per_s"] is None
    assert math.isclose(by["dp", 2]["model_tflops_per_rank"], 189 * 6e6 / 2 / 1e12)
    assert math.isclose(tables["predicted"]["rows"][0]["error_percent"], -10, rel_tol=1e-9)
    assert tables["refused"]["rows"][0]["reason"] == "8 ranks, 4 sequences"
    assert "&lt;/pre&gt;&lt;script&gt;" in text and "=&lt;b&gt;1+1" in text


if sys.argv[1] == "--make":
    make(sys.argv[2:4])
else:
    check(sys.argv[1], sys.argv[2])
