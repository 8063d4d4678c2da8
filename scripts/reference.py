#!/usr/bin/env python3
"""Compares vkformer's translations with the ids that PyTorch gave for the same sentences.

usage: reference.py REFERENCE.jsonl [--program P] [--model M] [--device D] [--beams N] [--batch N] [--weights F] [--kv-cache F]
                    [--limit N] [--out F]

REFERENCE.jsonl has an object a line: source, greedy and beam4 (ids without the start token), greedy_margin (the smallest gap
between the best and the second-best logit on the way), beam4_score and, for BLEU, references. Prints the share of
sentences with the same ids, then each that differs, with the figures that show a near tie, then BLEU. --out keeps
vkformer's own lines, to compare runs. The exit status is 1 if the share is under 99.5 percent.
"""
import argparse
import collections
import json
import math
import re
import subprocess
import sys
import time


def translate(args, sources):
    command = [args.program, "translate", "--json", "--model", args.model, "--device", args.device,
               "--num-beams", str(args.beams), "--batch-size", str(args.batch)]
    for option, value in (("--weights", args.weights), ("--kv-cache", args.kv_cache)):
        command += [option, value] if value else []
    start = time.time()
    done = subprocess.run(command, input="".join(s + "\n" for s in sources), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    if args.out:
        with open(args.out, "w", encoding="utf-8") as f:
            f.write(done.stdout)
    return [json.loads(line) for line in done.stdout.splitlines()], time.time() - start


def bleu(hypotheses, references):
    """Corpus BLEU (Papineni et al. 2002), up to 4-grams, several references, words and punctuation marks as tokens."""
    split = lambda text: re.findall(r"\w+|[^\w\s]", text)
    matched, total, length, closest = [0] * 4, [0] * 4, 0, 0
    for text, others in zip(hypotheses, references):
        words, others = split(text), [split(o) for o in others]
        length += len(words)
        closest += min((abs(len(o) - len(words)), len(o)) for o in others)[1]
        for n in range(1, 5):
            grams = lambda w: collections.Counter(tuple(w[i:i + n]) for i in range(len(w) - n + 1))
            most = collections.Counter()
            for o in others:
                most |= grams(o)
            matched[n - 1] += sum((grams(words) & most).values())
            total[n - 1] += max(len(words) - n + 1, 0)
    if not all(matched):
        return 0.0
    brevity = min(1.0, math.exp(1 - closest / length))
    return 100 * brevity * math.exp(sum(math.log(m / t) for m, t in zip(matched, total)) / 4)


def main():
    parser = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reference")
    parser.add_argument("--program", default="build/vkformer")
    parser.add_argument("--model", default="models/en-es")
    parser.add_argument("--device", default="lavapipe")
    parser.add_argument("--beams", type=int, default=4, choices=[1, 4])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--weights", help="f32, f16, bf16, int8: as vkformer has it")
    parser.add_argument("--kv-cache", help="f32, f16")
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--out")
    args = parser.parse_args()
    try:
        with open(args.reference, encoding="utf-8") as f:
            expected = [json.loads(line) for line in f]
    except (OSError, ValueError) as error:
        sys.exit(f"{args.reference}: expected an object of JSON a line: {error}")
    if args.limit:
        # spread over the whole file, the same ones each time
        expected = [expected[i * len(expected) // args.limit] for i in range(min(args.limit, len(expected)))]
    found, seconds = translate(args, [e["source"] for e in expected])
    if len(found) != len(expected):
        sys.exit(f"expected {len(expected)} lines, found {len(found)}")

    key = "beam4" if args.beams == 4 else "greedy"
    what = f"{args.device}, {'4 beams' if args.beams == 4 else 'greedy'}, batch {args.batch}"
    other = [(e, f) for e, f in zip(expected, found) if e[key] != f["ids"]]
    same = len(expected) - len(other)
    print(f"{what}: {same} of {len(expected)} sentences have PyTorch's ids ({100 * same / len(expected):.2f} %), "
          f"{seconds:.1f} s, {len(expected) / seconds:.1f} a second")
    for e, f in other:
        gap = f"score {f['score']:.6f}, PyTorch's {e['beam4_score']:.6f}" if args.beams == 4 else \
            f"smallest gap of two logits {e['greedy_margin']}"
        print(f"  {e['source']}\n    {gap}\n    found    {f['ids']}\n    expected {e[key]}")
    if all("references" in e for e in expected):
        score = bleu([f["translation"] for f in found], [e["references"] for e in expected])
        print(f"{what}: BLEU {score:.2f} on {len(expected)} sentences")
    return 0 if same >= 0.995 * len(expected) else 1


if __name__ == "__main__":
    sys.exit(main())
