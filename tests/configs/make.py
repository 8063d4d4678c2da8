#!/usr/bin/env python3
"""Writes defaults.json: configurations with none of their optional keys, and what transformers 5.12.1 takes them for.

usage: make.py > defaults.json      (needs transformers 5.12.1 and PyTorch)

"bare" has the sizes and, of some cases, what makes a default count; "spelled" has every key that transformers fills in
for it; "frequencies" and "factor" are what it turns rotary positions by; "tensors" are the shapes that it
stores, "epsilon" is that of its norms.
"""
import copy
import json
import tempfile
import warnings

warnings.filterwarnings("ignore")
import transformers as T
from safetensors import safe_open
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

BERT = dict(vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24,
            max_position_embeddings=20)
PAIR = dict(vocab_size=40, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
            decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=20)
LLAMA = dict(vocab_size=40, hidden_size=64, num_hidden_layers=1, num_attention_heads=4, intermediate_size=24,
             max_position_embeddings=512)
LONG = dict(LLAMA, num_attention_heads=2, max_position_embeddings=16384)
WIDE = dict(LLAMA, num_attention_heads=32)  # of which Qwen takes 32 for those of keys, and Mistral 8
T5 = dict(vocab_size=40, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2)
VIT = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24)
YARN = dict(rope_type="yarn", factor=4.0)
OPT = dict(vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, ffn_dim=24,
           max_position_embeddings=20)
GPT2 = dict(vocab_size=40, n_embd=16, n_layer=1, n_head=2, n_positions=20)
DISTIL = dict(vocab_size=40, dim=16, n_layers=1, n_heads=2, hidden_dim=24, max_position_embeddings=20)
SOME = dict(use_sliding_window=True, num_hidden_layers=30)

