/* Optional keys of config.json. A key that is left out has transformers' default: tests/configs/make.py writes each
 * configuration without its optional keys and with all of them, and the nets of both are compared node by node. Also:
 * the effect of keys that are written, and numbers that are refused. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#include "support/ok.h"
#include "support/same_plan.h"

#define DEFAULTS VKF_SOURCE_DIR "/tests/configs/defaults.json"

static vkf_env env;
static char path[64]; /* of the configuration that is read */

/* Returns the net of a configuration whose weights are still to be made. Close it. */
static vkf_net *want(const json_t *config) {
  vkf_net *net = NULL;
  assert_int_equal(json_dump_file(config, path, 0), 0);
  ok(&env, vkf_model_net_want(&env, path, &net));
  return net;
}

static void same_info(const vkf_net_info *bare, const vkf_net_info *spelled) {
  assert_int_equal(bare->architecture, spelled->architecture);
  assert_int_equal(bare->max_positions, spelled->max_positions);
  assert_int_equal(bare->n_types, spelled->n_types);
  assert_int_equal(bare->n_parameters, spelled->n_parameters);
  assert_int_equal(bare->has_head, spelled->has_head);
  assert_memory_equal(bare->image, spelled->image, sizeof bare->image);
}

/* Checks that the tensors of a folder to be made are those that transformers stores. It stores a base model's without
 * the prefix. */
static void same_tensors(const vkf_net *net, const json_t *tensors) {
  size_t n = 0;
  if (tensors == NULL) return; /* they are not recorded for models with many layers */
  for (uint32_t i = 0; i < net->n_wanted; i++) {
    const vkf_file_tensor *t = net->wanted[i];
    size_t base = net->info.has_head || net->base == NULL || strncmp(t->name, net->base, strlen(net->base)) != 0
                      ? 0
                      : strlen(net->base);
    const json_t *shape = json_object_get(tensors, t->name + base);
    if (shape == NULL) print_error("wanted, and not stored: %s\n", t->name + base);
    n += shape != NULL;
    if (shape == NULL) continue;
    assert_int_equal(json_array_size(shape), t->rank);
    for (size_t k = 0; k < t->rank; k++) assert_int_equal(json_integer_value(json_array_get(shape, k)), t->shape[k]);
  }
  assert_int_equal(n, net->n_wanted);
  if (n != json_object_size(tensors)) print_error("stored: %zu, wanted: %zu\n", json_object_size(tensors), n);
  assert_int_equal(n, json_object_size(tensors));
}

/* Compares positions. In a family that skips pads, they show which id is the pad. */
static void same_positions(const vkf_net *bare, const vkf_net *spelled) {
  static const int32_t ids[] = {0, 1, 2, 3, 39, 5};
  int32_t found[VKF_COUNT(ids)], expected[VKF_COUNT(ids)];
  const vkf_model_tokens tokens = {.rows = 1,
                                   .length = VKF_COUNT(ids),
                                   .ids = ids,
                                   .stage = bare->encoder.n_layers > 0 ? VKF_STAGE_ENCODE : VKF_STAGE_DECODE};
  vkf_model_positions(bare, &tokens, found);
  vkf_model_positions(spelled, &tokens, expected);
  assert_memory_equal(found, expected, sizeof found);
}

/* Compares the frequencies with those of transformers, which are in float32. */
static void same_rotary(const vkf_model_rotary *rotary, const json_t *row) {
  const json_t *frequencies = json_object_get(row, "frequencies");
  assert_int_equal(rotary->width, 2 * json_array_size(frequencies));
  if (rotary->width == 0) return;
  assert_true(fabs(rotary->factor - json_number_value(json_object_get(row, "factor"))) <= 1e-12);
  for (uint32_t i = 0; i < rotary->width / 2; i++) {
    double expected = json_number_value(json_array_get(frequencies, i));
    assert_true(fabs(rotary->frequencies[i] - expected) <= 1e-6 * expected);
  }
}

