/* weights: claims tensors by name, checks them and joins them into the weights that plans refer to. See internal.h.
 *
 * Invariant: a weight that was added can be loaded; `used` marks every tensor that was claimed or is known. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/internal.h"

/* Endings of the buffers that transformers writes, or once wrote, beside the parameters. */
static const char *const buffers[] = {
    ".attn.bias",          ".attn.masked_bias", ".attention.bias", ".attention.masked_bias", "embeddings.position_ids",
    ".rotary_emb.inv_freq"};

/* Finds a tensor by its name, or by what older versions of transformers called it. */
static const vkf_file_tensor *find_stored(const vkf_net *net, const char *name) {
  static const char *const endings[][2] = {{".weight", ".gamma"}, {".bias", ".beta"}};
  const vkf_file_tensor *found = vkf_file_tensors_find(net->tensors, name);
  for (size_t i = 0; i < VKF_COUNT(endings) && found == NULL; i++) {
    char old[256];
    if (!vkf_ends_with(name, endings[i][0])) continue;
    snprintf(old, sizeof old, "%.*s%s", (int)(strlen(name) - strlen(endings[i][0])), name, endings[i][1]);
    found = vkf_file_tensors_find(net->tensors, old);
  }
  return found;
}

const vkf_file_tensor *vkf_model_find_tensor(const vkf_net *net, const char *name) {
  if (net->tensors == NULL) return NULL;
  const vkf_file_tensor *found = find_stored(net, name);
  size_t base = net->base != NULL ? strlen(net->base) : 0;
  if (found == NULL && base > 0 && strncmp(name, net->base, base) == 0) found = find_stored(net, name + base);
  return found;
}

bool vkf_model_has_tensor(const vkf_net *net, const char *name, bool is_usual) {
  return net->tensors != NULL ? vkf_model_find_tensor(net, name) != NULL : is_usual;
}

const char *vkf_model_first_of(const vkf_net *net, const char *const *names, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (vkf_model_has_tensor(net, names[i], i == 0)) return names[i];
  return names[0];
}

/* Marks a tensor of the folder as used. Returns true the first time. */
static bool mark(vkf_net *net, const vkf_file_tensor *tensor) {
  bool *used = &net->used[tensor - vkf_file_tensors_at(net->tensors, 0)];
  const bool is_first = !*used;
  *used = true;
  return is_first;
}

void vkf_model_mark_known(vkf_net *net, const char *name) {
  const vkf_file_tensor *tensor = vkf_model_find_tensor(net, name);
  if (tensor != NULL) mark(net, tensor);
}

bool vkf_model_differ(const vkf_net *net, const char *one, const char *other) {
  const vkf_file_tensor *a = vkf_model_find_tensor(net, one), *b = vkf_model_find_tensor(net, other);
  if (a == NULL || b == NULL) return false;
  return a->dtype != b->dtype || a->bytes != b->bytes || memcmp(a->data, b->data, a->bytes) != 0;
}

vkf_status vkf_model_mark_same(vkf_net *net, const char *name, const char *first) {
  if (vkf_model_differ(net, name, first))
    return vkf_env_fail(net->env, VKF_ERROR_UNSUPPORTED,
                        "%s: expected the numbers of tensor \"%s\" in \"%s\", found others, which is not supported",
                        net->config_path, first, name);
  vkf_model_mark_known(net, name);
  return VKF_OK;
}

