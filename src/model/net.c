/* net: opens a model folder: its family maps config.json, and claims and checks the tensors. See model.h. */
#include <string.h>

#include "file/foreign.h"
#include "model/internal.h"

typedef struct family {
  const char *model_type;
  vkf_status (*map)(vkf_net *net, vkf_file_value config);
} family;

static const family families[] = {
#define X(type, name) {type, vkf_model_map_##name},
    VKF_MODEL_FAMILIES(X)
#undef X
};

static const vkf_model_head no_head = {
    .dense = {VKF_NO_WEIGHT, VKF_NO_WEIGHT},
    .norm = {VKF_NO_WEIGHT, VKF_NO_WEIGHT},
    .out = {VKF_NO_WEIGHT, VKF_NO_WEIGHT},
};

/* *out must be NULL before. */
static vkf_status find_family(vkf_net *net, vkf_file_value config, const family **out) {
  vkf_status st = VKF_OK;
  vkf_text known;
  vkf_text_init(&known, net->env);
  const char *model_type = NULL;
  VKF_TRY(vkf_file_json_get_string(config, "model_type", &model_type));
  for (size_t i = 0; i < VKF_COUNT(families); i++)
    if (strcmp(families[i].model_type, model_type) == 0) *out = &families[i];
  if (*out != NULL) goto done;
  for (size_t i = 0; i < VKF_COUNT(families); i++)
    vkf_text_printf(&known, "%s%s", i == 0 ? "" : ", ", families[i].model_type);
  VKF_TRY(vkf_text_status(&known));
  VKF_FAIL(net->env, VKF_ERROR_UNSUPPORTED, "%s: expected one of %s as model_type, found \"%s\"", net->config_path,
           known.data, model_type);
done:
  vkf_text_finish(&known);
  return st;
}

/* Names the states after the last layer of a stage as transformers does, with their other name if they have one. */
static vkf_status name_last_states(vkf_net *net, vkf_stage stage, const char *last_prefix, const char *prefix) {
  const vkf_model_stack *stack = net->encoder.n_layers > 0 && stage == VKF_STAGE_ENCODE ? &net->encoder : &net->decoder;
  const char **names = net->names[stage];
  names[0] = vkf_arena_printf(&net->arena, "%slast_hidden_state", last_prefix);
  if (!net->is_last_apart) names[1] = vkf_arena_printf(&net->arena, "%shidden_states.%u", prefix, stack->n_layers);
  return names[0] == NULL || (names[1] == NULL && !net->is_last_apart) ? VKF_ERROR_MEMORY : VKF_OK;
}

/* Fills net->info, which other rooms see, from what the family has set. */
static vkf_status finish_info(vkf_net *net) {
  vkf_net_info *info = &net->info;
  bool has_encoder = net->encoder.n_layers > 0, has_decoder = net->decoder.n_layers > 0;
  const vkf_model_stack *first = has_encoder ? &net->encoder : &net->decoder;
  const vkf_model_stack *last = has_decoder ? &net->decoder : &net->encoder;
  bool is_pair = first != last;
  info->architecture = is_pair       ? VKF_ARCHITECTURE_ENCODER_DECODER
                       : has_encoder ? VKF_ARCHITECTURE_ENCODER
                                     : VKF_ARCHITECTURE_DECODER;
  info->n_heads = first->n_heads;
  info->d_ff = first->d_ff;
  info->vocab = first->vocab;
  info->head_weight = net->head.out.weight;
  info->head_bias = net->head.out.bias;
  info->head_depth = info->has_head ? net->infos[net->head.out.weight].shape[1] : 0;
  info->can_generate = has_decoder && net->decoder.causal && info->has_head && !info->is_pooled;
  info->target_vocab = info->has_head ? net->infos[net->head.out.weight].shape[0] : last->vocab;
  info->encoder_layers = net->encoder.n_layers;
  info->decoder_layers = net->decoder.n_layers;
  info->file_bytes = net->tensors != NULL ? vkf_file_tensors_file_bytes(net->tensors) : 0;
  const char *prefix = is_pair ? "encoder_" : "";
  VKF_CALL(name_last_states(net, has_encoder ? VKF_STAGE_ENCODE : VKF_STAGE_DECODE, prefix, prefix));
  if (is_pair && !info->has_head) VKF_CALL(name_last_states(net, VKF_STAGE_DECODE, "", "decoder_"));
  if (net->tensors != NULL) VKF_CALL(vkf_model_list_unused(net));
  return VKF_OK;
}

