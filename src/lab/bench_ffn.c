/* bench_ffn: the problem of the two matmuls of a feed-forward layer: out = gelu(x w1^T + b1) w2^T + b2. */
#include <math.h>
#include <string.h>

#include "lab/bench.h"
#include "op/transformer.h"
#include "tune/problem.h"

typedef struct ffn {
  vkf_build b;
  vkf_weight_info infos[4];
  uint32_t n_infos;
} ffn;

/* Writes numbers first, first + 1, ... of the stream. */
static void fill(float *dst, size_t first, size_t n, uint64_t stream, double scale) {
  for (size_t i = 0; i < n; i++) dst[i] = (float)(vkf_rng_normal(1, stream, first + i) * scale);
}

/* Makes weights whose standard deviation preserves the scale of activations, and biases of deviation 1. */
static void load(void *user, uint32_t index, uint32_t first, uint32_t n, float *dst) {
  const vkf_weight_info *info = &((const ffn *)user)->infos[index];
  const size_t columns = info->rank == 2 ? info->shape[1] : 1;
  fill(dst, first * columns, n * columns, 2 + index, info->rank == 2 ? 1 / sqrt((double)columns) : 1);
}

/* columns 0: a vector. */
static vkf_build_operand weight(ffn *f, const char *name, uint32_t rows, uint32_t columns) {
  const uint32_t rank = columns ? 2 : 1, use = columns ? VKF_WEIGHT_MATMUL : VKF_WEIGHT_VECTOR;
  const vkf_slot slot = {.name = name,
                         .kind = VKF_SLOT_WEIGHT,
                         .rank = rank,
                         .extent = {{VKF_DIM_ONE, rows}, {VKF_DIM_ONE, columns}},
                         .index = f->n_infos};
  f->infos[f->n_infos++] = (vkf_weight_info){.name = name, .rank = rank, .shape = {rows, columns}, .use = use};
  return vkf_build_slot_operand(vkf_build_slot(&f->b, &slot));
}

static vkf_status build(vkf_env *env, uint32_t M, uint32_t D, uint32_t F, vkf_case_run *run) {
  static const vkf_block_form form = {.activation = VKF_ACT_GELU};
  static const vkf_block_norm no_norm = {.width = 0};
  ffn *f = vkf_arena_alloc(&run->arena, 1, sizeof *f);
  float *data = vkf_arena_alloc(&run->arena, (size_t)M * D, sizeof *data);
  if (!f || !data) return VKF_ERROR_MEMORY;
  *f = (ffn){.b = {.env = env, .arena = &run->arena}};
  f->b.plan.capacity = (vkf_sizes){.B = 1, .S = 1, .R = M, .T = 1, .out = 1};
  fill(data, 0, (size_t)M * D, 1, 1);
  const vkf_slot x_slot = {
      .name = "x", .kind = VKF_SLOT_CONSTANT, .rank = 2, .extent = {{VKF_DIM_R, M}, {VKF_DIM_ONE, D}}, .data = data};
  const uint32_t x = vkf_build_slot(&f->b, &x_slot);
  const vkf_build_operand w1 = weight(f, "w1", F, D), b1 = weight(f, "b1", F, 0);
  const vkf_build_operand w2 = weight(f, "w2", D, F), b2 = weight(f, "b2", D, 0);
  const vkf_linear in = {w1, b1, F, D}, out = {w2, b2, D, F};
  vkf_build_block(&f->b, "ffn");
  const uint32_t y = vkf_block_feed_forward(&f->b, &form, VKF_DIM_R, &in, &out, &no_norm, x, VKF_NO_SLOT);
  vkf_build_output(&f->b, y, "out");
  VKF_CALL(f->b.st);
  run->plan = f->b.plan;
  run->dims = vkf_dims_make(&run->plan.capacity);
  run->weights = (vkf_weight_source){.user = f, .n_weights = f->n_infos, .infos = f->infos, .load = load};
  return vkf_plan_check(env, &run->plan);
}

vkf_status vkf_lab_bench_ffn(vkf_env *env, const char *problem, vkf_case_run *out, bool *is_ffn) {
  uint32_t n[VKF_PROBLEM_NUMBERS];
  *out = (vkf_case_run){0};
  *is_ffn = problem && !strncmp(problem, "ffn:", 4);
  if (!*is_ffn) return VKF_OK;
  vkf_arena_init(&out->arena, env);
  if (vkf_tune_problem_numbers(problem + 4, n, NULL) != 3)
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                        "expected a problem of the form ffn:M,D,F, with numbers from 1 to 16777216, found %s", problem);
  return build(env, n[0], n[1], n[2], out);
}
