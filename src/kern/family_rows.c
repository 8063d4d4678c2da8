/* Families of ops that reduce rows: norms, log-softmax, top-k. A workgroup or a subgroup has a row, or a part of
 * one. */
#include "kern/family.h"

/* The most turns in which a row's partial sums are added up. */
#define TREE_TURNS 8
#define NO_SHARED "a software driver: a row a subgroup, no shared memory"
#define SPLIT_ROWS "a GPU: few long rows, each among several workgroups"

/* Refuses rows that texel buffers, with four columns per texel, cannot hold. */
static const char *fit_texels(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why,
                              size_t size) {
  const uint32_t width = p->rows.width, whole = p->op == VKF_OP_NORM ? p->norm.whole_width : width;
  const uint64_t texels = (uint64_t)p->rows.rows * VKF_MAX(width, whole) / 4 + 64;
  if (v->access != VKF_ACCESS_TEXEL) return NULL;
  if (width % 4 || whole % 4) VKF_KERN_REFUSE("widths are multiples of 4, here %u is not", width % 4 ? width : whole);
  if (texels > caps->max_texel_elements)
    VKF_KERN_REFUSE("takes a texel buffer of %llu elements, the device allows %u", (unsigned long long)texels,
                    caps->max_texel_elements);
  return NULL;
}

/* ---- norm -------------------------------------------------------------------------------------------------------- */

/* Returns the most columns outside of a group: those of other groups, and those that are copied. */
static uint32_t norm_rest(const vkf_problem *p) {
  return p->norm.whole_width > p->norm.width ? p->norm.whole_width - p->norm.width : 0;
}

static uint64_t norm_turns(const vkf_variant *v, const vkf_problem *p) {
  return 3 * vkf_turns_by(p->norm.width, vkf_kern_workgroup(v)) + vkf_turns_by(norm_rest(p), vkf_kern_workgroup(v)) +
         2 * TREE_TURNS;
}

static uint64_t norm_lanes_turns(const vkf_variant *v, const vkf_problem *p) {
  return 2 * (vkf_turns_by(p->norm.width, VKF_ROW_PARTIALS) + 2 * TREE_TURNS) +
         vkf_turns_by(p->norm.width, 4 * v->subgroup) + vkf_turns_by(3, v->subgroup) +
         vkf_turns_by(norm_rest(p), v->subgroup);
}

/* One sum per lane. */
static void lane_sums(const vkf_variant *v, const vkf_problem *p, vkf_rounding *out) {
  (void)p;
  out->n_partial = v->subgroup;
}

/* The partial sums of shaders/lib/partials.glsl. */
static void row_sums(const vkf_variant *v, const vkf_problem *p, vkf_rounding *out) {
  (void)v;
  (void)p;
  out->n_partial = VKF_ROW_PARTIALS;
}

/* One word per invocation. */
static uint32_t word_bytes(const vkf_variant *v) {
  return vkf_kern_workgroup(v) * 4;
}

/* A subgroup reads a row in whole steps, without a remainder. */
static const char *fit_norm_uniform(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why,
                                    size_t size) {
  (void)caps;
  if (p->norm.width % v->subgroup || p->norm.whole_width % v->subgroup)
    VKF_KERN_REFUSE("widths are multiples of %u, here they are %u of %u", v->subgroup, p->norm.width,
                    p->norm.whole_width);
  return NULL;
}

static uint64_t norm_uniform_turns(const vkf_variant *v, const vkf_problem *p) {
  return 2 * vkf_turns_by(p->norm.width, VKF_ROW_PARTIALS) + vkf_turns_by(p->norm.width, v->subgroup) +
         vkf_turns_by(norm_rest(p), v->subgroup);
}

