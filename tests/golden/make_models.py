#!/usr/bin/env python3
"""Writes the golden folders of families/: small models of random weights, and what transformers computes from them.

usage: make_models.py [NAME]...     (without: all of MODELS below; needs torch and transformers 5.12)

These families differ from others in names, keys and places of norms, and run on the scalar path and lavapipe only.
"""
import json
import os
import re
import sys

import torch
import transformers as T
from safetensors.torch import save_file

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "families")
PAIR = dict(d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=3, decoder_attention_heads=2,
            encoder_ffn_dim=40, decoder_ffn_dim=36, max_position_embeddings=40)
T5 = dict(d_model=24, d_kv=10, d_ff=36, num_layers=2, num_heads=3,
          relative_attention_num_buckets=8, relative_attention_max_distance=10)
LLAMA = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=40,
             max_position_embeddings=64, vocab_size=90)
BERT = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40, vocab_size=90,
            max_position_embeddings=40)
MODELS = {  # model_type, class, keys of the configuration
    "pegasus": ("pegasus", "PegasusForConditionalGeneration", dict(PAIR, vocab_size=90, scale_embedding=True,
                                                                  activation_function="relu")),
    "blenderbot": ("blenderbot", "BlenderbotForConditionalGeneration", dict(PAIR, vocab_size=90, scale_embedding=True)),
    "plbart": ("plbart", "PLBartForConditionalGeneration", dict(PAIR, vocab_size=90, decoder_start_token_id=2)),
    "blenderbot-small": ("blenderbot-small", "BlenderbotSmallForConditionalGeneration",
                         dict(PAIR, vocab_size=90, decoder_layers=1, scale_embedding=True)),
    "mvp": ("mvp", "MvpForConditionalGeneration", dict(PAIR, vocab_size=90, encoder_layers=1)),
    "umt5": ("umt5", "UMT5ForConditionalGeneration", dict(T5, vocab_size=90)),
    "gemma": ("gemma", "GemmaForCausalLM", dict(LLAMA, head_dim=10)),
    "olmo": ("olmo", "OlmoForCausalLM", dict(LLAMA, eos_token_id=2)),
    "phi": ("phi", "PhiForCausalLM", dict(LLAMA, pad_token_id=0, eos_token_id=2, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.67))),
    "phi3": ("phi3", "Phi3ForCausalLM", dict(LLAMA, sliding_window=7, pad_token_id=0, eos_token_id=2,
                                             rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                                                  partial_rotary_factor=0.67))),
    "phi3-longrope": ("phi3", "Phi3ForCausalLM", dict(LLAMA, pad_token_id=0, eos_token_id=2,
                                                      original_max_position_embeddings=32, rope_parameters=dict(
                                                          rope_type="longrope", rope_theta=10000.0,
                                                          short_factor=[1.0, 1.1, 1.5], long_factor=[1.0, 2.0, 9.0]))),
    "granite": ("granite", "GraniteForCausalLM", dict(
        LLAMA, pad_token_id=0, eos_token_id=2, embedding_multiplier=6.0, attention_multiplier=0.3,
        residual_multiplier=0.6, logits_scaling=3.0, tie_word_embeddings=True)),
    "stablelm": ("stablelm", "StableLmForCausalLM", dict(LLAMA, pad_token_id=0, eos_token_id=2, use_qkv_bias=True,
                                                         rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                                                              partial_rotary_factor=0.67))),
    "starcoder2": ("starcoder2", "Starcoder2ForCausalLM", dict(LLAMA, sliding_window=7, pad_token_id=0, eos_token_id=2)),
    "bert-question-answering": ("bert", "BertForQuestionAnswering", BERT),
    "mpnet": ("mpnet", "MPNetForMaskedLM", BERT),
    "mpnet-pooled": ("mpnet", "MPNetModel", dict(BERT, num_hidden_layers=1, relative_attention_num_buckets=34)),
    "mpnet-sequence-classification": ("mpnet", "MPNetForSequenceClassification", dict(
        BERT, num_hidden_layers=1, num_attention_heads=1, hidden_act="relu", num_labels=3)),
    "electra": ("electra", "ElectraForMaskedLM", dict(BERT, embedding_size=10, type_vocab_size=3, hidden_act="relu")),
    "electra-discriminator": ("electra", "ElectraForPreTraining", dict(BERT, num_hidden_layers=1, embedding_size=32,
                                                                       hidden_act="relu")),
    "electra-sequence-classification": ("electra", "ElectraForSequenceClassification", dict(
        BERT, num_hidden_layers=1, num_attention_heads=1, embedding_size=24, num_labels=3)),
    "bart-sequence-classification": ("bart", "BartForSequenceClassification", dict(PAIR, vocab_size=90)),
    "gpt2-sequence-classification": ("gpt2", "GPT2ForSequenceClassification", dict(
        n_embd=24, n_layer=2, n_head=3, n_inner=40, n_positions=80, vocab_size=100, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, num_labels=3)),
    "qwen3-sequence-classification": ("qwen3", "Qwen3ForSequenceClassification", dict(
        LLAMA, head_dim=8, pad_token_id=0, num_labels=1)),
    "qwen2-bidirectional": ("qwen2", "Qwen2Model", dict(LLAMA, is_causal=False, pad_token_id=0)),
    "t5-encoder": ("t5", "T5EncoderModel", dict(T5, vocab_size=90, feed_forward_proj="gated-silu")),
}
GENERATIONS = [{}, {"repetition_penalty": 1.3}, {"num_beams": 4, "no_repeat_ngram_size": 3},
               {"num_beams": 4, "min_new_tokens": 9, "num_return_sequences": 3},
               {"num_beams": 2, "length_penalty": 2.0, "early_stopping": True}]
