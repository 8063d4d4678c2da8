/* coopmat, coopmat-split, coopmat-halves: tiles in shared memory, multiplied as cooperative matrices of f16
 * (shaders/matmul_coopmat.comp). coopmat-split splits K for grids that would leave cores idle; a second dispatch adds
 * up the parts. coopmat-halves reads x in f16, which a dispatch before it writes (shaders/round_halves.comp): half the
 * bytes of x, and no rounding in the tiles. They compete by their effort. coopmat2 is below. */
#include <math.h>

#include "kern/gemm.h"

/* How many multiply-adds of matrices take as long as one of single numbers. */
#define MATRIX_FACTOR 32.0
/* The least work of a core for one k, in the same unit: it waits for the loads of a slice about as long as a tile of
 * 128 x 128 takes for 32 k (an H100: 1.0 us for one tile, 0.9 for two of 64 x 64, 1.3 for four; an H200: 0.9 us for 64
 * k of two of 64 x 64 with x rounded before). */
#define LEAST 1.2e5
#define LEAST_K 32
/* The model overestimates coopmat-halves: on an H200, compared with coopmat2, it took this part of the estimate. */
#define HALVES 0.84

static const char *fit(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why, size_t size) {
  if (vkf_kern_gemm_fit(v, p, caps, why, size)) return why;
  if (!(v->formats >> p->packing.format & 1))
    VKF_KERN_REFUSE("reads weights that f16 can hold, these are %s", vkf_format_get(p->packing.format)->name);
  if (p->wide) VKF_KERN_REFUSE("rounds to f16, and some numbers are beyond 65504");
  return NULL;
}

static uint32_t workgroup(const vkf_variant *v) {
  return vkf_kern_gemm_workgroup(v) * v->subgroup;
}

/* The factors are f16; sums have at least float32's precision but may be truncated. */
static void rounding(const vkf_variant *v, const vkf_problem *p, vkf_rounding *out) {
  (void)p;
  out->x_f16 = true;
  out->at_once = v->matrix.k;
  out->u = 0x1p-23;
}

static void split_rounding(const vkf_variant *v, const vkf_problem *p, vkf_rounding *out) {
  rounding(v, p, out);
  vkf_kern_gemm_split_rounding(v, p, out);
}

/* Two slices in f16, with padded rows; later the same bytes hold a piece of the result for each subgroup. */
static uint32_t shared_bytes(const vkf_variant *v) {
  const uint32_t slices = 2 * (v->tile.gemm.bm + v->tile.gemm.bn) * (v->tile.gemm.bk + 8) * 2;
  return VKF_MAX(slices, vkf_kern_workgroup(v) / v->subgroup * v->matrix.m * v->matrix.n * 4);
}

/* An invocation's share of the sums, of a step's matrices, and of the next slice with its addresses. The next step's
 * matrices replace those already used, so compilers take few more registers for them. */
static uint32_t registers(const vkf_variant *v, const vkf_problem *p) {
  const uint32_t eights = v->tile.gemm.bk / 8, x = VKF_CEIL_DIV(v->tile.gemm.bm * eights, workgroup(v)),
                 w = VKF_CEIL_DIV(v->tile.gemm.bn * eights, workgroup(v));
  (void)p;
  return (v->tile.gemm.tm * v->tile.gemm.tn + (v->tile.gemm.tm + v->tile.gemm.tn) * v->matrix.k / 2) / v->subgroup +
         (v->family->round_x ? 5 : 9) * x + 5 * w;
}

/* The dispatch that rounds x reads it once and writes half as many bytes. */
static double rounding_effort(const vkf_problem *p, const vkf_caps *caps) {
  const double each = (double)p->matmul.m * p->matmul.k / vkf_kern_cores(caps);
  return MATRIX_FACTOR * (VKF_GEMM_DISPATCH + 1.5 * VKF_GEMM_PASSED * each);
}

/* A rounded number of x is half as much to read. The gain from deeper slices and the present loop was measured on
 * NVIDIA's devices only, whose subgroups always have 32 lanes; compilers of others take more registers. */
static double effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  if (!v->family->round_x) return vkf_kern_gemm_gpu_effort(v, p, caps, MATRIX_FACTOR, LEAST, 1);
  const bool is_measured = caps->subgroup_min == 32 && caps->subgroup_max == 32;
  const double least = is_measured ? LEAST * LEAST_K / v->tile.gemm.bk : LEAST;
  return (is_measured ? HALVES : 1) * vkf_kern_gemm_gpu_effort(v, p, caps, MATRIX_FACTOR, least, 0.5) +
         rounding_effort(p, caps);
}

