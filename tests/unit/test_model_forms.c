/* Golden folders rewritten in the forms of the Hub: configurations of transformers 4, tensors without the base's
 * prefix, old names of norms, tied tensors stored twice, heads that are called tied and are not, buffers, F16 and BF16,
 * shards. All of them must read the same, bit for bit: every weight, every node of every plan and every table that is
 * made for it. Also: options that are refused by name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include <vkformer/vkformer.h>

#include "file/safetensors.h"
#include "model/internal.h"
#include "support/ok.h"
#include "support/same_plan.h"
#include "support/sessions.h"

#define GOLDEN VKF_SOURCE_DIR "/tests/golden/"
enum { MAX_TENSORS = 256 };

static vkf_env env;
static char folder[64], other[64]; /* where forms are written */

static const char *const goldens[] = {"albert",
                                      "bart",
                                      "bert",
                                      "bert-model-pooled",
                                      "bert-sequence-classification",
                                      "distilbert",
                                      "families/bart-sequence-classification",
                                      "families/blenderbot",
                                      "families/blenderbot-small",
                                      "families/electra",
                                      "families/electra-discriminator",
                                      "families/electra-sequence-classification",
                                      "families/gemma",
                                      "families/gpt2-sequence-classification",
                                      "families/granite",
                                      "families/mpnet",
                                      "families/mpnet-pooled",
                                      "families/mpnet-sequence-classification",
                                      "families/mvp",
                                      "families/olmo",
                                      "families/pegasus",
                                      "families/phi",
                                      "families/phi3",
                                      "families/phi3-longrope",
                                      "families/qwen3-sequence-classification",
                                      "families/qwen2-bidirectional",
                                      "families/stablelm",
                                      "families/starcoder2",
                                      "families/umt5",
                                      "gpt-neox",
                                      "gpt2",
                                      "llama",
                                      "llama-linear-rope",
                                      "llama-yarn",
                                      "llama3-rope",
                                      "m2m100",
                                      "marian",
                                      "mbart",
                                      "mistral-sliding",
                                      "opt",
                                      "qwen2",
                                      "qwen3",
                                      "roberta",
                                      "roberta-token-classification",
                                      "t5",
                                      "t5-v1.1-gated",
                                      "vit"};

typedef struct form {
  bool version4, no_base, old_norms, twice, moved, called_tied, typed, buffers, shards;
  vkf_dtype dtype;     /* of all tensors */
  const char *without; /* tensors whose names begin with this are left out; NULL: none */
} form;

static const char *join(char path[256], const char *dir, const char *file) {
  assert_true(snprintf(path, 256, "%s/%s", dir, file) < 256);
  return path;
}

/* ---- configurations ---------------------------------------------------------------------------------------------- */

static void move(json_t *from, const char *key, json_t *to, const char *name) {
  json_t *value = json_object_get(from, key);
  if (value == NULL) return;
  json_object_set(to, name, value);
  json_object_del(from, key);
}

/* Turns rope_parameters into rope_theta and rope_scaling, or into the keys of GPT-NeoX. */
static void to_version4(json_t *config) {
  bool is_neox = strcmp(json_string_value(json_object_get(config, "model_type")), "gpt_neox") == 0;
  move(config, "dtype", config, "torch_dtype");
  json_object_set_new(config, "transformers_version", json_string("4.36.0"));
  json_t *rope = json_incref(json_object_get(config, "rope_parameters"));
  if (rope == NULL) return;
  json_object_del(config, "rope_parameters");
  move(rope, "rope_theta", config, is_neox ? "rotary_emb_base" : "rope_theta");
  move(rope, "partial_rotary_factor", config, is_neox ? "rotary_pct" : "partial_rotary_factor");
  const char *type = json_string_value(json_object_get(rope, "rope_type"));
  bool is_old = strcmp(type, "linear") == 0;
  if (strcmp(type, "default") == 0) {
    json_object_set_new(config, "rope_scaling", json_null());
  } else {
    if (is_old) move(rope, "rope_type", rope, "type");
    json_object_set(config, "rope_scaling", rope);
  }
  json_decref(rope);
}

static json_t *read_config(const char *golden) {
  char dir[256], path[256];
  json_t *config = json_load_file(join(path, join(dir, GOLDEN, golden), "config.json"), 0, NULL);
  assert_non_null(config);
  return config;
}