/* Adds a tensor of this name and shape to those that a folder that is still to be made needs. */
static vkf_status add_missing(vkf_net *net, const char *name, size_t rank, const size_t *shape,
                              const vkf_file_tensor **out) {
  for (uint32_t i = 0; i < net->n_wanted; i++) {
    *out = net->wanted[i];
    if (strcmp((*out)->name, name) != 0) continue;
    if ((*out)->rank == rank && memcmp((*out)->shape, shape, rank * sizeof *shape) == 0) return VKF_OK;
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT, "%s: tensor \"%s\" would need two shapes", net->config_path, name);
  }
  vkf_file_tensor **grown =
      vkf_env_grow(net->env, net->wanted, &net->wanted_capacity, net->n_wanted + 1, sizeof *grown);
  if (grown == NULL) return VKF_ERROR_MEMORY;
  net->wanted = grown;
  vkf_file_tensor *t = vkf_arena_alloc(&net->arena, 1, sizeof *t);
  if (t == NULL) return VKF_ERROR_MEMORY;
  *t = (vkf_file_tensor){.file = net->config_path, .dtype = VKF_F32, .rank = rank, .n_elements = 1};
  t->name = vkf_arena_strdup(&net->arena, name);
  if (t->name == NULL) return VKF_ERROR_MEMORY;
  memcpy(t->shape, shape, rank * sizeof *shape);
  for (size_t i = 0; i < rank; i++)
    if (!vkf_size_mul(t->n_elements, shape[i], &t->n_elements))
      return vkf_env_fail(net->env, VKF_ERROR_FORMAT, "%s: tensor \"%s\" would be too large", net->config_path, name);
  net->info.n_parameters += t->n_elements;
  net->wanted[net->n_wanted++] = t;
  *out = t;
  return VKF_OK;
}

vkf_status vkf_model_claim_unread(vkf_net *net, const char *name, uint32_t rows, uint32_t columns) {
  const vkf_file_tensor *unread = NULL;
  const size_t shape[] = {rows, columns};
  vkf_model_mark_known(net, name);
  return net->tensors != NULL ? VKF_OK : add_missing(net, name, columns > 0 ? 2 : 1, shape, &unread);
}

static vkf_status claim(vkf_net *net, const vkf_model_source *source, uint32_t columns, vkf_model_part *out) {
  size_t shape[2] = {source->rows, columns}, rank = columns > 0 ? 2 : 1;
  if (source->is_transposed && columns > 0) {
    shape[0] = columns;
    shape[1] = source->rows;
  }
  const vkf_file_tensor *found = vkf_model_find_tensor(net, source->tensor);
  const char *name = found != NULL ? found->name : source->tensor;
  const size_t *stored = source->stored_rank > 0 ? source->stored : shape;
  if (source->stored_rank > 0) rank = source->stored_rank;
  VKF_CALL(net->tensors != NULL ? vkf_file_tensors_get_shaped(net->tensors, name, rank, stored, &out->tensor)
                                : add_missing(net, name, rank, stored, &out->tensor));
  vkf_dtype dtype = out->tensor->dtype;
  if (dtype != VKF_F32 && dtype != VKF_F16 && dtype != VKF_BF16 && dtype != VKF_F64)
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT, "%s: tensor \"%s\": expected dtype F32, F16, BF16 or F64, found %s",
                        out->tensor->file, source->tensor, vkf_name_of_dtype(dtype));
  out->first_row = source->first_row;
  out->n_rows = source->n_rows;
  out->group_rows = source->group_rows > 0 ? source->group_rows : source->n_rows;
  out->group_stride = source->group_stride;
  out->is_transposed = source->is_transposed && columns > 0;
  if (net->tensors != NULL && mark(net, out->tensor)) net->info.n_parameters += out->tensor->n_elements;
  return VKF_OK;
}

/* Makes room for one more weight. */
static vkf_status grow(vkf_net *net) {
  size_t capacity = net->weights_capacity; /* of both arrays */
  vkf_weight_info *infos = vkf_env_grow(net->env, net->infos, &capacity, net->n_weights + 1, sizeof *infos);
  if (infos == NULL) return VKF_ERROR_MEMORY;
  net->infos = infos;
  vkf_model_weight *weights =
      vkf_env_grow(net->env, net->weights, &net->weights_capacity, net->n_weights + 1, sizeof *weights);
  if (weights == NULL) return VKF_ERROR_MEMORY;
  net->weights = weights;
  return VKF_OK;
}

