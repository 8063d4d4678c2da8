/* Model folders: what opens, and the message for each wrong config.json or model.safetensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "file/map.h"
#include "file/safetensors.h"
#include "file/write.h"
#include "model/model.h"
#include "support/folder.h"
#include "support/ok.h"

#define GOLDEN VKF_SOURCE_DIR "/tests/golden/"
#define MAX_TENSORS 160

static vkf_env env;
static char folder[64];

static vkf_net *open_ok(const char *path) {
  vkf_net *net = NULL;
  ok(&env, vkf_model_net_open(&env, &(vkf_file_source){.folder = path}, &net));
  return net;
}

/* ---- changed folders --------------------------------------------------------------------------------------------- */

static int make_folder(void **state) {
  (void)state;
  vkf_env_init(&env, NULL);
  strcpy(folder, "/tmp/vkf-model-XXXXXX");
  return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
  (void)state;
  return folder_remove(folder, "config.json", "model.safetensors");
}

/* Writes config.json of a golden folder with the first `from` replaced by `to`. from NULL: as it is. */
static void put_config(const char *golden, const char *from, const char *to) {
  char path[256];
  vkf_file_map map;
  snprintf(path, sizeof path, GOLDEN "%s/config.json", golden);
  assert_int_equal(vkf_file_map_open(&env, path, &map), VKF_OK);
  char *text = malloc(map.bytes + 1);
  memcpy(text, map.data, map.bytes);
  text[map.bytes] = 0;
  char *at = from ? strstr(text, from) : text;
  assert_non_null(at);
  size_t skip = from ? strlen(from) : 0;
  vkf_file_part parts[3] = {{text, (size_t)(at - text)},
                            {to ? to : "", to ? strlen(to) : 0},
                            {at + skip, map.bytes - (size_t)(at - text) - skip}};
  snprintf(path, sizeof path, "%s/config.json", folder);
  assert_int_equal(vkf_file_write(&env, path, parts, 3), VKF_OK);
  free(text);
  vkf_file_map_close(&map);
}

/* What put_tensors() changes in the tensors of a golden folder. */
typedef struct change {
  const char *drop;      /* this tensor is left out */
  const char *transpose; /* this one gets its two extents swapped, or a 1 in front */
  const char *retype;    /* this one becomes I32 */
  const char *from, *to; /* `from` is also written under the name `to` */
  bool moved;            /* and not under its own name */
} change;

static void put_tensors(const char *golden, const change *c) {
  char path[256];
  vkf_file_tensors *tensors = NULL;
  vkf_array arrays[MAX_TENSORS];
  size_t n = 0;
  snprintf(path, sizeof path, GOLDEN "%s", golden);
  assert_int_equal(vkf_file_tensors_open(&env, path, &tensors), VKF_OK);
  for (size_t i = 0; i < vkf_file_tensors_count(tensors); i++) {
    const vkf_file_tensor *t = vkf_file_tensors_at(tensors, i);
    vkf_array a = {.name = t->name, .dtype = t->dtype, .rank = t->rank, .data = (void *)(uintptr_t)t->data};
    assert_true(n + 2 <= MAX_TENSORS);
    memcpy(a.shape, t->shape, sizeof a.shape);
    if (c->drop && strcmp(c->drop, t->name) == 0) continue;
    if (c->retype && strcmp(c->retype, t->name) == 0) a.dtype = VKF_I32;
    if (c->transpose && strcmp(c->transpose, t->name) == 0) {
      a.shape[1] = t->shape[0];
      a.shape[0] = t->rank == 2 ? t->shape[1] : 1;
      a.rank = 2;
    }
    bool is_copied = c->from && strcmp(c->from, t->name) == 0;
    if (!(is_copied && c->moved)) arrays[n++] = a;
    a.name = c->to;
    if (is_copied) arrays[n++] = a;
  }
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  assert_int_equal(vkf_file_tensors_write(&env, path, arrays, n), VKF_OK);
  vkf_file_tensors_close(&tensors);
}

