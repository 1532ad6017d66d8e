#!/usr/bin/env python3
"""PyTorch's side of the GPU comparison: training steps of a GPT in bf16, each variant of arithmetic and attention.

One step = forward, backward, clipping at norm 1.0, AdamW (fused), as ours; dropout 0, torch.compile, random tokens that
change from step to step. Variants of --variant:
  autocast   fp32 weights, torch.autocast to bf16 (residual stream and sums in fp32)
  bf16       bf16 weights and residual stream, gradients cast to fp32, fp32 master weights and moments: our arithmetic
each with every back end of --attention: default (what scaled_dot_product_attention picks) or cudnn. Example:

    python3 torch_gpu.py --layers 12 --hidden 768 --heads 12 --sequence 1024 --micro-batch 64

Prints one line of JSON for each variant as soon as it is measured; one that fails has "error" instead of figures.
Steps are timed by CUDA events without a wait between them. first_step_s is from the start of this process to the end of
the variant's first step; the time of variants before it is taken out.
"""
import argparse
import contextlib
import gc
import json
import os
import statistics
import sys
import time
import traceback

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_gpt import Gpt

GIB = 2**30


def process_age():
    """Seconds since this process started: the interpreter and the imports count."""
    with open("/proc/self/stat") as stat, open("/proc/uptime") as uptime:
        ticks = int(stat.read().rsplit(")", 1)[1].split()[19])
        return float(uptime.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")


class Trainer:
    def __init__(self, options, variant, attention):
        torch.manual_seed(options.seed)
        self.device, self.variant, self.attention = options.device, variant, attention
        with torch.device(options.device):
            self.model = Gpt(options)
        self.parameters = list(self.model.parameters())
        self.updated = self.parameters
        if variant == "bf16":
            self.updated = [p.detach().clone() for p in self.parameters]
            self.model.to(torch.bfloat16)
            self.parameters = list(self.model.parameters())
            for master in self.updated:
                master.grad = torch.zeros_like(master)
        groups = [{"params": [p for p in self.updated if p.dim() == 2], "weight_decay": 0.1},
                  {"params": [p for p in self.updated if p.dim() == 1], "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=6e-5, betas=(0.9, 0.95), eps=1e-8, fused=True)
        self.run = torch.compile(self.model) if options.compile else self.model
        shape = (4, 2, options.micro_batch, options.sequence)
        self.data = torch.randint(0, options.vocab, shape, device=options.device)
        self.taken = 0

    def kernels(self):
        return sdpa_kernel(SDPBackend.CUDNN_ATTENTION) if self.attention == "cudnn" else contextlib.nullcontext()

    def arithmetic(self):
        autocast = self.variant == "autocast"
        return torch.autocast(self.device, dtype=torch.bfloat16) if autocast else contextlib.nullcontext()

    def step(self):
        tokens, targets = self.data[self.taken % len(self.data)]
        self.taken += 1
        with self.kernels():
            with self.arithmetic():
                loss = self.run(tokens, targets)
            loss.backward()
        with torch.no_grad():
            if self.variant == "bf16":
                torch._foreach_copy_([p.grad for p in self.updated], [p.grad for p in self.parameters])
            torch.nn.utils.clip_grad_norm_(self.updated, 1.0, foreach=True)
            self.optimizer.step()
            if self.variant == "bf16":
                torch._foreach_copy_(self.parameters, self.updated)
            for parameter in self.parameters:
                parameter.grad = None
        return loss.detach()


def seconds_of_steps(trainer, count):
    if trainer.device == "cpu":
        times = [time.perf_counter()]
        for _ in range(count):
            trainer.step()
            times.append(time.perf_counter())
        return [end - begin for begin, end in zip(times, times[1:])]
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        trainer.step()
        event.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) / 1e3 for begin, end in zip(events, events[1:])]


def measure(options, variant, attention, imported_s):
    begin = time.perf_counter()
    trainer = Trainer(options, variant, attention)
    first_loss = trainer.step().item()
    first_step_s = imported_s + time.perf_counter() - begin
    seconds_of_steps(trainer, options.warmup)
    seconds = seconds_of_steps(trainer, options.steps)
    loss = trainer.step().item()
    if not loss < 2 * first_loss:  # a NaN does not pass
        raise RuntimeError(f"the loss went from {first_loss} to {loss}")
    tokens = options.micro_batch * options.sequence
    figures = {"tokens_per_s": tokens / statistics.median(seconds), "samples": [tokens / s for s in seconds],
               "first_step_s": first_step_s, "loss": loss}
    if trainer.device != "cpu":
        free, total = torch.cuda.mem_get_info()
        figures |= {"allocated_gib": torch.cuda.max_memory_allocated() / GIB, "driver_gib": (total - free) / GIB}
    return figures


def clear(options):
    """Memory and compiled code of the variant before."""
    gc.collect()
    torch.compiler.reset()
    if options.device != "cpu":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def choice_list(names):
    def parse(text):
        chosen = text.split(",")
        if not set(chosen) <= set(names):
            raise argparse.ArgumentTypeError(f"some of {', '.join(names)}, separated by commas")
        return chosen
    return parse


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 12), ("hidden", 768), ("heads", 12), ("sequence", 1024), ("vocab", 50304),
                          ("vocab-multiple", 128), ("micro-batch", 64), ("steps", 10), ("warmup", 3), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--variant", type=choice_list(("autocast", "bf16")), default=["autocast", "bf16"])
    parser.add_argument("--attention", type=choice_list(("default", "cudnn")), default=["cudnn", "default"])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try the script")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    return parser.parse_args()


def main():
    options = parse_options()
    torch.set_float32_matmul_precision("high")  # what stays in fp32 under autocast may use TF32
    imported_s = process_age()
    failed = False
    for attention in options.attention:
        for variant in options.variant:
            record = {"variant": variant, "attention": attention, "torch": torch.__version__,
                      "residual": "fp32" if variant == "autocast" else "bf16"}
            try:
                record |= measure(options, variant, attention, imported_s)
            except Exception as error:  # the other variants still count
                traceback.print_exc(limit=-2)
                record["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
                failed = True
            print(json.dumps(record), flush=True)
            clear(options)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
