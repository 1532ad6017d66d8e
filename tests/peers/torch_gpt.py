#!/usr/bin/env python3
"""PyTorch's side of the CPU comparison: GPT-2 training steps in fp32, the better of eager and torch.compile.

One step = accumulation micro-batches of forward and backward, clipping at norm 1.0, AdamW (fused), as ours; dropout 0,
scaled_dot_product_attention, one product for q, k and v, rows of the token table padded (faster for PyTorch too).
Example, the 124M shape on two threads, five samples of each mode:

    python3 torch_gpt.py --layers 12 --hidden 768 --heads 12 --sequence 1024 --micro-batch 4 --threads 2

Prints one JSON object: seconds of each sample by mode, the better mode by median, its tokens/s. With --interactive it
takes one step of the --mode given for each line on stdin and answers with one JSON line, so that a caller can alternate
ours and theirs in one thermal and memory state. Pin both sides alike, and leave OMP_WAIT_POLICY as for ours: two
spinning OpenMP runtimes on the same cores run at a percent of their speed.
"""
import argparse
import json
import math
import statistics
import sys
import time

import torch
import torch.nn.functional as functional
from torch import nn


class Block(nn.Module):
    def __init__(self, hidden, heads, ffn_hidden):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, ffn_hidden)
        self.down = nn.Linear(ffn_hidden, hidden)

    def forward(self, x):
        batch, length, hidden = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(hidden, dim=2))
        attention = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).reshape(batch, length, hidden))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, options):
        super().__init__()
        hidden = options.hidden
        self.vocab = options.vocab
        self.token = nn.Embedding(-(-options.vocab // options.vocab_multiple) * options.vocab_multiple, hidden)
        self.position = nn.Embedding(options.sequence, hidden)
        self.blocks = nn.ModuleList(Block(hidden, options.heads, 4 * hidden) for _ in range(options.layers))
        self.norm = nn.LayerNorm(hidden)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                branch = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * options.layers) if branch else 1))
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm(x), self.token.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Trainer:
    def __init__(self, options, mode):
        torch.manual_seed(options.seed)
        self.options = options
        self.model = Gpt(options)
        self.run = torch.compile(self.model) if mode == "compile" else self.model
        matrices = [p for p in self.model.parameters() if p.dim() == 2]
        vectors = [p for p in self.model.parameters() if p.dim() == 1]
        self.optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                                            {"params": vectors, "weight_decay": 0.0}],
                                           lr=6e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
        shape = (options.micro_batch, options.sequence + 1)
        self.data = [torch.randint(0, options.vocab, shape) for _ in range(options.accumulation)]

    def step(self):
        """Seconds of one optimizer step, and its loss."""
        start = time.perf_counter()
        total = 0.0
        self.optimizer.zero_grad(set_to_none=True)
        for text in self.data:
            loss = self.run(text[:, :-1], text[:, 1:]) / len(self.data)
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return time.perf_counter() - start, total


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 12), ("hidden", 768), ("heads", 12), ("sequence", 1024), ("vocab", 50257),
                          ("vocab-multiple", 128), ("micro-batch", 4), ("accumulation", 1), ("threads", 2),
                          ("samples", 5), ("warmup", 2), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--mode", choices=("eager", "compile", "both"), default="both")
    parser.add_argument("--interactive", action="store_true", help="one step for each line on stdin")
    options = parser.parse_args()
    if options.interactive and options.mode == "both":
        parser.error("--interactive takes one --mode")
    return options


def warmed(options, mode):
    trainer = Trainer(options, mode)
    for _ in range(options.warmup):
        trainer.step()
    return trainer


def interact(options):
    trainer = warmed(options, options.mode)
    print(json.dumps({"ready": True, "mode": options.mode, "torch": torch.__version__}), flush=True)
    for _ in sys.stdin:
        seconds, loss = trainer.step()
        print(json.dumps({"seconds": seconds, "loss": loss}), flush=True)


def measure(options):
    tokens = options.micro_batch * options.accumulation * options.sequence
    record = {"peer": "PyTorch CPU", "torch": torch.__version__, "dtype": "fp32", "threads": torch.get_num_threads(),
              "tokens_per_step": tokens, "options": vars(options), "modes": {}}
    modes = ("eager", "compile") if options.mode == "both" else (options.mode,)
    for mode in modes:
        trainer = warmed(options, mode)
        samples = [trainer.step() for _ in range(options.samples)]
        seconds = [sample[0] for sample in samples]
        record["modes"][mode] = {"seconds": seconds, "median_s": statistics.median(seconds), "loss": samples[-1][1]}
        del trainer
    best = min(record["modes"], key=lambda mode: record["modes"][mode]["median_s"])
    record["best_mode"] = best
    record["samples"] = [tokens / seconds for seconds in record["modes"][best]["seconds"]]
    record["unit"] = "tokens/s"
    record["value"] = tokens / record["modes"][best]["median_s"]
    print(json.dumps(record, indent=2))


def main():
    options = parse_options()
    torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("highest")
    if options.interactive:
        interact(options)
    else:
        measure(options)


if __name__ == "__main__":
    main()
