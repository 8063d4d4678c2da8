#!/usr/bin/env python3
"""The node tests of ONNX, through `vkformer op`: expected numbers that others wrote.

usage: scripts/onnx_tests.py FOLDER PROGRAM [OPTION...]     OPTION: of `vkformer op`, for example --device lavapipe

FOLDER has the tests (Debian: libonnx-testdata, /usr/share/libonnx-testdata/data/node, from 1.20 on with Attention),
PROGRAM is vkformer. Needs numpy and onnx (Debian: python3-onnx). Tests of one node are taken, not those that ONNX made
of them by writing the op out. This script lays arrays out as the op wants them (axes, heads, masks as biases, weights
as [out,in]) and computes nothing. Compared are all outputs, with ONNX's own tolerance: relative 1e-3, absolute 1e-7
(half precision, which runs as float32: absolute 1e-3). Ends with `N of M`; exit status 1 where a test has failed, not
where an op has no such parameter, which is listed.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

TYPES = {"F32": np.float32, "I32": np.int32}


class Missing(Exception):
    """Our op has no such parameter or output."""


def write_safetensors(path, arrays):
    header, data = {}, b""
    for name, array in arrays.items():
        kind = "I32" if array.dtype.kind in "iu" else "F32"
        raw = np.ascontiguousarray(array, TYPES[kind]).tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    with open(path, "rb") as file:
        raw = file.read()
    n = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + n])
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(raw[8 + n :][slice(*t["data_offsets"])], TYPES[t["dtype"]]).reshape(t["shape"])
        for name, t in header.items()
    }


class Program:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder

    def op(self, name, arrays, **params):
        """The result's arrays."""
        paths = [os.path.join(self.folder, file) for file in ("in.safetensors", "out.safetensors")]
        write_safetensors(paths[0], arrays)
        command = [self.arguments[0], "op", name, "-i", paths[0], "-o", paths[1], "-p", json.dumps(params),
                   "--allow-not-finite"]  # scores behind a mask are infinite
        run = subprocess.run(command + self.arguments[1:], capture_output=True, text=True, check=False)
        if run.returncode:
            raise RuntimeError(f"exit status {run.returncode}: {run.stderr.strip()}")
        return read_safetensors(paths[1])

    def out(self, name, arrays, **params):
        return self.op(name, arrays, **params)["out"]


def along(axis, x, compute):
    """Rows of the last axis for an op on `axis`."""
    moved = np.moveaxis(x, axis, -1)
    rows = compute(moved.reshape(-1, moved.shape[-1]))
    return np.moveaxis(rows.reshape(moved.shape[:-1] + (rows.shape[-1],)), -1, axis)


def matmul(p, a, _, x, w):
    rows = x if x.ndim > 1 else x[None]
    columns = w if w.ndim > 1 else w[:, None]
    batch = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    rows = np.broadcast_to(rows, batch + rows.shape[-2:]).reshape((-1,) + rows.shape[-2:])
    columns = np.broadcast_to(columns, batch + columns.shape[-2:]).reshape((-1,) + columns.shape[-2:])
    out = np.stack([p.out("matmul", {"x": r, "w": c.T}) for r, c in zip(rows, columns)])
    shape = batch + (out.shape[-2:-1] if x.ndim > 1 else ()) + (out.shape[-1:] if w.ndim > 1 else ())
    return [out.reshape(shape)]


def gemm(p, a, _, x, w, c=None):
    arrays = {"x": x.T if a.get("transA") else x, "w": w if a.get("transB") else w.T}
    n = arrays["w"].shape[0]
    if c is not None and a.get("beta", 1) != 1:  # beta c is a product with ones on the diagonal
        c = np.atleast_2d(c)
        c = p.out("matmul", {"x": c, "w": np.eye(c.shape[1])}, scale=a["beta"])
    if c is not None and c.size > n:
        arrays["residual"] = np.broadcast_to(c, (arrays["x"].shape[0], n))
    elif c is not None:
        arrays["bias"] = np.broadcast_to(c.reshape(-1), (n,))
    return [p.out("matmul", arrays, scale=a.get("alpha", 1))]


def softmax(p, a, _, x):
    return [along(a.get("axis", -1), x, lambda rows: p.out("softmax", {"x": rows}))]


def log_softmax(p, a, _, x):
    return [along(a.get("axis", -1), x, lambda rows: p.out("log_softmax", {"x": rows}))]


def norm(p, a, rms, x, weight, bias=None):
    width = int(np.prod(x.shape[a.get("axis", -1) % x.ndim :]))
    arrays = {"x": x.reshape(-1, width), "weight": weight.reshape(-1)}
    if bias is not None:
        arrays["bias"] = bias.reshape(-1)
    return [p.out("norm", arrays, eps=a.get("epsilon", 1e-5), rms=rms).reshape(x.shape)]