static void write_config(const char *dir, const json_t *config) {
  char path[256];
  assert_int_equal(json_dump_file(config, join(path, dir, "config.json"), JSON_INDENT(2)), 0);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

typedef struct tensors {
  vkf_array arrays[MAX_TENSORS];
  char names[MAX_TENSORS][160];
  size_t n;
} tensors;

static void add(tensors *t, const char *name, vkf_dtype dtype, size_t rank, const size_t *shape, const void *data) {
  assert_true(t->n < MAX_TENSORS);
  vkf_array *a = &t->arrays[t->n];
  snprintf(t->names[t->n], sizeof t->names[0], "%s", name);
  *a = (vkf_array){.name = t->names[t->n], .dtype = dtype, .rank = rank, .data = (void *)(uintptr_t)data};
  memcpy(a->shape, shape, rank * sizeof *shape);
  t->n++;
}

static const vkf_array *find(const tensors *t, const char *name) {
  for (size_t i = 0; i < t->n; i++)
    if (strcmp(t->names[i], name) == 0) return &t->arrays[i];
  return NULL;
}

/* Adds each tied tensor under its second name, too, if the folder has `only_with`. */
static void add_twice(tensors *t) {
  static const struct {
    const char *name, *copy_of, *only_with;
  } rows[] = {
      {"lm_head.weight", "model.shared.weight", "model.shared.weight"},
      {"model.encoder.embed_tokens.weight", "model.shared.weight", "model.shared.weight"},
      {"model.decoder.embed_tokens.weight", "model.shared.weight", "model.shared.weight"},
      {"lm_head.weight", "shared.weight", "shared.weight"},
      {"encoder.embed_tokens.weight", "shared.weight", "shared.weight"},
      {"decoder.embed_tokens.weight", "shared.weight", "shared.weight"},
      {"lm_head.weight", "transformer.wte.weight", "transformer.wte.weight"},
      {"lm_head.weight", "model.decoder.embed_tokens.weight", "model.decoder.embed_positions.weight"},
      {"lm_head.weight", "model.embed_tokens.weight", "model.embed_tokens.weight"},
      {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight", "cls.predictions.bias"},
      {"cls.predictions.decoder.bias", "cls.predictions.bias", "cls.predictions.bias"},
      {"lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight", "lm_head.bias"},
      {"lm_head.decoder.weight", "mpnet.embeddings.word_embeddings.weight", "lm_head.bias"},
      {"lm_head.decoder.bias", "lm_head.bias", "lm_head.bias"},
      {"generator_lm_head.weight", "electra.embeddings.word_embeddings.weight", "generator_lm_head.bias"},
      {"vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight", "vocab_projector.bias"},
      {"predictions.decoder.weight", "albert.embeddings.word_embeddings.weight", "predictions.bias"},
      {"predictions.decoder.bias", "predictions.bias", "predictions.bias"},
  };
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    const vkf_array *a = find(t, rows[i].copy_of);
    if (a == NULL || find(t, rows[i].only_with) == NULL || find(t, rows[i].name) != NULL) continue;
    add(t, rows[i].name, a->dtype, a->rank, a->shape, a->data);
  }
}

/* Renames each tied tensor to its name in the head. */
static void move_tied(tensors *t) {
  static const char *const tables[] = {"model.shared.weight", "shared.weight", "transformer.wte.weight",
                                       "model.embed_tokens.weight", "model.decoder.embed_tokens.weight"};
  static const struct {
    const char *table, *head, *only_with;
  } encoders[] = {
      {"bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight", "cls.predictions.bias"},
      {"roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight", "lm_head.bias"},
      {"mpnet.embeddings.word_embeddings.weight", "lm_head.decoder.weight", "lm_head.bias"},
      {"electra.embeddings.word_embeddings.weight", "generator_lm_head.weight", "generator_lm_head.bias"},
      {"distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight", "vocab_projector.bias"},
      {"albert.embeddings.word_embeddings.weight", "predictions.decoder.weight", "predictions.bias"},
  };
  for (size_t i = 0; i < t->n; i++) {
    for (size_t k = 0; k < VKF_COUNT(tables); k++)
      if (strcmp(t->names[i], tables[k]) == 0) strcpy(t->names[i], "lm_head.weight");
    for (size_t k = 0; k < VKF_COUNT(encoders); k++)
      if (strcmp(t->names[i], encoders[k].table) == 0 && find(t, encoders[k].only_with) != NULL)
        strcpy(t->names[i], encoders[k].head);
  }
}

static void add_buffers(tensors *t) {
  static const float data[4];
  static const int64_t ids[4] = {0, 1, 2, 3};
  static const size_t four[2] = {1, 4};
  add(t, "h.0.attn.bias", VKF_F32, 2, four, data);
  add(t, "transformer.h.1.attn.masked_bias", VKF_F32, 2, four, data);
  add(t, "gpt_neox.layers.0.attention.bias", VKF_F32, 2, four, data);
  add(t, "gpt_neox.layers.0.attention.rotary_emb.inv_freq", VKF_F32, 2, four, data);
  add(t, "embeddings.position_ids", VKF_I64, 2, four, ids);
}

static void rename_one(char name[160], const form *f) {
  static const char *const bases[] = {"model.",       "bert.",     "roberta.", "distilbert.", "albert.",
                                      "transformer.", "gpt_neox.", "vit.",     "electra.",    "mpnet."};
  static const char *const norms[][2] = {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}};
  for (size_t i = 0; i < VKF_COUNT(bases) && f->no_base; i++) {
    size_t length = strlen(bases[i]);
    if (strncmp(name, bases[i], length) != 0) continue;
    memmove(name, name + length, strlen(name + length) + 1);
    break;
  }
  for (size_t i = 0; i < VKF_COUNT(norms) && f->old_norms; i++) {
    char *at = strstr(name, norms[i][0]);
    if (at != NULL) memcpy(at, norms[i][1], strlen(norms[i][1]) + 1);
  }
}

/* Converts the array to 16-bit numbers, and these back to float32 (*decoded). The caller frees a->data and *decoded. */
static void narrow(vkf_array *a, vkf_dtype dtype, float **decoded) {
  size_t n = 1;
  for (size_t i = 0; i < a->rank; i++) n *= a->shape[i];
  uint16_t *half = malloc(n * sizeof *half);
  *decoded = malloc(n * sizeof **decoded);
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, (const float *)a->data + i, sizeof bits);
    /* F16: the sign, an exponent below 31 and ten bits of the mantissa; which number that is does not matter */
    half[i] = (uint16_t)(dtype == VKF_BF16 ? bits >> 16 : (bits >> 16 & 0x8000) | (bits >> 13 & 0x3bff));
  }
  assert_true(vkf_file_numbers_to_f32(dtype, half, n, *decoded));
  a->dtype = dtype;
  a->data = half;
}

static void write_shards(const char *dir, const tensors *t) {
  char path[256];
  const char *const files[2] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
  size_t half = t->n / 2;
  json_t *index = json_object(), *map = json_object();
  ok(&env, vkf_file_tensors_write(&env, join(path, dir, files[0]), t->arrays, half));
  ok(&env, vkf_file_tensors_write(&env, join(path, dir, files[1]), t->arrays + half, t->n - half));
  for (size_t i = 0; i < t->n; i++) json_object_set_new(map, t->names[i], json_string(files[i >= half]));
  json_object_set_new(index, "weight_map", map);
  assert_int_equal(json_dump_file(index, join(path, dir, "model.safetensors.index.json"), 0), 0);
  json_decref(index);
}

static void clear_folder(const char *dir) {
  static const char *const files[] = {"config.json", "model.safetensors", "model-00001-of-00002.safetensors",
                                      "model-00002-of-00002.safetensors", "model.safetensors.index.json"};
  char path[256];
  for (size_t i = 0; i < VKF_COUNT(files); i++) unlink(join(path, dir, files[i]));
}

/* Writes the form into `folder`, and the same numbers in the form of the golden folder into `other`. */
static void write_form(const char *golden, const form *f) {
  static tensors plain, t;
  char path[256];
  float *decoded[MAX_TENSORS] = {NULL};
  vkf_file_tensors *stored = NULL;
  json_t *config = read_config(golden);
  clear_folder(folder);
  clear_folder(other);
  write_config(other, config);
  ok(&env, vkf_file_tensors_open(&env, join(path, GOLDEN, golden), &stored));
  plain.n = t.n = 0;
  for (size_t i = 0; i < vkf_file_tensors_count(stored); i++) {
    const vkf_file_tensor *s = vkf_file_tensors_at(stored, i);
    if (f->without != NULL && strncmp(s->name, f->without, strlen(f->without)) == 0) continue;
    add(&plain, s->name, s->dtype, s->rank, s->shape, s->data);
    add(&t, s->name, s->dtype, s->rank, s->shape, s->data);
    if (f->dtype == VKF_F32) continue;
    narrow(&t.arrays[i], f->dtype, &decoded[i]);
    plain.arrays[i].data = decoded[i];
  }
  const bool has_classes = strcmp(golden, "families/gpt2-sequence-classification") == 0; /* not tied to the table */
  bool is_tied = json_is_true(json_object_get(config, "tie_word_embeddings")) && !has_classes;
  if (f->twice && is_tied) add_twice(&t);
  if (f->moved && is_tied) move_tied(&t);
  if (f->typed && strcmp(golden, "mistral-sliding") == 0) /* transformers does not read it in this family */
    json_object_set_new(config, "layer_types", json_pack("[ss]", "full_attention", "full_attention"));
  if (f->called_tied) json_object_set_new(config, "tie_word_embeddings", json_true());
  for (size_t i = 0; i < t.n; i++) rename_one(t.names[i], f);
  if (f->buffers) add_buffers(&t);
  if (f->version4) to_version4(config);
  write_config(folder, config);
  ok(&env, vkf_file_tensors_write(&env, join(path, other, "model.safetensors"), plain.arrays, plain.n));
  if (f->shards)
    write_shards(folder, &t);
  else
    ok(&env, vkf_file_tensors_write(&env, join(path, folder, "model.safetensors"), t.arrays, t.n));
  for (size_t i = 0; i < plain.n && f->dtype != VKF_F32; i++) {
    free(decoded[i]);
    free(t.arrays[i].data);
  }
  vkf_file_tensors_close(&stored);
  json_decref(config);
}

