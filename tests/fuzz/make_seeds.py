#!/usr/bin/env python3
"""Seeds for the fuzz targets, made from the files of the tests: make_seeds.py FOLDER.

Whole files are too large for a fuzzer to change with luck, so tensors are cut to a few numbers and vocabularies to a few
dozen pieces. A .dict file holds the words that the reader asks for, taken from its sources and from the seeds.
"""
import json
import pathlib
import re
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = pathlib.Path(sys.argv[1])


def put(target, name, data):
    folder = OUT / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def dictionary(target, sources):
    words = set()
    for source in sources:
        words |= set(re.findall(r'"([A-Za-z_]{2,40})"', (ROOT / source).read_text()))
    lines = [f'"\\"{word}\\""' for word in sorted(words)]
    (OUT / f"{target}.dict").write_text("\n".join(lines) + "\n")


def safetensors():
    for folder in sorted(p.parent for p in (ROOT / "tests/golden").glob("*/config.json")):
        data = (folder / "model.safetensors").read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + size])
        small, body = {}, b""
        for name, entry in list(header.items())[:4]:
            if name == "__metadata__":
                small[name] = entry
                continue
            begin = entry["data_offsets"][0]
            shape = [min(n, 2) for n in entry["shape"]]
            n = 4
            for extent in shape:
                n *= extent
            at = 8 + size + begin
            small[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + n]}
            body += data[at : at + n]
        text = json.dumps(small, separators=(",", ":")).encode()
        put("safetensors", folder.name, struct.pack("<Q", len(text)) + text + body)
    (OUT / "safetensors.dict").write_text(
        "\n".join(f'"\\"{w}\\""' for w in "dtype shape data_offsets __metadata__ F32 F16 BF16 I64 BOOL U8".split()) + "\n")


def config():
    tiny = re.findall(r'tiny_config\[\] =\s*(.*?);\n', (ROOT / "tests/support/tiny_model.h").read_text(), re.S)[0]
    tiny = "".join(json.loads(part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', tiny))
    put("config", "tiny", tiny)
    for folder in sorted(p.parent for p in (ROOT / "tests/golden").glob("*/config.json")):
        put("config", folder.name, (folder / "config.json").read_bytes())
    for changes in ({"architecture": "encoder"}, {"norm_first": True, "lm_head": False},
                    {"positional_encoding": "none", "norm_affine": False}, {"attention_bias": False, "ffn_bias": False}):
        put("config", "tiny-" + "-".join(changes), json.dumps({**json.loads(tiny), **changes}))
    dictionary("config", ["src/model/family_transformer.c", "src/model/family_marian.c", "src/model/config.c"])


def cut_vocabulary(model):
    vocab = model.get("vocab")
    if isinstance(vocab, dict):
        kept = dict(sorted(vocab.items(), key=lambda item: item[1])[:48])
        model["vocab"] = kept
        if "merges" in model:
            pairs = [m if isinstance(m, list) else m.split(" ", 1) for m in model["merges"]]
            model["merges"] = [m for m in pairs if m[0] in kept and m[1] in kept and m[0] + m[1] in kept][:16]
    elif isinstance(vocab, list):
        model["vocab"] = vocab[:48]


def tokenizer():
    for path in sorted((ROOT / "tests/data/tokenizers").glob("*/tokenizer.json")) + [ROOT / "models/en-es/tokenizer.json"]:
        whole = json.loads(path.read_text())
        cut_vocabulary(whole["model"])
        whole["added_tokens"] = [t for t in whole.get("added_tokens", []) if t["id"] < 48][:6]
        text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
        put("tokenizer", path.parent.name, text)
        put("tokenizer", path.parent.name + "-text", text.encode() + b"\0The cat\xc2\xa0sat. 123")
        parts = {k: whole.get(k) for k in ("normalizer", "pre_tokenizer", "decoder")}
        put("tokenizer", path.parent.name + "-steps", json.dumps({
            "added_tokens": [], "post_processor": None, **parts,
            "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "The": 1}, "unk_token": "[UNK]"}}))
    dictionary("tokenizer", [p.relative_to(ROOT) for p in sorted((ROOT / "src/text").glob("*.c"))])


def fields(data):
    """The fields of a protobuf message: (number, all bytes of the field, its content)."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        start, key = at, varint()
        size = varint() if key & 7 in (0, 2) else 4
        begin = at
        if key & 7 != 0:
            at += size
        yield key >> 3, data[start:at], data[begin:at]


def sentencepiece():
    for path in sorted((ROOT / "tests/data/tokenizers").glob("*/spiece.model")):
        parts = list(fields(path.read_bytes()))
        pieces = [raw for number, raw, _ in parts if number == 1]
        trainer = b"".join(raw for number, raw, _ in parts if number == 2)
        some = b"".join(pieces[:8] + pieces[-40:] + pieces[300:340])
        put("sentencepiece", path.parent.name, some + trainer)
        # A trie of one leaf: "A" becomes "b".
        trie = struct.pack("<4I", 12, 1 << 10, 0x41 | 1 << 8 | 3 << 10, 1 << 31) + b"b\0"
        for flags in (b"", b"\x18\0\x20\0\x28\0"):
            content = b"\x12" + bytes([len(trie)]) + trie + flags
            put("sentencepiece", f"{path.parent.name}-charsmap{len(flags)}", some + trainer + b"\x1a" + bytes([len(content)]) + content)


def generation():
    for path in sorted(ROOT.glob("tests/golden/*/generation.json")):
        for i, row in enumerate(json.loads(path.read_text())):
            put("generation", f"{path.parent.name}-{i}", json.dumps(row["options"]))
    put("generation", "en-es", (ROOT / "models/en-es/generation_config.json").read_bytes())
    dictionary("generation", ["src/engine/generation_config.c"])


def image():
    for path in sorted((ROOT / "tests/images").glob("*.[pj][np]g")):
        put("image", path.name, path.read_bytes())


for make in (safetensors, config, tokenizer, sentencepiece, generation, image):
    make()
