#!/usr/bin/env python3
"""Runs the node tests of ONNX by `vkformer op`. Others wrote their expected numbers.

usage: scripts/onnx_tests.py FOLDER PROGRAM DEVICE...     DEVICE: as --device takes it, for example lavapipe

FOLDER has the tests (Debian: libonnx-testdata, /usr/share/libonnx-testdata/data/node, from 1.20 on with Attention),
PROGRAM is vkformer. Needs numpy and onnx (Debian: python3-onnx), of the version that wrote the tests: ONNX changed what
Attention is without a new opset. Takes the tests of one node, not those that ONNX made of them by writing the op out.

This script lays arrays out as the op wants them (axes, heads, masks as biases, weights as [out,in], ids counted from
the other end) and computes nothing; what an op lacks, other ops compute. They compute in float32; integers run as
float32 if it holds each of them. All outputs of all data sets are compared, with their shapes and types. Integers must
be equal, other numbers within ONNX's own tolerance: relative 1e-3, absolute 1e-7 (half precision, to which our numbers
are rounded first: absolute 1e-3). For each device the last line is `N of M`. The exit status is 1 if a test failed.
Tests that are missing because no op has such a parameter are listed with the reason and are no failures.
"""
import glob
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

MOST_ROWS = 65535  # that every device takes at once
BY_ROW = ("x", "residual", "ids", "positions")  # inputs of ops that have a row for each row of the result

SECONDS = 600  # for one op

# The versions of ONNX that changed Attention, in its opsets 23 and 24 as well.
INSTALLED = tuple(int(n) for n in onnx.__version__.split(".")[:2])
CAP_BEFORE_MASK = (1, 22)  # and the score outputs 1 and 2 change places: its pull requests 7867 and 7913
ENDS_AT_LAST_KEY = (1, 23)  # causal attention to a given number of keys; 0 where no key is seen: pull request 8068


class Missing(Exception):
    """Our ops have no such parameter, output or type."""


# ---- the program -----------------------------------------------------------------------------------------------------


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
    def __init__(self, path, device, folder):
        self.path, self.device, self.folder = path, device, folder

    def run(self, name, arrays, params):
        paths = [os.path.join(self.folder, file) for file in ("in.safetensors", "out.safetensors")]
        write_safetensors(paths[0], arrays)
        command = [self.path, "op", name, "-i", paths[0], "-o", paths[1], "-p", json.dumps(params), "--device",
                   self.device, "--allow-not-finite"]  # scores behind a mask are infinite
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        if run.returncode:
            raise RuntimeError(f"exit status {run.returncode}: {run.stderr.strip()}")
        return read_safetensors(paths[1])

    def op(self, name, arrays, **params):
        """The result's arrays. Rows over the most that a device takes run after the others."""
        if not all(array.size for array in arrays.values()):
            raise Missing("an array without elements")
        n_rows = max((len(arrays[key]) for key in BY_ROW if key in arrays), default=1)
        parts = []
        for i in range(0, n_rows, MOST_ROWS):
            part = {key: t[i : i + MOST_ROWS] if key in BY_ROW else t for key, t in arrays.items()}
            parts.append(self.run(name, part, params))
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]} if len(parts) > 1 else parts[0]

    def out(self, name, arrays, **params):
        return self.op(name, arrays, **params)["out"]


# ---- numbers and rows ------------------------------------------------------------------------------------------------


def exact(x):
    """Returns x as float32, which must hold every integer that x has."""
    found = x.astype(np.float32)
    if x.dtype.kind in "iub" and found.tolist() != x.tolist():
        raise Missing(f"{x.dtype} that float32 does not hold")
    return found


def ordered(x):
    """Returns x as float32, in which different numbers of x must stay different."""
    found = exact(x)
    if len(np.unique(found)) < len(np.unique(x)):
        raise Missing(f"{x.dtype} that float32 does not tell apart")
    return found


def like(found, x):
    """Turns what was computed from exact(x) into the type of x if that is an integer or bool."""
    return found.astype(x.dtype) if x.dtype.kind in "iub" else found


def to_rows(x, axis):
    """Returns the rows of x along `axis`."""
    moved = np.moveaxis(x, axis, -1)
    return moved.reshape(-1, moved.shape[-1])


def from_rows(rows, x, axis):
    """Puts rows back into their places along `axis` of x."""
    shape = np.moveaxis(x, axis, -1).shape[:-1] + rows.shape[-1:]
    return np.moveaxis(rows.reshape(shape), -1, axis)