/* ---- what is the same -------------------------------------------------------------------------------------------- */

static void same_weights(vkf_net *a, vkf_net *b) {
  vkf_weight_source x, y;
  vkf_model_net_weights(a, &x);
  vkf_model_net_weights(b, &y);
  assert_int_equal(x.n_weights, y.n_weights);
  for (uint32_t i = 0; i < x.n_weights; i++) {
    const vkf_weight_info *info = &x.infos[i];
    assert_string_equal(info->name, y.infos[i].name);
    assert_int_equal(info->use, y.infos[i].use);
    assert_memory_equal(info->shape, y.infos[i].shape, sizeof info->shape);
    size_t n = (size_t)info->shape[0] * info->shape[1];
    float *p = malloc(n * sizeof *p), *q = malloc(n * sizeof *q);
    x.load(x.user, i, 0, info->shape[0], p);
    y.load(y.user, i, 0, info->shape[0], q);
    assert_memory_equal(p, q, n * sizeof *p);
    /* Three rows at a time give the same. */
    const uint32_t width = info->rank == 2 ? info->shape[1] : 1;
    memset(q, 0xff, n * sizeof *q);
    for (uint32_t r = 0, many; r < info->shape[0]; r += many) {
      many = info->shape[0] - r < 3 ? info->shape[0] - r : 3;
      x.load(x.user, i, r, many, q + (size_t)r * width);
    }
    assert_memory_equal(p, q, (size_t)info->shape[0] * width * sizeof *p);
    free(p);
    free(q);
  }
}

static void same_nets(const char *golden, const form *f) {
  vkf_net *a = NULL, *b = NULL;
  write_form(golden, f);
  ok(&env, vkf_model_net_open(&env, &(vkf_file_source){.folder = other}, &a));
  ok(&env, vkf_model_net_open(&env, &(vkf_file_source){.folder = folder}, &b));
  const vkf_net_info *x = vkf_model_net_info(a), *y = vkf_model_net_info(b);
  for (size_t i = 0; i < y->n_unused; i++) print_error("%s: unused: %s\n", golden, y->unused[i]);
  assert_int_equal(y->n_unused, 0);
  assert_int_equal(x->n_parameters, y->n_parameters);
  assert_int_equal(x->max_positions, y->max_positions);
  assert_int_equal(x->decoder_start_id, y->decoder_start_id);
  same_weights(a, b);
  if (x->architecture != VKF_ARCHITECTURE_DECODER) same_plan(a, b, VKF_STAGE_ENCODE);
  if (x->architecture != VKF_ARCHITECTURE_ENCODER) same_plan(a, b, VKF_STAGE_DECODE);
  vkf_model_net_close(&a);
  vkf_model_net_close(&b);
  assert_int_equal(env.live_bytes, 0);
}

static void every_form(void **state) {
  (void)state;
  static const form forms[] = {
      {.dtype = VKF_F32, .version4 = true},
      {.dtype = VKF_F32, .no_base = true},
      {.dtype = VKF_F32, .old_norms = true},
      {.dtype = VKF_F32, .twice = true},
      {.dtype = VKF_F32, .moved = true},
      {.dtype = VKF_F32, .called_tied = true},
      {.dtype = VKF_F32, .typed = true},
      {.dtype = VKF_F32, .buffers = true},
      {.dtype = VKF_F32, .shards = true},
      {.dtype = VKF_F16},
      {.dtype = VKF_BF16},
      {.dtype = VKF_BF16, .version4 = true, .old_norms = true, .twice = true, .buffers = true, .shards = true},
      {.dtype = VKF_F16, .version4 = true, .no_base = true, .old_norms = true, .buffers = true, .shards = true},
  };
  for (size_t i = 0; i < VKF_COUNT(goldens); i++)
    for (size_t k = 0; k < VKF_COUNT(forms); k++) same_nets(goldens[i], &forms[k]);
}

/* ---- other shapes, the same results ------------------------------------------------------------------------------ */

/* Makes OPT's embeddings 2 D wide: zeros beside the table, which project_in drops and project_out adds. */
static json_t *widen_opt(json_t *config, tensors *t) {
  enum { D = 64, V = 160 };
  static float table[V][2 * D], in[D][2 * D], out[2 * D][D];
  vkf_array *stored = (vkf_array *)(uintptr_t)find(t, "model.decoder.embed_tokens.weight");
  for (size_t r = 0; r < V; r++) memcpy(table[r], (const float *)stored->data + r * D, D * sizeof(float));
  for (size_t i = 0; i < D; i++) in[i][i] = out[i][i] = 1;
  stored->shape[1] = 2 * D;
  stored->data = table;
  add(t, "model.decoder.project_in.weight", VKF_F32, 2, (size_t[]){D, 2 * D}, in);
  add(t, "model.decoder.project_out.weight", VKF_F32, 2, (size_t[]){2 * D, D}, out);
  json_object_set_new(config, "word_embed_proj_dim", json_integer(2 * D));
  return config;
}

/* Adds layers 1 and 2 to ALBERT's stored layer, all with different numbers. `format` makes their names from 1 and 2. */
static void spread_albert(tensors *t, const char *format) {
  static const char first[] = "albert.encoder.albert_layer_groups.0.albert_layers.0.";
  static float room[1 << 18];
  size_t n = t->n, used = 0;
  for (size_t i = 0; i < n; i++) {
    if (strncmp(t->names[i], first, sizeof first - 1) != 0) continue;
    const vkf_array from = t->arrays[i];
    const size_t size = from.shape[0] * (from.rank > 1 ? from.shape[1] : 1);
    for (int k = 1; k < 3; k++) {
      char name[160], stem[40];
      float *to = room + used;
      assert_true((used += size) <= sizeof room / sizeof room[0]);
      for (size_t j = 0; j < size; j++) to[j] = ((const float *)from.data)[j] * (1 - 0.25f * (float)k);
      snprintf(stem, sizeof stem, format, k);
      snprintf(name, sizeof name, "albert.encoder.albert_layer_groups.%.40s.%.70s", stem,
               t->names[i] + sizeof first - 1);
      add(t, name, VKF_F32, from.rank, from.shape, to);
    }
  }
}

