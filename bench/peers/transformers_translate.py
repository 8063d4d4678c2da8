#!/usr/bin/env python3
"""Prints the sentences a second of transformers' generate in float32, in batches by length, not counting its start.
usage: transformers_translate.py MODEL TEXTS [BATCH [BEAMS]]

The script sets float32 because transformers 5 otherwise uses the type of the file. PyTorch has no BLAS for float16 on a
CPU: it would compute on one core, at a quarter of the speed."""
import sys
import time

import torch
from transformers import AutoModelForSeq2SeqLM, PreTrainedTokenizerFast

BATCH, BEAMS = (int(word) for word in (sys.argv[3:] + ["32", "1"][len(sys.argv) - 3:]))
folder = sys.argv[1]
texts = [line.rstrip("\n") for line in open(sys.argv[2], encoding="utf-8")]
model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").eval()
tokenizer = PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json")
pad = model.config.pad_token_id


def translate():
    sentences = sorted((tokenizer(text)["input_ids"] for text in texts), key=len, reverse=True)
    for first in range(0, len(sentences), BATCH):
        rows = sentences[first:first + BATCH]
        length = max(map(len, rows))
        ids = torch.tensor([row + [pad] * (length - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])
        sequences = model.generate(input_ids=ids, attention_mask=mask, num_beams=BEAMS, do_sample=False)
        tokenizer.batch_decode(sequences, skip_special_tokens=True)


with torch.inference_mode():
    if BATCH > 1:
        translate()
    times = []
    for _ in range(3 if BATCH > 1 else 1):
        start = time.perf_counter()
        translate()
        times.append(time.perf_counter() - start)
print(len(texts) / sorted(times)[len(times) // 2])
