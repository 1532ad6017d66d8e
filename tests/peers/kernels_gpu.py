#!/usr/bin/env python3
"""Rates of the kernels on this GPU as records in the form of results/README.md: results/gpu/kernels.json.

  memory-bound   each against the rate of a device copy of the same size in the same run. extra.kind and extra.bar:
                 streaming (0.85), columns (sums over rows, 0.70), scatter (embedding backward: reported only)
  attention      our own kernels, TFLOP/s over causal pairs, beside cuDNN in the same run (bar: 0.60 of its rate)
  products       bf16, TFLOP/s of the fastest algorithm of cublasLt; the peer is the library's first choice
--parts is a regular expression over these three. A row below its bar is told; exit 1 where a program fails, 77 without a
GPU. Programs: --build/kernels/bench/bench_cuda_streaming, bench_attention_device, bench_cuda_products.
"""
import argparse
import json
import pathlib
import re
import sys

from side_by_side_gpu import ROOT, Failed, call, provenance

BARS = {"streaming": 0.85, "columns": 0.70, "scatter": None}
ATTENTION_BAR = 0.60
ATTENTION = re.compile(r"T +(\d+) +d +(\d+) +(\w+) +own +([0-9.]+) +mma +([0-9.]+) +cuDNN +([0-9.]+) TFLOP/s")
PRODUCT = re.compile(r" *(\d+) +(\d+) +(\d+) (\w\w) -> (\w+) +(.+?) +first +([0-9.]+) us, best +([0-9.]+) us, +([0-9.]+) "
                     r"TFLOP/s of +(\d+) ways(, apart)?")
HIDDEN = (768, 1600, 2048, 4096)


def row(name, value, unit, samples, **more):
    record = dict(name=name, value=value, unit=unit, better="higher", limit=None, limit_name=None, ratio_to_limit=None,
                  peer=None, peer_name=None, ratio_to_peer=None, samples=samples)
    return record | more


def memory_bound(build):
    text = call([build / "kernels/bench/bench_cuda_streaming", "--benchmark_format=json", "--benchmark_repetitions=5"],
                200)
    if not text.strip():
        raise Failed("bench_cuda_streaming measured nothing")
    runs = {}
    for run in json.loads(text)["benchmarks"]:
        if run.get("run_type") != "aggregate":
            runs.setdefault(run["run_name"], []).append(run)
    middles = {re.sub(r"/iterations:.*", "", name): (sorted(of_row, key=lambda run: run["GB/s"])[len(of_row) // 2],
                                                     [run["GB/s"] for run in of_row]) for name, of_row in runs.items()}
    copies = {name.split("/", 1)[1]: run["GB/s"] for name, (run, _) in middles.items() if name.startswith("copy/")}
    for name, (run, samples) in middles.items():
        # Logits have no copy of their size: the fastest one of all.
        limit = copies.get(name.split("/", 1)[1], max(copies.values()))
        yield row(name, run["GB/s"], "GB/s", samples, limit=limit, limit_name="device copy of the same size",
                  ratio_to_limit=run["GB/s"] / limit, extra=dict(kind=run["label"], bar=BARS[run["label"]],
                                                                 us=run["real_time"]))


def attention(build):
    text = call([build / "kernels/bench/bench_attention_device"], 120)
    for length, depth, way, own, mma, cudnn in ATTENTION.findall(text):
        own, mma, cudnn = float(own), float(mma), float(cudnn)
        yield row(f"attention {way} T {length} d {depth}", own, "TFLOP/s", [own], peer=cudnn or None,
                  peer_name="cuDNN" if cudnn else None, ratio_to_peer=own / cudnn if cudnn else None,
                  extra=dict(kind="attention", bar=ATTENTION_BAR, mma_tflops=mma, library=text.splitlines()[0]))


def products(build):
    text = call([build / "kernels/bench/bench_cuda_products", *HIDDEN], 150)
    for m, n, k, transposes, result, epilogue, first, best, rate, ways, apart in PRODUCT.findall(text):
        yield row(f"product {m} {n} {k} {transposes} -> {result}, {epilogue.strip()}", float(rate), "TFLOP/s",
                  [float(rate)], peer=float(rate) * float(best) / float(first), peer_name="first choice of cublasLt",
                  ratio_to_peer=float(first) / float(best),
                  extra=dict(kind="product", us=float(best), ways=int(ways), apart=bool(apart)))


PARTS = {"memory-bound": memory_bound, "attention": attention, "products": products}


def tell(record):
    bar = record["extra"].get("bar")
    ratio = record["ratio_to_limit"] or record["ratio_to_peer"]
    beside = record["limit_name"] or record["peer_name"]
    text = f"{record['name']:<58} {record['value']:8.1f} {record['unit']:<8}"
    if ratio:
        text += f" {ratio:6.3f} of {beside}"
    low = bar is not None and ratio is not None and ratio < bar
    print(text + (f"   BELOW {bar}" if low else ""))
    return low


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/gpu")
    parser.add_argument("--parts", default=".")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results/gpu/kernels.json")
    options = parser.parse_args()
    if call([ROOT / "jobscripts/local/has_gpu.sh"], 10).strip() != "ON":
        print("skip: no GPU driver on this machine")
        sys.exit(77)
    build, failed, low = options.build.resolve(), [], 0
    common = provenance(build / "ogrom", "make gpu-bench ROWS=kernels")
    kept = json.loads(options.out.read_text()) if options.out.exists() else []
    records = {record["name"]: record for record in kept}
    for name, part in PARTS.items():
        if not re.search(options.parts, name):
            continue
        try:
            made = [record | common for record in part(build)]
            if not made:
                raise Failed(f"{name}: no row was understood")
        except (Failed, OSError, ValueError, KeyError) as error:
            print(f"{name}: FAILED\n{error}", flush=True)
            failed.append(name)
            continue
        low += sum(tell(record) for record in made)
        records |= {record["name"]: record for record in made}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(list(records.values()), indent=1) + "\n")
    print(f"{low} rows below their bar")
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
