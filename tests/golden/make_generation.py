#!/usr/bin/env python3
"""Writes generation-more.json into golden folders: transformers' generate with options that generation.json lacks.

usage: make_generation.py [FOLDER]...      (without: every folder of FOLDERS below; needs torch and transformers 5.12)

Its entries are as in generation.json (tests/golden/test_generate.c) and may have input_ids and decoder_input_ids of
their own. They have scores even without beams: the sum of compute_transition_scores(normalize_logits=True) up to the
end of a row, over its length to the power of length_penalty, as sequences_scores are with beams.
"""
import json
import os
import sys

import torch
import transformers
from safetensors.torch import load_file
from transformers.generation import logits_process

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS, NEW = 2, 8


class EveryBeam(logits_process.EncoderRepetitionPenaltyLogitsProcessor):
    """transformers 5.12 gives the penalty to the first B of B x beams rows, row b with the ids of sentence b; here
    each row has it, with the ids of its own sentence."""

    def __call__(self, input_ids, scores):
        source, each = self.encoder_input_ids, len(scores) // len(self.encoder_input_ids)
        self.encoder_input_ids = source.repeat_interleave(each, dim=0)
        out = super().__call__(input_ids, scores)
        self.encoder_input_ids = source
        return out


def entry(model, inputs, options, eos, pad):
    options = dict(options, max_new_tokens=NEW, eos_token_id=eos, pad_token_id=pad)
    r = model.generate(**inputs, do_sample=False, return_dict_in_generate=True, output_scores=True,
                       **{"num_beams": 1, **options})
    scores = getattr(r, "sequences_scores", None)
    if scores is None:
        each = model.compute_transition_scores(r.sequences, r.scores, normalize_logits=True)
        scores = []
        for ids, values in zip(r.sequences[:, -each.shape[1]:].tolist(), each.double()):
            n = ids.index(eos) + 1 if eos in ids else len(ids)
            scores.append(values[:n].sum() / n ** options.get("length_penalty", 1.0))
    brought = {k: v.tolist() for k, v in inputs.items()}
    return {"options": options, "rows": ROWS, **brought, "sequences": r.sequences.tolist(),
            "scores": [round(float(x), 6) for x in scores]}


@torch.no_grad()
def folder_entries(name):
    folder = os.path.join(HERE, name)
    with open(os.path.join(folder, "generation.json"), encoding="utf-8") as f:
        options = json.load(f)[0]["options"]
    eos, pad = options["eos_token_id"], options["pad_token_id"]
    config = transformers.AutoConfig.from_pretrained(folder)
    two = config.is_encoder_decoder
    kind = transformers.AutoModelForSeq2SeqLM if two else transformers.AutoModelForCausalLM
    model = kind.from_pretrained(folder, attn_implementation="eager").eval()
    given = load_file(os.path.join(folder, "expected.safetensors"))
    inputs = {k: v[:ROWS].long() for k, v in given.items() if k in ("input_ids", "attention_mask")}
    make = lambda options, **more: entry(model, {**inputs, **more}, options, eos, pad)
    entries = [make({}), make({"repetition_penalty": 1.3, "length_penalty": 2.0}),
               make({"encoder_repetition_penalty": 1.7}), make({"encoder_repetition_penalty": 1.7, "num_beams": 3}),
               make({"encoder_repetition_penalty": 0.6, "num_beams": 4})]
    # of the first new id alone; of ids behind each other, which add up; one that is there twice, and a ban
    alone = [x or 3 for x in entries[0]["sequences"][0][-NEW:]]  # 0 is refused there
    bias = [[[alone[0]], -1.5], [[alone[0], alone[1]], -20.0], [[alone[0], 7], 3.25], [[7], 0.7], [[5, 7], 1.1],
            [[9], 2.0], [[alone[2], alone[3], 9], 4.0], [[9], 1.3]]
    entries += [make({"sequence_bias": bias, **more})
                for more in ({}, {"num_beams": 3, "num_return_sequences": 2})]
    entries += [make({"exponential_decay_length_penalty": decay, **more})
                for decay in ([1, 1.5], [3, 0.6]) for more in ({}, {"num_beams": 3, "num_return_sequences": 2})]
    if two:
        start = model.generation_config.decoder_start_token_id
        behind = torch.tensor([[17, 5, 9], [23, 42, 8]])
        whole = torch.cat([torch.full((ROWS, 1), start), behind], dim=1)
        mixed = torch.tensor([[start, 5, 9], [23, 42, 8]])
        entries += [make(options, decoder_input_ids=ids) for ids in (whole, behind, mixed)
                    for options in ({}, {"num_beams": 3, "num_return_sequences": 2}, {"no_repeat_ngram_size": 2})]
        entries += [make({"forced_bos_token_id": 17, "min_new_tokens": 4, "begin_suppress_tokens": [5, 7]},
                         decoder_input_ids=whole)]
    return entries


FOLDERS = ["bart", "gpt2", "llama", "m2m100", "marian", "mbart", "t5"]

if __name__ == "__main__":
    logits_process.EncoderRepetitionPenaltyLogitsProcessor = EveryBeam
    transformers.generation.utils.EncoderRepetitionPenaltyLogitsProcessor = EveryBeam
    for name in sys.argv[1:] or FOLDERS:
        entries = folder_entries(name)
        path = os.path.join(HERE, name, "generation-more.json")
        with open(path, "w", encoding="utf-8") as f:
            f.write("[" + ",\n ".join(json.dumps(e) for e in entries) + "]\n")
        print(f"{path}: {len(entries)} entries")