static void same_epsilon(const vkf_net *net, const json_t *row) {
  const json_t *epsilon = json_object_get(row, "epsilon");
  if (epsilon == NULL) return;
  const float expected = (float)json_number_value(epsilon);
  assert_true(net->encoder.n_layers == 0 || net->encoder.norm_eps == expected);
  assert_true(net->decoder.n_layers == 0 || net->decoder.norm_eps == expected);
}

static void keys_left_out(void **state) {
  (void)state;
  json_t *rows = json_load_file(DEFAULTS, 0, NULL), *row;
  size_t i;
  assert_true(json_array_size(rows) > 30);
  json_array_foreach(rows, i, row) {
    const json_t *names = json_object_get(json_object_get(row, "bare"), "architectures");
    print_message("row %zu, %s\n", i, json_string_value(json_array_get(names, 0)));
    vkf_net *bare = want(json_object_get(row, "bare")), *spelled = want(json_object_get(row, "spelled"));
    same_info(&bare->info, &spelled->info);
    same_tensors(bare, json_object_get(row, "tensors"));
    same_epsilon(bare, row);
    same_positions(bare, spelled);
    same_rotary(&bare->decoder.rotary, row);
    if (bare->info.architecture != VKF_ARCHITECTURE_DECODER) same_plan(bare, spelled, VKF_STAGE_ENCODE);
    if (bare->info.architecture != VKF_ARCHITECTURE_ENCODER) same_plan(bare, spelled, VKF_STAGE_DECODE);
    vkf_model_net_close(&bare);
    vkf_model_net_close(&spelled);
  }
  json_decref(rows);
  assert_int_equal(env.live_bytes, 0);
}

/* ---- keys that are written --------------------------------------------------------------------------------------- */

static uint64_t digest_plan(const vkf_net *net, vkf_stage stage, uint64_t hash) {
  const uint32_t S = net->info.image[0] > 0 ? net->info.max_positions : 5;
  const vkf_plan_request request = {
      .stage = stage,
      .capacity = {.B = 2, .S = S, .R = 2, .T = 9, .past = 3},
      .logits = net->info.has_head && (stage == VKF_STAGE_DECODE || net->decoder.n_layers == 0),
      .hidden_states = true};
  vkf_plan *plan = NULL;
  assert_int_equal(vkf_model_plan_build(net, &env, &request, &plan), VKF_OK);
  for (uint32_t i = 0; i < plan->n_nodes; i++) {
    const vkf_node *node = &plan->nodes[i];
    size_t n = 0;
    const vkf_field *fields = vkf_op_fields(node->op, &n);
    hash = vkf_hash_text(hash, node->name);
    hash = vkf_hash_bytes(hash, node->in, sizeof node->in);
    for (size_t k = 0; k < n; k++)
      hash = vkf_hash_bytes(hash, (const char *)&node->params + fields[k].offset,
                            fields[k].kind == VKF_FIELD_FLAG ? sizeof(bool) : sizeof(uint32_t));
  }
  for (uint32_t i = 0; i < plan->n_slots; i++)
    if (plan->slots[i].kind == VKF_SLOT_CONSTANT)
      hash = vkf_hash_bytes(hash, plan->slots[i].data, vkf_slot_elements(&plan->slots[i]) * sizeof(float));
  vkf_model_plan_destroy(&plan);
  return hash;
}

/* Hashes all that a configuration decides: nodes, tables, tensors, positions. */
static uint64_t digest_net(const json_t *config) {
  static const int32_t ids[] = {0, 1, 2, 3, 39, 5};
  int32_t positions[VKF_COUNT(ids)];
  vkf_net *net = want(config);
  uint64_t hash = VKF_HASH_START;
  for (uint32_t i = 0; i < net->n_wanted; i++) {
    hash = vkf_hash_text(hash, net->wanted[i]->name);
    hash = vkf_hash_bytes(hash, net->wanted[i]->shape, net->wanted[i]->rank * sizeof(size_t));
  }
  const vkf_stage first = net->encoder.n_layers > 0 ? VKF_STAGE_ENCODE : VKF_STAGE_DECODE;
  const vkf_model_tokens tokens = {.rows = 1, .length = VKF_COUNT(ids), .ids = ids, .stage = first};
  vkf_model_positions(net, &tokens, positions);
  hash = vkf_hash_bytes(hash, positions, sizeof positions);
  if (net->encoder.n_layers > 0) hash = digest_plan(net, VKF_STAGE_ENCODE, hash);
  if (net->decoder.n_layers > 0) hash = digest_plan(net, VKF_STAGE_DECODE, hash);
  vkf_model_net_close(&net);
  return hash;
}