static uint64_t loop_turns(const vkf_variant *v, const vkf_problem *p) {
  const uint64_t pieces = (uint64_t)(v->tile.gemm.tm / v->matrix.m) * (v->tile.gemm.tn / v->matrix.n);
  return vkf_turns_by(vkf_kern_gemm_depth(p), v->tile.gemm.bk) +
         pieces * vkf_turns_by(v->matrix.m * v->matrix.n / 4, v->subgroup);
}

/* Fields that all three have. */
#define COOPMAT                                                                                             \
  .device = VKF_FOR_GPU, .place = 3,                                                                        \
  .reason = "a GPU with cooperative matrices, K split or x rounded before where that pays", .fit = fit,     \
  .workgroup = workgroup, .shared_bytes = shared_bytes, .registers = registers, .grid = vkf_kern_gemm_grid, \
  .loop_turns = loop_turns, .effort = effort, .tile = VKF_TILE_MATRIX, .max_tile = 128

const vkf_family vkf_family_coopmat = {.name = "coopmat", COOPMAT, .rounding = rounding};

const vkf_family vkf_family_coopmat_split = {.name = "coopmat-split",
                                             COOPMAT,
                                             .split = vkf_kern_gemm_split,
                                             .scratch_bytes = vkf_kern_gemm_scratch_bytes,
                                             .combine_turns = vkf_kern_gemm_combine_turns,
                                             .rounding = split_rounding};

const vkf_family vkf_family_coopmat_halves = {.name = "coopmat-halves",
                                              COOPMAT,
                                              .round_x = "round_halves",
                                              .rounded_block_bytes = 2 * VKF_Q8_BLOCK,
                                              .rounding = rounding};

static const char *fit_tensor(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why,
                              size_t size) {
  if (p->matmul.is_gated) VKF_KERN_REFUSE("has one column at a time where results leave, and gates need two");
  return fit(v, p, caps, why, size);
}

/* coopmat2: the driver loads the matrices of whole workgroups and decides what is in shared memory and registers
 * (shaders/matmul_coopmat2.comp). */
static uint32_t registers_of_sums(const vkf_variant *v, const vkf_problem *p) {
  (void)p;
  return v->tile.gemm.tm * v->tile.gemm.tn / v->subgroup;
}

static uint64_t turns_of_slices(const vkf_variant *v, const vkf_problem *p) {
  return vkf_turns_by(vkf_kern_gemm_depth(p), v->tile.gemm.bk);
}

/* The costs of a product and of a loaded number, in the unit of the other families, fitted to an H100: at all sizes
 * that were measured (docs/SPEED.md) a core takes 20 ns for one k of a tile of 128 x 128 and 15 ns of two of 64 x 64.
 * Its registers hold 256 invocations. A tile that crosses an edge takes twice as long, and the others wait for it. */
#define TENSOR_PRODUCT 2.3
#define TENSOR_LOAD 152.0
#define TENSOR_INVOCATIONS 256
static double tensor_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  vkf_problem own;
  const double groups = vkf_kern_workgroups(v, p, caps, &own), bm = v->tile.gemm.bm, bn = v->tile.gemm.bn;
  const double at_once = VKF_MAX(TENSOR_INVOCATIONS / workgroup(v), 1u),
               turns = ceil(groups / (at_once * vkf_kern_cores(caps)));
  const double edge = p->matmul.m % v->tile.gemm.bm || p->matmul.n % v->tile.gemm.bn ? 2 : 1;
  return edge * turns * at_once * (TENSOR_PRODUCT * bm * bn + TENSOR_LOAD * (bm + bn)) *
             (p->matmul.k + VKF_GEMM_START) +
         rounding_effort(p, caps);
}

const vkf_family vkf_family_coopmat2 = {.name = "coopmat2",
                                        .device = VKF_FOR_GPU,
                                        .place = 3,
                                        .reason = "a GPU whose driver loads the matrices of whole workgroups",
                                        .fit = fit_tensor,
                                        .workgroup = workgroup,
                                        .registers = registers_of_sums,
                                        .grid = vkf_kern_gemm_grid,
                                        .loop_turns = turns_of_slices,
                                        .effort = tensor_effort,
                                        .tile = VKF_TILE_MATRIX,
                                        .max_tile = 128,
                                        .round_x = "round_halves",
                                        .rounded_block_bytes = 2 * VKF_Q8_BLOCK,
                                        .rounding = rounding};