CASES = [
    ("albert", "AlbertModel", BERT), ("albert", "AlbertForMaskedLM", BERT),
    ("albert", "AlbertForSequenceClassification", dict(BERT, num_hidden_layers=2, num_hidden_groups=2)),
    ("bart", "BartForConditionalGeneration", PAIR), ("bart", "BartModel", PAIR),
    ("blenderbot", "BlenderbotForConditionalGeneration", PAIR), ("blenderbot", "BlenderbotModel", PAIR),
    ("blenderbot-small", "BlenderbotSmallForConditionalGeneration", PAIR),
    ("blenderbot-small", "BlenderbotSmallModel", PAIR),
    ("bert", "BertModel", BERT), ("bert", "BertForMaskedLM", BERT), ("bert", "BertForTokenClassification", BERT),
    ("bert", "BertForSequenceClassification", BERT),
    ("camembert", "CamembertModel", BERT), ("camembert", "CamembertForMaskedLM", BERT),
    ("distilbert", "DistilBertForMaskedLM", DISTIL), ("distilbert", "DistilBertForSequenceClassification", DISTIL),
    ("electra", "ElectraModel", BERT), ("electra", "ElectraForMaskedLM", BERT), ("electra", "ElectraForPreTraining", BERT),
    ("electra", "ElectraForSequenceClassification", dict(BERT, embedding_size=16)),
    ("electra", "ElectraForTokenClassification", BERT), ("electra", "ElectraForQuestionAnswering", BERT),
    ("gemma", "GemmaForCausalLM", WIDE), ("gemma", "GemmaForCausalLM", dict(WIDE, attention_bias=True, head_dim=8)),
    ("gpt2", "GPT2LMHeadModel", GPT2), ("gpt2", "GPT2LMHeadModel", dict(GPT2, n_inner=24)),
    ("gpt_neox", "GPTNeoXForCausalLM", LLAMA),
    ("gpt_neox", "GPTNeoXForCausalLM", dict(LLAMA, attention_bias=False, use_parallel_residual=False)),
    ("llama", "LlamaForCausalLM", LLAMA),
    ("llama", "LlamaForCausalLM", dict(LLAMA, attention_bias=True, mlp_bias=True, num_key_value_heads=2)),
    ("llama", "LlamaForCausalLM", dict(LLAMA, rope_parameters=dict(rope_type="linear", factor=2.0))),
    ("llama", "LlamaForCausalLM", dict(LONG, rope_parameters=dict(YARN, original_max_position_embeddings=4096))),
    ("llama", "LlamaForCausalLM", dict(LONG, rope_parameters=dict(YARN, mscale=0.7, mscale_all_dim=0.3))),
    ("llama", "LlamaForCausalLM", dict(LONG, rope_parameters=dict(YARN, mscale=0.7))),
    ("llama", "LlamaForCausalLM", dict(LONG, rope_parameters=dict(
        rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=4096))),
    ("llama", "LlamaForCausalLM", dict(LONG, rope_parameters=dict(YARN, factor=1.5))),
    ("llama", "LlamaForCausalLM", dict(LONG, rope_parameters=dict(YARN, beta_fast=2.0, beta_slow=2.0, truncate=False))),
    ("llama", "LlamaForCausalLM", dict(LONG, rope_parameters=dict(YARN, rope_theta=100.0, beta_slow=0.01))),
    ("llama", "LlamaForCausalLM", dict(LONG, rope_parameters=dict(YARN, beta_fast=1000.0, attention_factor=1.25))),
    ("llama", "LlamaForCausalLM", dict(LONG, rope_parameters=dict(
        rope_type="llama3", factor=4.0, low_freq_factor=2.0, high_freq_factor=8.0,
        original_max_position_embeddings=4096))),
    # Transformers wants these written; without them they are those of the models that came first.
    ("llama", "LlamaForCausalLM", dict(LONG, rope_parameters=dict(rope_type="llama3", factor=4.0,
                                                                  original_max_position_embeddings=4096)),
     dict(rope_parameters=dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                               original_max_position_embeddings=4096))),
    ("llama", "LlamaForCausalLM", dict(LONG, rope_parameters=dict(rope_type="yarn",
                                                                  original_max_position_embeddings=4096)),
     dict(rope_parameters=dict(YARN, original_max_position_embeddings=4096))),
    ("llama", "LlamaForCausalLM", dict(LONG, original_max_position_embeddings=4096, rope_parameters=YARN)),
    ("m2m_100", "M2M100ForConditionalGeneration", PAIR),
    ("marian", "MarianMTModel", dict(PAIR, pad_token_id=39, eos_token_id=0)),  # the class's are of 58101 words
    ("mbart", "MBartForConditionalGeneration", PAIR),
    ("mistral", "MistralForCausalLM", WIDE),
    ("mpnet", "MPNetModel", BERT), ("mpnet", "MPNetForMaskedLM", BERT),
    ("mpnet", "MPNetForSequenceClassification", BERT), ("mpnet", "MPNetForTokenClassification", BERT),
    ("mpnet", "MPNetForQuestionAnswering", dict(BERT, relative_attention_num_buckets=40)),
    ("mt5", "MT5ForConditionalGeneration", T5),
    ("mvp", "MvpForConditionalGeneration", PAIR), ("mvp", "MvpModel", PAIR),
    ("mvp", "MvpForSequenceClassification", PAIR),
    ("olmo", "OlmoForCausalLM", WIDE), ("olmo", "OlmoForCausalLM", dict(WIDE, attention_bias=True)),
    ("opt", "OPTForCausalLM", OPT), ("opt", "OPTForCausalLM", dict(OPT, do_layer_norm_before=False)),
    ("opt", "OPTForCausalLM", dict(OPT, _remove_final_layer_norm=True, enable_bias=False)),
    ("opt", "OPTForCausalLM", dict(OPT, word_embed_proj_dim=8, layer_norm_elementwise_affine=False)),
    ("pegasus", "PegasusForConditionalGeneration", PAIR), ("pegasus", "PegasusModel", PAIR),
    ("phi", "PhiForCausalLM", LLAMA), ("phi", "PhiModel", dict(LLAMA, num_key_value_heads=2)),
    ("phi", "PhiForSequenceClassification", dict(LLAMA, pad_token_id=0)),
    ("phi3", "Phi3ForCausalLM", dict(WIDE, pad_token_id=0)),  # the class's is of 32064 words
    ("phi3", "Phi3ForCausalLM", dict(LLAMA, pad_token_id=0, num_key_value_heads=2, partial_rotary_factor=0.5)),
    ("plbart", "PLBartForConditionalGeneration", PAIR),
    ("qwen2", "Qwen2ForCausalLM", WIDE), ("qwen2", "Qwen2ForCausalLM", dict(WIDE, **SOME)),
    ("qwen3", "Qwen3ForCausalLM", dict(WIDE, attention_bias=True)), ("qwen3", "Qwen3ForCausalLM", dict(WIDE, **SOME)),
    ("roberta", "RobertaModel", BERT), ("roberta", "RobertaForMaskedLM", BERT),
    ("roberta", "RobertaForSequenceClassification", BERT),
    ("granite", "GraniteForCausalLM", LLAMA),
    ("granite", "GraniteModel", dict(LLAMA, num_key_value_heads=2, attention_bias=True, mlp_bias=True)),
    ("stablelm", "StableLmForCausalLM", dict(WIDE, hidden_size=256)),
    ("stablelm", "StableLmModel", dict(LLAMA, num_key_value_heads=2, use_parallel_residual=True, use_qkv_bias=True)),
    ("starcoder2", "Starcoder2ForCausalLM", LLAMA), ("starcoder2", "Starcoder2Model", dict(LLAMA, use_bias=False)),
    ("t5", "T5ForConditionalGeneration", T5),
    ("t5", "T5ForConditionalGeneration", dict(T5, feed_forward_proj="gated-gelu", num_decoder_layers=1)),
    ("t5", "T5EncoderModel", T5),
    ("umt5", "UMT5ForConditionalGeneration", T5), ("umt5", "UMT5Model", dict(T5, num_decoder_layers=1)),
    ("umt5", "UMT5EncoderModel", T5),
    ("vit", "ViTModel", VIT), ("vit", "ViTForImageClassification", dict(VIT, qkv_bias=False)),
    ("xlm-roberta", "XLMRobertaForMaskedLM", BERT), ("xlm-roberta", "XLMRobertaForTokenClassification", BERT),
    # Heads that are not tied: each stack has a table then, and BERT's head two biases. Behind the others, because
    # unit.model_defaults changes keys of the first case of a class.
    ("bart", "BartForConditionalGeneration", dict(PAIR, tie_word_embeddings=False)),
    ("bart", "BartModel", dict(PAIR, tie_word_embeddings=False)),
    ("bert", "BertForMaskedLM", dict(BERT, tie_word_embeddings=False)),
    ("distilbert", "DistilBertForMaskedLM", dict(DISTIL, tie_word_embeddings=False)),
    ("electra", "ElectraForMaskedLM", dict(BERT, tie_word_embeddings=False)),
    ("marian", "MarianMTModel", dict(PAIR, pad_token_id=39, eos_token_id=0, tie_word_embeddings=False)),
    ("mpnet", "MPNetForMaskedLM", dict(BERT, tie_word_embeddings=False)),
    ("blenderbot-small", "BlenderbotSmallForConditionalGeneration", dict(PAIR, tie_word_embeddings=False)),
    ("mvp", "MvpForConditionalGeneration", dict(PAIR, tie_word_embeddings=False)),
]
LEFT_OUT = ("architectures", "id2label", "label2id", "transformers_version", "problem_type", "_name_or_path")