/* Three groups of one layer. */
static json_t *group_albert(json_t *config, tensors *t) {
  spread_albert(t, "%d.albert_layers.0");
  json_object_set_new(config, "num_hidden_groups", json_integer(3));
  return config;
}

/* One group of three layers. */
static json_t *nest_albert(json_t *config, tensors *t) {
  spread_albert(t, "0.albert_layers.%d");
  json_object_set_new(config, "num_hidden_layers", json_integer(1));
  json_object_set_new(config, "inner_group_num", json_integer(3));
  return config;
}

/* Three groups of one layer, all with the same numbers. */
static json_t *copy_albert(json_t *config, tensors *t) {
  for (size_t i = 0, n = t->n; i < n; i++) {
    char name[160];
    static const char group0[] = "albert.encoder.albert_layer_groups.0.";
    if (strncmp(t->names[i], group0, sizeof group0 - 1) != 0) continue;
    for (int g = 1; g < 3; g++) {
      snprintf(name, sizeof name, "albert.encoder.albert_layer_groups.%d.%.100s", g, t->names[i] + sizeof group0 - 1);
      add(t, name, VKF_F32, t->arrays[i].rank, t->arrays[i].shape, t->arrays[i].data);
    }
  }
  json_object_set_new(config, "num_hidden_groups", json_integer(3));
  return config;
}

typedef json_t *change_fn(json_t *config, tensors *t);

/* Returns the logits of a golden folder after `change` (NULL: of the folder as it is). Destroy them. */
static vkf_result *logits_of(vkf_context *context, vkf_device *device, const char *golden, change_fn *change) {
  static tensors t;
  static const int32_t ids[2][6] = {{5, 9, 14, 2, 77, 31}, {8, 8, 1, 60, 3, 100}};
  const vkf_array input = {
      .name = "input_ids", .dtype = VKF_I32, .rank = 2, .shape = {2, 6}, .data = (void *)(uintptr_t)ids};
  char path[256];
  vkf_file_tensors *stored = NULL;
  vkf_model *model = NULL;
  vkf_result *result = NULL;
  if (change) {
    json_t *config = read_config(golden);
    clear_folder(folder);
    ok(&env, vkf_file_tensors_open(&env, join(path, GOLDEN, golden), &stored));
    t.n = 0;
    for (size_t i = 0; i < vkf_file_tensors_count(stored); i++) {
      const vkf_file_tensor *s = vkf_file_tensors_at(stored, i);
      add(&t, s->name, s->dtype, s->rank, s->shape, s->data);
    }
    write_config(folder, change(config, &t));
    ok(&env, vkf_file_tensors_write(&env, join(path, folder, "model.safetensors"), t.arrays, t.n));
    vkf_file_tensors_close(&stored);
    json_decref(config);
  }
  vkf_status st = vkf_model_open(device, change ? folder : join(path, GOLDEN, golden), &model);
  if (st == VKF_OK) st = vkf_session_run(session_of(model), &input, 1, NULL, &result);
  if (st != VKF_OK) print_error("%s\n", last_message(context));
  assert_int_equal(st, VKF_OK);
  close_model(&model);
  return result;
}

static void same_logits(const char *golden, change_fn *one, change_fn *other) {
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  assert_int_equal(vkf_context_create(NULL, &context), VKF_OK);
  assert_int_equal(vkf_device_open(context, "ref", &device), VKF_OK);
  vkf_result *results[2] = {logits_of(context, device, golden, one), logits_of(context, device, golden, other)};
  const vkf_array *a = vkf_result_find(results[0], "logits"), *b = vkf_result_find(results[1], "logits");
  assert_memory_equal(a->shape, b->shape, sizeof a->shape);
  assert_memory_equal(a->data, b->data, a->shape[0] * a->shape[1] * a->shape[2] * sizeof(float));
  for (int i = 0; i < 2; i++) vkf_result_destroy(&results[i]);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
}

static void other_shapes(void **state) {
  (void)state;
  same_logits("opt", NULL, widen_opt);
  same_logits("albert", NULL, copy_albert);
  same_logits("albert", group_albert, nest_albert);
}

/* ---- positions --------------------------------------------------------------------------------------------------- */

static void expect_positions(const char *golden, const vkf_model_tokens *tokens, const int32_t expected[4]) {
  char path[256];
  vkf_net *net = NULL;
  int32_t found[4];
  ok(&env, vkf_model_net_open(&env, &(vkf_file_source){.folder = join(path, GOLDEN, golden)}, &net));
  vkf_model_positions(net, tokens, found);
  assert_memory_equal(found, expected, sizeof found);
  vkf_model_net_close(&net);
}

/* Positions are counted as transformers does: families differ in the first one, and in whether pads and masked tokens
 * are counted. */
static void positions_by_family(void **state) {
  (void)state;
  static const int32_t ids[4] = {1, 7, 1, 9}, mask[4] = {0, 1, 1, 1};
  vkf_model_tokens encode = {.stage = VKF_STAGE_ENCODE, .rows = 1, .length = 4, .ids = ids}, decode = encode;
  decode.stage = VKF_STAGE_DECODE;
  decode.mask = mask;
  decode.mask_stride = 4;
  expect_positions("bert", &encode, (int32_t[]){0, 1, 2, 3});
  expect_positions("roberta", &encode, (int32_t[]){1, 2, 1, 3}); /* 1 is the pad */
  expect_positions("families/mpnet", &encode, (int32_t[]){1, 2, 1, 3});
  expect_positions("bart", &encode, (int32_t[]){2, 3, 4, 5});
  expect_positions("families/plbart", &encode, (int32_t[]){2, 3, 4, 5});
  expect_positions("families/mvp", &encode, (int32_t[]){2, 3, 4, 5});
  expect_positions("families/blenderbot", &encode, (int32_t[]){0, 1, 2, 3});
  expect_positions("families/blenderbot-small", &encode, (int32_t[]){0, 1, 2, 3});
  expect_positions("families/pegasus", &encode, (int32_t[]){0, 1, 2, 3});
  expect_positions("m2m100", &encode, (int32_t[]){1, 2, 1, 3});
  expect_positions("opt", &decode, (int32_t[]){1, 2, 3, 4});
  expect_positions("gpt2", &decode, (int32_t[]){0, 1, 2, 3});
  /* one cached token before two rows of two */
  vkf_model_tokens step = {.stage = VKF_STAGE_DECODE, .rows = 2, .length = 2, .past = 1, .ids = ids, .mask_stride = 3};
  static const int32_t keys[6] = {0, 1, 1, 1, 1, 1};
  expect_positions("m2m100", &step, (int32_t[]){1, 3, 1, 3});
  expect_positions("bart", &step, (int32_t[]){3, 4, 3, 4});
  step.mask = keys;
  expect_positions("gpt2", &step, (int32_t[]){1, 2, 1, 2});
  expect_positions("opt", &step, (int32_t[]){2, 3, 3, 4});
}

