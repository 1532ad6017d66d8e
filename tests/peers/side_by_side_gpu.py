#!/usr/bin/env python3
"""One training step on this GPU, Ogrom beside PyTorch and beside the floor of the step, row by row of the yardsticks.

For each row that --rows (a regular expression) takes, in this order: ours, the peer (every variant of torch_gpu.py, the
fastest counts), ours again, the floor (bench_floor). The same shapes, random tokens, bf16 products, fp32 master weights
and moments, dropout 0, clipping at 1.0, AdamW. Ours is the median step of metrics.csv without the first three. The
search of products starts cold in our first run and is warm in the second; the compilation of the peer starts cold.
Records go to --out in the form of results/README.md; rows that were not run keep theirs. Every program has a time limit,
and all rows together have --limit seconds, less than 8 minutes: rows that there was no time for are told, with the ROWS
that make them up. A row of which something fails is recorded with what there is: without peer where no variant of it ran
(its memory was short, say), without value where ours failed; extra.failed says why. Then the others go on; exit 1 at the
end, 77 without a GPU.
Works without git and build tools: --ogrom and --floor are the binaries. PEER_PYTHON names a Python with torch (python3
unless set).
"""
import argparse
import array
import csv
import datetime
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
GIB = 2**30
VOCAB = 50304
SKIPPED_STEPS = 3
LEAST_S = 120  # what a row needs at least: a smaller rest of the call is not begun
measured_peers = {}  # shape -> what peers() returns
PEER_VARIANTS = 4  # autocast or bf16, each with PyTorch's choice of attention or cuDNN's


def shape(layers, hidden, heads, sequence, micro_batch):
    return dict(layers=layers, hidden=hidden, heads=heads, sequence=sequence, micro_batch=micro_batch)


# Name, shape; measured before on one H200: tokens/s of the best PyTorch run and of llm.c, the floor in ms; the bar.
ROWS = {
    "GPT-2 124M": (shape(12, 768, 12, 1024, 64), 547_000, 512_400, 105, 1.04),
    "GPT-2 350M": (shape(24, 1024, 16, 1024, 32), 202_200, 190_500, 144, 1.06),
    "GPT-2 1558M": (shape(48, 1600, 25, 1024, 16), 48_900, 48_000, 292, 1.06),
    "GPT-3 1.3B": (shape(24, 2048, 16, 2048, 8), 61_900, None, 233, 1.06),
    "6.7B width, 8 layers": (shape(8, 4096, 32, 2048, 8), 50_800, None, 295, 1.03),
    "175B width, 1 layer": (shape(1, 12288, 96, 2048, 8), 42_700, None, 369, 1.00),
}
# The same shapes with our linear layers in fp8 (numerics.linears), against the best peer in bf16 and the floor of fp8
# products, of which nothing was seen before.
FP8 = " fp8"
ROWS |= {name + FP8: (*ROWS[name][:2], None, None, bar)
         for name, bar in {"GPT-2 1558M": 1.20, "GPT-3 1.3B": 1.25, "6.7B width, 8 layers": 1.35,
                           "175B width, 1 layer": 1.30}.items()}


class Failed(Exception):
    pass


class Clock:
    """Seconds left of this call of the script: no program gets more."""
    end = float("inf")

    @classmethod
    def left(cls):
        return cls.end - time.monotonic()


def call(command, limit_s, env=None, partial=False):
    """Standard output of a program and its children, all ended after limit_s. partial: what it printed until then, or
    until it failed, is worth having, and the fault comes second."""
    command = [str(word) for word in command]
    limit_s = max(1, min(limit_s, Clock.left()))
    process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               stdin=subprocess.DEVNULL, env=env, start_new_session=True)
    fault = None
    try:
        out, errors = process.communicate(timeout=limit_s)
        if process.returncode != 0:
            fault = f"{' '.join(command)}\nexit {process.returncode}\n{errors[-1500:]}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, errors = process.communicate()
        fault = f"{' '.join(command)}\nended after {limit_s:.0f} s\n{errors[-1500:]}"
    except BaseException:  # Ctrl-C does not reach the child's own session
        os.killpg(process.pid, signal.SIGKILL)
        raise
    if partial:
        return out, fault
    if fault:
        raise Failed(fault)
    return out


