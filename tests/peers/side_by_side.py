#!/usr/bin/env python3
"""One optimizer step on this CPU, Ogrom beside PyTorch, same shapes, threads and arithmetic (fp32, dropout 0, clip, AdamW).

Order ours-peer-ours-peer. Ours runs `ogrom train` on a byte token set (the model keeps its own vocabulary, so the work is that
of the named shape); the peer is torch_gpt.py, the better of eager and torch.compile. Writes records in the form of
results/README.md. Needs a Python with torch (PEER_PYTHON); the program's own tests need no Python.
"""
import argparse
import csv
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPES = {
    "124m": dict(layers=12, hidden=768, heads=12, sequence=1024, vocab=50257, micro_batch=4, ours_steps=5, peer_steps=3),
    "small": dict(layers=4, hidden=256, heads=4, sequence=256, vocab=50257, micro_batch=8, ours_steps=14, peer_steps=8),
}


def call(command, **extra):
    done = subprocess.run([str(word) for word in command], cwd=ROOT, text=True, capture_output=True, **extra)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nexit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def token_set(ogrom, folder):
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "text.txt"
    words = "the of and to in that it is was for on are as with his they at be this from have or by one had not but what all".split()
    state, lines = 1, []
    for _ in range(6000):
        line = []
        for _ in range(14):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            line.append(words[(state >> 33) % len(words)])
        lines.append(" ".join(line))
    text.write_text("\n".join(lines) + "\n")
    call([ogrom, "data", "--input", text, "--tokenizer", "byte", "--out", folder / "bytes"])
    return folder / "bytes"


def ours(ogrom, shape, prefix, folder, threads):
    out = folder / "ours"
    subprocess.run(["rm", "-rf", out], check=True)
    settings = {f"model.{k}": shape[k] for k in ("layers", "hidden", "heads", "sequence", "vocab")}
    settings |= {"train.micro_batch": shape["micro_batch"], "train.accumulation": 1, "train.steps": shape["ours_steps"],
                 "data.train": prefix, "run.output": out, "run.threads": threads}
    sets = [text for key, value in settings.items() for text in ("--set", f"{key}={value}")]
    env = dict(os.environ, OMP_NUM_THREADS=str(threads))
    summary = call([ogrom, "train", "inputs/runs/gpt2-124m-cpu.toml", "--json", *sets], env=env)
    rows = list(csv.DictReader(line for line in (out / "metrics.csv").open() if not line.startswith("#")))
    return rows[2:], json.loads(summary)


def peer(python, shape, threads, mode):
    env = dict(os.environ, OMP_NUM_THREADS=str(threads))
    env.pop("OPENBLAS_CORETYPE", None)
    text = call([python, ROOT / "tests/peers/torch_gpt.py", "--layers", shape["layers"], "--hidden", shape["hidden"], "--heads",
                 shape["heads"], "--sequence", shape["sequence"], "--vocab", shape["vocab"], "--micro-batch", shape["micro_batch"],
                 "--threads", threads, "--samples", shape["peer_steps"], "--mode", mode], env=env)
    record = json.loads(text)
    return record["modes"][mode]["seconds"], record["torch"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ogrom", default="build/bench/ogrom")
    parser.add_argument("--shapes", default="124m,small")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--modes", default="eager,compile")
    parser.add_argument("--out", default="results/cpu/train_step.json")
    options = parser.parse_args()
    ogrom = (ROOT / options.ogrom).resolve()
    python = os.environ.get("PEER_PYTHON", "python3")
    folder = ROOT / "results/runs/side-by-side"
    prefix = token_set(ogrom, folder)
    commit = call(["git", "rev-parse", "--short", "HEAD"]).strip()
    records = []
    for name in options.shapes.split(","):
        shape = SHAPES[name]
        our_rows, peers = [], {}
        for _ in range(options.rounds):
            rows, _ = ours(ogrom, shape, prefix, folder, options.threads)
            our_rows += rows
            for mode in options.modes.split(","):
                seconds, version = peer(python, shape, options.threads, mode)
                peers.setdefault(mode, []).extend(seconds)
        our_s = [float(row["step_s"]) for row in our_rows]
        rate = statistics.median(float(row["model_tflops"]) for row in our_rows)
        fraction = statistics.median(float(row["fraction_of_sgemm"]) for row in our_rows)
        best = min(peers, key=lambda mode: statistics.median(peers[mode]))
        tokens = shape["micro_batch"] * shape["sequence"]
        mine, theirs = statistics.median(our_s), statistics.median(peers[best])
        common = dict(machine=f"{platform.processor() or platform.machine()}, {options.threads} threads", commit=commit,
                      date=datetime.date.today().isoformat(), command="make bench ROWS=train_step")
        records.append(dict(name=f"train_step.{name}", value=tokens / mine, unit="tokens/s", better="higher",
                            limit=rate / fraction * 1000 if fraction else None, limit_name="SGEMM 1024x3072x768, GFLOP/s",
                            ratio_to_limit=fraction, peer=tokens / theirs, peer_name=f"PyTorch {version} {best}, fp32",
                            ratio_to_peer=theirs / mine, samples=our_s, **common,
                            extra=dict(model_gflops=rate * 1000, peer_samples=peers, **shape)))
        print(json.dumps(records[-1], indent=1))
    path = ROOT / options.out
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