static json_t *bare_of(const json_t *rows, const char *architecture) {
  size_t i;
  json_t *row;
  json_array_foreach(rows, i, row) {
    json_t *bare = json_object_get(row, "bare");
    const char *name = json_string_value(json_array_get(json_object_get(bare, "architectures"), 0));
    if (strcmp(name, architecture) == 0) return bare;
  }
  fail();
  return NULL;
}

/* Each of these keys has an effect: another value than the default makes another model. */
static void keys_that_are_written(void **state) {
  (void)state;
  static const struct {
    const char *architecture, *with, *key, *value; /* with: keys without which this one has no effect */
  } rows[] = {
#define EACH(architecture, ...) {architecture, "{}", __VA_ARGS__}
#define YARN "{\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":128"
      EACH("AlbertModel", "embedding_size", "8"),
      EACH("AlbertModel", "hidden_act", "\"relu\""),
      EACH("AlbertModel", "layer_norm_eps", "0.25"),
      EACH("AlbertModel", "type_vocab_size", "3"),
      {"AlbertModel", "{\"num_hidden_layers\":2}", "num_hidden_groups", "2"},
      EACH("BartForConditionalGeneration", "activation_function", "\"relu\""),
      EACH("BartForConditionalGeneration", "scale_embedding", "true"),
      EACH("BartForConditionalGeneration", "tie_word_embeddings", "false"),
      EACH("BertModel", "hidden_act", "\"gelu_new\""),
      {"BertModel", "{\"hidden_act\":\"gelu_new\"}", "hidden_act", "\"quick_gelu\""},
      EACH("BertModel", "layer_norm_eps", "0.25"),
      EACH("BertModel", "type_vocab_size", "1"),
      EACH("BertForMaskedLM", "tie_word_embeddings", "false"),
      EACH("DistilBertForMaskedLM", "activation", "\"relu\""),
      EACH("ElectraModel", "embedding_size", "8"),
      {"ElectraModel", "{\"embedding_size\":8}", "embedding_size", "16"},
      EACH("ElectraModel", "hidden_act", "\"relu\""),
      EACH("ElectraModel", "layer_norm_eps", "0.25"),
      EACH("ElectraModel", "type_vocab_size", "3"),
      EACH("ElectraForPreTraining", "hidden_act", "\"relu\""),
      EACH("ElectraForMaskedLM", "tie_word_embeddings", "false"),
      EACH("GPT2LMHeadModel", "n_inner", "24"),
      EACH("GPT2LMHeadModel", "scale_attn_weights", "false"),
      EACH("GPT2LMHeadModel", "activation_function", "\"relu\""),
      EACH("GPT2LMHeadModel", "layer_norm_epsilon", "0.25"),
      EACH("GPT2LMHeadModel", "tie_word_embeddings", "false"),
      EACH("GPTNeoXForCausalLM", "rotary_pct", "0.5"),
      EACH("GPTNeoXForCausalLM", "partial_rotary_factor", "0.5"),
      EACH("GPTNeoXForCausalLM", "rope_parameters", "{\"partial_rotary_factor\":0.5}"),
      EACH("GPTNeoXForCausalLM", "rotary_emb_base", "500"),
      EACH("GPTNeoXForCausalLM", "use_parallel_residual", "false"),
      EACH("GPTNeoXForCausalLM", "attention_bias", "false"),
      EACH("GPTNeoXForCausalLM", "hidden_act", "\"relu\""),
      EACH("GPTNeoXForCausalLM", "layer_norm_eps", "0.25"),
      EACH("GPTNeoXForCausalLM", "tie_word_embeddings", "true"),
      EACH("GemmaForCausalLM", "hidden_act", "\"relu\""),
      EACH("GemmaForCausalLM", "hidden_activation", "\"gelu\""),
      EACH("GemmaForCausalLM", "head_dim", "8"),
      EACH("GemmaForCausalLM", "num_key_value_heads", "8"),
      EACH("GemmaForCausalLM", "attention_bias", "true"),
      EACH("GemmaForCausalLM", "tie_word_embeddings", "false"),
      EACH("GraniteForCausalLM", "attention_bias", "true"),
      EACH("GraniteForCausalLM", "attention_multiplier", "0.5"),
      EACH("GraniteForCausalLM", "embedding_multiplier", "12"),
      EACH("GraniteForCausalLM", "logits_scaling", "8"),
      EACH("GraniteForCausalLM", "mlp_bias", "true"),
      EACH("GraniteForCausalLM", "residual_multiplier", "0.22"),
      EACH("LlamaForCausalLM", "num_key_value_heads", "2"),
      EACH("LlamaForCausalLM", "head_dim", "8"),
      EACH("LlamaForCausalLM", "hidden_act", "\"gelu\""),
      EACH("LlamaForCausalLM", "rms_norm_eps", "0.25"),
      EACH("LlamaForCausalLM", "rope_theta", "500"),
      EACH("LlamaForCausalLM", "rope_parameters", "{\"rope_theta\":500}"),
      EACH("LlamaForCausalLM", "rope_scaling", "{\"type\":\"linear\",\"factor\":2}"),
      EACH("LlamaForCausalLM", "rope_scaling", "{\"rope_type\":\"linear\",\"factor\":2}"),
      EACH("LlamaForCausalLM", "attention_bias", "true"),
      EACH("LlamaForCausalLM", "mlp_bias", "true"),
      EACH("LlamaForCausalLM", "tie_word_embeddings", "true"),
      {"LlamaForCausalLM", YARN "}}", "rope_parameters", "{\"rope_type\":\"default\"}"},
      {"LlamaForCausalLM", YARN "}}", "rope_parameters.factor", "3"},
      {"LlamaForCausalLM", YARN "}}", "rope_parameters.original_max_position_embeddings", "16"},
      {"LlamaForCausalLM", YARN "}}", "rope_parameters.attention_factor", "2"},
      {"LlamaForCausalLM", YARN "}}", "rope_parameters.beta_fast", "4"},
      {"LlamaForCausalLM", YARN "}}", "rope_parameters.beta_slow", "3"},
      {"LlamaForCausalLM", YARN "}}", "rope_parameters.truncate", "false"},
      {"LlamaForCausalLM", YARN ",\"mscale\":2}}", "rope_parameters.mscale_all_dim", "3"},
      {"LlamaForCausalLM", YARN ",\"mscale_all_dim\":2}}", "rope_parameters.mscale", "3"},
      EACH("M2M100ForConditionalGeneration", "activation_function", "\"gelu\""),
      EACH("M2M100ForConditionalGeneration", "scale_embedding", "false"),
      EACH("M2M100ForConditionalGeneration", "pad_token_id", "2"),
      EACH("MarianMTModel", "share_encoder_decoder_embeddings", "false"),
      {"MarianMTModel", "{\"share_encoder_decoder_embeddings\":false}", "decoder_vocab_size", "30"},
      EACH("MistralForCausalLM", "sliding_window", "8"),
      EACH("MistralForCausalLM", "num_key_value_heads", "4"),
      EACH("MPNetModel", "hidden_act", "\"relu\""),
      EACH("MPNetModel", "layer_norm_eps", "0.25"),
      EACH("MPNetForMaskedLM", "tie_word_embeddings", "false"),
      EACH("OlmoForCausalLM", "attention_bias", "true"),
      EACH("OPTForCausalLM", "word_embed_proj_dim", "8"),
      EACH("OPTForCausalLM", "activation_function", "\"gelu\""),
      EACH("OPTForCausalLM", "do_layer_norm_before", "false"),
      EACH("OPTForCausalLM", "_remove_final_layer_norm", "true"),
      EACH("OPTForCausalLM", "layer_norm_elementwise_affine", "false"),
      EACH("OPTForCausalLM", "enable_bias", "false"),
      EACH("OPTForCausalLM", "tie_word_embeddings", "false"),
      {"Qwen2ForCausalLM", "{\"max_window_layers\":0}", "use_sliding_window", "true"},
      {"Qwen2ForCausalLM", "{\"max_window_layers\":0,\"use_sliding_window\":true}", "sliding_window", "8"},
      {"Qwen2ForCausalLM", "{\"max_window_layers\":0,\"use_sliding_window\":true}", "max_window_layers", "1"},
      {"Qwen2ForCausalLM", "{\"max_window_layers\":0,\"use_sliding_window\":true}", "layer_types",
       "[\"full_attention\"]"},
      EACH("Qwen3ForCausalLM", "head_dim", "64"),
      EACH("Qwen3ForCausalLM", "attention_bias", "false"),
      EACH("PegasusForConditionalGeneration", "activation_function", "\"relu\""),
      EACH("PegasusForConditionalGeneration", "scale_embedding", "true"),
      EACH("BlenderbotForConditionalGeneration", "scale_embedding", "true"),
      EACH("BlenderbotSmallForConditionalGeneration", "scale_embedding", "true"),
      EACH("MvpForConditionalGeneration", "scale_embedding", "true"),
      EACH("PhiForCausalLM", "head_dim", "8"),
      EACH("PhiForCausalLM", "hidden_act", "\"relu\""),
      EACH("PhiForCausalLM", "layer_norm_eps", "0.25"),
      EACH("PhiForCausalLM", "num_key_value_heads", "2"),
      EACH("PhiForCausalLM", "partial_rotary_factor", "1"),
      EACH("PhiForCausalLM", "rope_parameters", "{\"partial_rotary_factor\":1}"),
      EACH("PhiForCausalLM", "tie_word_embeddings", "true"),
      EACH("Phi3ForCausalLM", "sliding_window", "8"),
      {"Phi3ForCausalLM", "{\"num_attention_heads\":4}", "partial_rotary_factor", "0.5"},
      EACH("Phi3ForCausalLM", "rms_norm_eps", "0.25"),
      EACH("PLBartForConditionalGeneration", "scale_embedding", "false"),
      EACH("PLBartForConditionalGeneration", "tie_word_embeddings", "false"),
      EACH("RobertaModel", "pad_token_id", "2"),
      EACH("StableLmForCausalLM", "hidden_act", "\"relu\""),
      EACH("StableLmForCausalLM", "layer_norm_eps", "0.25"),
      EACH("StableLmForCausalLM", "num_key_value_heads", "2"),
      EACH("StableLmForCausalLM", "partial_rotary_factor", "1"),
      EACH("StableLmForCausalLM", "use_parallel_residual", "true"),
      EACH("StableLmForCausalLM", "use_qkv_bias", "true"),
      EACH("StableLmForCausalLM", "tie_word_embeddings", "true"),
      EACH("Starcoder2ForCausalLM", "head_dim", "8"),
      EACH("Starcoder2ForCausalLM", "hidden_act", "\"gelu\""),
      EACH("Starcoder2ForCausalLM", "norm_epsilon", "0.25"),
      EACH("Starcoder2ForCausalLM", "num_key_value_heads", "4"),
      EACH("Starcoder2ForCausalLM", "sliding_window", "8"),
      EACH("Starcoder2ForCausalLM", "use_bias", "false"),
      EACH("Starcoder2ForCausalLM", "tie_word_embeddings", "false"),
      EACH("T5ForConditionalGeneration", "feed_forward_proj", "\"gelu\""),
      EACH("T5ForConditionalGeneration", "feed_forward_proj", "\"gated-silu\""),
      EACH("T5ForConditionalGeneration", "dense_act_fn", "\"tanh\""),
      {"T5ForConditionalGeneration", "{\"feed_forward_proj\":\"gated-silu\"}", "feed_forward_proj", "\"gated-gelu\""},
      EACH("T5ForConditionalGeneration", "layer_norm_epsilon", "0.25"),
      EACH("T5ForConditionalGeneration", "relative_attention_num_buckets", "16"),
      EACH("T5ForConditionalGeneration", "relative_attention_max_distance", "64"),
      EACH("T5ForConditionalGeneration", "num_decoder_layers", "1"),
      EACH("T5ForConditionalGeneration", "scale_decoder_outputs", "false"),
      EACH("T5ForConditionalGeneration", "tie_word_embeddings", "false"),
      EACH("T5EncoderModel", "feed_forward_proj", "\"gated-silu\""),
      EACH("UMT5ForConditionalGeneration", "feed_forward_proj", "\"relu\""),
      EACH("UMT5ForConditionalGeneration", "relative_attention_max_distance", "64"),
      EACH("UMT5ForConditionalGeneration", "tie_word_embeddings", "false"),
      EACH("ViTModel", "image_size", "32"),
      EACH("ViTModel", "patch_size", "32"),
      EACH("ViTModel", "num_channels", "1"),
      EACH("ViTModel", "hidden_act", "\"relu\""),
      EACH("ViTModel", "layer_norm_eps", "0.25"),
      EACH("ViTModel", "qkv_bias", "false"),
  };
  json_t *all = json_load_file(DEFAULTS, 0, NULL);
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    const char *dot = strchr(rows[i].key, '.');
    json_t *config = json_deep_copy(bare_of(all, rows[i].architecture));
    json_t *with = json_loads(rows[i].with, 0, NULL), *value = json_loads(rows[i].value, JSON_DECODE_ANY, NULL);
    assert_non_null(with);
    assert_non_null(value);
    json_object_update(config, with);
    const uint64_t before = digest_net(config);
    assert_true(digest_net(config) == before);
    json_object_set_new(dot != NULL ? json_object_get(config, "rope_parameters") : config,
                        dot != NULL ? dot + 1 : rows[i].key, value);
    if (digest_net(config) == before)
      fail_msg("%s: %s %s changes nothing", rows[i].architecture, rows[i].key, rows[i].value);
    json_decref(with);
    json_decref(config);
  }
  json_decref(all);
  assert_int_equal(env.live_bytes, 0);
}