def token_set(prefix, tokens=2**21):
    """Uniform random ids below VOCAB, as the peer's, in one document: Megatron's .bin and .idx (src/data/token_set.h)."""
    draw = random.Random(1)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    ids = array.array("H", draw.choices(range(VOCAB), k=tokens))
    pathlib.Path(f"{prefix}.bin").write_bytes(ids.tobytes())
    uint16 = 8
    header = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, uint16, 1, 2)
    pathlib.Path(f"{prefix}.idx").write_bytes(header + struct.pack("<iqqq", tokens, 0, 0, 1))
    return prefix


def run_file(folder, model, prefix, steps, linears):
    path = folder / "run.toml"
    rows = model["micro_batch"] * model["sequence"]
    path.write_text(f"""[model]
layers = {model["layers"]}
hidden = {model["hidden"]}
heads = {model["heads"]}
vocab = {VOCAB}
sequence = {model["sequence"]}
[data]
train = "{prefix}"
[train]
steps = {steps}
micro_batch = {model["micro_batch"]}
accumulation = 1
sequence = {model["sequence"]}
logits_rows = {min(rows, 16384)}
log_interval_steps = {steps}
[optimizer]
lr = 6e-5
warmup_steps = 0
clip_norm = 1.0
[precision]
weights = "bf16"
[numerics]
linears = "{linears}"
[checkpoint]
at_end = false
[run]
device = "cuda"
output = "{folder / 'ours'}"
product_cache = "{folder / 'products'}"
""")
    return path


def ours(ogrom, file, limit_s):
    """Step times without the first few, and the summary; first_step_s: from launch to the end of the first step."""
    out = file.parent / "ours"
    shutil.rmtree(out, ignore_errors=True)
    summary = json.loads(call([ogrom, "train", file, "--json"], limit_s))
    with (out / "metrics.csv").open() as lines:
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    seconds = [float(row["step_s"]) for row in rows]
    summary["first_step_s"] = summary["launch_to_first_step_s"] + seconds[0]
    return seconds[SKIPPED_STEPS:], summary


def peers(options, folder, model):
    """Variants that ran, by name (none: PyTorch failed), and what went wrong with the others. An fp8 row takes those
    that its bf16 row measured in the same call."""
    shape_key = tuple(model.values())
    if shape_key not in measured_peers:
        measured_peers[shape_key] = run_peers(options, folder, model)
    return measured_peers[shape_key]


def run_peers(options, folder, model):
    cache = folder / "inductor"
    shutil.rmtree(cache, ignore_errors=True)
    env = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=str(cache), TRITON_CACHE_DIR=str(cache / "triton"))
    command = [options.python, ROOT / "tests/peers/torch_gpu.py", "--vocab", VOCAB, "--variant", options.variants,
               "--attention", options.attention, "--steps", options.peer_steps]
    for key, value in model.items():
        command += [f"--{key.replace('_', '-')}", value]
    out, fault = call(command, options.peer_limit, env=env, partial=True)
    measured = {}
    for line in out.splitlines():
        if line.startswith("{"):
            record = json.loads(line)
            measured[f"{record['variant']}, {record['attention']} attention"] = record
    good = {name: record for name, record in measured.items() if "error" not in record}
    errors = [f"{name}: {record['error']}" for name, record in measured.items() if "error" in record]
    if not good and not fault:
        fault = "torch_gpu.py printed nothing"
    return good, "\n".join(errors + ([fault] if fault else []))


def void_reasons(variants, peer, floor, before, limit):
    """What makes a ratio of this run worthless: a peer or a floor that is worse than it was seen to be."""
    reasons = []
    if not variants:
        reasons.append("no variant of the peer ran")
    elif len(variants) < PEER_VARIANTS:
        reasons.append(f"only {len(variants)} of {PEER_VARIANTS} variants of the peer ran")
    if variants and peer < 0.95 * before:
        reasons.append(f"peer more than 5 % below the {before:,} tokens/s seen before")
    if variants and peer < 0.5 * limit:
        reasons.append("peer below half of the limit")
    if floor["before_ms"] and floor["floor_s"] * 1e3 > 1.03 * floor["before_ms"]:
        reasons.append(f"floor more than 3 % above the {floor['before_ms']} ms seen before")
    return reasons