def activation(p, a, name, x):
    """act(x) times 1."""
    if a.get("alpha", 1) != 1:
        raise Missing("alpha")
    name = "gelu_tanh" if a.get("approximate") == b"tanh" else name
    column = x.reshape(-1, 1)
    return [p.out("gate", {"x": np.concatenate([column, np.ones_like(column)], 1)}, activation=name).reshape(x.shape)]


def gather(p, a, _, x, ids):
    axis = a.get("axis", 0)
    moved = np.moveaxis(x, axis, 0)
    table = moved.reshape(moved.shape[0], -1)
    rows = p.out("embed", {"ids": (ids.reshape(-1) + len(table)) % len(table), "table": table})
    rows = rows.reshape(ids.shape + moved.shape[1:])
    order = list(range(ids.ndim, ids.ndim + axis)) + list(range(ids.ndim)) + list(range(ids.ndim + axis, rows.ndim))
    return [rows.transpose(order)]


def top_k(p, a, _, x, k):
    if not a.get("largest", 1):
        raise Missing("the smallest, which no decoder asks for")
    if x.dtype != np.float32:
        raise Missing(f"{x.dtype}, where logits are float32")
    find = lambda name: along(a.get("axis", -1), x, lambda rows: p.op("top_k", {"x": rows}, k=int(k[0]))[name])
    return [find("out"), find("ids")]


def arg_max(p, a, _, x):
    if a.get("select_last_index"):
        raise Missing("the last of equal numbers, where decoders take the first")
    axis = a.get("axis", 0)
    ids = along(axis, x, lambda rows: p.op("top_k", {"x": rows}, k=1)["ids"])
    return [ids if a.get("keepdims", 1) else np.squeeze(ids, axis)]


def rotary(p, a, _, x, cos, sin, positions=None):
    heads = a.get("num_heads", 0)
    rows = x if x.ndim == 3 else x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)
    heads = heads if x.ndim == 3 else x.shape[1]
    if positions is None:  # a table for each token
        cos, sin = (t.reshape(-1, t.shape[-1]) for t in (cos, sin))
        positions = np.arange(len(cos))
    out = p.out(
        "rope",
        {"x": rows.reshape(-1, rows.shape[-1]), "positions": positions.reshape(-1), "cos": cos, "sin": sin},
        heads=heads,
        pairs="interleaved" if a.get("interleaved") else "halves",
    ).reshape(rows.shape)
    return [out if x.ndim == 3 else out.reshape(x.shape[0], x.shape[2], heads, -1).transpose(0, 2, 1, 3)]


def attention_bias(a, mask, lengths, b, shape, past):
    """[1 or heads, T, S] of sequence b: 0 or what the mask adds, -inf where a key is not seen; None: sees all."""
    _, n_queries, n_keys = shape
    bias = None
    if mask is not None:
        bias = np.where(mask, 0, -np.inf) if mask.dtype == bool else mask
        bias = bias if bias.ndim < 4 else bias[min(b, len(bias) - 1)]
        bias = np.broadcast_to(bias, (bias.shape[0] if bias.ndim == 3 else 1,) + bias.shape[-2:]).astype(np.float32)
        if bias.shape[-1] < n_keys:
            bias = np.pad(bias, ((0, 0), (0, 0), (0, n_keys - bias.shape[-1])), constant_values=-np.inf)
    unseen = np.zeros((1, n_queries, n_keys), bool)
    if a.get("is_causal"):
        unseen |= np.arange(n_keys) > past + np.arange(n_queries)[:, None]
    if lengths is not None:
        unseen |= np.arange(n_keys) >= lengths[b]
    if unseen.any():
        bias = np.where(unseen, -np.inf, 0 if bias is None else bias).astype(np.float32)
    return bias


