#!/usr/bin/env python3
"""Makes tied.json/.bin and untied.json/.bin: 20 AdamW steps of a tiny GPT-2 by PyTorch, for tests/golden/golden.cpp.

Run `python3 make_golden.py` (needs torch and numpy) in this folder; the tests themselves need no Python.
The model is GPT-2's: pre-LayerNorm (eps 1e-5), causal attention, learned positions, tanh-GELU; odd sizes, but heads,
inner width and T are even, so that two tensor ranks can share them. Each run is made twice,
in fp32 and in fp64, from the same fp32 weights. Loss = sum over unmasked targets of the whole step / their number.

NAME.json  model, optimizer, tokens, targets, masks, learning rates, per-step loss and gradient norm of both runs
NAME.bin   little-endian float32, tensors in the order of "tensors": initial weights, gradients of step 1 before
           clipping (fp64 run), weights after the last step (fp64 run)
"""
import json
import math
from pathlib import Path

import numpy
import torch
import torch.nn.functional as functional

MODEL = dict(layers=2, hidden=36, heads=4, ffn_hidden=100, vocab=101, padded_vocab=128, sequence=23, norm_epsilon=1e-5)
OPTIMIZER = dict(lr=3e-3, min_lr=3e-4, warmup_steps=4, decay_steps=18, beta1=0.9, beta2=0.95, epsilon=1e-8,
                 weight_decay=0.1, clip_norm=1.0)
STEPS, ACCUMULATION, BATCH, T = 20, 2, 2, 22


def tensor_shapes(tied):
    c, f = MODEL["hidden"], MODEL["ffn_hidden"]
    shapes = [("embedding.token.weight", (MODEL["vocab"], c)), ("embedding.position.weight", (MODEL["sequence"], c))]
    for layer in range(MODEL["layers"]):
        block = [("norm1.weight", (c,)), ("norm1.bias", (c,))]
        block += [(f"attention.{part}.weight", (c, c)) for part in ("query", "key", "value")]
        block += [(f"attention.{part}.bias", (c,)) for part in ("query", "key", "value")]
        block += [("attention.out.weight", (c, c)), ("attention.out.bias", (c,)), ("norm2.weight", (c,)),
                  ("norm2.bias", (c,)), ("mlp.up.weight", (f, c)), ("mlp.up.bias", (f,)),
                  ("mlp.down.weight", (c, f)), ("mlp.down.bias", (c,))]
        shapes += [(f"block.{layer}.{name}", shape) for name, shape in block]
    shapes += [("final_norm.weight", (c,)), ("final_norm.bias", (c,))]
    if not tied:
        shapes.append(("head.weight", (MODEL["vocab"], c)))
    return shapes


def initial_weights(tied, generator):
    """Larger than a real start, and no gain or bias at a special value, so that every path carries gradient."""
    weights = {}
    for name, shape in tensor_shapes(tied):
        normal = generator.standard_normal(shape)
        is_gain = name.endswith("weight") and len(shape) == 1
        value = 1 + 0.1 * normal if is_gain else (0.05 if len(shape) == 1 else 0.12) * normal
        weights[name] = torch.tensor(value.astype(numpy.float32))
    return weights


def linear(x, weights, name):
    return functional.linear(x, weights[name + ".weight"], weights[name + ".bias"])


def norm(x, weights, name):
    return functional.layer_norm(x, (MODEL["hidden"],), weights[name + ".weight"], weights[name + ".bias"],
                                 MODEL["norm_epsilon"])


def loss_sum(weights, tied, tokens, targets, mask):
    batch, length = tokens.shape
    heads = MODEL["heads"]
    x = weights["embedding.token.weight"][tokens] + weights["embedding.position.weight"][:length]
    for layer in range(MODEL["layers"]):
        block = f"block.{layer}."
        n = norm(x, weights, block + "norm1")
        q, k, v = (linear(n, weights, f"{block}attention.{part}").view(batch, length, heads, -1).transpose(1, 2)
                   for part in ("query", "key", "value"))
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(out.transpose(1, 2).reshape(batch, length, -1), weights, block + "attention.out")
        n = norm(x, weights, block + "norm2")
        up = functional.gelu(linear(n, weights, block + "mlp.up"), approximate="tanh")
        x = x + linear(up, weights, block + "mlp.down")
    table = weights["embedding.token.weight" if tied else "head.weight"]
    logits = norm(x, weights, "final_norm") @ table.T
    losses = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return (losses * mask.flatten()).sum()


