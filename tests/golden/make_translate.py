#!/usr/bin/env python3
"""Writes translate.jsonl: the 4 best of 4 beams and the greedy translation of transformers' generate for models/en-es,
with and without a beginning of the target (decoder_input_ids).

usage: make_translate.py      (needs torch and transformers 5.12)
"""

import json
import pathlib

import torch
import transformers

FOLDER = pathlib.Path(__file__).resolve().parent
MODEL = FOLDER.parent.parent / "models" / "en-es"
LINES = [
    ("The old bridge was closed last winter.", None),
    ("She bought three oranges and a newspaper.", None),
    ("Nobody answered when I rang the bell.", None),
    ("The old bridge was closed last winter.", "En el invierno"),
    ("She bought three oranges and a newspaper.", "Compró un"),
    ("We will meet at the station.", "El tren"),
]


def cut(ids, end):
    ids = ids[1:]
    return ids[: ids.index(end) + 1] if end in ids else ids


def main():
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(MODEL, dtype=torch.float32).eval()
    start, end = model.generation_config.decoder_start_token_id, model.generation_config.eos_token_id
    with open(FOLDER / "translate.jsonl", "w", encoding="utf-8") as file:
        for source, prefix in LINES:
            inputs = dict(tokenizer(source, return_tensors="pt"))
            if prefix:
                ids = tokenizer(prefix, add_special_tokens=False)["input_ids"]
                inputs["decoder_input_ids"] = torch.tensor([[start, *ids]])
            best = model.generate(**inputs, num_beams=4, num_return_sequences=4, return_dict_in_generate=True,
                                  output_scores=True)
            greedy = model.generate(**inputs, num_beams=1)
            line = {
                "source": source,
                "prefix": prefix,
                "best": [cut(row, end) for row in best.sequences.tolist()],
                "scores": [round(x, 6) for x in best.sequences_scores.tolist()],
                "greedy": cut(greedy[0].tolist(), end),
            }
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


main()
