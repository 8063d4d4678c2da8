#!/usr/bin/env python3
"""Runs one head of attention over many tokens: prints time, peak memory, and the error of a few rows against double.

usage: long_attention.py PROGRAM DEVICE TOKENS

Scores of all pairs would take 4 TOKENS^2 bytes. Exits 1 if the process held 1 GiB or more or an error is 1e-5 or more.
"""
import array
import json
import math
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time

WIDTH = 64


def write(path, tensors):
    header, at = {}, 0
    for name, data in tensors.items():
        n = len(data) * data.itemsize
        header[name] = {"dtype": "F32", "shape": [1, len(data) // WIDTH, 1, WIDTH], "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for data in tensors.values():
            data.tofile(f)


def read(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = array.array("f")
        data.frombytes(f.read())
    begin, end = next(v for k, v in header.items() if k != "__metadata__")["data_offsets"]
    return data[begin // 4:end // 4]


def largest_error(t, q, k, v, out):
    n, row = len(k) // WIDTH, lambda data, i: data[i * WIDTH:(i + 1) * WIDTH]
    scores = [sum(map(float.__mul__, row(q, t), row(k, s))) / math.sqrt(WIDTH) for s in range(n)]
    top = max(scores)
    weights = [math.exp(s - top) for s in scores]
    total = sum(weights)
    return max(abs(sum(w * v[s * WIDTH + d] for s, w in enumerate(weights)) / total - out[t * WIDTH + d])
               for d in (0, WIDTH - 1))


def main():
    if len(sys.argv) != 4 or not sys.argv[3].isdecimal():
        sys.exit(__doc__)
    program, device, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    rng = random.Random(1)
    tensors = {name: array.array("f", (rng.gauss(0, 1) for _ in range(n * WIDTH))) for name in "qkv"}
    with tempfile.TemporaryDirectory() as work:
        write(f"{work}/in.safetensors", tensors)
        start = time.time()
        subprocess.run([program, "op", "attention", "--device", device, "--inputs", f"{work}/in.safetensors",
                        "--outputs", f"{work}/out.safetensors"], check=True)
        seconds = time.time() - start
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        out = read(f"{work}/out.safetensors")
    error = max(largest_error(t, tensors["q"], tensors["k"], tensors["v"], out) for t in (0, n // 2, n - 1))
    print(f"{device}: {n} tokens: {seconds:.1f} s, peak {peak:.0f} MiB, largest error {error:.1e}")
    return 0 if peak < 1024 and error < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