def times(p, x, factor, activation="none"):
    """Computes activation(x) times the factor, element by element, by a gate of one row."""
    factor = np.broadcast_to(factor, x.shape)
    row = np.concatenate([x.reshape(1, -1), factor.reshape(1, -1)], 1)
    return p.out("gate", {"x": row}, activation=activation).reshape(x.shape)


def plus(p, x, y):
    """Computes x + y, element by element, by a matmul of a one with the weights x and the bias y."""
    y = np.broadcast_to(y, x.shape)
    arrays = {"x": np.ones((1, 1)), "w": x.reshape(-1, 1), "bias": y.reshape(-1)}
    return p.out("matmul", arrays).reshape(x.shape)


def product(p, x, w, scale=1.0, activation="none", **added):
    """Computes activation(scale x w^T) and adds what is given. matmul has no scale 0: then x is multiplied by it."""
    if scale == 0:
        x, scale = times(p, x, scale), 1.0
    return p.out("matmul", {"x": x, "w": w, **added}, scale=float(scale), activation=activation)


# ---- matmul, rows, norms, activations --------------------------------------------------------------------------------


def refuse_integers(x):
    if x.dtype.kind != "f":
        raise Missing(f"sums of {x.dtype}")


def matmul(p, a, _, x, w):
    refuse_integers(x)
    rows = x if x.ndim > 1 else x[None]
    columns = w if w.ndim > 1 else w[:, None]
    batch = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    rows, columns = (np.broadcast_to(t, batch + t.shape[-2:]) for t in (rows, columns))
    out = np.stack([product(p, rows[i], columns[i].T) for i in np.ndindex(batch)])
    shape = batch + (out.shape[-2:-1] if x.ndim > 1 else ()) + (out.shape[-1:] if w.ndim > 1 else ())
    return [out.reshape(shape)]


def gemm(p, a, _, x, w, c=None):
    refuse_integers(x)
    x, w = x.T if a.get("transA") else x, w if a.get("transB") else w.T
    shape, added = (len(x), len(w)), {}
    if c is not None:
        c = np.atleast_2d(c)
        c = c if a.get("beta", 1) == 1 else times(p, c, a["beta"])
        rows = np.broadcast_to(c, shape)
        added = {"bias": rows[0]} if len(c) == 1 else {"residual": rows}
    return [product(p, x, w, a.get("alpha", 1.0), **added)]


def by_rows(p, a, op, x):
    axis = a.get("axis", -1)
    return [from_rows(p.out(op, {"x": to_rows(x, axis)}), x, axis)]


def varies(t, rank, axis):
    """Returns whether rows that span the axes from `axis` on differ in t, whose axes are the last of `rank`."""
    return np.prod(t.shape[: max(axis - (rank - t.ndim), 0)]) > 1


def inverse_deviation(p, rows, mean, epsilon):
    """Computes 1 / sqrt(variance + epsilon) of N numbers by an RMS norm of the numbers less their mean and one more,
    whose square is N epsilon. The norm makes this one the inverse times a factor, which its weight takes away.
    """
    n = rows.shape[1]
    if not epsilon > 0:
        raise Missing("the output InvStdDev without an epsilon")
    apart = product(p, mean, np.full((n, 1), -1.0), residual=rows)
    one_more = np.full((len(rows), 1), np.sqrt(n * epsilon))
    weight = np.full(n + 1, 1 / np.sqrt((n + 1) * epsilon))
    x = np.concatenate([apart, one_more], 1)
    return p.out("norm", {"x": x, "weight": weight}, eps=0.0, rms=True)[:, -1:]


def norm(p, a, rms, x, weight, bias=None):
    if a.get("stash_type", 1) != onnx.TensorProto.FLOAT:
        raise Missing(f"stash_type {a['stash_type']}")
    axis, epsilon = a.get("axis", -1) % x.ndim, a.get("epsilon", 1e-5)
    rows = x.reshape(-1, int(np.prod(x.shape[axis:])))
    arrays, later = {"x": rows}, {}
    for name, t in {"weight": weight, "bias": bias}.items():
        if t is None:
            continue
        each = np.broadcast_to(t, x.shape).reshape(rows.shape)
        if later or varies(t, x.ndim, axis):  # a bias follows its weight
            later[name] = each
        else:
            arrays[name] = each[0]
    out = p.out("norm", arrays, eps=epsilon, rms=rms)
    out = times(p, out, later["weight"]) if "weight" in later else out
    out = plus(p, out, later["bias"]) if "bias" in later else out
    found = [out.reshape(x.shape)]
    if any(a["wanted"][1:]):
        shape = x.shape[:axis] + (1,) * (x.ndim - axis)
        mean = product(p, rows, np.ones((1, rows.shape[1])), 1 / rows.shape[1])
        found.append(mean.reshape(shape))
    if any(a["wanted"][2:]):
        found.append(inverse_deviation(p, rows, mean, epsilon).reshape(shape))
    return found


