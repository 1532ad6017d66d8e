#!/usr/bin/env python3
"""Loss curves on real text, ours in bf16 beside PyTorch's: the same weights, samples and learning rates in each step.

A 124M GPT-2, 200 steps of 16 x 1024 tokens of English (--text, or the King James Bible that Debian's bible-kjv ships,
as `make demo` takes it), tokenizer of 8192 entries made of it. PyTorch trains twice: under autocast, and with bf16
weights and fp32 master. For each: the mean of |ours - theirs| / theirs over steps 20 to 200 must be within 0.5 %; and
the first loss, from equal weights and samples, within 0.1 %. Records go to --out in the form of results/README.md, with
both curves. Exit 1 where a bound is passed, 77 without a GPU. Programs of --build: ogrom, tests/peers/curve_inputs.
"""
import argparse
import csv
import json
import os
import pathlib
import shutil
import statistics
import sys

from side_by_side_gpu import ROOT, Failed, call, keep, provenance

BOUND, FIRST_BOUND, FROM_STEP = 0.005, 0.001, 20
VARIANTS = ("autocast", "bf16")

RUN = """[model]
layers = {layers}
hidden = {hidden}
heads = {heads}
vocab = {vocab}
sequence = {sequence}
[data]
train = "{folder}/text"
tokenizer = "{folder}/tokenizer.json"
[train]
steps = {steps}
micro_batch = {rows}
accumulation = 1
logits_rows = {logits_rows}
log_interval_steps = 20
[optimizer]
lr = 6e-4
warmup_steps = 20
[precision]
{precision}
[checkpoint]
at_end = false
[run]
device = "{device}"
output = "{folder}/ours"
product_cache = "{folder}/products"
"""


def write_text(path, given):
    if given:
        shutil.copy(given, path)
        return
    if not shutil.which("bible"):
        raise Failed("no text: give --text FILE, or install bible-kjv")
    lines, chapter = [], None
    for line in call(["bible", "-f", "gen1:1-rev22:21"], 60).splitlines():
        place, verse = line.split(" ", 1)
        if chapter not in (None, place.split(":")[0]):
            lines.append("")
        chapter = place.split(":")[0]
        lines.append(verse)
    path.write_text("\n".join(lines) + "\n")


def prepare(options, folder):
    """Token set, run file, and the inputs of the peer."""
    write_text(folder / "text.txt", options.text)
    call([options.ogrom, "tokenizer", "train", "--input", folder / "text.txt", "--vocab", options.tokens, "--out",
          folder / "tokenizer.json"], 120)
    call([options.ogrom, "data", "--input", folder / "text.txt", "--split-documents", "blank-lines", "--tokenizer",
          folder / "tokenizer.json", "--out", folder / "text"], 60)
    (folder / "products").mkdir()
    file = folder / "run.toml"
    file.write_text(RUN.format(folder=folder, logits_rows=min(16384, options.rows * options.sequence),
                               precision='weights = "bf16"' if options.device == "cuda" else "", **vars(options)))
    call([options.inputs, file, folder], 60)
    return file


def ours(options, file):
    call([options.ogrom, "train", file], options.limit)
    with (file.parent / "ours/metrics.csv").open() as lines:
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    if len(rows) != options.steps:
        raise Failed(f"metrics.csv has {len(rows)} steps, not {options.steps}")
    (file.parent / "rates.json").write_text(json.dumps([float(row["lr"]) for row in rows]))
    return [float(row["loss"]) for row in rows]


def theirs(options, folder, variant):
    command = [options.python, ROOT / "tests/peers/curve_torch.py", folder, "--rates", folder / "rates.json",
               "--variant", variant, "--device", options.device]
    return json.loads(call(command, options.limit))


def distances(a, b):
    """Of each step relative to b; a NaN gives infinity."""
    apart = [abs(x - y) / y for x, y in zip(a, b, strict=True)]
    return [d if d == d else float("inf") for d in apart]


def record(options, mine, peer, other):
    apart = distances(mine, peer["losses"])
    mean = statistics.mean(apart[options.from_step - 1:])
    extra = dict(first_step=apart[0], first_step_bound=FIRST_BOUND, largest=max(apart[options.from_step - 1:]),
                 final_loss=mine[-1], peer_final_loss=peer["losses"][-1], steps=options.steps,
                 tokens_per_step=options.rows * options.sequence, losses=mine, peer_losses=peer["losses"])
    if other:
        extra["peer_against_itself"] = statistics.mean(
            distances(other["losses"], peer["losses"])[options.from_step - 1:])
    return dict(name=f"GPT-2 124M loss curve, {peer['variant']}", value=mean, unit="of the loss",
                better="lower", limit=BOUND, limit_name=f"0.5 % over steps {options.from_step} to {options.steps}",
                ratio_to_limit=mean / BOUND, peer=peer["losses"][-1],
                peer_name=f"PyTorch {peer['torch']} {peer['variant']}, its last loss",
                ratio_to_peer=mine[-1] / peer["losses"][-1], samples=apart, extra=extra)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/gpu")
    parser.add_argument("--text", type=pathlib.Path, default=os.environ.get("TEXT") or None)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results/gpu/curve.json")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "results/runs/gpu-curve")
    parser.add_argument("--python", default=os.environ.get("PEER_PYTHON", "python3"))
    for name, value in (("layers", 12), ("hidden", 768), ("heads", 12), ("vocab", 50304), ("sequence", 1024),
                        ("rows", 16), ("steps", 200), ("tokens", 8192), ("from-step", FROM_STEP)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu, in fp32: to try the script")
    parser.add_argument("--limit", type=float, default=100, help="seconds of one training (100)")
    options = parser.parse_args()
    options.ogrom = (options.build / "ogrom").resolve()
    options.inputs = (options.build / "tests/peers/curve_inputs").resolve()
    return options


def main():
    options = parse_options()
    if options.device == "cuda" and call([ROOT / "jobscripts/local/has_gpu.sh"], 10).strip() != "ON":
        print("skip: no GPU driver on this machine")
        sys.exit(77)
    folder = options.work.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    good = True
    try:
        file = prepare(options, folder)
        mine = ours(options, file)
        variants = VARIANTS if options.device == "cuda" else ("fp32",)
        peers = [theirs(options, folder, variant) for variant in variants]
    except (Failed, OSError) as error:
        sys.exit(f"curve: FAILED\n{error}")
    for peer in peers:
        other = next((one for one in peers if one is not peer), None)
        row = record(options, mine, peer, other) | provenance(options.ogrom, "make gpu-bench ROWS=curve")
        keep(options.out.resolve(), row)
        within = row["value"] <= BOUND and row["extra"]["first_step"] <= FIRST_BOUND
        good = good and within
        print(f"{row['name']}: {100 * row['value']:.3f} % apart (bound {100 * BOUND} %), at most "
              f"{100 * row['extra']['largest']:.2f} %; first step {100 * row['extra']['first_step']:.4f} %; last loss "
              f"{mine[-1]:.4f}, theirs {peer['losses'][-1]:.4f}{'' if within else '  NOT WITHIN THE BOUND'}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
