#!/usr/bin/env python3
"""PyTorch's side of the loss curve (curve_gpu.py): trains from the weights, samples and learning rates of ours.

    python3 curve_torch.py FOLDER --rates RATES.json --variant autocast

FOLDER holds what curve_inputs wrote; RATES.json is the learning rate of each step. Prints one line of JSON: losses and
gradient norms by step. Variants as in torch_gpu.py: autocast, or bf16 (weights and residual stream in bf16, fp32 master
weights and moments). The loss is computed in fp32 from the logits in both: reported in bf16 it would be rounded to one
part in 256. fp32 (to try the script, and as the curve without rounding): no autocast.
"""
import argparse
import contextlib
import json
import math
import pathlib
import types

import numpy
import torch
import torch.nn.functional as functional

from torch_gpt import Gpt

# Ours, and where it stands in torch_gpt.Gpt.
TENSORS = {"embedding.token.weight": "token.weight", "embedding.position.weight": "position.weight",
           "final_norm.weight": "norm.weight", "final_norm.bias": "norm.bias"}
BLOCK = {"norm1": "norm1", "norm2": "norm2", "attention.out": "out", "mlp.up": "up", "mlp.down": "down"}
PARTS = ("query", "key", "value")


class CurveGpt(Gpt):
    def forward(self, tokens, targets):
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm(x), self.token.weight)
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def read_weights(folder, tensors):
    flat = numpy.fromfile(folder / "weights.bin", dtype="<f4")
    ours, at = {}, 0
    for tensor in tensors:
        count = math.prod(tensor["shape"])
        ours[tensor["name"]] = torch.from_numpy(flat[at:at + count].reshape(tensor["shape"]))
        at += count
    assert at == flat.size, f"weights.bin has {flat.size} numbers, its tensors {at}"
    return ours


def named_as_theirs(ours, layers):
    theirs = {name: ours[our] for our, name in TENSORS.items()}
    for layer in range(layers):
        for kind in ("weight", "bias"):
            for our, name in BLOCK.items():
                theirs[f"blocks.{layer}.{name}.{kind}"] = ours[f"block.{layer}.{our}.{kind}"]
            theirs[f"blocks.{layer}.qkv.{kind}"] = torch.cat(
                [ours[f"block.{layer}.attention.{part}.{kind}"] for part in PARTS])
    return theirs


def make_model(folder, inputs, device):
    options = types.SimpleNamespace(**{key: inputs[key] for key in ("layers", "hidden", "heads", "vocab", "sequence")},
                                    vocab_multiple=1)
    with torch.device(device):
        model = CurveGpt(options)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = inputs["norm_epsilon"]
    model.load_state_dict(named_as_theirs(read_weights(folder, inputs["tensors"]), inputs["layers"]), strict=True)
    return model


class Trainer:
    def __init__(self, model, inputs, variant, device):
        self.model, self.inputs, self.device = model, inputs, device
        self.autocast, self.master = variant == "autocast", variant == "bf16"
        self.parameters = self.updated = list(model.parameters())
        if self.master:
            self.updated = [p.detach().clone() for p in self.parameters]
            model.to(torch.bfloat16)
            self.parameters = list(model.parameters())
            for weight in self.updated:
                weight.grad = torch.zeros_like(weight)
        groups = [{"params": [p for p in self.updated if p.dim() == 2], "weight_decay": inputs["weight_decay"]},
                  {"params": [p for p in self.updated if p.dim() == 1], "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, betas=(inputs["beta1"], inputs["beta2"]), eps=inputs["epsilon"])

    def step(self, ids, rate):
        arithmetic = torch.autocast(self.device, dtype=torch.bfloat16) if self.autocast else contextlib.nullcontext()
        with arithmetic:
            loss = self.model(ids[:, :-1], ids[:, 1:])
        loss.backward()
        with torch.no_grad():
            if self.master:
                torch._foreach_copy_([p.grad for p in self.updated], [p.grad for p in self.parameters])
            norm = torch.nn.utils.clip_grad_norm_(self.updated, self.inputs["clip_norm"])
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
            if self.master:
                torch._foreach_copy_(self.parameters, self.updated)
            for parameter in self.parameters:
                parameter.grad = None
        return loss.detach(), norm


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rates", type=pathlib.Path, required=True)
    parser.add_argument("--variant", choices=("autocast", "bf16", "fp32"), required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try the script")
    options = parser.parse_args()
    inputs = json.loads((options.folder / "inputs.json").read_text())
    rates = json.loads(options.rates.read_text())
    shape = (inputs["steps"], inputs["rows"], inputs["sequence"] + 1)
    tokens = torch.from_numpy(numpy.fromfile(options.folder / "tokens.bin", dtype="<i4").reshape(shape)).long()
    trainer = Trainer(make_model(options.folder, inputs, options.device), inputs, options.variant, options.device)
    losses, norms = [], []
    for ids, rate in zip(tokens.to(options.device), rates, strict=True):
        loss, norm = trainer.step(ids, rate)
        losses.append(loss)
        norms.append(norm)
    print(json.dumps({"variant": options.variant, "torch": torch.__version__, "losses": [x.item() for x in losses],
                      "norms": [x.item() for x in norms]}))


if __name__ == "__main__":
    main()