/* Width 5: two sines, two cosines, a zero; the exponents are 0 and 1. */
static void stretched_sinusoids(void **state) {
  (void)state;
  float table[2][5];
  vkf_model_sinusoids(VKF_POSITION_STRETCHED, 2, 5, &table[0][0]);
  const float expected[2][5] = {{0, 0, 1, 1, 0}, {0.841470985f, 1e-4f, 0.540302306f, 0.999999995f, 0}};
  for (int p = 0; p < 2; p++)
    for (int c = 0; c < 5; c++) assert_float_equal(table[p][c], expected[p][c], 1e-7f);
}

/* The buckets of T5: exact up to half of them, then logarithmic, the last one from max_distance on. */
static void relative_buckets(void **state) {
  (void)state;
  const vkf_model_relative relative = {.n_buckets = 32, .max_distance = 128};
  int32_t both[257], back[129];
  vkf_model_buckets(&relative, true, both);
  vkf_model_buckets(&relative, false, back);
  static const int32_t rows[][3] = {{0, 0, 0},     {-1, 1, 1},     {1, 17, 0},    {-7, 7, 7},
                                    {-8, 8, 8},    {-15, 9, 15},   {-16, 10, 16}, {16, 26, 0},
                                    {-64, 14, 26}, {-128, 15, 31}, {128, 31, 0}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    assert_int_equal(both[128 + rows[i][0]], rows[i][1]);
    if (rows[i][0] <= 0) assert_int_equal(back[128 + rows[i][0]], rows[i][2]);
  }
}

/* ---- copies that are none ---------------------------------------------------------------------------------------- */

/* Opens the golden folder with one more tensor, `name`, which has the shape of `like` and only zeros. untied: with
 * tie_word_embeddings false. */
static vkf_status open_with_zeros(const char *golden, const char *name, const char *like, bool untied, vkf_net **net) {
  static tensors t;
  static const float zeros[160 * 64];
  char path[256];
  vkf_file_tensors *stored = NULL;
  json_t *config = read_config(golden);
  if (untied) json_object_set_new(config, "tie_word_embeddings", json_false());
  clear_folder(folder);
  write_config(folder, config);
  ok(&env, vkf_file_tensors_open(&env, join(path, GOLDEN, golden), &stored));
  t.n = 0;
  for (size_t i = 0; i < vkf_file_tensors_count(stored); i++) {
    const vkf_file_tensor *s = vkf_file_tensors_at(stored, i);
    add(&t, s->name, s->dtype, s->rank, s->shape, s->data);
    if (strcmp(s->name, like) != 0) continue;
    assert_true(s->n_elements <= VKF_COUNT(zeros));
    add(&t, name, s->dtype, s->rank, s->shape, zeros);
  }
  assert_non_null(find(&t, name));
  ok(&env, vkf_file_tensors_write(&env, join(path, folder, "model.safetensors"), t.arrays, t.n));
  vkf_file_tensors_close(&stored);
  json_decref(config);
  return vkf_model_net_open(&env, &(vkf_file_source){.folder = folder}, net);
}

/* Tensors that are called tied and are stored with different numbers: most are read as stored, others are refused. */
static void copies_that_are_none(void **state) {
  (void)state;
  static const struct {
    const char *golden, *tensor, *copy_of, *weight; /* weight: has the zeros; NULL: refused */
    bool untied;
  } rows[] = {
      {"bart", "lm_head.weight", "model.shared.weight", "head.weight", false},
      {"t5", "lm_head.weight", "shared.weight", "head.weight", false},
      {"gpt2", "lm_head.weight", "transformer.wte.weight", "head.weight", false},
      {"bert", "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight", "head.weight", false},
      {"bert", "cls.predictions.decoder.bias", "cls.predictions.bias", "head.bias", false},
      {"bart", "model.decoder.embed_tokens.weight", "model.shared.weight", "decoder.embed.weight", false},
      {"bart", "model.encoder.embed_tokens.weight", "model.shared.weight", "encoder.embed.weight", false},
      {"bart-model", "decoder.embed_tokens.weight", "shared.weight", "decoder.embed.weight", true},
      {"transformer-postln-relu", "lm_head.weight", "embed.weight", NULL, false}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_net *net = NULL;
    vkf_status st = open_with_zeros(rows[i].golden, rows[i].tensor, rows[i].copy_of, rows[i].untied, &net);
    if (rows[i].weight == NULL) {
      char part[160];
      snprintf(part, sizeof part, "numbers of tensor \"%s\" in \"%s\"", rows[i].copy_of, rows[i].tensor);
      assert_int_equal(st, VKF_ERROR_UNSUPPORTED);
      assert_non_null(strstr(env.message, part));
      vkf_env_clear(&env);
      continue;
    }
    ok(&env, st);
    vkf_weight_source weights;
    float row[64];
    uint32_t w = 0;
    vkf_model_net_weights(net, &weights);
    while (w < weights.n_weights && strcmp(weights.infos[w].name, rows[i].weight) != 0) w++;
    assert_true(w < weights.n_weights);
    weights.load(weights.user, w, 0, 1, row);
    assert_true(row[0] == 0);
    assert_int_equal(vkf_model_net_info(net)->n_unused, 0);
    vkf_model_net_close(&net);
  }
  assert_int_equal(env.live_bytes, 0);
}

/* The tables of an encoder-decoder in a test folder, under these names. */
static const char *const bart_tables[] = {"model.shared.weight", "model.decoder.embed_tokens.weight",
                                          "model.encoder.embed_tokens.weight", "lm_head.weight"};
static const char *const t5_tables[] = {"shared.weight", "decoder.embed_tokens.weight", "encoder.embed_tokens.weight",
                                        "lm_head.weight"};
typedef struct tables_row {
  const char *stored; /* for each name: the number that fills its table, or '-' if it is not stored */
  const char *read;   /* the numbers that the decoder, the encoder and the head read; NULL: refused */
} tables_row;

/* Makes `golden` with these tables, of the class `class` (NULL: its own), and opens it. untied: with
 * tie_word_embeddings false. */