/* Reads is_causal: if false, the decoder attends in both directions, for embeddings (gte-Qwen2). */
static vkf_status find_direction(vkf_net *net, vkf_file_value config) {
  vkf_model_stack *stack = &net->decoder;
  bool is_causal = true, has_window = false;
  VKF_CALL(vkf_file_json_find_bool(config, "is_causal", true, &is_causal));
  if (is_causal || stack->n_layers == 0) return VKF_OK;
  for (uint32_t i = 0; i < stack->n_layers; i++) has_window |= stack->layers[i].window > 0;
  if (has_window || net->encoder.n_layers > 0)
    return vkf_env_fail(net->env, VKF_ERROR_UNSUPPORTED, "%s: is_causal false is not supported %s", net->config_path,
                        has_window ? "with a sliding window" : "in a decoder with an encoder");
  stack->causal = false;
  return VKF_OK;
}

/* Refuses different values under two names of one number. This engine reads the first name; transformers reads one or
 * the other. */
static vkf_status refuse_contradictions(vkf_net *net, vkf_file_value config) {
#define PAIRS "bart blenderbot m2m_100 marian mbart pegasus plbart"
  static const struct {
    const char *families, *key, *other;
  } pairs[] = {
      {PAIRS, "encoder_layers", "num_hidden_layers"},
      {PAIRS, "encoder_attention_heads", "num_attention_heads"},
      {PAIRS " t5 mt5 umt5", "d_model", "hidden_size"},
      {"t5 mt5 umt5", "num_layers", "num_hidden_layers"},
      {"t5 mt5 umt5", "num_heads", "num_attention_heads"},
      {"t5 mt5 umt5", "d_kv", "head_dim"},
      {"distilbert", "n_layers", "num_hidden_layers"},
      {"distilbert", "n_heads", "num_attention_heads"},
      {"distilbert", "dim", "hidden_size"},
      {"gpt2", "n_layer", "num_hidden_layers"},
      {"gpt2", "n_head", "num_attention_heads"},
      {"gpt2", "n_embd", "hidden_size"},
      {"gpt2", "n_positions", "max_position_embeddings"},
  };
#undef PAIRS
  for (size_t i = 0; i < VKF_COUNT(pairs); i++) {
    size_t length = strlen(net->info.family);
    const char *at = pairs[i].families;
    while (at != NULL && (strncmp(at, net->info.family, length) != 0 || (at[length] != ' ' && at[length] != 0)))
      if ((at = strchr(at, ' ')) != NULL) at++;
    int64_t one = 0, other = 0;
    if (at != NULL) VKF_CALL(vkf_file_json_find_int64(config, pairs[i].key, 0, &one));
    if (at != NULL) VKF_CALL(vkf_file_json_find_int64(config, pairs[i].other, one, &other));
    if (one != 0 && one != other)
      return vkf_env_fail(net->env, VKF_ERROR_FORMAT, "%s: expected the same number as %s and %s, found %lld and %lld",
                          net->config_path, pairs[i].key, pairs[i].other, (long long)one, (long long)other);
  }
  return VKF_OK;
}

static vkf_status refuse_quantized(vkf_net *net, vkf_file_value root) {
  static const char *const keys[] = {"quantization_config", "quantization"}; /* so transformers and MLX call it */
  for (size_t i = 0; i < VKF_COUNT(keys); i++) {
    const vkf_file_kind kind = vkf_file_json_kind(vkf_file_json_member(root, keys[i]));
    if (kind != VKF_FILE_ABSENT && kind != VKF_FILE_NULL)
      return vkf_env_fail(net->env, VKF_ERROR_UNSUPPORTED,
                          "%s: expected weights that are not quantized, found %s: use the folder that they were made "
                          "from, with --weights int8 if they are to take less memory",
                          net->config_path, keys[i]);
  }
  return VKF_OK;
}

/* source NULL: the folder is still to be made, with the configuration at config_path. */
static vkf_status map_config(vkf_net *net, const vkf_file_source *source, const char *config_path,
                             vkf_file_json **config) {
  const family *found = NULL;
  if (source != NULL && source->folder != NULL) VKF_CALL(vkf_file_foreign_check(net->env, source->folder));
  VKF_CALL(source != NULL ? vkf_file_source_json(net->env, source, "config.json", config)
                          : vkf_file_json_read(net->env, config_path, config));
  vkf_file_value root = vkf_file_json_root(*config);
  VKF_CALL(vkf_file_json_as_object(root, &root));
  VKF_CALL(vkf_file_json_hash(root, &net->config_hash));
  VKF_CALL(find_family(net, root, &found));
  net->info.family = found->model_type;
  VKF_CALL(refuse_quantized(net, root));
  VKF_CALL(refuse_contradictions(net, root));
  if (source != NULL) {
    VKF_CALL(vkf_file_tensors_open_source(net->env, source, &net->tensors));
    net->used = vkf_arena_alloc(&net->arena, vkf_file_tensors_count(net->tensors), sizeof *net->used);
    if (net->used == NULL) return VKF_ERROR_MEMORY;
  }
  VKF_CALL(found->map(net, root));
  VKF_CALL(find_direction(net, root));
  return finish_info(net);
}