def activation(p, a, name, x):
    """Computes act(x) times 1. Swish with an alpha is sigmoid(alpha x) times x."""
    values, alpha = exact(x), a.get("alpha", 1)
    if alpha != 1:
        return [times(p, times(p, values, alpha), values, "sigmoid")]
    name = {b"none": name, b"tanh": "gelu_tanh"}[a.get("approximate", b"none")]
    return [like(times(p, values, 1, name), x)]


# ---- tables and orders -----------------------------------------------------------------------------------------------


def gather(p, a, _, x, ids):
    axis = a.get("axis", 0) % x.ndim
    moved = np.moveaxis(exact(x), axis, 0)
    table, ids = moved.reshape(len(moved), -1), np.where(ids < 0, ids + len(moved), ids)
    rows = p.out("embed", {"ids": ids.reshape(-1), "table": table}).reshape(ids.shape + moved.shape[1:])
    order = list(range(ids.ndim, ids.ndim + axis)) + list(range(ids.ndim)) + list(range(ids.ndim + axis, rows.ndim))
    return [like(rows.transpose(order), x)]


def top_k(p, a, _, x, k):
    """Finds the smallest as the largest of -1 times x."""
    if not a.get("sorted", 1):
        raise Missing("an order that ONNX leaves open")
    axis, largest = a.get("axis", -1), a.get("largest", 1)
    rows = to_rows(ordered(x), axis)
    found = p.op("top_k", {"x": rows if largest else times(p, rows, -1)}, k=int(k.item()))
    values = found["out"] if largest else times(p, found["out"], -1)
    return [from_rows(like(values, x), x, axis), from_rows(found["ids"], x, axis)]


def arg_max(p, a, _, x):
    """Finds the last of equal numbers as the first of the reversed row."""
    axis, last = a.get("axis", 0), a.get("select_last_index")
    rows = to_rows(ordered(x), axis)
    ids = p.op("top_k", {"x": rows[:, ::-1] if last else rows}, k=1)["ids"]
    ids = from_rows(rows.shape[1] - 1 - ids if last else ids, x, axis)
    return [ids if a.get("keepdims", 1) else np.squeeze(ids, axis)]


def rotary(p, a, _, x, cos, sin, positions=None):
    heads = a.get("num_heads", 0)
    rows = x if x.ndim == 3 else x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)
    heads = heads if x.ndim == 3 else x.shape[1]
    if positions is None:  # a table for each token
        cos, sin = (t.reshape(-1, t.shape[-1]) for t in (cos, sin))
        positions = np.arange(len(cos))
    elif (positions < 0).any():
        raise Missing("positions from the end of the table")
    out = p.out(
        "rope",
        {"x": rows.reshape(-1, rows.shape[-1]), "positions": positions.reshape(-1), "cos": cos, "sin": sin},
        heads=heads,
        pairs="interleaved" if a.get("interleaved") else "halves",
    ).reshape(rows.shape)
    return [out if x.ndim == 3 else out.reshape(x.shape[0], x.shape[2], heads, -1).transpose(0, 2, 1, 3)]


# ---- attention -------------------------------------------------------------------------------------------------------


def split_heads(t, n_heads):
    return t.reshape(t.shape[:2] + (n_heads, -1)).transpose(0, 2, 1, 3)


def mask_bias(mask, n_keys):
    """Returns what the mask adds: -inf for keys that are not seen, among them all after the mask's end."""
    bias = np.where(mask, 0, -np.inf) if mask.dtype == bool else mask
    sides = [(0, 0)] * (mask.ndim - 1) + [(0, n_keys - mask.shape[-1])]
    return np.pad(bias.astype(np.float32), sides, constant_values=-np.inf)


def hidden_keys(a, offset, n_queries, n_keys, length):
    """Returns [T, S]: which keys a query does not see, whatever the mask says. The first query is at key `offset`."""
    before = offset + np.arange(n_queries)[:, None] - np.arange(n_keys)
    left, right = a.get("left_window_size", -1), a.get("right_window_size", -1)
    if a.get("local_window_size", -1) > 0:  # the drafts of the two had this: so many keys up to the query's
        left, right = a["local_window_size"] - 1, 0
    if a.get("is_causal"):
        right = 0
    hidden = np.tile(np.arange(n_keys) >= length, (n_queries, 1))
    if left >= 0:
        hidden |= before > left
    if right >= 0:
        hidden |= -before > right
    return hidden