static vkf_status open_with_tables(const char *golden, const char *const names[4], const char *numbers,
                                   const char *class, bool untied, vkf_net **net) {
  static tensors t;
  static float filled[4][160 * 64];
  char path[256];
  vkf_file_tensors *stored = NULL;
  json_t *config = read_config(golden);
  json_object_del(config, "tie_word_embeddings");
  if (untied) json_object_set_new(config, "tie_word_embeddings", json_false());
  if (class != NULL) json_object_set_new(config, "architectures", json_pack("[s]", class));
  clear_folder(folder);
  write_config(folder, config);
  json_decref(config);
  ok(&env, vkf_file_tensors_open(&env, join(path, GOLDEN, golden), &stored));
  t.n = 0;
  for (size_t k = 0; k < vkf_file_tensors_count(stored); k++) {
    const vkf_file_tensor *s = vkf_file_tensors_at(stored, k);
    bool is_table = false;
    for (size_t n = 0; n < 4; n++) is_table = is_table || strcmp(s->name, names[n]) == 0;
    if (!is_table) add(&t, s->name, s->dtype, s->rank, s->shape, s->data);
    if (strcmp(s->name, names[0]) != 0) continue;
    assert_true(s->n_elements <= VKF_COUNT(filled[0]));
    for (size_t n = 0; n < 4; n++) {
      for (size_t e = 0; e < s->n_elements; e++) filled[n][e] = (float)(numbers[n] - '0');
      if (numbers[n] != '-') add(&t, names[n], VKF_F32, s->rank, s->shape, filled[n]);
    }
  }
  ok(&env, vkf_file_tensors_write(&env, join(path, folder, "model.safetensors"), t.arrays, t.n));
  vkf_file_tensors_close(&stored);
  return vkf_model_net_open(&env, &(vkf_file_source){.folder = folder}, net);
}

static void expect_table(vkf_net *net, const tables_row *row, size_t k, uint32_t weight) {
  float numbers[64];
  vkf_weight_source weights;
  vkf_model_net_weights(net, &weights);
  weights.load(weights.user, weight, 0, 1, numbers);
  if (numbers[0] != (float)(row->read[k] - '0'))
    fail_msg("%s %s: expected %s, found %g as number %zu", net->info.family, row->stored, row->read, numbers[0], k);
  assert_true(weights.infos[weight].use & (k < 2 ? VKF_WEIGHT_TABLE : VKF_WEIGHT_MATMUL));
}

static void expect_tables(const char *golden, const char *const names[4], const char *class, bool untied,
                          const tables_row *row) {
  vkf_net *net = NULL;
  ok(&env, open_with_tables(golden, names, row->stored, class, untied, &net));
  const uint32_t read[] = {net->decoder.table, net->encoder.table, net->head.out.weight};
  assert_int_equal(net->info.has_head, row->read[2] != '-');
  for (size_t k = 0; k < 3; k++)
    if (row->read[k] != '-') expect_table(net, row, k, read[k]);
  assert_int_equal(vkf_model_net_info(net)->n_unused, 0);
  vkf_model_net_close(&net);
}

/* Which table the decoder, the encoder and the head read if tied tables are stored with different numbers. Found with
 * transformers 5.12.1, the same for BART, mBART, M2M-100, Marian, Pegasus, PLBart and Blenderbot. */
static void tables_of_a_pair(void **state) {
  (void)state;
  static const tables_row rows[] = {{"1---", "111"}, {"-1--", "111"}, {"--1-", "111"}, {"---1", "111"}, {"1111", "111"},
                                    {"12--", "211"}, {"1-2-", "121"}, {"1--2", "112"}, {"122-", "221"}, {"12-2", "212"},
                                    {"1-22", "122"}, {"1222", "222"}, {"1234", "234"}, {"1211", "211"}, {"123-", "231"},
                                    {"-1-2", "122"}, {"--12", "212"}, {"-123", "123"}, {"-112", "112"}};
  vkf_net *net = NULL;
  for (size_t i = 0; i < VKF_COUNT(rows); i++) expect_tables("bart", bart_tables, NULL, false, &rows[i]);
  assert_int_equal(open_with_tables("bart", bart_tables, "-12-", NULL, false, &net), VKF_ERROR_UNSUPPORTED);
  assert_non_null(strstr(env.message,
                         "numbers of tensor \"model.decoder.embed_tokens.weight\" in "
                         "\"model.encoder.embed_tokens.weight\""));
  vkf_env_clear(&env);
  assert_int_equal(env.live_bytes, 0);
}

/* The same of T5, found with transformers 5.12.1, too, which does not ask for tie_word_embeddings there. */
static void tables_of_t5(void **state) {
  (void)state;
  static const tables_row all[] = {{"1---", "111"}, {"-1--", "111"}, {"--1-", "111"}, {"---1", "111"}, {"1111", "111"},
                                   {"12--", "211"}, {"1-2-", "121"}, {"1--2", "112"}, {"-12-", "122"}, {"123-", "231"},
                                   {"12-3", "213"}, {"1-23", "123"}, {"-123", "123"}, {"1234", "234"}, {"1222", "222"}};
  static const tables_row t5[] = {{"--12", "212"}, {"-1-2", "122"}}, others[] = {{"--12", "112"}, {"-1-2", "112"}};
  static const tables_row headless[] = {{"1---", "11-"}, {"-1--", "11-"}, {"--1-", "11-"}, {"123-", "23-"},
                                        {"-12-", "12-"}, {"-1-2", "11-"}, {"--12", "11-"}, {"1234", "23-"}};
  static const tables_row alone[] = {{"1---", "-1-"}, {"--1-", "-1-"}, {"1-2-", "-2-"}};
  static const char *const names[] = {"t5", "mt5", "families/umt5"};
  for (size_t i = 0; i < VKF_COUNT(all); i++)
    for (size_t f = 0; f < VKF_COUNT(names); f++) {
      expect_tables(names[f], t5_tables, NULL, false, &all[i]);
      expect_tables(names[f], t5_tables, NULL, true, &all[i]);
    }
  for (size_t i = 0; i < VKF_COUNT(t5); i++) {
    expect_tables("t5", t5_tables, NULL, false, &t5[i]);
    expect_tables("t5", t5_tables, NULL, true, &t5[i]);
    expect_tables("mt5", t5_tables, NULL, false, &others[i]);
    expect_tables("families/umt5", t5_tables, NULL, true, &others[i]);
  }
  for (size_t i = 0; i < VKF_COUNT(headless); i++) expect_tables("t5", t5_tables, "T5Model", false, &headless[i]);
  for (size_t i = 0; i < VKF_COUNT(alone); i++) expect_tables("families/t5-encoder", t5_tables, NULL, false, &alone[i]);
  assert_int_equal(env.live_bytes, 0);
}

/* tie_word_embeddings false says of T5 that states are not scaled, also where the head is tied because it is not
 * stored; UMT5 scales them before every tied head, mT5 before none. */