/* Checks that the folder is refused and that the message has all these parts. */
static void refused(vkf_status expected, const char *const *parts, size_t n) {
  vkf_net *net = NULL;
  vkf_env_clear(&env);
  assert_int_equal(vkf_model_net_open(&env, &(vkf_file_source){.folder = folder}, &net), expected);
  assert_null(net);
  for (size_t i = 0; i < n; i++) {
    if (strstr(env.message, parts[i]) == NULL) print_error("\"%s\" lacks \"%s\"\n", env.message, parts[i]);
    assert_non_null(strstr(env.message, parts[i]));
  }
  vkf_env_clear(&env);
  assert_int_equal(env.live_bytes, 0);
}
#define REFUSED(status, ...) \
  refused(status, (const char *const[]){__VA_ARGS__}, VKF_COUNT(((const char *const[]){__VA_ARGS__})))

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void golden_folders(void **state) {
  (void)state;
  static const struct {
    const char *name, *family, *architecture;
    uint64_t n_parameters;
    uint32_t d_model, n_heads, d_ff, vocab, encoder_layers, decoder_layers, max_positions;
    int32_t start_id;
    bool has_head;
  } rows[] = {
      /* marian: PyTorch counts 177024, without the bias of the logits and without the sinusoids */
      {"marian", "marian", "encoder-decoder", 177024 + 150, 64, 4, 128, 150, 2, 2, 64, 0, true},
      {"transformer-block-plain", "transformer", "encoder", 13888, 32, 4, 128, 50, 1, 0, 0, -1, false},
      {"transformer-block-sentence", "transformer", "encoder", 13056, 32, 4, 128, 11, 1, 0, 0, -1, false},
      {"transformer-encoder-learned", "transformer", "encoder", 173376, 64, 8, 256, 300, 3, 0, 64, -1, false},
      {"transformer-lm-postln", "transformer", "decoder", 336104, 64, 8, 256, 1000, 0, 4, 128, -1, true},
      {"transformer-postln-relu", "transformer", "encoder-decoder", 241152, 64, 4, 256, 120, 2, 2, 0, 1, true},
      {"transformer-preln-gelu", "transformer", "encoder-decoder", 241408, 64, 4, 256, 120, 2, 2, 0, 1, true},
  };
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    char path[256];
    snprintf(path, sizeof path, GOLDEN "%s", rows[i].name);
    vkf_net *net = open_ok(path);
    const vkf_net_info *info = vkf_model_net_info(net);
    assert_string_equal(info->family, rows[i].family);
    assert_string_equal(vkf_model_architecture_name(info->architecture), rows[i].architecture);
    assert_int_equal(info->n_parameters, rows[i].n_parameters);
    assert_int_equal(info->d_model, rows[i].d_model);
    assert_int_equal(info->n_heads, rows[i].n_heads);
    assert_int_equal(info->d_ff, rows[i].d_ff);
    assert_int_equal(info->vocab, rows[i].vocab);
    assert_int_equal(info->target_vocab, rows[i].vocab);
    assert_int_equal(info->encoder_layers, rows[i].encoder_layers);
    assert_int_equal(info->decoder_layers, rows[i].decoder_layers);
    assert_int_equal(info->max_positions, rows[i].max_positions);
    assert_int_equal(info->decoder_start_id, rows[i].start_id);
    assert_int_equal(info->has_head, rows[i].has_head);
    assert_int_equal(info->n_unused, 0);
    assert_true(info->file_bytes > 4 * info->n_parameters);
    vkf_model_net_close(&net);
    assert_null(net);
    assert_int_equal(env.live_bytes, 0);
  }
}