vkf_status vkf_model_add_weight(vkf_net *net, uint32_t use, uint32_t columns, const vkf_model_source *sources,
                                size_t n_sources, uint32_t *out, const char *fmt, ...) {
  VKF_CALL(grow(net));
  char name[128];
  va_list args;
  va_start(args, fmt);
  vsnprintf(name, sizeof name, fmt, args);
  va_end(args);
  vkf_model_weight weight = {.n_parts = (uint32_t)n_sources};
  vkf_weight_info info = {.rank = columns > 0 ? 2 : 1, .shape = {0, columns > 0 ? columns : 1}, .use = use};
  for (size_t i = 0; i < n_sources; i++) {
    VKF_CALL(claim(net, &sources[i], columns, &weight.parts[i]));
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

vkf_status vkf_model_add_linear(vkf_net *net, const char *stem, uint32_t rows, uint32_t columns, bool has_bias,
                                const char *name, vkf_model_linear *out) {
  char tensor[256];
  vkf_model_source source = {.tensor = tensor, .rows = rows, .n_rows = rows};
  *out = (vkf_model_linear){VKF_NO_WEIGHT, VKF_NO_WEIGHT};
  snprintf(tensor, sizeof tensor, "%sweight", stem);
  vkf_status st = vkf_model_add_weight(net, VKF_WEIGHT_MATMUL, columns, &source, 1, &out->weight, "%s.weight", name);
  snprintf(tensor, sizeof tensor, "%sbias", stem);
  if (st != VKF_OK || !vkf_model_has_tensor(net, tensor, has_bias)) return st;
  return vkf_model_add_weight(net, VKF_WEIGHT_VECTOR, 0, &source, 1, &out->bias, "%s.bias", name);
}

vkf_status vkf_model_add_norm(vkf_net *net, const char *stem, uint32_t width, const char *name, vkf_model_norm *out) {
  char tensor[256];
  vkf_model_source source = {.tensor = tensor, .rows = width, .n_rows = width};
  *out = (vkf_model_norm){VKF_NO_WEIGHT, VKF_NO_WEIGHT};
  snprintf(tensor, sizeof tensor, "%sweight", stem);
  VKF_CALL(vkf_model_add_weight(net, VKF_WEIGHT_VECTOR, 0, &source, 1, &out->weight, "%s.weight", name));
  snprintf(tensor, sizeof tensor, "%sbias", stem);
  return vkf_model_add_weight(net, VKF_WEIGHT_VECTOR, 0, &source, 1, &out->bias, "%s.bias", name);
}

/* Returns the format of the parts in the file, if all have the same; else f32. */
static vkf_format stored_format(const vkf_model_weight *weight) {
  vkf_dtype dtype = weight->parts[0].tensor->dtype;
  for (uint32_t i = 1; i < weight->n_parts; i++)
    if (weight->parts[i].tensor->dtype != dtype) return VKF_FORMAT_F32;
  return vkf_format_of(dtype);
}

vkf_format vkf_model_net_store(vkf_net *net, vkf_format weights, vkf_format caches) {
  vkf_format automatic = VKF_FORMAT_F16;
  for (uint32_t i = 0; i < net->n_weights; i++) {
    const bool is_table = i == net->encoder.table || i == net->decoder.table;
    if (!is_table && !(net->infos[i].use & VKF_WEIGHT_MATMUL)) continue;
    net->infos[i].format = weights == VKF_FORMAT_COUNT ? stored_format(&net->weights[i]) : weights;
    if (net->infos[i].format == VKF_FORMAT_F32) automatic = VKF_FORMAT_F32;
  }
  net->cache_format = caches == VKF_FORMAT_COUNT ? automatic : caches;
  return net->cache_format;
}

static bool is_buffer(const char *name) {
  for (size_t i = 0; i < VKF_COUNT(buffers); i++)
    if (vkf_ends_with(name, buffers[i])) return true;
  return false;
}

vkf_status vkf_model_list_unused(vkf_net *net) {
  size_t n = vkf_file_tensors_count(net->tensors);
  const char **unused = vkf_arena_alloc(&net->arena, n, sizeof *unused);
  if (unused == NULL) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    const char *name = vkf_file_tensors_at(net->tensors, i)->name;
    if (!net->used[i] && !is_buffer(name)) unused[net->info.n_unused++] = name;
  }
  net->info.unused = unused;
  return VKF_OK;
}

/* Loads columns of the tensor as rows. The dtype was checked when the tensor was claimed, here and below. */
static void load_transposed(const vkf_model_part *part, uint32_t columns, size_t first, size_t n, float *dst) {
  enum { CHUNK = 256 };
  const vkf_dtype dtype = part->tensor->dtype;
  const size_t all_rows = part->tensor->n_elements / columns;
  const char *data = part->tensor->data;
  float stored[CHUNK];
  for (size_t row = 0, many; row < n; row += many) {
    many = VKF_MIN(n - row, (size_t)CHUNK);
    for (uint32_t c = 0; c < columns; c++) {
      const size_t at = c * all_rows + part->first_row + first + row;
      vkf_file_numbers_to_f32(dtype, data + at * vkf_dtype_bytes(dtype), many, stored);
      for (size_t r = 0; r < many; r++) dst[(row + r) * columns + c] = stored[r];
    }
  }
}

/* Returns the rows of the part from `row` on, before `end` and in one group, which are side by side in the file. */
static vkf_file_tensor rows_from(const vkf_model_part *part, uint32_t columns, size_t row, size_t end) {
  const size_t element = vkf_dtype_bytes(part->tensor->dtype), within = row % part->group_rows;
  const size_t at = part->first_row + row / part->group_rows * part->group_stride + within;
  vkf_file_tensor rows = *part->tensor;
  rows.data = (const char *)rows.data + at * columns * element;
  rows.n_elements = VKF_MIN(part->group_rows - within, end - row) * columns;
  rows.bytes = rows.n_elements * element;
  return rows;
}

/* Loads rows [first, first + n) of the part. */
static void load_part(const vkf_model_part *part, uint32_t columns, size_t first, size_t n, void *dst) {
  if (part->is_transposed) {
    load_transposed(part, columns, first, n, dst);
    return;
  }
  float *at = dst;
  for (size_t row = first; row < first + n;) {
    const vkf_file_tensor rows = rows_from(part, columns, row, first + n);
    vkf_file_numbers_to_f32(rows.dtype, rows.data, rows.n_elements, at);
    row += rows.n_elements / columns;
    at += rows.n_elements;
  }
}

/* Copies the same rows as they are in the file. */
static void copy_part(const vkf_model_part *part, uint32_t columns, size_t first, size_t n, void *dst) {
  char *at = dst;
  for (size_t row = first; row < first + n;) {
    const vkf_file_tensor rows = rows_from(part, columns, row, first + n);
    memcpy(at, rows.data, rows.bytes);
    row += rows.n_elements / columns;
    at += rows.bytes;
  }
}

/* Calls `part` for rows [first, first + n) of the weight, part by part or in turns. dst has elements of `element`
 * bytes. */
static void each_part(const vkf_net *net, uint32_t index, uint32_t first, uint32_t n, size_t element, void *dst,
                      void (*part)(const vkf_model_part *, uint32_t, size_t, size_t, void *)) {
  const vkf_model_weight *weight = &net->weights[index];
  const uint32_t columns = net->infos[index].rank == 2 ? net->infos[index].shape[1] : 1;
  size_t before = 0; /* rows of earlier parts */
  char *at = dst;
  if (weight->takes_turns) {
    for (uint32_t row = first; row < first + n; row++, at += columns * element)
      part(&weight->parts[row % weight->n_parts], columns, row / weight->n_parts, 1, at);
    return;
  }
  for (uint32_t i = 0; i < weight->n_parts; before += weight->parts[i++].n_rows) {
    const size_t begin = VKF_MAX((size_t)first, before),
                 end = VKF_MIN((size_t)first + n, before + weight->parts[i].n_rows);
    if (begin >= end) continue;
    part(&weight->parts[i], columns, begin - before, end - begin, at);
    at += (end - begin) * columns * element;
  }
}

void vkf_model_load_weight(void *net, uint32_t index, uint32_t first, uint32_t n, float *dst) {
  const float plus = ((const vkf_net *)net)->weights[index].plus;
  each_part(net, index, first, n, sizeof *dst, dst, load_part);
  for (uint32_t i = 0; plus != 0 && i < n; i++) dst[i] += plus;
}

bool vkf_model_copy_weight(void *user, uint32_t index, uint32_t first, uint32_t n, void *dst) {
  const vkf_net *net = user;
  const vkf_model_weight *weight = &net->weights[index];
  const vkf_format format = net->infos[index].format;
  if (format == VKF_FORMAT_F32 || stored_format(weight) != format) return false; /* F64 counts as F32, too */
  for (uint32_t i = 0; i < weight->n_parts; i++)
    if (weight->parts[i].is_transposed) return false;
  each_part(net, index, first, n, vkf_format_get(format)->bits / 8, dst, copy_part);
  return true;
}
