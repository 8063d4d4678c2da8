/* weights: tensors claimed by name, checked, and put together to the weights that plans refer to. See internal.h.
 *
 * Invariant: a weight that was added can be loaded; `used` marks every tensor that was claimed or is known. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/internal.h"

bool vkf_model_has_tensor(const vkf_net *net, const char *name) {
  return vkf_file_tensors_find(net->tensors, name) != NULL;
}

const char *vkf_model_first_of(const vkf_net *net, const char *const *names, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (vkf_model_has_tensor(net, names[i])) return names[i];
  return names[0];
}

/* Marks a tensor as used; true the first time. */
static bool mark(vkf_net *net, const vkf_file_tensor *tensor) {
  size_t n = vkf_file_tensors_count(net->tensors), i = 0;
  while (i < n && vkf_file_tensors_at(net->tensors, i) != tensor) i++;
  if (i == n || net->used[i]) return false;
  net->used[i] = true;
  return true;
}

void vkf_model_mark_known(vkf_net *net, const char *name) {
  const vkf_file_tensor *tensor = vkf_file_tensors_find(net->tensors, name);
  if (tensor != NULL) mark(net, tensor);
}

static vkf_status claim(vkf_net *net, const vkf_model_source *source, uint32_t columns, vkf_model_part *out) {
  size_t matrix[2] = {source->rows, columns}, vector[1] = {source->rows}, flat[2] = {1, source->rows};
  const size_t *shape = columns > 0 ? matrix : source->is_flat_matrix ? flat : vector;
  size_t rank = shape == vector ? 1 : 2;
  vkf_status st = vkf_file_tensors_get_shaped(net->tensors, source->tensor, rank, shape, &out->tensor);
  if (st != VKF_OK) return st;
  vkf_dtype dtype = out->tensor->dtype;
  if (dtype != VKF_F32 && dtype != VKF_F16 && dtype != VKF_BF16 && dtype != VKF_F64)
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT, "%s: tensor \"%s\": expected dtype F32, F16, BF16 or F64, found %s",
                        out->tensor->file, source->tensor, vkf_dtype_name(dtype));
  out->first_row = source->first_row;
  out->n_rows = source->n_rows;
  if (mark(net, out->tensor)) net->info.n_parameters += out->tensor->n_elements;
  return VKF_OK;
}

/* Room for one more weight. */
static vkf_status grow(vkf_net *net) {
  if (net->n_weights < net->weights_capacity) return VKF_OK;
  uint32_t capacity = VKF_MAX(64u, 2 * net->weights_capacity);
  vkf_weight_info *infos = vkf_env_realloc(net->env, net->infos, capacity, sizeof *infos);
  if (infos == NULL) return VKF_ERROR_MEMORY;
  net->infos = infos;
  vkf_model_weight *weights = vkf_env_realloc(net->env, net->weights, capacity, sizeof *weights);
  if (weights == NULL) return VKF_ERROR_MEMORY;
  net->weights = weights;
  net->weights_capacity = capacity;
  return VKF_OK;
}

vkf_status vkf_model_add_weight(vkf_net *net, uint32_t use, uint32_t columns, const vkf_model_source *sources,
                                size_t n_sources, uint32_t *out, const char *fmt, ...) {
  vkf_status st = grow(net);
  if (st != VKF_OK) return st;
  char name[128];
  va_list args;
  va_start(args, fmt);
  vsnprintf(name, sizeof name, fmt, args);
  va_end(args);
  vkf_model_weight weight = {.n_parts = (uint32_t)n_sources};
  vkf_weight_info info = {.rank = columns > 0 ? 2 : 1, .shape = {0, columns > 0 ? columns : 1}, .use = use};
  for (size_t i = 0; i < n_sources; i++) {
    st = claim(net, &sources[i], columns, &weight.parts[i]);
    if (st != VKF_OK) return st;
    info.shape[0] += sources[i].n_rows;
  }
  info.name = vkf_arena_strdup(&net->arena, name);
  if (info.name == NULL) return VKF_ERROR_MEMORY;
  *out = net->n_weights++;
  net->infos[*out] = info;
  net->weights[*out] = weight;
  return VKF_OK;
}

vkf_status vkf_model_add_matrix(vkf_net *net, uint32_t use, const char *tensor, uint32_t rows, uint32_t columns,
                                const char *name, uint32_t *out) {
  vkf_model_source source = {.tensor = tensor, .rows = rows, .n_rows = rows};
  return vkf_model_add_weight(net, use, columns, &source, 1, out, "%s", name);
}

vkf_status vkf_model_list_unused(vkf_net *net) {
  size_t n = vkf_file_tensors_count(net->tensors);
  const char **unused = vkf_arena_alloc(&net->arena, n, sizeof *unused);
  if (unused == NULL) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < n; i++)
    if (!net->used[i]) unused[net->info.n_unused++] = vkf_file_tensors_at(net->tensors, i)->name;
  net->info.unused = unused;
  return VKF_OK;
}

vkf_status vkf_model_load_weight(void *user, uint32_t index, float *dst) {
  const vkf_net *net = user;
  const vkf_model_weight *weight = &net->weights[index];
  uint32_t columns = net->infos[index].rank == 2 ? net->infos[index].shape[1] : 1;
  for (uint32_t i = 0; i < weight->n_parts; i++) {
    const vkf_model_part *part = &weight->parts[i];
    vkf_file_tensor rows = *part->tensor;
    size_t element = vkf_dtype_bytes(rows.dtype);
    rows.data = (const char *)rows.data + part->first_row * columns * element;
    rows.n_elements = part->n_rows * columns;
    rows.bytes = rows.n_elements * element;
    vkf_status st = vkf_file_tensor_to_f32(net->env, &rows, dst);
    if (st != VKF_OK) return st;
    dst += rows.n_elements;
  }
  return VKF_OK;
}
