#!/usr/bin/env python3
"""Measures PyTorch on a CUDA device: copies, matrix products, an encoder, a LLaMA of 1 B parameters. Prints a JSON line
for each, with the median. Matrix products and copies are timed with CUDA events, models by the clock, from call to
result. Models run without torch.compile.
usage: torch_gpu.py [NAME...] (copy, matmul, row, encoder, llama; default all)"""
import argparse
import json
import statistics
import time

import torch

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("names", nargs="*", default=["copy", "matmul", "row", "encoder", "llama"])
args = parser.parse_args()
torch.backends.cuda.matmul.allow_tf32 = False
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def show(name, value, unit):
    print(json.dumps({"name": name, "value": value, "unit": unit, "device": torch.cuda.get_device_name()}), flush=True)


def by_events(work, seconds=0.5):
    """Returns the median milliseconds of work(i)."""
    times, begin, i = [], time.perf_counter(), 0
    while len(times) < 10 or time.perf_counter() - begin < seconds:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work(i)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
        i += 1
    return statistics.median(times[3:])


def by_clock(work, seconds=0.5):
    times, begin = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < seconds:
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[2:])


def many(work, n=32):
    """Returns work that does `work` n times, because once is too short between two events."""
    def all_of(i):
        for j in range(n):
            work(i * n + j)
    return all_of


def copy():
    a, b = (torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(2))
    show("copy of 1 GiB", 2 * a.numel() / 1e6 / by_events(lambda i: b.copy_(a)), "GB/s")


def matmul():
    for n in (1024, 4096):
        for name, dtype in TYPES.items():
            x, w = (torch.randn(n, n, device="cuda").to(dtype) for _ in range(2))
            show(f"matmul {n} x {n} x {n} {name}", 2e-9 * n**3 / by_events(lambda i: torch.matmul(x, w.T)), "TFLOP/s")


def row():
    for n, k in ((4096, 4096), (14336, 4096), (4096, 14336)):
        for name in ("f32", "f16"):
            x = torch.randn(1, k, device="cuda").to(TYPES[name])
            ws = [torch.randn(n, k, device="cuda").to(TYPES[name]) for _ in range(16)]
            ms = by_events(many(lambda i: torch.matmul(x, ws[i % 16].T))) / 32
            show(f"row 1 x {n} x {k} {name}", ws[0].numel() * ws[0].element_size() / 1e6 / ms, "GB/s")


def encoder():
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, activation="gelu", batch_first=True)
    for name in ("f32", "f16"):
        model = torch.nn.TransformerEncoder(layer, 6).eval().cuda().to(TYPES[name])
        for batch, length in ((1, 128), (8, 128), (1, 512), (1, 2048)):
            x = torch.randn(batch, length, 512, device="cuda").to(TYPES[name])
            show(f"encoder 6 x D 512, {batch} x {length}, {name}", by_clock(lambda: model(x)), "ms")


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=32000, hidden_size=2048, num_hidden_layers=16, num_attention_heads=32,
                         num_key_value_heads=32, intermediate_size=8192, max_position_embeddings=4096)
    torch.set_default_dtype(torch.float16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    ids = torch.randint(32000, (1, 512), device="cuda")
    show("LLaMA 1 B, f16, prompt of 512", 512e3 / by_clock(lambda: model(ids, logits_to_keep=1)), "tokens/s")

    def new(n):
        return lambda: model.generate(ids[:, :8], attention_mask=torch.ones_like(ids[:, :8]), max_new_tokens=n,
                                      min_new_tokens=n, do_sample=False, pad_token_id=0)
    show("LLaMA 1 B, f16, decode", 64e3 / (by_clock(new(72)) - by_clock(new(8))), "tokens/s")


with torch.inference_mode():
    for name in args.names:
        globals()[name]()
