/* op_rows: builds the plans of ops on rows: matmul, norm, log_softmax, top_k, gate, embed, positions, rope, patches. */
#include <math.h>
#include <string.h>

#include "lab/op.h"

/* Takes x [M,N] or [B,T,N] as R rows, which set the sizes of the plan. */
static uint32_t take_x(vkf_op_build *o, size_t *rows, size_t *width, const vkf_array **x) {
  size_t shape[3];
  *x = vkf_lab_op_batch(o, "x", false, shape);
  *rows = shape[0] * shape[1];
  *width = shape[2];
  o->b.plan.capacity = (vkf_sizes){.B = 1, .S = 1, .R = (uint32_t)*rows, .T = 1, .out = 1};
  return vkf_lab_op_rows(o, "x", false, VKF_DIM_R, *rows, *width);
}

/* Declares `slot` as an output in the shape of x, but with the last dimension `width`. */
static void give(vkf_op_build *o, const char *name, uint32_t slot, const vkf_array *x, size_t width) {
  size_t shape[3] = {0};
  if (o->b.st) return;
  memcpy(shape, x->shape, x->rank * sizeof *shape);
  shape[x->rank - 1] = width;
  vkf_lab_op_output(o, name, slot, x->rank, shape);
}

void vkf_lab_op_matmul(vkf_op_build *o) {
  const vkf_array *x;
  size_t rows, width;
  uint32_t in = take_x(o, &rows, &width, &x);
  size_t n = vkf_lab_op_weight_rows(o, "w", width);
  const char *const name = "w";
  uint32_t w = vkf_lab_op_weight(o, &name, &n, 1, width, VKF_WEIGHT_MATMUL);
  uint32_t bias = vkf_lab_op_vector(o, "bias", n);
  uint32_t residual = vkf_lab_op_rows(o, "residual", true, VKF_DIM_R, rows, n);
  float scale = (float)vkf_lab_op_number(o, "scale", 1);
  if (scale == 0) vkf_lab_op_fail(o, "scale: expected a number other than 0");
  const vkf_params p = {.matmul = {.rows = VKF_DIM_R,
                                   .n = (uint32_t)n,
                                   .k = (uint32_t)width,
                                   .activation = vkf_lab_op_activation(o, "none"),
                                   .scale = scale == 1 ? 0 : scale}};
  give(o, "out", vkf_lab_op_node(o, VKF_OP_MATMUL, "matmul", NULL, &p, VKF_OP_IN(in, w, bias, residual)), x, n);
}

void vkf_lab_op_norm(vkf_op_build *o) {
  const vkf_array *x;
  size_t rows, width;
  uint32_t in = take_x(o, &rows, &width, &x), residual = vkf_lab_op_rows(o, "residual", true, VKF_DIM_R, rows, width);
  uint32_t weight = vkf_lab_op_vector(o, "weight", width), bias = vkf_lab_op_vector(o, "bias", width);
  give(o, "out", vkf_lab_op_norm_node(o, "norm", VKF_DIM_R, width, VKF_OP_IN(in, residual, weight, bias)), x, width);
}

void vkf_lab_op_log_softmax(vkf_op_build *o) {
  const vkf_array *x;
  size_t rows, width;
  uint32_t in = take_x(o, &rows, &width, &x);
  const vkf_params p = {.log_softmax = {VKF_DIM_R, (uint32_t)width}};
  give(o, "out", vkf_lab_op_node(o, VKF_OP_LOG_SOFTMAX, "log_softmax", NULL, &p, VKF_OP_IN(in)), x, width);
}

void vkf_lab_op_top_k(vkf_op_build *o) {
  const vkf_array *x;
  size_t rows, width;
  uint32_t in = take_x(o, &rows, &width, &x), k = vkf_lab_op_count(o, "k", 1);
  const vkf_params p = {.top_k = {VKF_DIM_R, (uint32_t)width, k}};
  uint32_t values = vkf_lab_op_node(o, VKF_OP_TOP_K, "values", "top_k_ids", &p, VKF_OP_IN(in));
  give(o, "out", values, x, k);
  give(o, "ids", values + 1, x, k);
}

