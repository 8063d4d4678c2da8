/* op_build: checks inputs and makes slots and nodes for the small plans of vkf_device_run_op(). */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lab/op.h"

void vkf_lab_op_fail(vkf_op_build *o, const char *fmt, ...) {
  char text[512];
  va_list args;
  if (o->b.st) return;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  o->b.st = vkf_env_fail(o->env, VKF_ERROR_ARGUMENT, "%s", text);
}

void *vkf_lab_op_alloc(vkf_op_build *o, size_t n, size_t size) {
  void *memory = o->b.st ? NULL : vkf_arena_alloc(&o->arena, n, size);
  if (!memory && !o->b.st) o->b.st = VKF_ERROR_MEMORY; /* recorded by the arena */
  return memory;
}

const char *vkf_lab_op_name(vkf_op_build *o, const char *prefix, const char *name) {
  size_t n = strlen(prefix) + strlen(name) + 1;
  char *text = vkf_lab_op_alloc(o, n, 1);
  if (!text) return "";
  snprintf(text, n, "%s%s", prefix, name);
  return text;
}

/* Keeps the names of nodes, which traces show, as they are. */
static const char *same_name(void *user, const char *name) {
  return vkf_arena_strdup(&((vkf_op_build *)user)->arena, name);
}

vkf_status vkf_lab_op_plan(vkf_op_build *o, const char *op, void (*build)(vkf_op_build *)) {
  o->b = (vkf_build){.env = o->env, .arena = &o->arena, .label = same_name, .user = o};
  vkf_build_block(&o->b, op);
  build(o);
  return o->b.st;
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

static const vkf_array *find(vkf_op_build *o, const char *name, vkf_dtype dtype, size_t least, size_t most,
                             bool optional) {
  if (o->b.st) return NULL;
  const vkf_array *a = vkf_engine_array_find(o->inputs, o->n_inputs, name);
  if (!a) {
    if (!optional) vkf_lab_op_fail(o, "expected an input called %s, found none", name);
    return NULL;
  }
  if (a->dtype != dtype || a->rank < least || a->rank > most || !a->data)
    vkf_lab_op_fail(o, "%s: expected %s of %zu dimensions, found %s of %zu", name, vkf_name_of_dtype(dtype), most,
                    vkf_name_of_dtype(a->dtype), a->rank);
  double elements = 1;
  for (size_t i = 0; !o->b.st && i < a->rank; i++) {
    elements *= (double)a->shape[i];
    if (!a->shape[i] || elements > UINT32_MAX / 4)
      vkf_lab_op_fail(o, "%s: extent %zu is %zu, expected at least 1 and no more than 2^30 elements", name, i,
                      a->shape[i]);
  }
  return o->b.st ? NULL : a;
}

const vkf_array *vkf_lab_op_input(vkf_op_build *o, const char *name, vkf_dtype dtype, size_t rank, bool optional) {
  return find(o, name, dtype, rank, rank, optional);
}

const vkf_array *vkf_lab_op_batch(vkf_op_build *o, const char *name, bool optional, size_t shape[3]) {
  const vkf_array *a = find(o, name, VKF_F32, 2, 3, optional);
  memset(shape, 0, 3 * sizeof *shape);
  if (!a) return NULL;
  shape[0] = a->rank == 3 ? a->shape[0] : 1;
  shape[1] = a->shape[a->rank - 2];
  shape[2] = a->shape[a->rank - 1];
  return a;
}

void vkf_lab_op_expect(vkf_op_build *o, const vkf_array *a, size_t rank, const size_t *shape) {
  for (size_t i = 0; a && i < rank; i++)
    if (a->shape[i] != shape[i])
      vkf_lab_op_fail(o, "%s: extent %zu is %zu, expected %zu", a->name, i, a->shape[i], shape[i]);
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

double vkf_lab_op_number(vkf_op_build *o, const char *key, double fallback) {
  double value = fallback;
  if (!o->b.st) o->b.st = vkf_file_json_find_double(o->params, key, fallback, &value);
  if (!isfinite((float)value)) vkf_lab_op_fail(o, "%s: expected a number of float32, found %g", key, value);
  return value;
}

uint32_t vkf_lab_op_count(vkf_op_build *o, const char *key, uint32_t fallback) {
  int64_t value = fallback;
  if (!o->b.st) o->b.st = vkf_file_json_find_int64(o->params, key, fallback, &value);
  if (value < 1 || value > 1 << 24)
    vkf_lab_op_fail(o, "%s: expected a whole number from 1 to 2^24, found %lld", key, (long long)value);
  return o->b.st ? 1 : (uint32_t)value;
}

bool vkf_lab_op_flag(vkf_op_build *o, const char *key) {
  bool value = false;
  if (!o->b.st) o->b.st = vkf_file_json_find_bool(o->params, key, false, &value);
  return value;
}

uint32_t vkf_lab_op_word(vkf_op_build *o, const char *key, const char *const *words, uint32_t n, uint32_t fallback) {
  const char *word = words[fallback];
  char all[256] = "";
  if (!o->b.st) o->b.st = vkf_file_json_find_string(o->params, key, word, &word);
  for (uint32_t i = 0; !o->b.st && i < n; i++) {
    if (!strcmp(word, words[i])) return i;
    snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? i + 1 < n ? ", " : " or " : "", words[i]);
  }
  vkf_lab_op_fail(o, "%s: expected %s, found \"%s\"", key, all, word);
  return fallback;
}

vkf_activation vkf_lab_op_activation(vkf_op_build *o, const char *fallback) {
  const char *words[VKF_ACT_COUNT];
  uint32_t which = 0;
  for (uint32_t i = 0; i < VKF_ACT_COUNT; i++) {
    words[i] = vkf_activation_name(i);
    if (!strcmp(words[i], fallback)) which = i;
  }
  return vkf_lab_op_word(o, "activation", words, VKF_ACT_COUNT, which);
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

static uint32_t add_slot(vkf_op_build *o, const char *name, vkf_slot_kind kind, vkf_dtype dtype, uint32_t rank,
                         const vkf_extent *extent) {
  vkf_slot s = {.name = name, .kind = kind, .dtype = dtype, .rank = rank};
  memcpy(s.extent, extent, rank * sizeof *extent);
  return vkf_build_slot(&o->b, &s);
}

uint32_t vkf_lab_op_constant(vkf_op_build *o, const char *name, vkf_dtype dtype, uint32_t rank,
                             const vkf_extent *extent, const void *data) {
  if (o->b.st || !data) return VKF_NO_SLOT;
  uint32_t slot = add_slot(o, name, VKF_SLOT_CONSTANT, dtype, rank, extent);
  if (!o->b.st) o->b.slots[slot].data = data;
  return slot;
}

uint32_t vkf_lab_op_rows(vkf_op_build *o, const char *name, bool optional, vkf_dim dim, size_t rows, size_t width) {
  size_t shape[3];
  const vkf_array *a = vkf_lab_op_batch(o, name, optional, shape);
  if (a && (shape[0] * shape[1] != rows || shape[2] != width))
    vkf_lab_op_fail(o, "%s: expected %zu rows of %zu, found %zu of %zu", name, rows, width, shape[0] * shape[1],
                    shape[2]);
  return vkf_lab_op_constant(o, name, VKF_F32, 2, (vkf_extent[]){{dim, (uint32_t)rows}, vkf_lab_op_fixed(width)},
                             a ? a->data : NULL);
}

uint32_t vkf_lab_op_vectors(vkf_op_build *o, const char *const *names, const size_t *n, size_t n_parts) {
  const vkf_array *a[VKF_OP_MAX_PARTS] = {NULL};
  size_t total = 0;
  bool any = false;
  for (size_t i = 0; i < n_parts; i++) {
    a[i] = vkf_lab_op_input(o, names[i], VKF_F32, 1, true);
    vkf_lab_op_expect(o, a[i], 1, &n[i]);
    any |= a[i] != NULL;
    total += n[i];
  }
  float *data = any ? vkf_lab_op_alloc(o, total, sizeof *data) : NULL; /* zeroed */
  for (size_t i = 0, at = 0; data && i < n_parts; at += n[i++])
    if (a[i]) memcpy(data + at, a[i]->data, n[i] * sizeof *data);
  return vkf_lab_op_constant(o, names[0], VKF_F32, 1, (vkf_extent[]){vkf_lab_op_fixed(total)}, data);
}

uint32_t vkf_lab_op_vector(vkf_op_build *o, const char *name, size_t n) {
  return vkf_lab_op_vectors(o, &name, &n, 1);
}

size_t vkf_lab_op_weight_rows(vkf_op_build *o, const char *name, size_t width) {
  const vkf_array *w = vkf_lab_op_input(o, name, VKF_F32, 2, false);
  if (w) vkf_lab_op_expect(o, w, 2, (size_t[]){w->shape[0], width});
  return o->b.st ? 0 : w->shape[0];
}

uint32_t vkf_lab_op_weight_slot(vkf_op_build *o, const char *name, size_t rows, size_t width, uint32_t use) {
  if (o->b.st) return VKF_NO_SLOT;
  uint32_t slot =
      add_slot(o, name, VKF_SLOT_WEIGHT, VKF_F32, 2, (vkf_extent[]){vkf_lab_op_fixed(rows), vkf_lab_op_fixed(width)});
  if (o->b.st) return VKF_NO_SLOT;
  o->weights[o->n_weights] =
      (vkf_weight_info){.name = name, .rank = 2, .shape = {(uint32_t)rows, (uint32_t)width}, .use = use};
  o->b.slots[slot].index = o->n_weights++;
  return slot;
}

uint32_t vkf_lab_op_weight(vkf_op_build *o, const char *const *names, const size_t *n, size_t n_parts, size_t width,
                           uint32_t use) {
  uint32_t index = o->n_weights;
  size_t total = 0;
  for (size_t i = 0; i < n_parts; i++) {
    const vkf_array *w = vkf_lab_op_input(o, names[i], VKF_F32, 2, false);
    vkf_lab_op_expect(o, w, 2, (size_t[]){n[i], width});
    o->parts[index].part[i] = w ? w->data : NULL;
    o->parts[index].n_elements[i] = n[i] * width;
    total += n[i];
  }
  return vkf_lab_op_weight_slot(o, names[0], total, width, use);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

uint32_t vkf_lab_op_node(vkf_op_build *o, vkf_op op, const char *name, const char *second, const vkf_params *params,
                         const uint32_t *in, size_t n_in) {
  vkf_build_node_params node = {.op = op, .name = name, .params = *params};
  for (size_t i = 0; i < n_in; i++) node.in[i] = vkf_build_slot_operand(in[i]);
  const uint32_t slot = vkf_build_node(&o->b, &node);
  if (o->b.st) return VKF_NO_SLOT;
  o->b.slots[slot].name = name;
  if (second) o->b.slots[slot + 1].name = second;
  return slot;
}

void vkf_lab_op_norm_kind(vkf_op_build *o, vkf_norm_kind *kind, float *eps) {
  const double value = vkf_lab_op_number(o, "eps", 1e-5);
  if (value < 0) vkf_lab_op_fail(o, "eps: expected a number of at least 0, found %g", value);
  *kind = vkf_lab_op_flag(o, "rms") ? VKF_NORM_RMS : VKF_NORM_LAYER;
  *eps = (float)value;
}

uint32_t vkf_lab_op_norm_node(vkf_op_build *o, const char *name, vkf_dim rows, size_t width, const uint32_t *in,
                              size_t n_in) {
  vkf_params p = {.norm = {.rows = rows, .width = (uint32_t)width}};
  vkf_lab_op_norm_kind(o, &p.norm.kind, &p.norm.eps);
  return vkf_lab_op_node(o, VKF_OP_NORM, name, NULL, &p, in, n_in);
}

void vkf_lab_op_output(vkf_op_build *o, const char *name, uint32_t slot, size_t rank, const size_t *shape) {
  if (o->b.st) return;
  vkf_op_output *out = &o->outputs[o->n_outputs++];
  *out = (vkf_op_output){.name = name, .slot = slot, .rank = rank};
  memcpy(out->shape, shape, rank * sizeof *shape);
  o->b.slots[slot].output = name;
}

void vkf_lab_op_load(void *build, uint32_t index, uint32_t first, uint32_t n, float *dst) {
  const vkf_op_build *o = build;
  const vkf_op_weight *w = &o->parts[index];
  const size_t width = o->weights[index].rank == 2 ? o->weights[index].shape[1] : 1;
  const size_t begin = first * width, end = begin + n * width;
  for (size_t i = 0, at = 0; i < VKF_OP_MAX_PARTS && w->part[i]; at += w->n_elements[i++]) {
    const size_t from = VKF_MAX(begin, at), to = VKF_MIN(end, at + w->n_elements[i]);
    if (from < to) memcpy(dst + (from - begin), w->part[i] + (from - at), (to - from) * sizeof *dst);
  }
}
