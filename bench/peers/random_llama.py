#!/usr/bin/env python3
"""Writes a random LLaMA as a GGUF file for llama-bench. usage: random_llama.py FILE [D LAYERS HEADS F V [f32|f16]]"""
import random
import struct
import sys

d, layers, heads, f, v = map(int, sys.argv[2:7]) if len(sys.argv) > 2 else (512, 8, 8, 1408, 4096)
code, size_of, ggml_type = ("e", 2, 1) if sys.argv[7:] == ["f16"] else ("f", 4, 0)  # of matrices
U32, F32, STRING, ALIGN = 4, 6, 8, 32


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def pair(key, kind, value):
    packed = text(value) if kind == STRING else struct.pack("<f" if kind == F32 else "<I", value)
    return text(key) + struct.pack("<I", kind) + packed


pairs = [pair("general.architecture", STRING, "llama"), pair("general.name", STRING, "random"),
         pair("llama.context_length", U32, 4096), pair("llama.embedding_length", U32, d),
         pair("llama.block_count", U32, layers), pair("llama.feed_forward_length", U32, f),
         pair("llama.attention.head_count", U32, heads), pair("llama.attention.head_count_kv", U32, heads),
         pair("llama.attention.layer_norm_rms_epsilon", F32, 1e-5), pair("llama.rope.dimension_count", U32, d // heads),
         pair("llama.vocab_size", U32, v), pair("tokenizer.ggml.model", STRING, "no_vocab")]
tensors = [("token_embd.weight", (d, v)), ("output_norm.weight", (d,)), ("output.weight", (d, v))]
for i in range(layers):
    tensors += [(f"blk.{i}.{name}.weight", shape) for name, shape in
                [("attn_norm", (d,)), ("attn_q", (d, d)), ("attn_k", (d, d)), ("attn_v", (d, d)), ("attn_output", (d, d)),
                 ("ffn_norm", (d,)), ("ffn_gate", (d, f)), ("ffn_up", (d, f)), ("ffn_down", (f, d))]]
noise = random.Random(1)
block = struct.pack(f"<4096{code}", *(noise.gauss(0, 0.02) for _ in range(4096)))


def bytes_of(shape):
    return 4 * shape[0] if len(shape) == 1 else size_of * shape[0] * shape[1]


with open(sys.argv[1], "wb") as out:
    out.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs))
    at = 0
    for name, shape in tensors:
        out.write(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, ggml_type if len(shape) > 1 else 0, at))
        at += -(-bytes_of(shape) // ALIGN) * ALIGN
    out.write(b"\0" * (-out.tell() % ALIGN))
    for name, shape in tensors:
        size = bytes_of(shape)
        one = struct.pack("<f", 1.0)
        data = one * (size // 4) if len(shape) == 1 else (block * (size // len(block) + 1))[:size]
        out.write(data + b"\0" * (-size % ALIGN))