def measure(options, name, prefix):
    model, peer_before, llm_c, floor_before_ms, bar = ROWS[name]
    folder = options.work / re.sub(r"[^a-z0-9]+", "-", name.lower())
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "products").mkdir(parents=True)
    linears = "fp8" if name.endswith(FP8) else "compute"
    file = run_file(folder, model, prefix, options.steps, linears)

    print(f"{name}: ours, with a cold search of products", flush=True)
    first, cold = ours(options.ogrom, file, options.ogrom_limit)
    print(f"{name}: PyTorch", flush=True)
    variants, fault = peers(options, folder, model)
    print(f"{name}: ours again", flush=True)
    second, warm = ours(options.ogrom, file, options.ogrom_limit)
    print(f"{name}: floor", flush=True)
    dimensions = [model[key] for key in ("layers", "hidden", "heads", "sequence", "micro_batch")]
    floor = json.loads(call([options.floor, *dimensions, VOCAB, *(["fp8"] if linears == "fp8" else [])],
                            options.floor_limit))
    floor["before_ms"] = floor_before_ms

    tokens = model["micro_batch"] * model["sequence"]
    step_s = statistics.median(first + second)
    best = max(variants, key=lambda variant: variants[variant]["tokens_per_s"], default=None)
    peer = variants[best]["tokens_per_s"] if variants else None
    of_peer = variants.get(best, {})
    limit = tokens / floor["floor_s"]
    reasons = void_reasons(variants, peer, floor, peer_before, limit)
    record = dict(
        name=name, value=tokens / step_s, unit="tokens/s", better="higher", limit=limit,
        limit_name=f"products at the fastest measured algorithm + attention of {floor['attention']} + other bytes at the "
                   "copy rate, each measured sustained in this run",
        ratio_to_limit=floor["floor_s"] / step_s, peer=peer,
        peer_name=f"PyTorch {of_peer['torch']} compile, {best}" if variants else None,
        ratio_to_peer=tokens / step_s / peer if variants else None, samples=[tokens / s for s in first + second],
        extra=dict(memory_gib=warm["memory_peak_bytes"] / GIB, peer_memory_gib=of_peer.get("driver_gib"),
                   peer_allocated_gib=of_peer.get("allocated_gib"), memory_ledger_gib=warm["memory_ledger_bytes"] / GIB,
                   first_step_s=warm["first_step_s"], first_step_cold_s=cold["first_step_s"],
                   peer_first_step_s=of_peer.get("first_step_s"), step_ms=step_s * 1e3, floor_ms=floor["floor_s"] * 1e3,
                   floor_parts_ms=floor["parts_ms"], measured_over_floor=step_s / floor["floor_s"], bar=bar,
                   llm_c_tokens_per_s=llm_c, loss=warm["loss"], residual="bf16", linears=linears, peer_residual=of_peer.get("residual"),
                   micro_batch=model["micro_batch"], accumulation=1, tokens_per_step=tokens, void=reasons, floor=floor,
                   peers=variants))
    if fault:
        record["extra"]["failed"] = fault
    return record


def machine():
    query = ["nvidia-smi", "--query-gpu=name,driver_version,power.limit", "--format=csv,noheader"]
    try:
        return call(query, 20).splitlines()[0]
    except (Failed, OSError, IndexError):
        return "a GPU that nvidia-smi does not name"


def failed_record(name, reason):
    """Of a row without a figure of ours."""
    return dict(name=name, value=None, unit="tokens/s", better="higher", limit=None, limit_name=None, ratio_to_limit=None,
                peer=None, peer_name=None, ratio_to_peer=None, samples=[], extra=dict(failed=reason))


def provenance(ogrom, command):
    commit = re.search(r"^commit (\S+)", call([ogrom, "--version"], 30), re.M)
    return dict(machine=machine(), commit=commit.group(1) if commit else "unknown",
                date=datetime.date.today().isoformat(), command=command)


def keep(path, record):
    kept = json.loads(path.read_text()) if path.exists() else []
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {row["name"]: row for row in kept} | {record["name"]: record}
    path.write_text(json.dumps(list(rows.values()), indent=1) + "\n")