/* Rows of whole vectors that fit into registers. */
static const char *fit_wide(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why, size_t size) {
  const uint32_t most = 4 * VKF_NORM_MAX_VECTORS * v->workgroup;
  (void)caps;
  if (p->norm.whole_width != p->norm.width) VKF_KERN_REFUSE("norms whole rows, here they have groups or a rest");
  if (p->norm.width % 4) VKF_KERN_REFUSE("rows are multiples of 4 columns, here they have %u", p->norm.width);
  if (p->norm.width > most) VKF_KERN_REFUSE("keeps rows of up to %u columns, here they have %u", most, p->norm.width);
  return NULL;
}

static uint32_t wide_bytes(const vkf_variant *v) {
  (void)v;
  return 2 * VKF_NORM_MAX_SUBGROUPS * 4;
}

static uint32_t wide_registers(const vkf_variant *v, const vkf_problem *p) {
  return 4 * VKF_CEIL_DIV(p->norm.width, 4 * v->workgroup) + 8;
}

static uint64_t wide_turns(const vkf_variant *v, const vkf_problem *p) {
  (void)p;
  return 2 * vkf_turns_of(v->workgroup / v->subgroup, 0);
}

/* One sum per invocation. */
static void wide_sums(const vkf_variant *v, const vkf_problem *p, vkf_rounding *out) {
  (void)p;
  out->n_partial = v->workgroup;
}

const vkf_family vkf_family_norm_wide = {.name = "wide",
                                         .device = VKF_FOR_GPU_FEW_ROWS,
                                         .place = 0,
                                         .reason = "a GPU, few rows: each in the registers of a workgroup",
                                         .fit = fit_wide,
                                         .shared_bytes = wide_bytes,
                                         .registers = wide_registers,
                                         .loop_turns = wide_turns,
                                         .rounding = wide_sums};
const vkf_family vkf_family_norm_subgroup = {.name = "subgroup",
                                             .device = VKF_FOR_GPU,
                                             .place = 1,
                                             .reason = "a GPU: a row a subgroup",
                                             .loop_turns = norm_turns,
                                             .rounding = lane_sums};
const vkf_family vkf_family_norm_uniform = {.name = "uniform",
                                            .device = VKF_FOR_UNIFORM_LOADS,
                                            .place = 1,
                                            .reason = "this lavapipe loads vectors from addresses that all lanes share",
                                            .fit = fit_norm_uniform,
                                            .loop_turns = norm_uniform_turns,
                                            .rounding = row_sums};
const vkf_family vkf_family_norm_lanes = {.name = "lanes",
                                          .device = VKF_FOR_CPU,
                                          .place = 2,
                                          .reason = NO_SHARED,
                                          .fit = fit_texels,
                                          .loop_turns = norm_lanes_turns,
                                          .rounding = row_sums,
                                          .n_texels = 3 /* x, weight, bias */};
const vkf_family vkf_family_norm_row = {.name = "row",
                                        .device = VKF_FOR_ANY,
                                        .place = 3,
                                        .reason = "partial sums in shared memory",
                                        .shared_bytes = word_bytes,
                                        .loop_turns = norm_turns,
                                        .rounding = row_sums};

/* ---- rows that may be split among workgroups --------------------------------------------------------------------- */

/* How many columns of a row take as long as a second dispatch. */
enum { COMBINE_COLUMNS = 4096 };

/* Returns the columns that a core does one after the other. */
static double split_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  vkf_problem own;
  const double groups = vkf_kern_workgroups(v, p, caps, &own), cores = vkf_kern_cores(caps);
  const double columns = own.split ? own.split : p->rows.width;
  return (groups > cores ? groups / cores : 1) * columns + (own.split ? COMBINE_COLUMNS : 0);
}

static const char *fit_parts_of(const vkf_problem *p, uint32_t split, char *why, size_t size) {
  if (p->rows.width <= split) VKF_KERN_REFUSE("splits rows of more than %u columns, here are %u", split, p->rows.width);
  return NULL;
}

/* ---- log_softmax ------------------------------------------------------------------------------------------------- */