/* Keys that transformers' classes do not read. Gemma reads hidden_act only if there is no hidden_activation. */
static void keys_that_change_nothing(void **state) {
  (void)state;
  static const struct {
    const char *architecture, *changes;
  } rows[] = {
      {"GemmaForCausalLM", "{\"hidden_act\":\"gelu\",\"hidden_activation\":\"gelu_pytorch_tanh\"}"},
      {"LlamaForCausalLM", "{\"partial_rotary_factor\":0.5}"},
      {"LlamaForCausalLM", "{\"rope_parameters\":{\"partial_rotary_factor\":0.5}}"},
      {"MT5ForConditionalGeneration", "{\"scale_decoder_outputs\":true}"},
      {"UMT5ForConditionalGeneration", "{\"scale_decoder_outputs\":false}"},
      {"ElectraModel", "{\"summary_type\":\"mean\",\"summary_use_proj\":false}"},
      {"MPNetModel", "{\"pad_token_id\":0}"}, /* its class has 1 */
      {"MPNetModel", "{\"pad_token_id\":null}"},
      {"MPNetModel", "{\"type_vocab_size\":3}"},
      {"T5EncoderModel", "{\"is_encoder_decoder\":true}"},
      {"OlmoForCausalLM", "{\"rms_norm_eps\":0.25}"},
      {"Starcoder2ForCausalLM", "{\"layer_norm_eps\":0.25,\"attention_bias\":false,\"partial_rotary_factor\":0.5}"},
      {"StableLmForCausalLM", "{\"rms_norm_eps\":0.25,\"attention_bias\":true}"},
      {"PhiForCausalLM", "{\"rms_norm_eps\":0.25,\"attention_bias\":false}"},
      {"Phi3ForCausalLM", "{\"sliding_window\":null}"},
      {"PegasusForConditionalGeneration", "{\"extra_pos_embeddings\":1}"},
  };
  json_t *all = json_load_file(DEFAULTS, 0, NULL);
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    json_t *config = json_deep_copy(bare_of(all, rows[i].architecture)),
           *changes = json_loads(rows[i].changes, 0, NULL);
    const uint64_t before = digest_net(config);
    json_object_update(config, changes);
    if (digest_net(config) != before) fail_msg("%s: %s changes something", rows[i].architecture, rows[i].changes);
    json_decref(changes);
    json_decref(config);
  }
  json_decref(all);
  assert_int_equal(env.live_bytes, 0);
}