def refuse_old(a, mask, biases):
    """Refuses what earlier versions of ONNX had and our op does not."""
    if a["onnx"] < CAP_BEFORE_MASK and a.get("softcap") and any(bias is not None for bias in biases):
        raise Missing("a mask inside the soft cap, as ONNX had it before https://github.com/onnx/onnx/pull/7867")
    if a["onnx"] >= ENDS_AT_LAST_KEY:
        return
    if any(bias is not None and np.isneginf(bias).all(-1).any() for bias in biases):
        raise Missing("a query that sees no key, which had no number before https://github.com/onnx/onnx/pull/8068")
    if a.get("is_causal") and mask is not None and mask.dtype == bool:
        raise Missing("causal with a mask of bool, which had no numbers before https://github.com/onnx/onnx/pull/8068")


def attention_biases(a, shape, past, mask, lengths):
    """Returns for each sequence [1 or heads, T, S] what the mask adds, -inf where a key is not seen; None: sees all."""
    n_batch, n_heads, n_queries, n_keys = shape
    bias = None if mask is None else mask_bias(mask, n_keys)
    n_heads = n_heads if mask is not None and mask.ndim > 2 and mask.shape[-3] > 1 else 1
    ends = lengths is not None and past is None and a["onnx"] >= ENDS_AT_LAST_KEY
    biases = []
    for b in range(n_batch):
        length = n_keys if lengths is None else int(lengths[b])
        hidden = hidden_keys(a, length - n_queries if ends else past or 0, n_queries, n_keys, length)
        added = None if bias is None else np.broadcast_to(bias, shape)[b, :n_heads]
        biases.append(np.where(hidden[None], -np.inf, 0 if added is None else added) if hidden.any() else added)
    refuse_old(a, mask, biases)
    return biases


def scores(p, a, q, k, scale, bias):
    """Computes what the softmax gets of q [heads,T,K] and k [groups,S,K], or an earlier stage, by the output mode."""
    mode, new = a.get("qk_matmul_output_mode", 0), a["onnx"] >= CAP_BEFORE_MASK
    cap = a.get("softcap", 0) if mode == 2 or (mode == 1 and new) else 0
    has_bias = mode == 2 or (mode == 1 and not new)
    out = np.stack([
        product(p, rows, k[h * len(k) // len(q)], scale / (cap or 1), "tanh" if cap else "none")
        for h, rows in enumerate(q)
    ])
    out = times(p, out, cap) if cap else out
    return plus(p, out, bias) if has_bias and bias is not None else out


def attention(p, a, _, q, k, v, mask=None, past_key=None, past_value=None, lengths=None):
    if a.get("softmax_precision", 1) not in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE):
        raise Missing(f"softmax_precision {a['softmax_precision']}")
    flat = q.ndim == 3
    if flat:
        q, k, v = (split_heads(t, a[f"{n}_num_heads"]) for t, n in ((q, "q"), (k, "kv"), (v, "kv")))
    past = None if past_key is None else past_key.shape[2]
    if past:
        k, v = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    shape = q.shape[:3] + k.shape[2:3]
    scale = float(a.get("scale", 1 / np.sqrt(q.shape[-1])))
    # The op's `causal` needs keys that end with the last query's.
    causal = bool(a.get("is_causal")) and (past or 0) + shape[2] == shape[3] and mask is None and lengths is None
    causal = causal and not any(name.endswith("window_size") for name in a)
    params = {"scale": scale, "softcap": a.get("softcap", 0), "causal": causal}
    out, found = [], []
    for b, bias in enumerate(attention_biases(a, shape, past, mask, lengths)):
        arrays = {n: t[b : b + 1].transpose(0, 2, 1, 3) for n, t in (("q", q), ("k", k), ("v", v))}
        if bias is not None and not causal:
            arrays["bias"] = bias
        out.append(p.out("attention", arrays, **params)[0].transpose(1, 0, 2))
        if not any(a["wanted"][3:]):
            continue
        if a.get("qk_matmul_output_mode", 0) == 3:
            del arrays["v"]
            found.append(p.out("attention_weights", arrays, **params)[0])
        else:
            found.append(scores(p, a, q[b], k[b], scale, bias))
    out = np.stack(out)
    if flat:
        out = out.transpose(0, 2, 1, 3).reshape(out.shape[0], out.shape[2], -1)
    return [out, k, v, np.stack(found) if found else None]


# ---- the tests -------------------------------------------------------------------------------------------------------

# Of each op: the function that computes it, that function's argument, the attributes that it knows.
OPS = {
    "MatMul": (matmul, None, ""),
    "Gemm": (gemm, None, "alpha beta transA transB"),
    "Softmax": (by_rows, "softmax", "axis"),
    "LogSoftmax": (by_rows, "log_softmax", "axis"),
    "LayerNormalization": (norm, False, "axis epsilon stash_type"),
    "RMSNormalization": (norm, True, "axis epsilon stash_type"),
    "Gelu": (activation, "gelu", "approximate"),
    "Swish": (activation, "swish", "alpha"),
    "Relu": (activation, "relu", ""),
    "Tanh": (activation, "tanh", ""),
    "Sigmoid": (activation, "sigmoid", ""),
    "Attention": (attention, None, "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap "
                  "softmax_precision left_window_size right_window_size local_window_size"),
    "RotaryEmbedding": (rotary, None, "interleaved num_heads rotary_embedding_dim"),
    "TopK": (top_k, None, "axis largest sorted"),
    "ArgMax": (arg_max, None, "axis keepdims select_last_index"),
    "Gather": (gather, None, "axis"),
}


def read_arrays(folder, kind, values):
    """Reads the arrays of the graph's inputs or outputs, by their names."""
    arrays = {}
    for i, value in enumerate(values):
        tensor = onnx.TensorProto()
        with open(os.path.join(folder, f"{kind}_{i}.pb"), "rb") as file:
            tensor.ParseFromString(file.read())
        arrays[value.name] = numpy_helper.to_array(tensor)
        if arrays[value.name].dtype.kind not in "fiub":
            raise Missing(f"the type {onnx.TensorProto.DataType.Name(tensor.data_type)}")
    return arrays


def compare(name, expected, found):
    if expected.shape != found.shape:
        raise AssertionError(f"{name}: expected the shape {expected.shape}, found {found.shape}")
    if expected.dtype.kind != found.dtype.kind:
        raise AssertionError(f"{name}: expected {expected.dtype}, found {found.dtype}")
    found = found.astype(expected.dtype)
    if expected.dtype.kind == "f":
        absolute = 1e-3 if expected.dtype == np.float16 else 1e-7
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=absolute, err_msg=name)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=name)