def tell(record):
    extra = record["extra"]
    parts = ", ".join(f"{part} {ms:.1f}" for part, ms in extra["floor_parts_ms"].items())
    beside = f"{record['ratio_to_peer']:.3f}x of {record['peer_name']}" if record["peer"] else "without a peer"
    print(f"{record['name']}: {record['value']:,.0f} tokens/s, {beside} "
          f"(bar {extra['bar']:.2f}x); step {extra['step_ms']:.1f} ms = {extra['measured_over_floor']:.3f} of the floor "
          f"{extra['floor_ms']:.1f} ms ({parts})")
    for name, variant in extra["peers"].items():
        print(f"    {name}: {variant['tokens_per_s']:,.0f} tokens/s, {variant['driver_gib']:.1f} GiB "
              f"({variant['allocated_gib']:.1f} allocated), first step {variant['first_step_s']:.1f} s")
    print(f"    ours: {extra['memory_gib']:.1f} GiB, ledger {extra['memory_ledger_gib']:.1f}, first step "
          f"{extra['first_step_s']:.1f} s warm, {extra['first_step_cold_s']:.1f} s cold")
    for reason in extra["void"]:
        print(f"    VOID: {reason}")
    if record["extra"]["floor"]["products"]["left_out"]:
        print("    some products of the floor keep the library's first choice: the search had no time or memory for them")
    sys.stdout.flush()


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ogrom", type=pathlib.Path, default=ROOT / "build/gpu/ogrom")
    parser.add_argument("--floor", type=pathlib.Path, default=ROOT / "build/gpu/tests/peers/bench_floor")
    parser.add_argument("--rows", default=".", help="regular expression over: " + "; ".join(ROWS))
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results/gpu/peers.json")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "results/runs/gpu-bench", help="files of the runs")
    parser.add_argument("--python", default=os.environ.get("PEER_PYTHON", "python3"))
    parser.add_argument("--steps", type=int, default=12, help=f"of ours; the first {SKIPPED_STEPS} do not count")
    parser.add_argument("--peer-steps", type=int, default=10)
    parser.add_argument("--variants", default="autocast,bf16")
    parser.add_argument("--attention", default="cudnn,default")
    for name, default in (("ogrom", 60), ("peer", 270), ("floor", 75)):
        parser.add_argument(f"--{name}-limit", type=float, default=default, help=f"seconds of one call ({default})")
    parser.add_argument("--limit", type=float, default=470, help="seconds of all rows (470)")
    options = parser.parse_args()
    options.ogrom, options.floor = options.ogrom.resolve(), options.floor.resolve()
    options.out, options.work = options.out.resolve(), options.work.resolve()
    if options.steps < SKIPPED_STEPS + 3:
        parser.error(f"--steps: {SKIPPED_STEPS + 3} at least")
    return options


def main():
    options = parse_options()
    if call([ROOT / "jobscripts/local/has_gpu.sh"], 10).strip() != "ON":
        print("skip: no GPU driver on this machine")
        sys.exit(77)
    chosen = [name for name in ROWS if re.search(options.rows, name)]
    if not chosen:
        sys.exit(f"no row is named like {options.rows}: {'; '.join(ROWS)}")
    Clock.end = time.monotonic() + options.limit
    common = provenance(options.ogrom, f"make gpu-bench ROWS='{options.rows}'")
    prefix = token_set(options.work / "tokens")
    failed, left_out = [], []
    for name in chosen:
        if Clock.left() < LEAST_S:
            left_out.append(name)
            continue
        try:
            record = measure(options, name, prefix)
        except (Failed, OSError, ValueError, KeyError) as error:
            record = failed_record(name, str(error) if isinstance(error, Failed) else repr(error))
        keep(options.out, record | common)
        if record["value"] is not None:
            tell(record)
        if "failed" in record["extra"]:
            print(f"{name}: FAILED, not everything of it ran\n{record['extra']['failed']}", flush=True)
            failed.append(name)
    if left_out:
        print(f"no time left in this call; now: make gpu-bench ROWS='^({'|'.join(map(re.escape, left_out))})$'")
    if failed or left_out:
        sys.exit(f"failed: {'; '.join(failed) or 'none'}; not run: {'; '.join(left_out) or 'none'}")


if __name__ == "__main__":
    main()