/* Queries, keys and values become one matrix; the rows of a packed tensor become two weights. */
static void weights_are_put_together(void **state) {
  (void)state;
  static const struct {
    const char *name, *weight, *tensor;
    size_t first, n, at; /* the tensor's numbers [first, first + n) are at `at` in the weight */
  } rows[] = {
      {"marian", "encoder.0.self.qkv.weight", "model.encoder.layers.0.self_attn.k_proj.weight", 0, 4096, 4096},
      {"marian", "encoder.0.self.qkv.bias", "model.encoder.layers.0.self_attn.v_proj.bias", 0, 64, 128},
      {"marian", "decoder.1.cross.kv.weight", "model.decoder.layers.1.encoder_attn.v_proj.weight", 0, 4096, 4096},
      {"marian", "head.bias", "final_logits_bias", 0, 150, 0},
      {"transformer-preln-gelu", "decoder.1.cross.q.weight", "core.decoder.layers.1.multihead_attn.in_proj_weight", 0,
       4096, 0},
      {"transformer-preln-gelu", "decoder.1.cross.kv.weight", "core.decoder.layers.1.multihead_attn.in_proj_weight",
       4096, 8192, 0},
      {"transformer-preln-gelu", "decoder.0.cross.kv.bias", "core.decoder.layers.0.multihead_attn.in_proj_bias", 64,
       128, 0},
  };
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    char path[256];
    snprintf(path, sizeof path, GOLDEN "%s", rows[i].name);
    vkf_net *net = open_ok(path);
    vkf_file_tensors *tensors = NULL;
    assert_int_equal(vkf_file_tensors_open(&env, path, &tensors), VKF_OK);
    const vkf_file_tensor *tensor = vkf_file_tensors_find(tensors, rows[i].tensor);
    assert_non_null(tensor);
    vkf_weight_source source;
    vkf_model_net_weights(net, &source);
    uint32_t w = 0;
    while (w < source.n_weights && strcmp(source.infos[w].name, rows[i].weight) != 0) w++;
    assert_true(w < source.n_weights);
    size_t n = source.infos[w].shape[0] * (source.infos[w].rank == 2 ? source.infos[w].shape[1] : 1);
    assert_true(rows[i].at + rows[i].n <= n);
    float *data = malloc(n * sizeof *data);
    const uint32_t n_rows = source.infos[w].shape[0];
    for (uint32_t r = 0; r < n_rows; r++) source.load(source.user, w, r, 1, data + n / n_rows * r);
    assert_memory_equal(data + rows[i].at, (const float *)tensor->data + rows[i].first, rows[i].n * sizeof *data);
    free(data);
    vkf_file_tensors_close(&tensors);
    vkf_model_net_close(&net);
  }
}

static void refused_configs(void **state) {
  (void)state;
  put_tensors("marian", &(change){0});
  put_config("marian", "\"marian\"", "\"gpt5\"");
  REFUSED(VKF_ERROR_UNSUPPORTED, "config.json", "model_type", ", marian, ", "\"gpt5\"");
  put_config("marian", "\"model_type\": \"marian\",", "");
  REFUSED(VKF_ERROR_FORMAT, "config.json", "model_type");
  put_config("marian", "\"swish\"", "\"mish\"");
  REFUSED(VKF_ERROR_UNSUPPORTED, "activation_function", "relu, gelu", "\"mish\"");
  put_config("marian", "\"vocab_size\"", "\"normalize_before\": true, \"vocab_size\"");
  REFUSED(VKF_ERROR_UNSUPPORTED, "normalize_before true");
  put_config("marian", "\"vocab_size\"", "\"static_position_embeddings\": false, \"vocab_size\"");
  REFUSED(VKF_ERROR_UNSUPPORTED, "static_position_embeddings false");
  put_config("marian", "\"vocab_size\"", "\"quantization_config\": {\"bits\": 4}, \"vocab_size\"");
  REFUSED(VKF_ERROR_UNSUPPORTED, "not quantized, found quantization_config: use the folder that they were made from");
  put_config("marian", "\"d_model\": 64,", "");
  REFUSED(VKF_ERROR_FORMAT, "d_model");
  put_config("marian", "\"encoder_layers\": 2", "\"encoder_layers\": 0");
  REFUSED(VKF_ERROR_FORMAT, "1 .. ", "encoder_layers", "found 0");
  put_config("marian", "\"encoder_attention_heads\": 4", "\"encoder_attention_heads\": 5");
  REFUSED(VKF_ERROR_FORMAT, "encoder_attention_heads", "divisor of d_model 64", "found 5");
  put_config("marian", "\"eos_token_id\": 36", "\"eos_token_id\": -7");
  REFUSED(VKF_ERROR_FORMAT, "eos_token_id", "-7");

  put_tensors("transformer-lm-postln", &(change){0});
  put_config("transformer-lm-postln", "\"relu\"", "\"relu\", \"rope_theta\": 10000");
  REFUSED(VKF_ERROR_UNSUPPORTED, "rope_theta");
  put_config("transformer-lm-postln", "\"learned\"", "\"rotary\"");
  REFUSED(VKF_ERROR_UNSUPPORTED, "positional_encoding", "sinusoidal, learned or none", "\"rotary\"");
  put_config("transformer-lm-postln", "\"decoder\"", "\"prefix\"");
  REFUSED(VKF_ERROR_UNSUPPORTED, "architecture", "\"prefix\"");
  put_config("transformer-lm-postln", "1e-05", "-1");
  REFUSED(VKF_ERROR_FORMAT, "layer_norm_eps", "-1");
}

