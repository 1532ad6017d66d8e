#!/usr/bin/env python3
"""ONNX export against onnx.checker and onnxruntime (development check; needs onnx, onnxruntime, numpy).

usage: check_onnx.py OGROM CHECKPOINT [--big]

Exports CHECKPOINT, checks the model, moves the folder, and compares the logits of ONNX Runtime at every position with
those of `ogrom sample --logits`. Limit: 1e-4 absolute (fp32 sums of a few thousand terms in another order).
--big: model of more than 2^31 bytes: one short sequence, no second row of the batch.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

LIMIT = 1e-4


def our_logits(ogrom, checkpoint, ids, vocab, folder):
    file = os.path.join(folder, "logits.bin")
    subprocess.run([ogrom, "sample", checkpoint, "--ids", ",".join(map(str, ids)), "--logits", file], check=True)
    return np.fromfile(file, dtype="<f4").reshape(len(ids), vocab)


def facts_of(model):
    names = [tensor.name for tensor in model.graph.initializer]
    external = [t for t in model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL]
    entries = [{e.key: e.value for e in t.external_data} for t in external]
    assert len(names) == len(set(names)), "an initializer twice"
    assert {e["location"] for e in entries} == {"model.onnx.data"}
    assert all(int(e["offset"]) % 4096 == 0 for e in entries)
    return {"weights": len(external), "bytes": sum(int(e["length"]) for e in entries),
            "last_offset": max(int(e["offset"]) for e in entries)}


def main():
    ogrom, checkpoint, big = sys.argv[1], sys.argv[2], "--big" in sys.argv[3:]
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        made = os.path.join(folder, "made")
        subprocess.run([ogrom, "convert", checkpoint, "--to", "onnx", "--out", made], check=True)
        moved = os.path.join(folder, "elsewhere", "moved")
        os.makedirs(os.path.dirname(moved))
        shutil.move(made, moved)
        path = os.path.join(moved, "model.onnx")
        onnx.checker.check_model(path, full_check=not big)
        model = onnx.load(path, load_external_data=False)
        facts = facts_of(model)
        vocab = model.graph.output[0].type.tensor_type.shape.dim[2].dim_value
        longest = int({p.key: p.value for p in model.metadata_props}["ogrom.sequence"])
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        random = np.random.default_rng(1)
        worst = 0.0
        for batch, length in [(1, 5)] if big else [(1, 1), (2, 7), (3, longest)]:
            ids = random.integers(0, vocab, size=(batch, length))
            ids[0, -1] = vocab - 1
            theirs = session.run(["logits"], {"input_ids": ids.astype(np.int64)})[0]
            assert theirs.shape == (batch, length, vocab), theirs.shape
            for row in range(batch):
                ours = our_logits(ogrom, checkpoint, ids[row], vocab, folder)
                assert np.isfinite(ours).all() and np.isfinite(theirs[row]).all()
                worst = max(worst, float(np.abs(ours - theirs[row]).max()))
        facts.update({"largest_difference": worst, "largest_logit": float(np.abs(theirs).max()), "limit": LIMIT,
                      "model_bytes": os.path.getsize(path),
                      "data_bytes": os.path.getsize(os.path.join(moved, "model.onnx.data")),
                      "onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__})
        print(json.dumps(facts))
        assert worst <= LIMIT, "logits differ"


if __name__ == "__main__":
    main()