def attention(p, a, _, q, k, v, mask=None, past_key=None, past_value=None, lengths=None):
    cap = a.get("softcap", 0)
    if cap and mask is not None:
        raise Missing("a mask inside the soft cap, as ONNX had it before https://github.com/onnx/onnx/pull/7867")
    flat, half = q.ndim == 3, q.dtype == np.float16
    if flat:
        heads, kv_heads = a["q_num_heads"], a["kv_num_heads"]
        q = q.reshape(q.shape[:2] + (heads, -1)).transpose(0, 2, 1, 3)
        k, v = (t.reshape(t.shape[:2] + (kv_heads, -1)).transpose(0, 2, 1, 3) for t in (k, v))
    past = 0 if past_key is None else past_key.shape[2]
    if past:
        k, v = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    shape = (q.shape[1], q.shape[2], k.shape[2])
    scale = a.get("scale", 1 / np.sqrt(q.shape[-1]))
    mode = a.get("qk_matmul_output_mode", 0)
    out, scores = [], []
    for b in range(len(q)):
        arrays = {n: t[b : b + 1].transpose(0, 2, 1, 3) for n, t in (("q", q), ("k", k), ("v", v))}
        bias = attention_bias(a, mask, lengths, b, shape, past)
        # What the op calls causal is for keys that end with the last query's.
        causal = bool(a.get("is_causal")) and past + shape[1] == shape[2] and mask is None
        if causal:
            bias = None
        if bias is not None:
            arrays["bias"] = bias
        params = {"scale": float(scale), "softcap": cap, "causal": causal}
        out.append(p.out("attention", arrays, **params)[0].transpose(1, 0, 2))
        if not a["wants_scores"]:
            continue
        if mode == 3:
            del arrays["v"]
            scores.append(p.out("attention_weights", arrays, **params)[0])
            continue
        each = []
        for h in range(shape[0]):
            rows = {"x": q[b, h], "w": k[b, h * k.shape[1] // shape[0]]}
            if mode == 2 and cap:
                capped = p.out("matmul", rows, scale=float(scale / cap), activation="tanh")
                each.append(p.out("matmul", {"x": capped, "w": np.eye(shape[2])}, scale=cap))
                continue
            if mode == 1 and bias is not None:
                rows["residual"] = bias[h if len(bias) > 1 else 0]
            each.append(p.out("matmul", rows, scale=float(scale)))
        scores.append(np.stack(each))
    out = np.stack(out)
    if flat:
        out = out.transpose(0, 2, 1, 3).reshape(out.shape[0], out.shape[2], -1)
    kind = np.float16 if half else np.float32
    return [out.astype(kind), k, v, np.stack(scores) if scores else None]


OPS = {
    "MatMul": (matmul, None),
    "Gemm": (gemm, None),
    "Softmax": (softmax, None),
    "LogSoftmax": (log_softmax, None),
    "LayerNormalization": (norm, False),
    "RMSNormalization": (norm, True),
    "Gelu": (activation, "gelu"),
    "Swish": (activation, "swish"),
    "Relu": (activation, "relu"),
    "Tanh": (activation, "tanh"),
    "Sigmoid": (activation, "sigmoid"),
    "Attention": (attention, None),
    "RotaryEmbedding": (rotary, None),
    "TopK": (top_k, None),
    "ArgMax": (arg_max, None),
    "Gather": (gather, None),
}


def read_arrays(folder, kind, names):
    arrays = []
    for i in range(len([n for n in names if n])):
        tensor = onnx.TensorProto()
        with open(os.path.join(folder, "test_data_set_0", f"{kind}_{i}.pb"), "rb") as file:
            tensor.ParseFromString(file.read())
        arrays.append(numpy_helper.to_array(tensor))
    given = iter(arrays)
    return [next(given) if n else None for n in names]


def check(program, folder, node):
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    attributes["wants_scores"] = len(node.output) > 3
    compute, argument = OPS[node.op_type]
    found = compute(program, attributes, argument, *read_arrays(folder, "input", node.input))
    for i, (name, expected) in enumerate(zip(node.output, read_arrays(folder, "output", node.output))):
        if not name:
            continue
        if i >= len(found):
            raise Missing(f"the output {name}, which training reads")
        if expected.shape != found[i].shape:
            raise AssertionError(f"{name}: expected the shape {expected.shape}, found {found[i].shape}")
        absolute = 1e-3 if expected.dtype == np.float16 else 1e-7
        np.testing.assert_allclose(found[i], expected, rtol=1e-3, atol=absolute, err_msg=name)


def main(root, arguments):
    if not os.path.isdir(root):
        sys.exit(f"onnx_tests: expected the folder of the node tests, found no {root}")
    passed, failed, missing = [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        program = Program(arguments, folder)
        for name in sorted(os.listdir(root)):
            if "_expanded" in name:
                continue
            nodes = onnx.load(os.path.join(root, name, "model.onnx")).graph.node
            if len(nodes) != 1 or nodes[0].op_type not in OPS:
                continue
            try:
                check(program, os.path.join(root, name), nodes[0])
                passed.append(name)
            except Missing as reason:
                missing.setdefault(f"{nodes[0].op_type}: {reason}", []).append(name)
            except (AssertionError, RuntimeError) as error:
                failed.append(name)
                print(f"failed: {name}: {' '.join(str(error).split())[:300]}")
    for reason, names in missing.items():
        names = ", ".join(name.removeprefix("test_") for name in names)
        print(f"no such parameter or output: {reason}: {names}")
    n_missing = sum(map(len, missing.values()))
    print(f"{len(passed)} of {len(passed) + len(failed) + n_missing} passed, {len(failed)} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: scripts/onnx_tests.py FOLDER PROGRAM [OPTION...]")
    sys.exit(main(sys.argv[1], sys.argv[2:]))
