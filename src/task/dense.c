/* dense: see dense.h. */
#include "task/dense.h"

#include <math.h>
#include <string.h>

#include "file/safetensors.h"

typedef struct reader {
  vkf_arena *arena;
  const vkf_file_source *source;
  const char *config, *weights; /* names in the source */
  vkf_dense *dense;
  bool has_bias;
} reader;

static const char *path_of(const reader *r, const char *file) {
  const char *path = vkf_file_source_path(r->source, r->arena, file);
  return path ? path : file;
}

static vkf_status refuse(const reader *r, const char *key, const char *expected) {
  return vkf_env_fail(r->arena->env, VKF_ERROR_UNSUPPORTED, "%s: \"%s\": expected %s, found something else",
                      path_of(r, r->config), key, expected);
}

static vkf_status read_width(const reader *r, vkf_file_value value, const char *key, uint32_t *out) {
  int64_t n = 0;
  if (vkf_file_json_kind(value) == VKF_FILE_INTEGER) (void)vkf_file_json_as_int64(value, &n);
  if (n < 1 || n > 1 << 24) return refuse(r, key, "a width of at least 1");
  *out = (uint32_t)n;
  return VKF_OK;
}

static vkf_status read_activation(const reader *r, vkf_file_value value, const char *key) {
  const char *name = "";
  if (vkf_file_json_kind(value) == VKF_FILE_STRING) (void)vkf_file_json_as_string(value, &name);
  for (const char *at = name; *at; at++) /* the class without its module */
    if (*at == '.') name = at + 1;
  r->dense->is_tanh = strcmp(name, "Tanh") == 0;
  return r->dense->is_tanh || strcmp(name, "Identity") == 0 ? VKF_OK : refuse(r, key, "Tanh or Identity of torch.nn");
}

static vkf_status read_key(reader *r, const char *key, vkf_file_value value) {
  if (strcmp(key, "in_features") == 0) return read_width(r, value, key, &r->dense->n_in);
  if (strcmp(key, "out_features") == 0) return read_width(r, value, key, &r->dense->n_out);
  if (strcmp(key, "activation_function") == 0) return read_activation(r, value, key);
  if (strcmp(key, "bias") == 0) return vkf_file_json_as_bool(value, &r->has_bias);
  const bool is_place = strcmp(key, "module_input_name") == 0 || strcmp(key, "module_output_name") == 0;
  const char *place = "";
  if (vkf_file_json_kind(value) == VKF_FILE_STRING) (void)vkf_file_json_as_string(value, &place);
  if (is_place && (vkf_file_json_kind(value) == VKF_FILE_NULL || strcmp(place, "sentence_embedding") == 0))
    return VKF_OK;
  return refuse(r, key, is_place ? "\"sentence_embedding\"" : "a key that is known");
}

static vkf_status read_config(reader *r) {
  vkf_status st = VKF_OK;
  vkf_file_json *json = NULL;
  vkf_file_value root;
  const char *key;
  VKF_TRY(vkf_file_source_json(r->arena->env, r->source, r->config, &json));
  VKF_TRY(vkf_file_json_as_object(vkf_file_json_root(json), &root));
  r->dense->is_tanh = true; /* as sentence-transformers has it where nothing is said */
  for (size_t i = 0; (key = vkf_file_json_key(root, i)) != NULL; i++)
    VKF_TRY(read_key(r, key, vkf_file_json_member(root, key)));
  if (!r->dense->n_in) VKF_TRY(refuse(r, "in_features", "a width"));
  if (!r->dense->n_out) VKF_TRY(refuse(r, "out_features", "a width"));
done:
  vkf_file_json_destroy(&json);
  return st;
}

static vkf_status read_tensor(const reader *r, const vkf_file_tensors *tensors, const char *name, size_t rank,
                              const float **out) {
  const size_t shape[] = {r->dense->n_out, r->dense->n_in};
  const vkf_file_tensor *found = NULL;
  VKF_CALL(vkf_file_tensors_get_shaped(tensors, name, rank, shape, &found));
  float *numbers = vkf_arena_alloc(r->arena, found->n_elements, sizeof *numbers);
  if (!numbers) return VKF_ERROR_MEMORY;
  *out = numbers;
  return vkf_file_numbers_to_f32(found->dtype, found->data, found->n_elements, numbers)
             ? VKF_OK
             : vkf_env_fail(r->arena->env, VKF_ERROR_FORMAT, "%s: expected floating-point numbers as \"%s\"",
                            path_of(r, r->weights), name);
}

static vkf_status read_weights(const reader *r) {
  vkf_status st = VKF_OK;
  vkf_file_tensors *tensors = NULL;
  VKF_TRY(vkf_file_tensors_open_file(r->arena->env, r->source, r->weights, &tensors));
  VKF_TRY(read_tensor(r, tensors, "linear.weight", 2, &r->dense->weight));
  if (r->has_bias)
    VKF_TRY(read_tensor(r, tensors, "linear.bias", 1, &r->dense->bias));
  else if (!(r->dense->bias = vkf_arena_alloc(r->arena, r->dense->n_out, sizeof *r->dense->bias)))
    VKF_TRY(VKF_ERROR_MEMORY);
done:
  vkf_file_tensors_close(&tensors);
  return st;
}

vkf_status vkf_task_dense_read(vkf_arena *arena, const vkf_file_source *source, const char *folder, vkf_dense **out) {
  reader r = {.arena = arena,
              .source = source,
              .config = vkf_arena_printf(arena, "%s/config.json", folder),
              .weights = vkf_arena_printf(arena, "%s/model.safetensors", folder),
              .dense = vkf_arena_alloc(arena, 1, sizeof *r.dense),
              .has_bias = true};
  *out = r.dense;
  if (!r.config || !r.weights || !r.dense) return VKF_ERROR_MEMORY;
  VKF_CALL(read_config(&r));
  return read_weights(&r);
}

void vkf_task_dense_run(const vkf_dense *dense, const double *x, double *y) {
  for (uint32_t i = 0; i < dense->n_out; i++) {
    const float *row = dense->weight + (size_t)i * dense->n_in;
    y[i] = dense->bias[i];
    for (uint32_t k = 0; k < dense->n_in; k++) y[i] += (double)row[k] * x[k];
    if (dense->is_tanh) y[i] = tanh(y[i]);
  }
}