static void states_before_the_head_of_t5(void **state) {
  (void)state;
  static const struct {
    const char *golden, *stored;
    bool untied, is_scaled;
  } rows[] = {{"t5", "1---", false, true},           {"t5", "1---", true, false},
              {"t5", "1--2", true, false},           {"mt5", "1---", false, false},
              {"mt5", "1---", true, false},          {"families/umt5", "1---", false, true},
              {"families/umt5", "1---", true, true}, {"families/umt5", "1--2", true, false}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_net *net = NULL;
    ok(&env, open_with_tables(rows[i].golden, t5_tables, rows[i].stored, NULL, rows[i].untied, &net));
    const double expected = rows[i].is_scaled ? 1 / sqrt(net->info.d_model) : 0; /* 0: none */
    if (net->head.scale != (float)expected)
      fail_msg("%s %s: expected %g, found %g", rows[i].golden, rows[i].stored, expected, net->head.scale);
    vkf_model_net_close(&net);
  }
  assert_int_equal(env.live_bytes, 0);
}

/* Weights of a base model in a folder that names a class with a head, because it was made from one. */
static void heads_that_are_none(void **state) {
  (void)state;
  static const struct {
    const char *golden, *without, *class, *bare; /* reads as if the folder named `bare`; NULL: refused */
    bool has_base;                               /* the names keep the prefix */
  } rows[] = {
      {"bert", "cls.", "BertForMaskedLM", "BertModel", false},
      {"bert", "cls.", "BertForMaskedLM", "BertModel", true},
      {"bert-model-pooled", NULL, "BertForPreTraining", "BertModel", false},
      {"roberta", "lm_head.", "RobertaForMaskedLM", "RobertaModel", false},
      {"families/mpnet", "lm_head.", "MPNetForMaskedLM", "MPNetModel", false},
      {"families/electra", "generator_", "ElectraForMaskedLM", "ElectraModel", false},
      {"families/electra-discriminator", "discriminator_", "ElectraForPreTraining", "ElectraModel", true},
      {"families/electra-discriminator", "discriminator_predictions.dense.", "ElectraForPreTraining", NULL, true},
      {"distilbert", "vocab_", "DistilBertForMaskedLM", "DistilBertModel", false},
      {"albert", "predictions.", "AlbertForMaskedLM", "AlbertModel", false},
      {"llama", "lm_head.", "LlamaForCausalLM", "LlamaModel", false},
      {"llama", "lm_head.", "LlamaForCausalLM", NULL, true}, /* the names are of a model with a head */
      {"bert", "cls.predictions.transform.dense.", "BertForMaskedLM", NULL, false}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_net *nets[2] = {NULL, NULL};
    const char *const dirs[] = {folder, other}, *const classes[] = {rows[i].class, rows[i].bare};
    form f = {.dtype = VKF_F32, .no_base = !rows[i].has_base, .without = rows[i].without};
    write_form(rows[i].golden, &f);
    vkf_status st = VKF_OK;
    for (int k = 0; k < 2 && classes[k] != NULL; k++) {
      json_t *config = read_config(rows[i].golden);
      json_object_set_new(config, "architectures", json_pack("[s]", classes[k]));
      write_config(dirs[k], config);
      json_decref(config);
      st = vkf_model_net_open(&env, &(vkf_file_source){.folder = dirs[k]}, &nets[k]);
      if (rows[i].bare != NULL) ok(&env, st);
    }
    if (rows[i].bare == NULL) {
      assert_int_equal(st, VKF_ERROR_FORMAT);
      assert_non_null(strstr(env.message, "expected a tensor"));
      vkf_env_clear(&env);
      continue;
    }
    assert_false(vkf_model_net_info(nets[0])->has_head);
    same_weights(nets[0], nets[1]);
    for (int k = 0; k < 2; k++) vkf_model_net_close(&nets[k]);
  }
  assert_int_equal(env.live_bytes, 0);
}

/* The head of a masked language model has GELU in RoBERTa, MPNet and ELECTRA, and the activation of the layers in other
 * families. */
static void activation_of_the_head(void **state) {
  (void)state;
  static const struct {
    const char *golden;
    vkf_activation head;
  } rows[] = {{"roberta", VKF_ACT_GELU},
              {"camembert", VKF_ACT_GELU},
              {"families/mpnet", VKF_ACT_GELU},
              {"families/electra", VKF_ACT_GELU},
              {"families/electra-sequence-classification", VKF_ACT_GELU},
              {"families/electra-discriminator", VKF_ACT_RELU}, /* not of words */
              {"bert", VKF_ACT_RELU},
              {"albert", VKF_ACT_RELU}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    form f = {.dtype = VKF_F32};
    vkf_net *net = NULL;
    write_form(rows[i].golden, &f);
    json_t *config = read_config(rows[i].golden);
    json_object_set_new(config, "hidden_act", json_string("relu"));
    write_config(folder, config);
    json_decref(config);
    ok(&env, vkf_model_net_open(&env, &(vkf_file_source){.folder = folder}, &net));
    assert_int_equal(net->encoder.activation, VKF_ACT_RELU);
    assert_int_equal(net->head.activation, rows[i].head);
    vkf_model_net_close(&net);
  }
}