def learning_rate(step):
    o = OPTIMIZER
    update = step + 1
    if update < o["warmup_steps"]:
        return o["lr"] * update / o["warmup_steps"]
    u = min(1.0, (update - o["warmup_steps"]) / (o["decay_steps"] - o["warmup_steps"]))
    return o["min_lr"] + (o["lr"] - o["min_lr"]) * (1 + math.cos(math.pi * u)) / 2


def train(initial, tied, data, dtype):
    weights = {name: value.detach().clone().to(dtype).requires_grad_() for name, value in initial.items()}
    decayed = [w for w in weights.values() if w.dim() == 2]
    plain = [w for w in weights.values() if w.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": OPTIMIZER["weight_decay"]},
                                   {"params": plain, "weight_decay": 0.0}],
                                  betas=(OPTIMIZER["beta1"], OPTIMIZER["beta2"]), eps=OPTIMIZER["epsilon"])
    record = dict(loss=[], norm=[])
    for step, micro_batches in enumerate(data):
        count = sum(int(mask.sum()) for _, _, mask in micro_batches)
        optimizer.zero_grad()
        total = 0.0
        for tokens, targets, mask in micro_batches:
            loss = loss_sum(weights, tied, tokens, targets, mask.to(dtype))
            (loss / count).backward()
            total += loss.item()
        gradient_norm = math.sqrt(sum(float(w.grad.double().square().sum()) for w in weights.values()))
        if step == 0:
            record["gradients"] = {name: w.grad.clone() for name, w in weights.items()}
        factor = min(1.0, OPTIMIZER["clip_norm"] / gradient_norm)
        for w in weights.values():
            w.grad.mul_(factor)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.step()
        record["loss"].append(total / count)
        record["norm"].append(gradient_norm)
    record["weights"] = {name: w.detach() for name, w in weights.items()}
    return record


def make_data(generator):
    data = []
    for _ in range(STEPS):
        micro_batches = []
        for micro in range(ACCUMULATION):
            text = generator.integers(0, MODEL["vocab"], (BATCH, T + 1))
            # The second micro-batch keeps few targets: averaging per micro-batch would show.
            mask = generator.random((BATCH, T)) < (0.9 if micro == 0 else 0.3)
            mask[:, -1] = True
            micro_batches.append((torch.tensor(text[:, :-1]), torch.tensor(text[:, 1:]), torch.tensor(mask)))
        data.append(micro_batches)
    return data


def write(name, tied, data, initial):
    single = train(initial, tied, data, torch.float32)
    double = train(initial, tied, data, torch.float64)
    names = [tensor for tensor, _ in tensor_shapes(tied)]
    arrays = [part[tensor].float().numpy().ravel()
              for part in (initial, double["gradients"], double["weights"]) for tensor in names]
    folder = Path(__file__).resolve().parent
    numpy.concatenate(arrays).astype("<f4").tofile(folder / f"{name}.bin")
    flat = [micro for micro_batches in data for micro in micro_batches]
    golden = dict(format=1, made_by=f"make_golden.py, torch {torch.__version__.split('+')[0]}", tied=tied, model=MODEL,
                  optimizer=OPTIMIZER, steps=STEPS, accumulation=ACCUMULATION, micro_batch=BATCH, T=T,
                  tensors=[dict(name=tensor, shape=shape) for tensor, shape in tensor_shapes(tied)],
                  lr=[learning_rate(step) for step in range(STEPS)],
                  loss_fp32=single["loss"], loss_fp64=double["loss"],
                  norm_fp32=single["norm"], norm_fp64=double["norm"],
                  tokens=[micro[0].flatten().tolist() for micro in flat],
                  targets=[micro[1].flatten().tolist() for micro in flat],
                  mask=[micro[2].int().flatten().tolist() for micro in flat])
    (folder / f"{name}.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n", encoding="utf-8")
    print(name, "loss", double["loss"][0], "->", double["loss"][-1], "norm", double["norm"][0], double["norm"][-1])


def main():
    torch.manual_seed(0)
    generator = numpy.random.default_rng(20)
    data = make_data(generator)
    for name, tied in (("tied", True), ("untied", False)):
        write(name, tied, data, initial_weights(tied, generator))


if __name__ == "__main__":
    main()