static vkf_status open_net(vkf_env *env, const char *config_path, const vkf_file_source *source, vkf_net **out) {
  vkf_status st = VKF_OK;
  vkf_file_json *config = NULL;
  *out = NULL;
  vkf_net *net = vkf_env_alloc(env, 1, sizeof *net);
  if (net == NULL) return VKF_ERROR_MEMORY;
  net->env = env;
  net->encoder = net->decoder = vkf_model_no_stack;
  net->head = no_head;
  vkf_arena_init(&net->arena, env);
  net->info.name = vkf_arena_strdup(&net->arena, source != NULL ? vkf_file_source_name(source) : "");
  net->config_path = source != NULL ? vkf_file_source_path(source, &net->arena, "config.json")
                                    : vkf_arena_strdup(&net->arena, config_path);
  if (net->info.name == NULL || net->config_path == NULL) VKF_TRY(VKF_ERROR_MEMORY);
  if (source != NULL) net->info.source = *source;
  if (source != NULL && source->folder != NULL) net->info.source.folder = net->info.name;
  VKF_TRY(map_config(net, source, config_path, &config));
done:
  vkf_file_json_destroy(&config);
  if (st != VKF_OK) vkf_model_net_close(&net);
  *out = net;
  return st;
}

vkf_status vkf_model_net_open(vkf_env *env, const vkf_file_source *source, vkf_net **out) {
  return open_net(env, NULL, source, out);
}

vkf_status vkf_model_net_want(vkf_env *env, const char *config_path, vkf_net **out) {
  return open_net(env, config_path, NULL, out);
}

void vkf_model_net_close(vkf_net **net) {
  if (*net == NULL) return;
  vkf_env *env = (*net)->env;
  vkf_file_tensors_close(&(*net)->tensors);
  vkf_env_free(env, (*net)->infos);
  vkf_env_free(env, (*net)->weights);
  vkf_env_free(env, (*net)->wanted);
  vkf_arena_finish(&(*net)->arena);
  vkf_env_free(env, *net);
  *net = NULL;
}

const vkf_net_info *vkf_model_net_info(const vkf_net *net) {
  return &net->info;
}

bool vkf_model_net_attention(const vkf_net *net, vkf_attention_kind kind, size_t layer, vkf_attention_info *out) {
  const bool is_cross = kind == VKF_ATTENTION_CROSS;
  const vkf_model_stack *stack = kind == VKF_ATTENTION_ENCODER ? &net->encoder : &net->decoder;
  if ((int)kind < 0 || kind > VKF_ATTENTION_CROSS || layer >= stack->n_layers || (is_cross && !stack->has_cross))
    return false;
  *out = (vkf_attention_info){VKF_ATTENTION_INFO_INIT,
                              .n_heads = stack->n_heads,
                              .n_kv_heads = stack->n_kv_heads,
                              .key_width = stack->key_width,
                              .value_width = stack->value_width,
                              .scale = stack->scale / (float)(stack->scales_by_layer ? layer + 1 : 1),
                              .causal = stack->causal && !is_cross,
                              .has_bias = stack->relative.n_buckets > 0 && !is_cross,
                              .window = is_cross ? 0 : stack->layers[layer].window};
  return true;
}

void vkf_model_net_rest(const vkf_net *net) {
  vkf_file_tensors_rest(net->tensors);
}

uint64_t vkf_model_net_identity(const vkf_net *net) {
  uint64_t hash = net->config_hash;
  for (size_t i = 0; i < vkf_file_tensors_count(net->tensors); i++) {
    const vkf_file_tensor *t = vkf_file_tensors_at(net->tensors, i);
    hash = vkf_hash_step(vkf_hash_step(vkf_hash_text(hash, t->name), (uint64_t)t->dtype), t->rank);
    for (size_t k = 0; k < t->rank; k++) hash = vkf_hash_step(hash, t->shape[k]);
    hash = vkf_hash_words(hash, t->data, t->bytes);
    vkf_model_net_rest(net);
  }
  return hash;
}

void vkf_model_net_weights(vkf_net *net, vkf_weight_source *out) {
  *out = (vkf_weight_source){.user = net,
                             .n_weights = net->n_weights,
                             .infos = net->infos,
                             .load = vkf_model_load_weight,
                             .copy = vkf_model_copy_weight};
}