/* Numbers that are out of range or do not fit together, with a word of the message. */
static void numbers_that_do_not_fit(void **state) {
  (void)state;
  static const struct {
    const char *architecture, *changes, *word;
  } rows[] = {
      {"LlamaForCausalLM", "{\"num_key_value_heads\":3}", "num_key_value_heads"},
      {"LlamaForCausalLM", "{\"hidden_size\":0}", "hidden_size"},
      {"LlamaForCausalLM", "{\"hidden_size\":16777217}", "hidden_size"},
      {"LlamaForCausalLM", "{\"rms_norm_eps\":1.5}", "rms_norm_eps"},
      {"LlamaForCausalLM", "{\"rms_norm_eps\":-1}", "rms_norm_eps"},
      {"LlamaForCausalLM", "{\"pad_token_id\":-2}", "pad_token_id"},
      {"LlamaForCausalLM", "{\"eos_token_id\":[-2]}", "eos_token_id"},
      {"LlamaForCausalLM", "{\"eos_token_id\":[2147483648]}", "eos_token_id"},
      {"LlamaForCausalLM", "{\"num_hidden_layers\":16777216}", "layers"},
      {"LlamaForCausalLM", "{\"head_dim\":16777216}", "heads"},
      {"GPTNeoXForCausalLM", "{\"rotary_pct\":0}", "turn"},
      {"GraniteForCausalLM", "{\"logits_scaling\":0}", "logits_scaling"},
      {"GraniteForCausalLM", "{\"residual_multiplier\":0}", "residual_multiplier"},
      {"PhiForCausalLM", "{\"partial_rotary_factor\":0.2}", "turn"},
      {"StableLmForCausalLM", "{\"partial_rotary_factor\":0.4}", "turn"},
      {"StableLmForCausalLM", "{\"head_dim\":16}", "heads that fill hidden_size"},
      {"LlamaForCausalLM", "{\"partial_rotary_factor\":0.5,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
       "partial_rotary_factor"},
      {"BertModel", "{\"num_attention_heads\":3}", "num_attention_heads"},
      {"M2M100ForConditionalGeneration", "{\"pad_token_id\":40}", "pad_token_id"},
      {"M2M100ForConditionalGeneration", "{\"pad_token_id\":-1}", "pad_token_id"},
      {"RobertaModel", "{\"pad_token_id\":19}", "pad_token_id"},
      {"RobertaModel", "{\"pad_token_id\":-1}", "pad_token_id"},
      {"MPNetModel", "{\"max_position_embeddings\":2}", "max_position_embeddings"},
      {"MPNetModel", "{\"relative_attention_num_buckets\":31}", "at least 32 as relative_attention_num_buckets"},
      {"T5ForConditionalGeneration", "{\"relative_attention_num_buckets\":3}", "buckets"},
      {"T5ForConditionalGeneration", "{\"relative_attention_max_distance\":16}", "max_distance"},
      {"ViTModel", "{\"patch_size\":225}", "patches"},
      {"ViTModel", "{\"image_size\":4097}", "images"},
      {"ViTModel", "{\"image_size\":512,\"patch_size\":257}", "patches"},
      {"ViTModel", "{\"num_channels\":65}", "channels"},
  };
  json_t *all = json_load_file(DEFAULTS, 0, NULL);
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    json_t *config = json_deep_copy(bare_of(all, rows[i].architecture)),
           *changes = json_loads(rows[i].changes, 0, NULL);
    vkf_net *net = NULL;
    assert_non_null(changes);
    json_object_update(config, changes);
    assert_int_equal(json_dump_file(config, path, 0), 0);
    const vkf_status st = vkf_model_net_want(&env, path, &net);
    if (st != VKF_ERROR_FORMAT || strstr(env.message, rows[i].word) == NULL)
      fail_msg("%s %s: status %d, \"%s\"", rows[i].architecture, rows[i].changes, (int)st, env.message);
    vkf_env_clear(&env);
    json_decref(changes);
    json_decref(config);
  }
  json_decref(all);
  assert_int_equal(env.live_bytes, 0);
}

