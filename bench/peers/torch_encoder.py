#!/usr/bin/env python3
"""Prints the median ms of PyTorch's encoder (post-norm, GELU). usage: torch_encoder.py BATCH LENGTH SECONDS"""
import statistics
import sys
import time

import torch

batch, length, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
LAYERS, D, HEADS, F = 6, 512, 8, 2048
layer = torch.nn.TransformerEncoderLayer(D, HEADS, F, dropout=0.0, activation="gelu", batch_first=True)
model = torch.nn.TransformerEncoder(layer, LAYERS).eval()
x = torch.randn(batch, length, D)
times = []
with torch.inference_mode():
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds / 5 or not times:
        model(x)
        times = [0]
    times, begin = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        model(x)
        times.append(1e3 * (time.perf_counter() - start))
print(statistics.median(times))