static void refused_tensors(void **state) {
  (void)state;
  const char *name = "model.decoder.layers.1.encoder_attn.k_proj.bias";
  put_config("marian", NULL, NULL);
  put_tensors("marian", &(change){.drop = name});
  REFUSED(VKF_ERROR_FORMAT, name, "found none");
  put_tensors("marian", &(change){.transpose = name});
  REFUSED(VKF_ERROR_FORMAT, name, "[64]", "[1,64]");
  put_tensors("marian", &(change){.transpose = "model.encoder.layers.0.fc1.weight"});
  REFUSED(VKF_ERROR_FORMAT, "model.encoder.layers.0.fc1.weight", "[128,64]", "[64,128]");
  put_tensors("marian", &(change){.retype = "model.shared.weight"});
  REFUSED(VKF_ERROR_FORMAT, "model.shared.weight", "F32", "I32");
  put_tensors("marian", &(change){.drop = "model.shared.weight"});
  REFUSED(VKF_ERROR_FORMAT, "model.shared.weight");

  /* The same tensors with another number of layers, and with a head that is not tied: config.json decides which tensors
   * must be there. */
  put_config("transformer-preln-gelu", "\"num_decoder_layers\": 2", "\"num_decoder_layers\": 3");
  put_tensors("transformer-preln-gelu", &(change){0});
  REFUSED(VKF_ERROR_FORMAT, "core.decoder.layers.2.self_attn.in_proj_weight");
  put_config("transformer-preln-gelu", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
  REFUSED(VKF_ERROR_FORMAT, "lm_head.weight");
}

/* Two keys for the same number that differ, and stored layers that nothing computes. */
static void contradictions_are_refused(void **state) {
  (void)state;
  put_tensors("marian", &(change){0});
  put_config("marian", "\"encoder_layers\": 2", "\"encoder_layers\": 1, \"num_hidden_layers\": 2");
  REFUSED(VKF_ERROR_FORMAT, "the same number as encoder_layers and num_hidden_layers, found 1 and 2");
  put_config("marian", "\"d_model\": 64", "\"d_model\": 64, \"hidden_size\": 32");
  REFUSED(VKF_ERROR_FORMAT, "the same number as d_model and hidden_size, found 64 and 32");
  put_config("marian", "\"decoder_layers\": 2", "\"decoder_layers\": 1");
  REFUSED(VKF_ERROR_FORMAT, "expected 1 layers of the decoder to be stored, found 2: tensor \"model.decoder.layers.1.");
  put_tensors("marian", &(change){.from = "model.encoder.layers.1.fc1.bias", .to = "encoder.layers.12.fc1.bias"});
  put_config("marian", NULL, NULL);
  REFUSED(VKF_ERROR_FORMAT, "expected 2 layers of the encoder to be stored, found 13");
  put_config("marian", "\"d_model\": 64", "\"d_model\": 64, \"quantization\": {\"bits\": 4}");
  REFUSED(VKF_ERROR_UNSUPPORTED, "expected weights that are not quantized, found quantization");
}

static void unused_tensors_are_listed(void **state) {
  (void)state;
  put_config("transformer-lm-postln", NULL, NULL);
  put_tensors("transformer-lm-postln", &(change){.from = "lm_head.bias", .to = "nobody.bias"});
  vkf_net *net = open_ok(folder);
  const vkf_net_info *info = vkf_model_net_info(net);
  assert_int_equal(info->n_unused, 1);
  assert_string_equal(info->unused[0], "nobody.bias");
  assert_int_equal(info->n_parameters, 336104);
  vkf_model_net_close(&net);
  /* Biases that config.json does not ask for. */
  put_config("transformer-preln-gelu", "\"norm_first\": true", "\"norm_first\": true, \"ffn_bias\": false");
  put_tensors("transformer-preln-gelu", &(change){0});
  net = open_ok(folder);
  assert_int_equal(vkf_model_net_info(net)->n_unused, 8);
  vkf_model_net_close(&net);
}

/* Tied tensors that are stored twice, or under another of their names, and a bias of the logits that is left out. */
static void tied_and_optional_tensors(void **state) {
  (void)state;
  put_config("marian", NULL, NULL);
  put_tensors("marian", &(change){.from = "model.shared.weight", .to = "lm_head.weight"});
  vkf_net *net = open_ok(folder);
  assert_int_equal(vkf_model_net_info(net)->n_unused, 0);
  assert_int_equal(vkf_model_net_info(net)->n_parameters, 177174);
  vkf_model_net_close(&net);
  put_tensors("marian",
              &(change){.from = "model.shared.weight", .to = "model.encoder.embed_tokens.weight", .moved = true});
  net = open_ok(folder);
  assert_int_equal(vkf_model_net_info(net)->n_parameters, 177174);
  vkf_model_net_close(&net);
  put_tensors("marian", &(change){.drop = "final_logits_bias"});
  net = open_ok(folder);
  assert_int_equal(vkf_model_net_info(net)->n_parameters, 177024);
  vkf_model_net_close(&net);
  /* Not tied: the head is a matrix of its own, and it must be there. */
  put_config("marian", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
  REFUSED(VKF_ERROR_FORMAT, "lm_head.weight");
  put_tensors("marian", &(change){.from = "model.shared.weight", .to = "lm_head.weight"});
  net = open_ok(folder);
  assert_int_equal(vkf_model_net_info(net)->n_parameters, 177174 + 150 * 64);
  vkf_model_net_close(&net);
  /* Not shared: each stack must have its embeddings. */
  put_config("marian", "\"share_encoder_decoder_embeddings\": true", "\"share_encoder_decoder_embeddings\": false");
  put_tensors("marian", &(change){0});
  REFUSED(VKF_ERROR_FORMAT, "model.encoder.embed_tokens.weight");
}

static void no_allocation_is_missed(void **state) {
  (void)state;
  const char *names[] = {GOLDEN "marian",
                         GOLDEN "transformer-lm-postln",
                         GOLDEN "albert",
                         GOLDEN "bart",
                         GOLDEN "bert",
                         GOLDEN "bert-model-pooled",
                         GOLDEN "bert-sequence-classification",
                         GOLDEN "distilbert",
                         GOLDEN "families/bart-sequence-classification",
                         GOLDEN "families/electra",
                         GOLDEN "families/electra-discriminator",
                         GOLDEN "families/gpt2-sequence-classification",
                         GOLDEN "families/mpnet",
                         GOLDEN "gpt-neox",
                         GOLDEN "gpt2",
                         GOLDEN "llama-yarn",
                         GOLDEN "m2m100",
                         GOLDEN "opt",
                         GOLDEN "qwen3",
                         GOLDEN "roberta",
                         GOLDEN "t5",
                         GOLDEN "vit"};
  for (size_t i = 0; i < VKF_COUNT(names); i++) {
    vkf_env_init(&env, NULL);
    for (uint64_t fail_at = 1;; fail_at++) {
      assert_true(fail_at < 100000);
      vkf_env_init(&env, NULL);
      env.fail_at = fail_at;
      vkf_net *net = NULL;
      vkf_status st = vkf_model_net_open(&env, &(vkf_file_source){.folder = names[i]}, &net);
      bool is_through = env.n_allocations < fail_at;
      assert_int_equal(st, is_through ? VKF_OK : VKF_ERROR_MEMORY);
      vkf_model_net_close(&net);
      assert_int_equal(env.live_bytes, 0);
      if (is_through) break;
    }
  }
  vkf_env_init(&env, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(golden_folders),
      cmocka_unit_test(weights_are_put_together),
      cmocka_unit_test(refused_configs),
      cmocka_unit_test(refused_tensors),
      cmocka_unit_test(contradictions_are_refused),
      cmocka_unit_test(unused_tensors_are_listed),
      cmocka_unit_test(tied_and_optional_tensors),
      cmocka_unit_test(no_allocation_is_missed),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