/* Numbers that follow from others: RoBERTa's positions from the size of its table and the pad (also the last one that
 * is allowed), and the decoder's start from the pad. */
static void numbers_that_follow(void **state) {
  (void)state;
  json_t *all = json_load_file(DEFAULTS, 0, NULL), *roberta = bare_of(all, "RobertaModel");
  vkf_net *net = want(roberta);
  assert_int_equal(net->info.max_positions, 20 - 2); /* the rows after the pad's, which is row 1 */
  vkf_model_net_close(&net);
  json_object_set_new(roberta, "pad_token_id", json_integer(18));
  net = want(roberta);
  assert_int_equal(net->info.max_positions, 1);
  vkf_model_net_close(&net);
  net = want(bare_of(all, "T5ForConditionalGeneration"));
  assert_int_equal(net->info.decoder_start_id, -1); /* the default is the pad, which is missing */
  vkf_model_net_close(&net);
  static const char *const pads[] = {"T5ForConditionalGeneration", "MarianMTModel"};
  for (size_t i = 0; i < VKF_COUNT(pads); i++) {
    json_t *config = bare_of(all, pads[i]);
    json_object_set_new(config, "pad_token_id", json_integer(7));
    net = want(config);
    assert_int_equal(net->info.decoder_start_id, 7);
    vkf_model_net_close(&net);
    json_object_set_new(config, "decoder_start_token_id", json_integer(3));
    net = want(config);
    assert_int_equal(net->info.decoder_start_id, 3);
    vkf_model_net_close(&net);
  }
  json_decref(all);
  assert_int_equal(env.live_bytes, 0);
}