static uint64_t log_softmax_turns(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  return 3 * vkf_turns_by(p->rows.width, VKF_ROW_PARTIALS) + vkf_turns_of(VKF_ROW_PARTIALS, 0) + TREE_TURNS;
}

static uint64_t log_softmax_lanes_turns(const vkf_variant *v, const vkf_problem *p) {
  return 2 * vkf_turns_by(p->rows.width, 4 * v->subgroup) + vkf_turns_by(VKF_ROW_PARTIALS, 4 * v->subgroup) +
         vkf_turns_by(p->rows.width, VKF_ROW_PARTIALS) + vkf_turns_by(3, v->subgroup) + 2 * TREE_TURNS;
}

static uint32_t pair_bytes(const vkf_variant *v) {
  return vkf_kern_workgroup(v) * 8;
}

const vkf_family vkf_family_log_softmax_lanes = {.name = "lanes",
                                                 .device = VKF_FOR_CPU,
                                                 .place = 0,
                                                 .reason = NO_SHARED,
                                                 .fit = fit_texels,
                                                 .loop_turns = log_softmax_lanes_turns,
                                                 .rounding = row_sums,
                                                 .n_texels = 1};

static const char *fit_softmax_parts(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why,
                                     size_t size) {
  (void)v;
  (void)caps;
  return fit_parts_of(p, VKF_SOFTMAX_SPLIT, why, size);
}

static uint32_t softmax_split(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  (void)v;
  (void)p;
  (void)caps;
  return VKF_SOFTMAX_SPLIT;
}

static uint32_t n_softmax_parts(const vkf_problem *p) {
  return VKF_CEIL_DIV(p->rows.width, VKF_SOFTMAX_SPLIT);
}

/* The same for both stages: a workgroup of the second stores the columns that one of the first has read. */
static void softmax_grid(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]) {
  (void)v;
  (void)stage;
  g[1] = n_softmax_parts(p);
}

/* A maximum and a sum for each part. */
static uint64_t softmax_scratch(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  return (uint64_t)p->rows.rows * n_softmax_parts(p) * 8;
}

static uint64_t softmax_part_turns(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  (void)p;
  return TREE_TURNS;
}

static uint64_t softmax_parts_turns(const vkf_problem *p) {
  return 2 * vkf_turns_by(n_softmax_parts(p), VKF_ROW_PARTIALS) + TREE_TURNS +
         vkf_turns_by(VKF_SOFTMAX_SPLIT / VKF_ROW_PARTIALS, VKF_SOFTMAX_AT_ONCE);
}

/* A term passes through no more additions than row_sums() allows: a chain in its part, a chain of parts, and two trees,
 * which are less deep than a chain over all partial sums. */
static void softmax_part_sums(const vkf_variant *v, const vkf_problem *p, vkf_rounding *out) {
  row_sums(v, p, out);
  out->scaled_parts = true;
}

const vkf_family vkf_family_log_softmax_split = {.name = "split",
                                                 .device = VKF_FOR_GPU,
                                                 .place = 1,
                                                 .reason = SPLIT_ROWS,
                                                 .fit = fit_softmax_parts,
                                                 .shared_bytes = pair_bytes,
                                                 .grid = softmax_grid,
                                                 .split = softmax_split,
                                                 .scratch_bytes = softmax_scratch,
                                                 .loop_turns = softmax_part_turns,
                                                 .combine_turns = softmax_parts_turns,
                                                 .rounding = softmax_part_sums,
                                                 .effort = split_effort};
const vkf_family vkf_family_log_softmax_row = {.name = "row",
                                               .device = VKF_FOR_ANY,
                                               .place = 1,
                                               .reason = "partial sums in shared memory",
                                               .shared_bytes = pair_bytes,
                                               .loop_turns = log_softmax_turns,
                                               .rounding = row_sums,
                                               .effort = split_effort};

/* ---- top_k ------------------------------------------------------------------------------------------------------- */

