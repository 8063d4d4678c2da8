#!/usr/bin/env python3
"""Writes this folder: a small vocabulary of pieces marked "@@", and what transformers makes of texts with it.

usage: make.py      (needs transformers 5.12)

Some pieces that merges lead through are not in vocab.json, as in facebook/blenderbot_small-90M.
"""
import collections
import json
import os

import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = ("the then there other another mother weather whether a at that hat what is this his it its in thing think "
         "something sing dog dogs don't can't i'm you you're hello world . , ! ? ( ) ' __newln__ 12 12 2012 naïve").split()
TEXTS = [
    "", " ", "hello", "Hello, World!", "the other mother is here .", "  the\tdog  sings ", "I'm there; don't  think (so)?",
    "...", "what?!", "a.b,c!d?e(f)g'h", "the dog's 'thing'", "''", "x'y", "line one\nline two", "a\n\nb", "a \n b", "\nthe\n",
    "it's'\nthat.\n", "the\r\ndog", "dog.\n", "a'b'\n", "naïve Weather Whether", "NAÏVE", "漢字 the", "ö", "über", "the 🦙",
    "__start__hello__end__", "__unk__ the __null__ dog", "the__end__", "a __start__ b", "THE __NULL__", "__newln__ a",
    "th@@ the", "the@@ the", "dog@@", "@@", "a@@b", "12 2012 3", "another-thing", "the\u00a0dog", "the</w> dog", "İs it",
    "there\u2019s a \"hat\"", "q", "zz", "sing.", ".sing", "ther then the", "thinking things", "(the) [dog] {his}",
    "is n't it ?", "do not", "dog 's", "the dog __end__\n", "__end__\nthe", "what's\nthis'\nthat",
]


def words_of(word):
    return tuple(word[:-1]) + (word[-1] + "</w>",)


def train(n):
    counts = collections.Counter(words_of(w) for w in WORDS)
    merges, symbols = [], {s for w in counts for s in w}
    for _ in range(n):
        pairs = collections.Counter()
        for word, count in counts.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        if not pairs:
            break
        best = max(sorted(pairs), key=lambda p: pairs[p])
        merges.append(best)
        symbols.add("".join(best))
        after = collections.Counter()
        for word, count in counts.items():
            out = []
            for s in word:
                if out and (out[-1], s) == best:
                    out[-1] += s
                else:
                    out.append(s)
            after[tuple(out)] += count
        counts = after
    return merges, symbols


def main():
    merges, symbols = train(60)
    pieces = sorted(s[:-4] if s.endswith("</w>") else s + "@@" for s in symbols)
    left_out = {"ther", "mething", "w@@", "1@@", "s", "hel@@"}
    assert left_out <= set(pieces), sorted(left_out - set(pieces))
    tokens = ["__null__", "__start__", "__end__", "__unk__"] + [p for p in pieces if p not in left_out]
    with open(os.path.join(HERE, "vocab.json"), "w", encoding="utf-8") as file:
        json.dump({token: i for i, token in enumerate(tokens)}, file, ensure_ascii=False)
        file.write("\n")
    with open(os.path.join(HERE, "merges.txt"), "w", encoding="utf-8") as file:
        file.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    tokenizer = transformers.BlenderbotSmallTokenizer(*(os.path.join(HERE, f) for f in ("vocab.json", "merges.txt")))
    with open(os.path.join(HERE, "vectors.jsonl"), "w", encoding="utf-8") as file:
        for text in TEXTS:
            line = {"text": text, "ids_plain": tokenizer.encode(text)}
            line["decoded"] = tokenizer.decode(line["ids_plain"], skip_special_tokens=True)
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
