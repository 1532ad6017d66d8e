#!/usr/bin/env python3
"""Makes hf-tiny/: small GPT-2 models with random weights as transformers saves them, and their logits in fp32.

Run by hand with torch and transformers; the tests need neither. tiny: tied head; square: ffn = hidden and one head, so
that no extent tells a matrix from its transpose; untied: a head of its own, as shards.
"""
import os
import shutil

import torch
from transformers import GPT2Config, GPT2LMHeadModel

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hf-tiny")
ids = [1, 7, 30, 2, 36, 0, 5, 5, 11, 23]
models = {
    "tiny": dict(n_layer=2, n_embd=24, n_head=4, tie_word_embeddings=True),
    "square": dict(n_layer=1, n_embd=16, n_head=1, n_inner=16, tie_word_embeddings=True),
    "untied": dict(n_layer=1, n_embd=16, n_head=2, tie_word_embeddings=False),
}
for name, shape in models.items():
    torch.manual_seed(7)
    folder = os.path.join(here, name)
    shutil.rmtree(folder, ignore_errors=True)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=37, n_positions=16, bos_token_id=0, eos_token_id=0, **shape)).eval()
    with torch.no_grad():
        for key, value in model.named_parameters():
            value.copy_(torch.randn_like(value) * 0.3 + (1.0 if "ln_" in key and key.endswith("weight") else 0.0))
        logits = model(torch.tensor([ids])).logits[0]
    model.save_pretrained(folder, max_shard_size="5KB" if name == "untied" else "1GB")
    os.remove(os.path.join(folder, "generation_config.json"))
    logits.numpy().astype("<f4").tofile(os.path.join(folder, "logits.bin"))