NEW = 16


def randomize(model):
    """Sets numbers that matter: states of about 1, biases and scales of norms that are not 0 and 1."""
    for name, p in list(model.named_parameters()) + [(n, b) for n, b in model.named_buffers() if "bias" in n]:
        if not p.requires_grad and p.dim() == 2 and "bias" not in name:  # sinusoids
            continue
        x = torch.randn_like(p)
        if name.endswith("final_logits_bias") or p.dim() == 1 and name.endswith("bias"):
            x *= 0.12
        elif p.dim() == 1:
            x = (model.config.model_type != "gemma") + 0.2 * x  # gemma adds the 1 itself
        elif "shared" in name or "embed_tokens" in name:
            x *= 0.12
        elif "embeddings_project" in name or "embed" not in name and "relative" not in name:
            is_score = re.search(r"\b(q|k|qkv)(_proj)?\.weight", name)
            x *= (1.4 if is_score else 2) / p.shape[1] ** 0.5
            x *= 0.35 if "Attention.q." in name else 1  # T5, whose scores are not scaled
        p.data.copy_(x)


def outputs_of(out):
    tensors = {}
    for key, value in out.items():
        if key in ("past_key_values", "encoder_hidden_states", "loss") and not isinstance(value, tuple):
            continue
        if isinstance(value, tuple):
            for i, x in enumerate(value):
                tensors[f"{key}.{i}"] = x
        elif torch.is_tensor(value):
            tensors[key] = value
    return tensors


def inputs_of(config, two, is_decoder, classifies, rows=2, source=11, target=6):
    ids = torch.randint(3, config.vocab_size, (rows, source))
    if is_decoder:
        return {"input_ids": ids}
    mask = torch.ones_like(ids)
    pads = source // 3
    ids[1, source - pads:], mask[1, source - pads:] = config.pad_token_id, 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    if getattr(config, "type_vocab_size", 0) > 2:
        inputs["token_type_ids"] = torch.randint(0, config.type_vocab_size, ids.shape)
    if two and classifies:  # the decoder gets the same ids; the head reads the end of each row
        ids[0, -1] = ids[1, source - pads - 1] = config.eos_token_id
    elif two:
        inputs["decoder_input_ids"] = torch.randint(3, config.vocab_size, (rows, target))
        inputs["decoder_input_ids"][:, 0] = config.decoder_start_token_id
    return inputs