/* GPT-2 whose layer i divides its scores by i + 1: the scale of the nodes, and the one that the model reports. */
static void scores_scaled_by_layer(void **state) {
  (void)state;
  form f = {.dtype = VKF_F32};
  vkf_net *net = NULL;
  vkf_plan *plan = NULL;
  const vkf_plan_request request = {.stage = VKF_STAGE_DECODE, .capacity = {1, 0, 1, 1, 24, 1}};
  uint32_t n = 0;
  write_form("gpt2", &f);
  json_t *config = read_config("gpt2");
  json_object_set_new(config, "scale_attn_by_inverse_layer_idx", json_true());
  write_config(folder, config);
  json_decref(config);
  ok(&env, vkf_model_net_open(&env, &(vkf_file_source){.folder = folder}, &net));
  ok(&env, vkf_model_plan_build(net, &env, &request, &plan));
  for (uint32_t i = 0; i < plan->n_nodes; i++) {
    if (plan->nodes[i].op != VKF_OP_ATTENTION) continue;
    vkf_attention_info info;
    assert_true(vkf_model_net_attention(net, VKF_ATTENTION_DECODER, n, &info));
    n++;
    assert_true(plan->nodes[i].params.attention.scale == 0.25f / (float)n && info.scale == 0.25f / (float)n);
  }
  assert_int_equal(n, 2);
  vkf_model_plan_destroy(&plan);
  vkf_model_net_close(&net);
  assert_int_equal(env.live_bytes, 0);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void refused(const char *golden, const char *object, const char *key, const char *json, const char *part) {
  form f = {.dtype = VKF_F32};
  vkf_net *net = NULL;
  write_form(golden, &f);
  json_t *config = read_config(golden), *value = json_loads(json, JSON_DECODE_ANY, NULL);
  assert_non_null(value);
  json_object_set_new(object != NULL ? json_object_get(config, object) : config, key, value);
  write_config(folder, config);
  json_decref(config);
  assert_int_equal(vkf_model_net_open(&env, &(vkf_file_source){.folder = folder}, &net), VKF_ERROR_UNSUPPORTED);
  assert_null(net);
  if (strstr(env.message, part) == NULL) print_error("%s\n", env.message);
  assert_non_null(strstr(env.message, part));
  vkf_env_clear(&env);
  assert_int_equal(env.live_bytes, 0);
}

static void options_are_refused_by_name(void **state) {
  (void)state;
  refused("llama3-rope", "rope_parameters", "rope_type", "\"ntk\"", "rope_parameters.rope_type \"ntk\"");
  refused("llama", NULL, "hidden_act", "\"mish\"", "\"mish\"");
  refused("llama", NULL, "architectures", "[\"LlamaForTokenClassification\"]", "LlamaForTokenClassification");
  refused("qwen2", NULL, "layer_types", "[\"chunked_attention\", \"full_attention\"]", "chunked_attention");
  refused("bert", NULL, "architectures", "[\"BertForMultipleChoice\"]", "BertForMultipleChoice");
  refused("bart", NULL, "architectures", "[\"BartEncoderModel\"]", "\"BartEncoderModel\" is not supported for");
  refused("llama", NULL, "quantization", "{\"bits\": 4}", "quantization");
  refused("bert", NULL, "is_decoder", "true", "is_decoder");
  refused("bert", NULL, "add_cross_attention", "true", "add_cross_attention");
  refused("bert", NULL, "position_embedding_type", "\"relative_key\"", "position_embedding_type \"relative_key\"");
  refused("families/electra", NULL, "architectures", "[\"ElectraForMultipleChoice\"]", "ElectraForMultipleChoice");
  refused("families/electra", NULL, "architectures", "[\"ElectraForCausalLM\"]", "ElectraForCausalLM");
  refused("families/electra", NULL, "is_decoder", "true", "is_decoder");
  refused("families/electra", NULL, "position_embedding_type", "\"relative_key\"", "position_embedding_type");
  refused("bert", NULL, "architectures", "[\"ElectraForPreTraining\"]", "ElectraForPreTraining");
  refused("families/mpnet", NULL, "architectures", "[\"MPNetForMultipleChoice\"]", "MPNetForMultipleChoice");
  refused("gpt2", NULL, "add_cross_attention", "true", "add_cross_attention");
  refused("t5", NULL, "feed_forward_proj", "\"gated-elu\"", "feed_forward_proj \"gated-elu\"");
  refused("vit", NULL, "pooler_act", "\"mish\"", "as pooler_act, found \"mish\"");
  refused("bart", NULL, "normalize_before", "true", "normalize_before");
  refused("families/pegasus", NULL, "normalize_before", "false", "normalize_before false");
  refused("families/pegasus", NULL, "static_position_embeddings", "false", "static_position_embeddings false");
  refused("families/blenderbot", NULL, "normalize_embedding", "true", "normalize_embedding true");
  refused("families/blenderbot", NULL, "static_position_embeddings", "true", "static_position_embeddings true");
  refused("families/blenderbot-small", NULL, "normalize_embedding", "false", "normalize_embedding false");
  refused("families/blenderbot-small", NULL, "normalize_before", "true", "normalize_before true");
  refused("families/mvp", NULL, "use_prompt", "true", "use_prompt true is not supported");
  refused("families/mvp", NULL, "architectures", "[\"MvpForQuestionAnswering\"]", "MvpForQuestionAnswering");
  refused("families/plbart", NULL, "add_final_layer_norm", "true", "add_final_layer_norm true");
  refused("families/plbart", NULL, "architectures", "[\"PLBartForSequenceClassification\"]",
          "PLBartForSequenceClassification");
  refused("mistral-sliding", NULL, "is_causal", "false", "is_causal false is not supported with a sliding window");
  refused("bart", NULL, "is_causal", "false", "is_causal false is not supported in a decoder with an encoder");
  refused("families/gemma", NULL, "use_bidirectional_attention", "true", "use_bidirectional_attention true");
  refused("families/phi", NULL, "qk_layernorm", "true", "qk_layernorm true is not supported");
  refused("families/phi", NULL, "architectures", "[\"PhiForTokenClassification\"]", "PhiForTokenClassification");
  refused("families/phi3", NULL, "rope_scaling", "{\"type\": \"linear\", \"factor\": 2}",
          "expected longrope as rope_scaling.rope_type, found \"linear\"");
  refused("families/phi3", "rope_parameters", "rope_type", "\"dynamic\"", "found \"dynamic\"");
  refused("families/olmo", NULL, "clip_qkv", "8.0", "clip_qkv");
  refused("families/stablelm", NULL, "qk_layernorm", "true", "qk_layernorm true is not supported");
  refused("families/starcoder2", NULL, "is_causal", "false", "is_causal false is not supported with a sliding window");
  refused("families/granite", NULL, "attention_bias", "true", "attention_bias true is not supported");
  refused("families/granite", NULL, "mlp_bias", "true", "mlp_bias true is not supported");
  refused("families/granite", NULL, "architectures", "[\"GraniteForSequenceClassification\"]", "GraniteForSequence");
  refused("families/umt5", NULL, "is_encoder_decoder", "false", "is_encoder_decoder false");
  refused("families/umt5", NULL, "architectures", "[\"UMT5ForTokenClassification\"]", "UMT5ForTokenClassification");
}

int main(void) {
  vkf_env_init(&env, NULL);
  strcpy(folder, "/tmp/vkf-forms-XXXXXX");
  strcpy(other, "/tmp/vkf-forms-XXXXXX");
  if (mkdtemp(folder) == NULL || mkdtemp(other) == NULL) return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_form),
                                     cmocka_unit_test(other_shapes),
                                     cmocka_unit_test(positions_by_family),
                                     cmocka_unit_test(stretched_sinusoids),
                                     cmocka_unit_test(relative_buckets),
                                     cmocka_unit_test(scores_scaled_by_layer),
                                     cmocka_unit_test(copies_that_are_none),
                                     cmocka_unit_test(tables_of_a_pair),
                                     cmocka_unit_test(tables_of_t5),
                                     cmocka_unit_test(states_before_the_head_of_t5),
                                     cmocka_unit_test(heads_that_are_none),
                                     cmocka_unit_test(activation_of_the_head),
                                     cmocka_unit_test(options_are_refused_by_name)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  clear_folder(folder);
  clear_folder(other);
  rmdir(folder);
  rmdir(other);
  return failed;
}
