#!/usr/bin/env python3
"""Writes vectors.jsonl of this folder: what transformers' PLBartTokenizer makes of texts and of their ids.

usage: make.py      (needs transformers 5.12 and sentencepiece)

The SentencePiece model is that of the folder `languages` beside this one.
"""
import json
import os

import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "..", "languages", "sentencepiece.bpe.model")
TEXTS = [
    "", " ", "The dog sleeps in the garden.", " Elle  lit   un livre ", "Der Hügel; größe 12", "Собака спит",
    "def maximum(a,b,c):NEW_LINE_INDENTreturn max([a,b,c])", "public static int f(int[] a) { return a[0]; }",
    "for (int i = 0; i < n; i++) s += a[i];", "x = [i for i in range(3)]", "漢字", "the 🦙 eats",
    "the\ttab\nand the line", "</s> in <pad> the <unk> text <s>", "__java__ the garden", "a __python__b __en_XX__ c",
    "__go__ the __ruby__ book", "__javascript__ __php__", "__en__ and en_XX", "It is n't here , is it ? No !", "don 't", "the <mask> sleeps", "the dog . sleeps .",
]
CASES = [("base", None), ("base", "python"), ("base", "__java__"), ("multi", None), ("multi", "javascript"), ("multi", "__go__")]


def main():
    with open(os.path.join(HERE, "vectors.jsonl"), "w", encoding="utf-8") as out:
        for codes, language in CASES:
            tokenizer = transformers.PLBartTokenizer(vocab_file=MODEL, language_codes=codes, src_lang=language)
            for text in TEXTS if language in (None, "python") else TEXTS[2:4]:
                if "<mask>" in text and codes == "multi":
                    continue  # which has no mask: transformers has an unknown token here, and we have plain text
                ids = tokenizer.encode(text)
                line = {"codes": codes, "language": language, "text": text, "ids": ids}
                line["decoded"] = tokenizer.decode(ids, skip_special_tokens=True)
                out.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
