#!/usr/bin/env python3
"""Prints the median GFLOP/s of NumPy's (its BLAS's) float32 x w^T. usage: openblas_matmul.py M N K SECONDS"""
import statistics
import sys
import time

import numpy as np

m, n, k, seconds = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
x = np.random.default_rng(1).standard_normal((m, k), dtype=np.float32)
w = np.random.default_rng(2).standard_normal((n, k), dtype=np.float32)
out = np.empty((m, n), dtype=np.float32)
for _ in range(5):
    np.matmul(x, w.T, out=out)
times, begin = [], time.perf_counter()
while len(times) < 5 or time.perf_counter() - begin < seconds:
    start = time.perf_counter()
    np.matmul(x, w.T, out=out)
    times.append(time.perf_counter() - start)
print(2e-9 * m * n * k / statistics.median(times))