def check(program, folder, model):
    graph = model.graph
    node = graph.node[0]
    compute, argument, known = OPS[node.op_type]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    unknown = sorted(set(attributes) - set(known.split()))
    if unknown:
        raise Missing(f"the attribute {', '.join(unknown)}")
    opset = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    attributes["onnx"] = max(INSTALLED, ENDS_AT_LAST_KEY) if opset > 24 else INSTALLED
    attributes["wanted"] = [bool(name) for name in node.output]
    sets = sorted(glob.glob(os.path.join(glob.escape(folder), "test_data_set_*")))
    if not sets or not graph.output:
        raise AssertionError("expected outputs, found none")
    for data_set in sets:
        arrays = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        arrays.update(read_arrays(data_set, "input", graph.input))
        inputs = [arrays[name] if name else None for name in node.input]
        found = dict(zip(node.output, compute(program, attributes, argument, *inputs)))
        for name, expected in read_arrays(data_set, "output", graph.output).items():
            if found.get(name) is None:
                raise Missing(f"the output {name}")
            compare(name, expected, found[name])


def load(folder):
    """Returns the model if it is one of our ops, else None."""
    path = os.path.join(folder, "model.onnx")
    if not os.path.isfile(path):
        return None
    model = onnx.load(path)
    node = model.graph.node
    return model if len(node) == 1 and node[0].op_type in OPS and node[0].domain in ("", "ai.onnx") else None


def main(root, path, device):
    if not os.path.isdir(root):
        sys.exit(f"onnx_tests: expected the folder of the node tests, found no {root}")
    print(f"onnx on {device}:", flush=True)
    passed, failed, missing = [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        program = Program(path, device, folder)
        for name in sorted(name for name in os.listdir(root) if "_expanded" not in name):
            model = None
            try:
                model = load(os.path.join(root, name))
                if model is None:
                    continue
                check(program, os.path.join(root, name), model)
                passed.append(name)
            except Missing as reason:
                op = model.graph.node[0].op_type
                missing.setdefault(f"{op}: {reason}", []).append(name.removeprefix("test_"))
            except Exception as error:  # whatever ends one test, the others run
                failed.append(name)
                print(f"failed: {name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
    for reason, names in missing.items():
        print(f"missing: {reason}: {', '.join(names)}")
    n_missing = sum(map(len, missing.values()))
    print(f"{len(passed)} of {len(passed) + len(failed) + n_missing} passed, {len(failed)} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit("usage: scripts/onnx_tests.py FOLDER PROGRAM DEVICE...")
    sys.exit(max(main(sys.argv[1], sys.argv[2], device) for device in sys.argv[3:]))