/* Computes act(first half of a row) times the second half. */
void vkf_lab_op_gate(vkf_op_build *o) {
  const vkf_array *x;
  size_t rows, width;
  uint32_t in = take_x(o, &rows, &width, &x);
  if (width % 2) vkf_lab_op_fail(o, "x: expected an even width, found %zu", width);
  const vkf_params p = {.gate = {.rows = VKF_DIM_R,
                                 .width = (uint32_t)(width / 2),
                                 .up_column = (uint32_t)(width / 2),
                                 .activation = vkf_lab_op_activation(o, "swish")}};
  give(o, "out", vkf_lab_op_node(o, VKF_OP_GATE, "gate", NULL, &p, VKF_OP_IN(in)), x, width / 2);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* Takes an int32 vector of R elements; *n is their number, 0 if it is not known yet. */
static uint32_t take_ids(vkf_op_build *o, const char *name, bool optional, size_t *n) {
  const vkf_array *ids = vkf_lab_op_input(o, name, VKF_I32, 1, optional);
  if (ids && *n) vkf_lab_op_expect(o, ids, 1, n);
  if (ids) *n = ids->shape[0];
  return vkf_lab_op_constant(o, name, VKF_I32, 1, (vkf_extent[]){{VKF_DIM_R, (uint32_t)*n}}, ids ? ids->data : NULL);
}

static bool in_table(vkf_op_build *o, const char *name, size_t n_rows) {
  const vkf_array *ids = vkf_engine_array_find(o->inputs, o->n_inputs, name);
  for (size_t i = 0; !o->b.st && ids && i < ids->shape[0]; i++) {
    int32_t id = ((const int32_t *)ids->data)[i];
    if (id < 0 || (size_t)id >= n_rows) vkf_lab_op_fail(o, "%s[%zu] is %d, expected 0 to %zu", name, i, id, n_rows - 1);
  }
  return !o->b.st;
}

static uint32_t take_table(vkf_op_build *o, const char *name, size_t *n, size_t *width) {
  const vkf_array *table = vkf_lab_op_input(o, name, VKF_F32, 2, *width > 0);
  if (!table) return VKF_NO_SLOT;
  if (!*width) *width = table->shape[1];
  *n = vkf_lab_op_weight_rows(o, name, *width);
  return vkf_lab_op_weight(o, &name, n, 1, *width, VKF_WEIGHT_TABLE);
}

void vkf_lab_op_embed(vkf_op_build *o) {
  size_t rows = 0, width = 0, n_ids = 0, n_positions = 0;
  uint32_t ids = take_ids(o, "ids", false, &rows);
  uint32_t positions = take_ids(o, "positions", true, &rows);
  o->b.plan.capacity = (vkf_sizes){.B = 1, .S = 1, .R = (uint32_t)rows, .T = 1, .out = 1};
  uint32_t table = take_table(o, "table", &n_ids, &width);
  uint32_t position_table = take_table(o, "position_table", &n_positions, &width);
  if ((positions == VKF_NO_SLOT) != (position_table == VKF_NO_SLOT))
    vkf_lab_op_fail(o, "expected positions and position_table, found only one of them");
  if (!in_table(o, "ids", n_ids) || !in_table(o, "positions", n_positions)) return;
  const vkf_params p = {.embed = {.rows = VKF_DIM_R,
                                  .width = (uint32_t)width,
                                  .n_ids = (uint32_t)n_ids,
                                  .n_positions = (uint32_t)n_positions,
                                  .scale = (float)vkf_lab_op_number(o, "scale", 1)}};
  uint32_t out = vkf_lab_op_node(o, VKF_OP_EMBED, "embed", NULL, &p, VKF_OP_IN(ids, table, positions, position_table));
  vkf_lab_op_output(o, "out", out, 2, (size_t[]){rows, width});
}

/* Returns the largest position + 1, at most 2^20. */
static size_t count_positions(vkf_op_build *o) {
  const vkf_array *positions = vkf_engine_array_find(o->inputs, o->n_inputs, "positions");
  size_t n = 0;
  if (o->b.st || !in_table(o, "positions", 1 << 20)) return 0;
  for (size_t i = 0; i < positions->shape[0]; i++) {
    size_t next = (size_t)((const int32_t *)positions->data)[i] + 1;
    n = VKF_MAX(n, next);
  }
  return n;
}

/* Replaces a table of sines and cosines by its errors: each is rounded once, and its angle in double has a relative
 * error of 2^-50. */
static void rounding_of_table(float *table, size_t n, size_t width) {
  for (size_t i = 0; table && i < n * width; i++)
    table[i] = (float)(0x1p-24 * (1 + 0x1p-10) * fabs((double)table[i]) + 0x1p-50 * (double)(i / width + 1));
}

/* Adds sinusoids: the host makes the table, as for models, and the device looks rows up. */
void vkf_lab_op_positional_encoding(vkf_op_build *o) {
  static const char *const layouts[] = {"interleaved", "halves"};
  size_t rows = 0, width = vkf_lab_op_count(o, "width", 4), n;
  uint32_t positions = take_ids(o, "positions", false, &rows);
  bool halves = vkf_lab_op_word(o, "layout", layouts, 2, 0) == 1;
  if (width > 1 << 14) vkf_lab_op_fail(o, "width: expected at most 16384, found %zu", width);
  o->b.plan.capacity = (vkf_sizes){.B = 1, .S = 1, .R = (uint32_t)rows, .T = 1, .out = 1};
  n = count_positions(o);
  float *data = vkf_lab_op_alloc(o, n * width, sizeof *data);
  if (!data) return;
  vkf_model_sinusoids(halves ? VKF_POSITION_HALVES : VKF_POSITION_INTERLEAVED, (uint32_t)n, (uint32_t)width, data);
  if (o->errors) rounding_of_table(data, n, width);
  uint32_t table = vkf_lab_op_weight_slot(o, "sinusoids", n, width, VKF_WEIGHT_TABLE);
  o->parts[o->b.slots[table].index] = (vkf_op_weight){{data}, {n * width}};
  const vkf_params p = {.embed = {.rows = VKF_DIM_R, .width = (uint32_t)width, .n_positions = (uint32_t)n, .scale = 1}};
  uint32_t out = vkf_lab_op_node(o, VKF_OP_EMBED, "positional_encoding", NULL, &p,
                                 VKF_OP_IN(VKF_NO_SLOT, VKF_NO_SLOT, positions, table));
  vkf_lab_op_output(o, "out", out, 2, (size_t[]){rows, width});
}

/* Takes the caller's table: cos and sin [n, rotary / 2], interleaved as one pair for each angle. */
static float *take_angles(vkf_op_build *o, const vkf_array *cosines, size_t *n, size_t *rotary) {
  const vkf_array *sines = vkf_lab_op_input(o, "sin", VKF_F32, 2, false);
  vkf_lab_op_expect(o, sines, 2, cosines->shape);
  if (vkf_lab_op_number(o, "base", 0) != 0) vkf_lab_op_fail(o, "base: expected none beside a table of cos and sin");
  if (2 * cosines->shape[1] > *rotary)
    vkf_lab_op_fail(o, "cos: expected at most %zu columns, half of a head, found %zu", *rotary / 2, cosines->shape[1]);
  *n = cosines->shape[0];
  *rotary = 2 * cosines->shape[1];
  if (!in_table(o, "positions", *n)) return NULL;
  float *data = vkf_lab_op_alloc(o, *n * *rotary, sizeof *data);
  for (size_t i = 0; data && i < *n * *rotary / 2; i++) {
    data[2 * i] = ((const float *)cosines->data)[i];
    data[2 * i + 1] = ((const float *)sines->data)[i];
  }
  return data;
}

/* Makes the table for angles position * base^(-2i / rotary). */
static float *make_angles(vkf_op_build *o, size_t *n, size_t rotary) {
  const double base = vkf_lab_op_number(o, "base", 10000);
  if (!(base > 0)) vkf_lab_op_fail(o, "base: expected a number over 0, found %g", base);
  *n = count_positions(o);
  float *data = vkf_lab_op_alloc(o, *n * rotary, sizeof *data);
  for (size_t p = 0; data && p < *n; p++)
    for (size_t i = 0; i < rotary / 2; i++) {
      const double angle = (double)p * pow(base, -2.0 * (double)i / (double)rotary);
      data[p * rotary + 2 * i] = (float)cos(angle);
      data[p * rotary + 2 * i + 1] = (float)sin(angle);
    }
  if (o->errors) rounding_of_table(data, *n, rotary);
  return data;
}

/* Adds rotary positions to x [T, heads * K]. */
void vkf_lab_op_rope(vkf_op_build *o) {
  static const char *const pairs[] = {"halves", "interleaved"};
  const vkf_array *x;
  size_t rows, width, n = 0;
  uint32_t in = take_x(o, &rows, &width, &x), heads = vkf_lab_op_count(o, "heads", 1);
  uint32_t positions = take_ids(o, "positions", false, &rows);
  const bool has_sines = vkf_engine_array_find(o->inputs, o->n_inputs, "sin") != NULL;
  const vkf_array *cosines = vkf_lab_op_input(o, "cos", VKF_F32, 2, !has_sines);
  uint32_t layout = vkf_lab_op_word(o, "pairs", pairs, 2, 0);
  const size_t K = width / heads;
  size_t rotary = K;
  if (width % (2 * (size_t)heads))
    vkf_lab_op_fail(o, "x: expected %u heads of an even width, found a width of %zu", heads, width);
  float *data = cosines ? take_angles(o, cosines, &n, &rotary) : make_angles(o, &n, rotary);
  uint32_t table =
      vkf_lab_op_constant(o, "angles", VKF_F32, 2, (vkf_extent[]){vkf_lab_op_fixed(n), vkf_lab_op_fixed(rotary)}, data);
  const vkf_params p = {.rope = {.rows = VKF_DIM_R,
                                 .width = (uint32_t)width,
                                 .n_heads = heads,
                                 .head_width = (uint32_t)K,
                                 .rotary = (uint32_t)rotary,
                                 .n_positions = (uint32_t)n,
                                 .pairs = layout ? VKF_ROPE_INTERLEAVED : VKF_ROPE_HALVES}};
  give(o, "out", vkf_lab_op_node(o, VKF_OP_ROPE, "rope", NULL, &p, VKF_OP_IN(in, positions, table)), x, width);
}

/* Cuts x [B,C,H,W] into rows of patches [B, n, C*P*P]. */
void vkf_lab_op_patches(vkf_op_build *o) {
  const vkf_array *x = vkf_lab_op_input(o, "x", VKF_F32, 4, false);
  uint32_t P = vkf_lab_op_count(o, "patch", 16);
  if (!x) return;
  size_t B = x->shape[0], n = (x->shape[2] / P) * (x->shape[3] / P), pixels = x->shape[1] * x->shape[2] * x->shape[3];
  if (!n) vkf_lab_op_fail(o, "patch: %u is wider than the image", P);
  o->b.plan.capacity = (vkf_sizes){.B = (uint32_t)B, .S = (uint32_t)n, .R = 1, .T = 1, .out = 1};
  uint32_t in = vkf_lab_op_constant(o, "x", VKF_F32, 2,
                                    (vkf_extent[]){{VKF_DIM_B, (uint32_t)B}, vkf_lab_op_fixed(pixels)}, x->data);
  const vkf_params p = {.patches = {.channels = (uint32_t)x->shape[1],
                                    .height = (uint32_t)x->shape[2],
                                    .width = (uint32_t)x->shape[3],
                                    .patch_height = P,
                                    .patch_width = P}};
  uint32_t out = vkf_lab_op_node(o, VKF_OP_PATCHES, "patches", NULL, &p, VKF_OP_IN(in));
  vkf_lab_op_output(o, "out", out, 3, (size_t[]){B, n, x->shape[1] * P * P});
}
