#!/usr/bin/env python3
"""Makes the images of this folder, cases.json, and expected.safetensors with the pixels of transformers' Pillow path.

Needs transformers, Pillow, numpy, safetensors. Run it in this folder; the same versions write the same files.
"""
import json
import struct
import zlib

import numpy as np
from PIL import Image
from safetensors.numpy import save_file
from transformers.image_utils import load_image
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil


def pattern(height, width, seed):
    """Returns an image with waves, edges and noise, so that smoothing, aliasing and overshooting show."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    channels = []
    for c in range(3):
        v = 128 + 90 * np.sin(x * (0.3 + 0.4 * c) + y * 0.2) + 60 * (x > width // 2) - 70 * (y > height // 3)
        channels.append(v + rng.normal(0, 12, (height, width)))
    return np.clip(np.stack(channels, -1), 0, 255).astype(np.uint8)


def png(path, width, height, depth, colors, rows, chunks=b""):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, depth, colors, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunks + chunk(b"IDAT", data) + chunk(b"IEND", b""))
    return chunk


def interlaced(path, image):
    """Writes an Adam7 interlaced PNG, which Pillow cannot write."""
    height, width, _ = image.shape
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    raw = b""
    for x0, y0, dx, dy in passes:
        part = image[y0::dy, x0::dx]
        if part.size:
            raw += b"".join(b"\0" + row.tobytes() for row in part)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 1)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def images():
    rgb = pattern(29, 41, 1)
    Image.fromarray(rgb).save("rgb.png", optimize=True)
    interlaced("interlaced.png", pattern(11, 13, 2))
    Image.fromarray(pattern(17, 23, 3)[..., 0]).save("gray.png", optimize=True)
    alpha = np.dstack([pattern(14, 20, 4), pattern(14, 20, 5)[..., :1]])
    Image.fromarray(alpha).save("rgba.png", optimize=True)
    Image.fromarray(pattern(20, 16, 6)).quantize(11).save("palette.png", optimize=True, transparency=3)
    Image.fromarray(pattern(9, 31, 7)[..., 1] > 128).save("bits.png", optimize=True)
    wide = pattern(12, 15, 8).astype(">u2") * 257 + np.arange(15, dtype=">u2")[None, :, None]
    png("rgb16.png", 15, 12, 16, 2, [row.astype(">u2").tobytes() for row in wide])
    gray = (np.arange(12 * 15).reshape(12, 15) * 2).astype(">u2")
    png("gray16.png", 15, 12, 16, 0, [row.tobytes() for row in gray])
    png("gray4.png", 6, 3, 4, 0, [bytes([0x01, 0x8F, 0xC3]), bytes([0xF0, 0x24, 0x68]), bytes([0xAB, 0xCD, 0xE1])])
    exif = Image.Exif()
    for orientation in range(2, 9):
        exif[0x0112] = orientation
        Image.fromarray(pattern(10, 17, 9)).save(f"turned{orientation}.jpg", quality=85, exif=exif)
    Image.fromarray(pattern(8, 12, 10)).save("turned.png", optimize=True, exif=exif)
    Image.fromarray(pattern(37, 53, 11)).save("chroma.jpg", quality=75, subsampling=2)
    Image.fromarray(pattern(37, 53, 12)).save("progressive.jpg", quality=60, progressive=True)
    Image.fromarray(pattern(16, 25, 13)[..., 0]).save("gray.jpg", quality=80)
    Image.fromarray(pattern(6, 5, 14)).convert("CMYK").save("cmyk.jpg", quality=50)


PLAIN = {"do_resize": False}
CASES = [
    *[(f"{name}.png", PLAIN) for name in ("interlaced", "gray4", "gray16", "rgb16", "turned")],
    *[(f"turned{o}.jpg", {**PLAIN, "do_rescale": False, "do_normalize": False}) for o in range(2, 9)],
    ("gray.jpg", PLAIN),
    ("rgb.png", {"size": 16}),
    ("rgb.png", {"size": {"height": 20, "width": 12}, "resample": 3}),
    ("rgb.png", {"size": {"height": 50, "width": 47}, "resample": 2}),
    ("rgb.png", {"size": {"height": 33, "width": 50}, "resample": 3}),
    ("rgb.png", {"size": {"height": 13, "width": 90}, "resample": 0}),
    ("rgb.png", {"size": [29, 7], "resample": 3}),
    ("rgb.png", {"size": {"shortest_edge": 18}, "do_center_crop": True, "crop_size": 16}),
    ("bits.png", {"size": {"shortest_edge": 7}}),
    ("palette.png", {"size": {"shortest_edge": 11}, "resample": 3}),
    ("rgba.png", {"do_resize": False, "do_center_crop": True, "crop_size": {"height": 9, "width": 25}}),
    ("gray.png", {"size": 9, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}),
    ("rgb.png", {"size": 8, "do_normalize": False}),
    ("rgb.png", {"size": 8, "do_rescale": False}),
    ("rgb.png", {"size": 8, "rescale_factor": 0.01, "image_mean": 0.25, "image_std": 2}),
    ("chroma.jpg", {"size": {"height": 24, "width": 24}}),
    ("progressive.jpg", {"size": {"height": 24, "width": 24}, "resample": 3}),
    ("rgb.png", {"size": 24, "crop_size": 19}, "DeiT"),
]


def main():
    images()
    expected, cases = {}, []
    for index, (name, config, *family) in enumerate(CASES):
        processor = DeiTImageProcessorPil if family else ViTImageProcessorPil
        pixels = processor(**config)(load_image(name), return_tensors="np")["pixel_values"][0]
        expected[str(index)] = np.ascontiguousarray(pixels, dtype=np.float32)
        cases.append({"image": name, "config": {**config, "image_processor_type": f"{(family or ['ViT'])[0]}ImageProcessor"}})
    save_file(expected, "expected.safetensors")
    with open("cases.json", "w") as file:
        json.dump(cases, file, indent=1)
        file.write("\n")


main()
