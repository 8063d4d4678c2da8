#!/usr/bin/env python3
"""Measures PyTorch's encoder (post-norm, GELU) on sentences of many lengths: sorted, padded in batches, the states'
mean without pads. Tries several batch sizes, with and without nested tensors; prints the best, then its milliseconds.
usage: torch_sentences.py LENGTHS SECONDS (LENGTHS: 3,5,...)"""
import statistics
import sys
import time

import torch

lengths, seconds = sorted(map(int, sys.argv[1].split(","))), float(sys.argv[2])
LAYERS, D, HEADS, F, V = 6, 512, 8, 2048, 8000
embed = torch.nn.Embedding(V, D)


def encoder(nested):
    layer = torch.nn.TransformerEncoderLayer(D, HEADS, F, dropout=0.0, activation="gelu", batch_first=True)
    return torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=nested).eval()


def batches(size):
    for i in range(0, len(lengths), size):
        part = lengths[i : i + size]
        ids = torch.randint(V, (len(part), part[-1]))
        yield ids, torch.arange(part[-1])[None, :] >= torch.tensor(part)[:, None]


def run(model, work):
    for ids, pads in work:
        states = model(embed(ids), src_key_padding_mask=pads)
        if states.shape[1] < pads.shape[1]:  # nested tensors leave pads out at the end
            pads = pads[:, : states.shape[1]]
        states.masked_fill(pads[:, :, None], 0).sum(1) / (~pads).sum(1, keepdim=True)


best = None
with torch.inference_mode():
    for nested in (False, True):
        model = encoder(nested)
        for size in (4, 8, 16, 32, 64):
            work = list(batches(size))
            times, begin = [], time.perf_counter()
            while len(times) < 3 or time.perf_counter() - begin < seconds / 10:
                start = time.perf_counter()
                run(model, work)
                times.append(1e3 * (time.perf_counter() - start))
            found = (statistics.median(times[1:]), f"batches of {size}{', nested tensors' if nested else ''}")
            best = min(best or found, found)
print(best[1])
print(best[0])