/* null is not the same as a key that is missing. */
static void keys_that_are_null(void **state) {
  (void)state;
  json_t *rows = json_load_file(DEFAULTS, 0, NULL), *mistral = bare_of(rows, "MistralForCausalLM");
  vkf_net *net = want(mistral);
  assert_int_equal(net->decoder.n_kv_heads, 8);
  vkf_model_net_close(&net);
  json_object_set_new(mistral, "num_key_value_heads", json_null());
  json_object_set_new(mistral, "sliding_window", json_null());
  net = want(mistral);
  assert_int_equal(net->decoder.n_kv_heads, net->decoder.n_heads);
  assert_int_equal(net->decoder.layers[0].window, 0);
  vkf_model_net_close(&net);
  static const char *const qwens[] = {"Qwen2ForCausalLM", "Qwen3ForCausalLM"};
  for (size_t i = 0; i < VKF_COUNT(qwens); i++) { /* 32 if the key is missing, however many heads there are */
    json_t *qwen = bare_of(rows, qwens[i]);
    json_object_set_new(qwen, "num_attention_heads", json_integer(64));
    json_object_set_new(qwen, "hidden_size", json_integer(128));
    net = want(qwen);
    assert_int_equal(net->decoder.n_kv_heads, 32);
    vkf_model_net_close(&net);
  }
  json_t *roberta = bare_of(rows, "RobertaModel");
  json_object_set_new(roberta, "pad_token_id", json_null());
  assert_int_equal(json_dump_file(roberta, path, 0), 0);
  assert_int_equal(vkf_model_net_want(&env, path, &net), VKF_ERROR_FORMAT);
  assert_non_null(strstr(env.message, "pad_token_id"));
  vkf_env_clear(&env);
  json_decref(rows);
  assert_int_equal(env.live_bytes, 0);
}

int main(void) {
  vkf_env_init(&env, NULL);
  strcpy(path, "/tmp/vkf-defaults-XXXXXX");
  int file = mkstemp(path);
  if (file < 0) return 1;
  close(file);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys_left_out),           cmocka_unit_test(keys_that_are_written),
      cmocka_unit_test(keys_that_are_null),      cmocka_unit_test(keys_that_change_nothing),
      cmocka_unit_test(numbers_that_do_not_fit), cmocka_unit_test(numbers_that_follow)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(path);
  return failed;
}