static uint64_t turns_of_columns(const vkf_problem *p, uint64_t columns, uint64_t pieces) {
  const uint64_t piece = VKF_CEIL_DIV(VKF_CEIL_DIV(columns, VKF_ROW_PARTIALS), pieces);
  return vkf_turns_of(pieces, vkf_turns_by(piece, VKF_COLUMNS_AT_ONCE)) +
         vkf_turns_of(p->top_k.k,
                      vkf_turns_by(piece, VKF_COLUMNS_AT_ONCE) + vkf_turns_by(VKF_ROW_PARTIALS, VKF_COLUMNS_AT_ONCE));
}

static uint64_t top_k_turns(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  return turns_of_columns(p, p->top_k.width, VKF_TOP_K_PIECES);
}

/* The second pass inserts a column into the list if it is over the k-th largest of the groups' maxima. These are k
 * columns until the list is full, then the columns of the k - 1 groups with larger maxima. */
static uint64_t top_k_lanes_turns(const vkf_variant *v, const vkf_problem *p) {
  const uint64_t groups = 4 * (uint64_t)v->subgroup, k = p->top_k.k;
  const uint64_t hits = k > groups
                            ? p->top_k.width
                            : VKF_MIN(p->top_k.width, k + (k - VKF_MIN(k, 1)) * VKF_CEIL_DIV(p->top_k.width, groups));
  return 2 * vkf_turns_by(p->top_k.width, groups) + (hits + k + 2) * 2; /* k: NaN, which the first pass does not see */
}

/* For each invocation the best of each piece and the best of all. */
static uint32_t best_bytes(const vkf_variant *v) {
  return vkf_kern_workgroup(v) * (1 + VKF_TOP_K_PIECES) * 8;
}

const vkf_family vkf_family_top_k_lanes = {.name = "lanes",
                                           .device = VKF_FOR_CPU,
                                           .place = 0,
                                           .reason = NO_SHARED,
                                           .fit = fit_texels,
                                           .loop_turns = top_k_lanes_turns,
                                           .n_texels = 1};

/* Columns of one workgroup. */
enum { TOP_K_SPLIT = 4096 };

static uint32_t top_k_split(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  (void)v;
  (void)p;
  (void)caps;
  return TOP_K_SPLIT;
}

static uint32_t n_parts(const vkf_problem *p) {
  return VKF_CEIL_DIV(p->top_k.width, TOP_K_SPLIT);
}

static const char *fit_top_k_parts(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why,
                                   size_t size) {
  (void)v;
  (void)caps;
  return fit_parts_of(p, TOP_K_SPLIT, why, size);
}

static void top_k_grid(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]) {
  (void)v;
  if (!stage) g[1] = n_parts(p);
}

/* Values with their ids. */
static uint64_t top_k_scratch(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  return (uint64_t)p->top_k.rows * n_parts(p) * p->top_k.k * 8;
}

static uint64_t part_turns(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  return turns_of_columns(p, VKF_MIN(p->top_k.width, TOP_K_SPLIT), VKF_TOP_K_PIECES_OF_PART);
}

static uint64_t parts_turns(const vkf_problem *p) {
  return turns_of_columns(p, (uint64_t)n_parts(p) * p->top_k.k, 1);
}

const vkf_family vkf_family_top_k_split = {.name = "split",
                                           .device = VKF_FOR_GPU,
                                           .place = 1,
                                           .reason = SPLIT_ROWS,
                                           .fit = fit_top_k_parts,
                                           .shared_bytes = best_bytes,
                                           .grid = top_k_grid,
                                           .split = top_k_split,
                                           .scratch_bytes = top_k_scratch,
                                           .loop_turns = part_turns,
                                           .combine_turns = parts_turns,
                                           .effort = split_effort};
const vkf_family vkf_family_top_k_row = {.name = "row",
                                         .device = VKF_FOR_ANY,
                                         .place = 1,
                                         .reason = "the best of each invocation in shared memory",
                                         .shared_bytes = best_bytes,
                                         .loop_turns = top_k_turns,
                                         .effort = split_effort};
