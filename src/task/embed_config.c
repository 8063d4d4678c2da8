/* embed_config: reads the files that sentence-transformers puts beside a model.
 *
 * modules.json names the modules: a Transformer, one Pooling, any number of Dense (dense.h) and Normalize. The
 * pooling's own config.json has one of two forms: "pooling_mode" (a mode or a list of them), or a flag for each mode.
 * sentence_bert_config.json limits the tokens of a text. config_sentence_transformers.json may have a prompt to put
 * before each text. Unknown keys are refused by name, with their file.
 */
#include "task/embed_config.h"

#include <string.h>

/* In the order in which sentence-transformers concatenates the vectors of modes whose flags are true. */
static const struct {
  const char *name, *flag; /* name: in "pooling_mode" */
  vkf_pooling pooling;
} modes[VKF_EMBED_MAX_POOLINGS] = {
    {"cls", "pooling_mode_cls_token", VKF_POOLING_CLS},
    {"max", "pooling_mode_max_tokens", VKF_POOLING_MAX},
    {"mean", "pooling_mode_mean_tokens", VKF_POOLING_MEAN},
    {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", VKF_POOLING_MEAN_SQRT_LEN},
    {"weightedmean", "pooling_mode_weightedmean_tokens", VKF_POOLING_WEIGHTED_MEAN},
    {"lasttoken", "pooling_mode_lasttoken", VKF_POOLING_LAST}};
static const char names_of_modes[] = "cls, max, mean, mean_sqrt_len_tokens, weightedmean or lasttoken";
enum { MAX_TOKENS = 1 << 24 };

typedef struct reader {
  vkf_env *env;
  vkf_embed_config *config;
  const vkf_file_source *source;
  const char *file;                                       /* being read */
  vkf_file_value root;                                    /* of that file */
  const char *pooling_file;                               /* NULL: no module named it yet */
  vkf_dense *dense;                                       /* the last one */
  bool is_flagged[VKF_EMBED_MAX_POOLINGS], has_mean_flag; /* [modes]; the mean has a flag, true or false */
  bool excludes_prompt, is_sentence_model, cosine;
} reader;

static const char *path_of(const reader *r, const char *file) {
  const char *path = vkf_file_source_path(r->source, &r->config->arena, file);
  return path ? path : file;
}

/* Refuses the value of a key. It may be absent. */
static vkf_status refuse(const reader *r, const char *key, vkf_file_value value, const char *expected) {
  vkf_text found;
  vkf_text_init(&found, r->env);
  vkf_file_json_print(&found, value);
  vkf_status st = vkf_text_status(&found);
  if (st == VKF_OK)
    st = vkf_env_fail(r->env, VKF_ERROR_UNSUPPORTED, "%s: \"%s\": expected %s, found %s", path_of(r, r->file), key,
                      expected, found.data);
  vkf_text_finish(&found);
  return st;
}

static vkf_status refuse_key(const reader *r, const char *key) {
  return vkf_env_fail(r->env, VKF_ERROR_UNSUPPORTED, "%s: \"%s\" is not supported: no such key is known",
                      path_of(r, r->file), key);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Opens a file. *out stays NULL if the source has none. */
static vkf_status open_file(const reader *r, const char *file, vkf_file_json **out) {
  return vkf_file_source_has(r->source, file) ? vkf_file_source_json(r->env, r->source, file, out) : VKF_OK;
}

/* Calls `read` for each key of the object in a file that must exist. */
static vkf_status each_key(reader *r, const char *file,
                           vkf_status (*read)(reader *r, const char *key, vkf_file_value value)) {
  vkf_status st = VKF_OK;
  vkf_file_json *json = NULL;
  const char *key;
  VKF_TRY(vkf_file_source_json(r->env, r->source, file, &json));
  r->file = file;
  VKF_TRY(vkf_file_json_as_object(vkf_file_json_root(json), &r->root));
  for (size_t i = 0; (key = vkf_file_json_key(r->root, i)) != NULL; i++)
    VKF_TRY(read(r, key, vkf_file_json_member(r->root, key)));
done:
  vkf_file_json_destroy(&json);
  return st;
}

/* The same, if the file exists. */
static vkf_status each_key_if_there(reader *r, const char *file,
                                    vkf_status (*read)(reader *r, const char *key, vkf_file_value value)) {
  return vkf_file_source_has(r->source, file) ? each_key(r, file, read) : VKF_OK;
}

/* Returns "" if the value is no string. */
static const char *string_of(vkf_file_value value) {
  const char *text = "";
  if (vkf_file_json_kind(value) == VKF_FILE_STRING) (void)vkf_file_json_as_string(value, &text);
  return text;
}

static bool is_text(vkf_file_value value, const char *expected) {
  return strcmp(string_of(value), expected) == 0;
}

static bool is_true(vkf_file_value value) {
  bool found = false;
  if (vkf_file_json_kind(value) == VKF_FILE_BOOL) (void)vkf_file_json_as_bool(value, &found);
  return found;
}

static bool is_null(vkf_file_value value) {
  return vkf_file_json_kind(value) == VKF_FILE_NULL;
}

/* Returns 0 if the value is no number over 0 and below MAX_TOKENS. */
static uint32_t count_of(vkf_file_value value) {
  int64_t n = 0;
  if (vkf_file_json_kind(value) == VKF_FILE_INTEGER) (void)vkf_file_json_as_int64(value, &n);
  return n > 0 && n < MAX_TOKENS ? (uint32_t)n : 0;
}

/* ---- pooling ----------------------------------------------------------------------------------------------------- */

/* Adds a pooling by its name in "pooling_mode". */
static vkf_status add_pooling(reader *r, vkf_file_value name) {
  vkf_embed_config *c = r->config;
  for (size_t m = 0; m < VKF_COUNT(modes); m++) {
    if (!is_text(name, modes[m].name)) continue;
    if (c->n_poolings == VKF_COUNT(c->poolings)) return refuse(r, "pooling_mode", name, "6 poolings at most");
    c->poolings[c->n_poolings++] = modes[m].pooling;
    return VKF_OK;
  }
  return refuse(r, "pooling_mode", name, names_of_modes);
}

static vkf_status read_flag(reader *r, const char *key, vkf_file_value value) {
  if (vkf_file_json_kind(value) != VKF_FILE_BOOL) return refuse(r, key, value, "true or false");
  for (size_t m = 0; m < VKF_COUNT(modes); m++) {
    if (strcmp(key, modes[m].flag) != 0) continue;
    r->is_flagged[m] = is_true(value);
    r->has_mean_flag |= modes[m].pooling == VKF_POOLING_MEAN;
    return VKF_OK;
  }
  return is_true(value) ? refuse_key(r, key) : VKF_OK;
}

static vkf_status read_pooling_key(reader *r, const char *key, vkf_file_value value) {
  if (strcmp(key, "include_prompt") == 0) {
    const bool is_bool = vkf_file_json_kind(value) == VKF_FILE_BOOL;
    r->excludes_prompt = is_bool && !is_true(value);
    return is_bool ? VKF_OK : refuse(r, key, value, "true or false");
  }
  if (strcmp(key, "embedding_dimension") == 0 || strcmp(key, "word_embedding_dimension") == 0) {
    r->config->width = count_of(value);
    return r->config->width ? VKF_OK : refuse(r, key, value, "a width of at least 1");
  }
  if (strcmp(key, "pooling_mode") != 0)
    return strncmp(key, "pooling_mode_", 13) == 0 ? read_flag(r, key, value) : refuse_key(r, key);
  if (vkf_file_json_kind(value) != VKF_FILE_ARRAY) return add_pooling(r, value);
  if (vkf_file_json_count(value) == 0) return refuse(r, key, value, names_of_modes);
  vkf_status st = VKF_OK;
  for (size_t i = 0; i < vkf_file_json_count(value) && st == VKF_OK; i++)
    st = add_pooling(r, vkf_file_json_at(value, i));
  return st;
}

/* Adds the poolings whose flags are true. If the mean has no flag, it is used if no other flag is true; if one is, the
 * folder is refused, because versions of sentence-transformers differ in whether they add the mean. */
static vkf_status take_flags(reader *r) {
  vkf_embed_config *c = r->config;
  for (size_t m = 0; m < VKF_COUNT(modes); m++)
    if (r->is_flagged[m]) c->poolings[c->n_poolings++] = modes[m].pooling;
  if (!r->has_mean_flag && c->n_poolings > 0)
    return refuse(r, "pooling_mode_mean_tokens", (vkf_file_value){0}, "true or false beside the flags of others");
  if (r->has_mean_flag && c->n_poolings == 0)
    return vkf_env_fail(r->env, VKF_ERROR_UNSUPPORTED, "%s: expected one pooling that is true, found none",
                        path_of(r, r->file));
  return VKF_OK;
}

/* Reads the poolings. "pooling_mode" has precedence over flags. */
static vkf_status read_pooling(reader *r) {
  VKF_CALL(each_key_if_there(r, r->pooling_file, read_pooling_key));
  return r->config->n_poolings ? VKF_OK : take_flags(r);
}

/* Reads only what counts even if the caller chose the pooling. */
static vkf_status read_prompt_key(reader *r, const char *key, vkf_file_value value) {
  return strcmp(key, "include_prompt") == 0 ? read_pooling_key(r, key, value) : VKF_OK;
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

/* Returns the name of a class without its module. */
static const char *class_of(vkf_file_value value) {
  const char *name = string_of(value);
  for (const char *at = name; *at; at++)
    if (*at == '.') name = at + 1;
  return name;
}

static vkf_status read_dense_key(reader *r, const char *key, vkf_file_value value) {
  vkf_dense *dense = r->dense;
  const bool is_in = strcmp(key, "in_features") == 0;
  if (is_in || strcmp(key, "out_features") == 0) {
    uint32_t *n = is_in ? &dense->n_in : &dense->n_out;
    *n = count_of(value);
    return *n ? VKF_OK : refuse(r, key, value, "a width of at least 1");
  }
  if (strcmp(key, "bias") == 0) return vkf_file_json_as_bool(value, &dense->has_bias);
  if (strcmp(key, "activation_function") == 0) {
    dense->is_tanh = strcmp(class_of(value), "Tanh") == 0;
    if (dense->is_tanh || strcmp(class_of(value), "Identity") == 0) return VKF_OK;
    return refuse(r, key, value, "Tanh or Identity of torch.nn");
  }
  if (strcmp(key, "use_residual") == 0)
    return vkf_file_json_kind(value) == VKF_FILE_BOOL && !is_true(value) ? VKF_OK : refuse(r, key, value, "false");
  if (strcmp(key, "module_input_name") != 0 && strcmp(key, "module_output_name") != 0)
    return refuse(r, key, value, "a key that is known");
  return is_null(value) || is_text(value, "sentence_embedding") ? VKF_OK
                                                                : refuse(r, key, value, "\"sentence_embedding\"");
}

/* Reads the files of a Dense into r->dense. */
static vkf_status read_dense(reader *r, const char *folder) {
  vkf_arena *arena = &r->config->arena;
  const char *config = vkf_arena_printf(arena, "%s/config.json", folder),
             *weights = vkf_arena_printf(arena, "%s/model.safetensors", folder);
  if (!config || !weights) return VKF_ERROR_MEMORY;
  r->dense->is_tanh = r->dense->has_bias = true; /* the defaults of sentence-transformers */
  VKF_CALL(each_key(r, config, read_dense_key));
  if (!r->dense->n_in) return refuse(r, "in_features", (vkf_file_value){0}, "a width");
  if (!r->dense->n_out) return refuse(r, "out_features", (vkf_file_value){0}, "a width");
  return vkf_task_dense_load(r->dense, arena, r->source, weights);
}

/* Appends a dense layer. */
static vkf_status add_dense(reader *r, const char *folder) {
  vkf_dense **last = &r->config->dense;
  uint32_t width = 0; /* of the input; 0: the model's, which is not known here */
  for (; *last; last = &(*last)->next) width = (*last)->n_out;
  if (!r->pooling_file)
    return vkf_env_fail(r->env, VKF_ERROR_UNSUPPORTED, "%s: expected Pooling before Dense, found none",
                        path_of(r, "modules.json"));
  if (r->config->normalize)
    return vkf_env_fail(r->env, VKF_ERROR_UNSUPPORTED,
                        "%s: expected Normalize as the last module, found Dense after it", path_of(r, "modules.json"));
  *last = r->dense = vkf_arena_alloc(&r->config->arena, 1, sizeof *r->dense);
  if (!r->dense) return VKF_ERROR_MEMORY;
  VKF_CALL(read_dense(r, folder));
  if (width && (*last)->n_in != width)
    return vkf_env_fail(r->env, VKF_ERROR_FORMAT, "%s: expected %u in_features of %s, as many as come in, found %u",
                        path_of(r, "modules.json"), width, folder, (*last)->n_in);
  return VKF_OK;
}

static vkf_status read_module(reader *r, vkf_file_value module) {
  vkf_file_value path = vkf_file_json_member(module, "path");
  const char *name = class_of(vkf_file_json_member(module, "type"));
  if (strcmp(name, "Normalize") == 0) {
    r->config->normalize = true;
  } else if (strcmp(name, "Dense") == 0) {
    return add_dense(r, string_of(path)[0] ? string_of(path) : "2_Dense");
  } else if (strcmp(name, "Transformer") == 0) {
    if (string_of(path)[0])
      return vkf_env_fail(r->env, VKF_ERROR_UNSUPPORTED,
                          "%s: expected \"\" as the path of the Transformer, found \"%s\"", path_of(r, "modules.json"),
                          string_of(path));
  } else if (strcmp(name, "Pooling") == 0) {
    if (r->pooling_file)
      return vkf_env_fail(r->env, VKF_ERROR_UNSUPPORTED, "%s: expected one Pooling, found another",
                          path_of(r, "modules.json"));
    const bool is_named = vkf_file_json_kind(path) == VKF_FILE_STRING;
    r->pooling_file = vkf_arena_printf(&r->config->arena, "%s/config.json", is_named ? string_of(path) : "1_Pooling");
    if (!r->pooling_file) return VKF_ERROR_MEMORY;
  } else {
    return vkf_env_fail(r->env, VKF_ERROR_UNSUPPORTED, "%s: module \"%s\" is not supported", path_of(r, "modules.json"),
                        name);
  }
  return VKF_OK;
}

static vkf_status read_modules(reader *r) {
  vkf_status st = VKF_OK;
  vkf_file_json *json = NULL;
  VKF_TRY(open_file(r, "modules.json", &json));
  r->is_sentence_model = json != NULL;
  if (json) {
    vkf_file_value list = vkf_file_json_root(json);
    if (vkf_file_json_kind(list) != VKF_FILE_ARRAY)
      VKF_FAIL(r->env, VKF_ERROR_FORMAT, "%s: expected a list of modules", path_of(r, "modules.json"));
    for (size_t i = 0; i < vkf_file_json_count(list); i++) VKF_TRY(read_module(r, vkf_file_json_at(list, i)));
  }
  if (!r->pooling_file) r->pooling_file = "1_Pooling/config.json";
done:
  vkf_file_json_destroy(&json);
  return st;
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* Returns whether texts are run by one forward pass to their last states. */
static bool is_forward(vkf_file_value modality) {
  vkf_file_value text = vkf_file_json_member(modality, "text");
  return is_text(vkf_file_json_member(text, "method"), "forward") &&
         is_text(vkf_file_json_member(text, "method_output_name"), "last_hidden_state");
}

/* Accepts do_lower_case only if the tokenizer lower-cases anyway, so that it changes nothing. */
static vkf_status read_lower_case(reader *r, const char *key, vkf_file_value value) {
  vkf_status st = VKF_OK;
  vkf_file_json *json = NULL;
  if (vkf_file_json_kind(value) == VKF_FILE_BOOL && !is_true(value)) goto done;
  VKF_TRY(open_file(r, "tokenizer_config.json", &json));
  if (!json || !is_true(vkf_file_json_member(vkf_file_json_root(json), "do_lower_case")))
    VKF_TRY(refuse(r, key, value, "false"));
done:
  vkf_file_json_destroy(&json);
  return st;
}

static vkf_status read_sentence_key(reader *r, const char *key, vkf_file_value value) {
  r->is_sentence_model = true;
  if (is_null(value)) return VKF_OK;
  if (strcmp(key, "max_seq_length") == 0) {
    r->config->max_tokens = count_of(value);
    return r->config->max_tokens ? VKF_OK : refuse(r, key, value, "a number of tokens");
  }
  if (strcmp(key, "do_lower_case") == 0) return read_lower_case(r, key, value);
  if (strcmp(key, "transformer_task") == 0)
    return is_text(value, "feature-extraction") ? VKF_OK : refuse(r, key, value, "\"feature-extraction\"");
  if (strcmp(key, "module_output_name") == 0)
    return is_text(value, "token_embeddings") ? VKF_OK : refuse(r, key, value, "\"token_embeddings\"");
  if (strcmp(key, "modality_config") == 0)
    return is_forward(value) ? VKF_OK : refuse(r, key, value, "texts by forward to last_hidden_state");
  return refuse_key(r, key);
}

/* Reads the tokenizer's own limit of tokens if sentence_bert_config.json has none. */
static vkf_status read_tokenizer_limit(reader *r) {
  vkf_status st = VKF_OK;
  vkf_file_json *json = NULL;
  if (!r->is_sentence_model || r->config->max_tokens) goto done;
  VKF_TRY(open_file(r, "tokenizer_config.json", &json));
  if (json) r->config->max_tokens = count_of(vkf_file_json_member(vkf_file_json_root(json), "model_max_length"));
done:
  vkf_file_json_destroy(&json);
  return st;
}

static vkf_status read_model_key(reader *r, const char *key, vkf_file_value value) {
  if (is_null(value) || strcmp(key, "__version__") == 0 || strcmp(key, "prompts") == 0) return VKF_OK;
  if (strcmp(key, "model_type") == 0)
    return is_text(value, "SentenceTransformer") ? VKF_OK : refuse(r, key, value, "\"SentenceTransformer\"");
  if (strcmp(key, "similarity_fn_name") == 0)
    return !r->cosine || is_text(value, "cosine") ? VKF_OK : refuse(r, key, value, "\"cosine\" for similarities");
  if (strcmp(key, "default_prompt_name") != 0) return refuse_key(r, key);
  vkf_file_value prompt = vkf_file_json_member(vkf_file_json_member(r->root, "prompts"), string_of(value));
  if (vkf_file_json_kind(prompt) != VKF_FILE_STRING) return refuse(r, key, value, "the name of one of \"prompts\"");
  r->config->prompt = string_of(prompt)[0] ? vkf_arena_strdup(&r->config->arena, string_of(prompt)) : "";
  return r->config->prompt ? VKF_OK : VKF_ERROR_MEMORY;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

vkf_status vkf_task_embed_config_read(vkf_env *env, const vkf_file_source *source, vkf_pooling asked, bool cosine,
                                      vkf_embed_config *out) {
  reader r = {.env = env, .config = out, .source = source, .cosine = cosine};
  *out = (vkf_embed_config){0};
  vkf_arena_init(&out->arena, env);
  if ((unsigned)asked > VKF_COUNT(modes))
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "expected a pooling, found %d", (int)asked);
  VKF_CALL(read_modules(&r));
  VKF_CALL(asked == VKF_POOLING_FOLDER ? read_pooling(&r) : each_key_if_there(&r, r.pooling_file, read_prompt_key));
  VKF_CALL(each_key_if_there(&r, "sentence_bert_config.json", read_sentence_key));
  VKF_CALL(each_key_if_there(&r, "config_sentence_transformers.json", read_model_key));
  if (r.excludes_prompt && out->prompt && out->prompt[0])
    return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED,
                        "%s: \"include_prompt\": expected true beside a default prompt, found false",
                        path_of(&r, r.pooling_file));
  VKF_CALL(read_tokenizer_limit(&r));
  if (out->n_poolings == 0) out->poolings[out->n_poolings++] = asked != VKF_POOLING_FOLDER ? asked : VKF_POOLING_MEAN;
  if (out->prompt && !out->prompt[0]) out->prompt = NULL;
  return VKF_OK;
}

void vkf_task_embed_config_finish(vkf_embed_config *config) {
  vkf_arena_finish(&config->arena);
}