def stored(model):
    """Names and shapes of what save_pretrained() writes."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with safe_open(folder + "/model.safetensors", "pt") as file:
            return {key: file.get_slice(key).get_shape() for key in sorted(file.keys())}


def epsilon(model):
    """The one that all norms have, OLMo's in their code."""
    found = {getattr(m, "eps", getattr(m, "variance_epsilon", None)) for m in model.modules()} - {None}
    if type(model).__name__.startswith("Olmo"):
        found.add(1e-5)
    assert len(found) == 1, found
    return found.pop()


def row(model_type, name, bare, told={}):
    """told: what transformers has to be told besides."""
    config = T.AutoConfig.for_model(model_type, **copy.deepcopy({**bare, **told}))
    spelled = {k: v for k, v in config.to_dict().items() if k not in LEFT_OUT}
    result = {"bare": dict(bare, model_type=model_type, architectures=[name]),
              "spelled": dict(spelled, architectures=[name])}
    if bare.get("num_hidden_layers", 0) < 30:
        model = getattr(T, name)(config)
        result.update(tensors=stored(model), epsilon=epsilon(model))
    rope = getattr(config, "rope_parameters", None)
    if rope:
        width = int((getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
                    * rope.get("partial_rotary_factor", 1))
        if rope["rope_type"] == "default":
            frequencies, factor = [rope["rope_theta"] ** (-2 * i / width) for i in range(width // 2)], 1.0
        else:
            found, factor = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, "cpu")
            frequencies = found.tolist()
        result.update(frequencies=frequencies, factor=float(factor))
    return result


print("[\n" + ",\n".join(json.dumps(row(*case)) for case in CASES) + "\n]")