def entry(model, inputs, options, eos, pad, brings=False):
    options = dict(options, max_new_tokens=NEW, eos_token_id=eos, pad_token_id=pad)
    given = {k: v for k, v in inputs.items() if not k.startswith("decoder_")}
    r = model.generate(**given, do_sample=False, return_dict_in_generate=True, output_scores=True,
                       **{"num_beams": 1, "forced_eos_token_id": None, **options})
    scores = getattr(r, "sequences_scores", None)
    brought = {k: v.tolist() for k, v in given.items()} if brings else {}
    return {"options": options, "rows": len(inputs["input_ids"]), **brought, "sequences": r.sequences.tolist(),
            "scores": None if scores is None else [round(float(x), 6) for x in scores]}


def end_of(model, inputs, pad):
    """Returns an id that the first row reaches after a few others; None: there is none."""
    given = {k: v for k, v in inputs.items() if not k.startswith("decoder_")}
    free = model.generate(**given, do_sample=False, num_beams=1, max_new_tokens=NEW, eos_token_id=None,
                          forced_eos_token_id=None, pad_token_id=pad)
    row = free[0].tolist()[-NEW:]
    return next((x for i, x in enumerate(row) if len(set(row[:i])) > 1 and x not in row[:i]), None)


@torch.no_grad()
def make(folder, model_type, name, keys, change=None):
    """Makes a folder. change: called with the model before it is saved."""
    for seed in range(1, 40):  # the first one whose texts are not one word
        torch.manual_seed(seed)
        config = T.AutoConfig.for_model(model_type, **keys)
        model = getattr(T, name)(config).eval()
        randomize(model)
        if change:
            change(model)
        model.set_attn_implementation("eager")
        two, generates = config.is_encoder_decoder and "EncoderModel" not in name, model.can_generate()
        inputs = inputs_of(config, two, generates and not two, name.endswith("ForSequenceClassification"))
        end = end_of(model, inputs, config.pad_token_id) if generates else None
        if not generates or end is not None:
            break
    if generates:
        config.eos_token_id, config.forced_eos_token_id = 2 if end is None else end, None
        model.generation_config = T.GenerationConfig.from_model_config(config)
        model.generation_config.forced_eos_token_id = None
    model.save_pretrained(folder)
    out = model(**inputs, output_hidden_states=True, output_attentions=True)
    tensors = {k: v.contiguous().clone() for k, v in outputs_of(out).items()}
    tensors.update({k: v.int() for k, v in inputs.items()})
    save_file(tensors, os.path.join(folder, "expected.safetensors"))
    for file in os.listdir(folder):
        os.chmod(os.path.join(folder, file), 0o644)
    if generates:
        entries = [entry(model, inputs, o, config.eos_token_id, config.pad_token_id) for o in GENERATIONS]
        if not two:  # the second prompt is shorter
            padded = dict(inputs, attention_mask=torch.ones_like(inputs["input_ids"]))
            padded["input_ids"] = inputs["input_ids"].clone()
            padded["input_ids"][1, :4], padded["attention_mask"][1, :4] = config.pad_token_id, 0
            entries += [entry(model, padded, o, config.eos_token_id, config.pad_token_id, True)
                        for o in ({}, {"num_beams": 3})]
        with open(os.path.join(folder, "generation.json"), "w", encoding="utf-8") as f:
            f.write("[\n" + ",\n".join(json.dumps(e) for e in entries) + "\n]\n")


if __name__ == "__main__":
    for asked in sys.argv[1:] or MODELS:
        make(os.path.join(HERE, asked), *MODELS[asked])
