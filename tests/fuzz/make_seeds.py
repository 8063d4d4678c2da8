#!/usr/bin/env python3
"""Makes seeds for the fuzz targets from the files of the tests: make_seeds.py FOLDER.

Whole files are too large for a fuzzer to make useful changes, so tensors are cut to a few numbers and vocabularies to
a few dozen pieces. A .dict file has the words that the reader looks for, taken from its sources and from the seeds.
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
    for source in ROOT.glob(sources):
        words |= set(re.findall(r'"([A-Za-z_]{2,40})"', source.read_text()))
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
    dictionary("config", "src/model/*.c")


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
    dictionary("tokenizer", "src/text/*.c")


def fields(data):
    """Yields the fields of a protobuf message: (number, all bytes of the field, its content)."""
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
    for name, options in {"drawn": {"do_sample": True}, "alternatives": {"return_alternatives": True},
                          "patient": {"num_beams": 2, "patience": 2.0}}.items():
        put("generation", name, json.dumps({**options, "num_return_sequences": 3}))
    dictionary("generation", "src/decode/generation_*.c")


def image():
    for path in sorted((ROOT / "tests/images").glob("*.[pj][np]g")):
        put("image", path.name, path.read_bytes())


def tuned():
    for i, (device, times) in enumerate({
            '"cpu": "AMD EPYC", "threads": 2, "vector_bits": 256': ["norm:8,64 norm-row-64", "matmul:4,32,64 matmul-naive-m1n1"],
            '"cpu": "", "threads": 0, "vector_bits": 0': ["top_k:4,8000,8 top_k-row-64", "matmul:1,512,512,int8 matmul-naive-m1n1"]}.items()):
        rows = [dict(zip(("problem", "kernel", "ns", "by"), (*t.split(), 812345, by))) for t, by in zip(times, ("tune", "probe"))]
        checks = [{"check": "subgroup_shuffle:8", "found": ""}, {"check": "shared:32768", "found": "word 1: expected 7"}][:2 - i]
        whole = {"format": "vkformer tuned kernels 1", "devices": [{
            "device": "a device", "uuid": "00" * 16, "vendor_id": 65541, "driver_id": 13, "driver_version": 1, "subgroup_size": 8,
            "table": "0123456789abcdef", **json.loads("{" + device + "}"), "checks": checks, "times": rows}]}
        put("tuned", f"device{i}", json.dumps(whole))
        put("tuned", f"devices{i}", json.dumps({**whole, "devices": 2 * whole["devices"]}))
    dictionary("tuned", "src/tune/tuned_file.c")


def preprocess():
    vit = {"image_processor_type": "ViTImageProcessor", "do_resize": True, "size": {"height": 30, "width": 20}, "resample": 2,
           "do_rescale": True, "rescale_factor": 0.00392156862745098, "do_normalize": True, "image_mean": [0.5, 0.4, 0.3],
           "image_std": [0.5, 0.25, 1]}
    for name, changes in {"vit": {}, "square": {"size": 24, "resample": 0}, "edge": {"size": {"shortest_edge": 9}, "resample": 3},
                          "crop": {"do_center_crop": True, "crop_size": {"height": 9, "width": 40}},
                          "pair": {"size": [7, 9], "do_normalize": False}, "plain": {"do_resize": False, "do_rescale": False},
                          "older": {"feature_extractor_type": "ViTFeatureExtractor", "size": 16, "default_to_square": False,
                                    "image_mean": 0.5}}.items():
        put("preprocess", name, json.dumps({**vit, **changes}))
    dictionary("preprocess", "src/task/preprocess.c")


def legacy():
    def files(name, config, vocab=None, merges=None, words=None, model=None):
        parts = [json.dumps(config), json.dumps(model) if model else "", json.dumps(vocab, ensure_ascii=False) if vocab else "",
                 merges or "", words or "", "The cat\u00a0sat. 123"]
        put("legacy", name, "\0".join(parts))

    def model_of(name):
        model = json.loads((ROOT / f"tests/data/tokenizers/{name}/tokenizer.json").read_text())["model"]
        cut_vocabulary(model)
        return model

    bpe, pieces = model_of("byte-level-bpe"), model_of("wordpiece-uncased")
    merges = "#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in bpe["merges"])
    words = "".join(f"{piece}\n" for piece in pieces["vocab"])
    added = {"added_tokens_decoder": {"49": {"content": "<mask>", "lstrip": True, "special": True}}, "mask_token": "<mask>"}
    for name in ("GPT2", "Roberta", "Bart"):
        files(name, {"tokenizer_class": f"{name}Tokenizer", "add_prefix_space": name == "Roberta", **added}, bpe["vocab"], merges)
    files("gpt2-model-type", {}, bpe["vocab"], merges, model={"model_type": "gpt2"})
    marked = ROOT / "tests/data/tokenizers/marked"
    files("blenderbot-small", {"tokenizer_class": "BlenderbotSmallTokenizer"},
          json.loads((marked / "vocab.json").read_text()), (marked / "merges.txt").read_text())
    for name in ("Bert", "DistilBert"):
        files(name, {"tokenizer_class": f"{name}Tokenizer", "do_lower_case": name == "Bert", "unk_token": "[UNK]"}, words=words)
    files("bert-model-type", {"additional_special_tokens": ["[X]"]}, words=words, model={"model_type": "bert"})
    dictionary("legacy", "src/text/legacy*.c")


def limits():
    put("limits", "small", json.dumps({"max_shared_bytes": 16384, "max_invocations": 128, "subgroup_size": 0, "float16": False,
                                       "int64": False, "storage16": False, "storage8": False, "buffer_address": False,
                                       "max_texel_elements": 65536, "max_storage_range_bytes": 134217728,
                                       "max_storage_bindings": 8, "max_workgroup_count": 65535,
                                       "max_allocation_bytes": 67108864, "timestamps": False}))
    put("limits", "lanes", json.dumps({"subgroup_size": 4, "max_invocations": 2147483648}))
    put("limits", "true", json.dumps({"float16": True, "timestamps": True}))


for make in (safetensors, config, tokenizer, sentencepiece, legacy, generation, image, preprocess, tuned, limits):
    make()
