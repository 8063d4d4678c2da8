/* select: which variant fits a problem, and which one is best. Pure functions of table, device facts, tuned times and
 * problem.
 *
 * Measured times decide. Where there are none, the family decides: it says on which class of devices it is the default,
 * and its place among the defaults. Within a place the variant with the least work per useful element wins, then the
 * earlier row.
 */
#include <stdio.h>

#include "kern/checks.h"
#include "kern/family.h"
#include "kern/tuned.h"

/* ---- fit --------------------------------------------------------------------------------------------------------- */

/* Returns the storage buffers that the kernels of an op bind: the step buffer, the operands, the scales of a weight
 * (embed reads them with its words). */
static uint32_t storage_bindings(const vkf_variant *v, const vkf_problem *p) {
  static const uint32_t operands[VKF_OP_COUNT] = {
      [VKF_OP_EMBED] = 7,      [VKF_OP_MATMUL] = 5,  [VKF_OP_ATTENTION] = 7, [VKF_OP_ATTENTION_WEIGHTS] = 7,
      [VKF_OP_NORM] = 5,       [VKF_OP_APPEND] = 3,  [VKF_OP_GATHER] = 3,    [VKF_OP_LOG_SOFTMAX] = 3,
      [VKF_OP_LOGIT_EDIT] = 4, [VKF_OP_TOP_K] = 3,   [VKF_OP_ROPE] = 4,      [VKF_OP_RELATIVE_BIAS] = 3,
      [VKF_OP_GATE] = 2,       [VKF_OP_PATCHES] = 2,
  };
  const uint32_t flag = v->matrix.m == 0 ? 0 : v->op == VKF_OP_ATTENTION ? 2 : 1; /* attention: spans before it */
  return 1 + operands[v->op] + flag - (v->access == VKF_ACCESS_TEXEL ? v->family->n_texels : 0) +
         (v->op == VKF_OP_APPEND && p->append.turns ? 3 : 0) +
         (v->op != VKF_OP_EMBED && vkf_format_get(p->packing.format)->block);
}

bool vkf_kern_has_subgroup(const vkf_caps *caps, uint32_t subgroup_size) {
  if (caps->subgroup_size_control) return caps->subgroup_min <= subgroup_size && subgroup_size <= caps->subgroup_max;
  return caps->subgroup_size == subgroup_size && caps->subgroup_min == caps->subgroup_max;
}

/* Whether the device multiplies matrices of this shape. */
static bool has_matrix(const vkf_caps *caps, const vkf_matrix_shape *s) {
  for (uint32_t i = 0; i < caps->n_matrix_shapes; i++) {
    const vkf_matrix_shape *has = &caps->matrix_shapes[i];
    if (has->m == s->m && has->n == s->n && has->k == s->k) return true;
  }
  return false;
}

static const struct need {
  uint32_t bit;
  uint32_t checks; /* bits 1 << vkf_check of the checks that may have removed it */
  const char *name;
} all_needs[] = {
    {VKF_NEED_SHUFFLE, 1u << VKF_CHECK_OF_SHUFFLE, "subgroup shuffle"},
    {VKF_NEED_BROADCAST, 1u << VKF_CHECK_OF_BALLOT, "subgroup broadcast"},
    {VKF_NEED_ARITHMETIC, 1u << VKF_CHECK_OF_ARITHMETIC, "subgroup arithmetic"},
    {VKF_NEED_ADDRESS, 1u << VKF_CHECK_OF_ADDRESS, "buffer addresses"},
    {VKF_NEED_UNIFORM, 0, "scalar loads at uniform addresses"},
    {VKF_NEED_INT64, 0, "64-bit integers"},
    {VKF_NEED_MATRIX, 1u << VKF_CHECK_OF_MATRIX | 1u << VKF_CHECK_OF_FLOAT16,
     "cooperative matrices of f16 that this build can use"},
    {VKF_NEED_MATRIX2, 0, "cooperative matrices of workgroups"},
    {VKF_NEED_DOT, 1u << VKF_CHECK_OF_INTEGER_DOT, "integer dot products"},
    {VKF_NEED_TEXEL, 0, "texel buffers"},
};

static bool has_need(uint32_t bit, const vkf_caps *caps) {
  switch (bit) {
    case VKF_NEED_SHUFFLE:
      return caps->subgroup_shuffle;
    case VKF_NEED_BROADCAST:
      return caps->subgroup_ballot;
    case VKF_NEED_ARITHMETIC:
      return caps->subgroup_arithmetic;
    case VKF_NEED_ADDRESS:
      return caps->buffer_address;
    case VKF_NEED_UNIFORM:
      return caps->uniform_loads;
    case VKF_NEED_INT64:
      return caps->int64;
    case VKF_NEED_MATRIX:
      return caps->coopmat && caps->float16;
    case VKF_NEED_MATRIX2:
      return caps->coopmat2;
    case VKF_NEED_DOT:
      return caps->integer_dot;
    default:
      return caps->max_texel_bindings >= 4;
  }
}

static const struct need *missing_need(const vkf_variant *v, const vkf_caps *caps) {
  const uint32_t needs = v->needs | (v->access == VKF_ACCESS_TEXEL     ? VKF_NEED_TEXEL
                                     : v->access == VKF_ACCESS_ADDRESS ? VKF_NEED_ADDRESS
                                                                       : 0u);
  for (size_t i = 0; i < VKF_COUNT(all_needs); i++)
    if (needs & all_needs[i].bit && !has_need(all_needs[i].bit, caps)) return &all_needs[i];
  return NULL;
}

/* Returns the end of a reason, if the device has the feature but its check failed. */
static const char *checked(const vkf_caps *caps, uint32_t checks) {
  return caps->failed_checks & checks ? " that passes its check (vkformer devices -v)" : "";
}

static const char *fit_device(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why,
                              size_t size) {
  const struct need *missing = missing_need(v, caps);
  vkf_problem own = *p;
  own.split = vkf_kern_split(v, p, caps);
  const uint64_t scratch = vkf_kern_scratch_bytes(v, &own);
  const uint64_t most = VKF_MIN(caps->max_storage_range_bytes, caps->max_allocation_bytes);
  uint32_t grid[3], shared = vkf_kern_shared_bytes(v);
  if (missing) VKF_KERN_REFUSE("the device has no %s%s", missing->name, checked(caps, missing->checks));
  if (v->matrix.m && !has_matrix(caps, &v->matrix))
    VKF_KERN_REFUSE("multiplies %ux%ux%u matrices, which the device does not advertise", v->matrix.m, v->matrix.n,
                    v->matrix.k);
  if (v->subgroup && !vkf_kern_has_subgroup(caps, v->subgroup) && caps->subgroup_min == caps->subgroup_max)
    VKF_KERN_REFUSE("written for subgroups of %u, the device has %u%s", v->subgroup, caps->subgroup_min,
                    checked(caps, 1u << VKF_CHECK_OF_SUBGROUP_SIZE));
  if (v->subgroup && !vkf_kern_has_subgroup(caps, v->subgroup))
    VKF_KERN_REFUSE("written for subgroups of %u, the device has %u to %u%s%s", v->subgroup, caps->subgroup_min,
                    caps->subgroup_max, caps->subgroup_size_control ? "" : " and its own choice",
                    checked(caps, 1u << VKF_CHECK_OF_SUBGROUP_SIZE));
  if (vkf_kern_workgroup(v) > caps->max_invocations || vkf_kern_workgroup(v) > caps->max_workgroup_size[0])
    VKF_KERN_REFUSE("a workgroup has %u invocations, the device allows %u", vkf_kern_workgroup(v),
                    VKF_MIN(caps->max_invocations, caps->max_workgroup_size[0]));
  if (shared > caps->max_shared_bytes)
    VKF_KERN_REFUSE("takes %u bytes of shared memory, the device has %u%s", shared, caps->max_shared_bytes,
                    checked(caps, 1u << VKF_CHECK_OF_SHARED));
  const uint32_t registers =
      v->subgroup && caps->subgroup_registers ? caps->subgroup_registers / v->subgroup : caps->n_registers;
  if (registers && vkf_kern_registers(v, p) > registers)
    VKF_KERN_REFUSE("keeps %u numbers in an invocation, the device has registers for %u", vkf_kern_registers(v, p),
                    registers);
  if (storage_bindings(v, p) > caps->max_storage_bindings)
    VKF_KERN_REFUSE("binds %u storage buffers, the device allows %u", storage_bindings(v, p),
                    caps->max_storage_bindings);
  if (scratch > most)
    VKF_KERN_REFUSE("takes %llu bytes of scratch memory, the device allows %llu", (unsigned long long)scratch,
                    (unsigned long long)most);
  for (uint32_t stage = 0; stage < vkf_kern_stages(v, p); stage++) {
    const uint64_t turns = vkf_kern_loop_turns(v, stage, &own);
    if (turns > caps->max_loop_turns)
      VKF_KERN_REFUSE("takes %llu turns of loops in an invocation, the driver ends loops after %u%s",
                      (unsigned long long)turns, caps->max_loop_turns, checked(caps, 1u << VKF_CHECK_OF_LOOPS));
    vkf_kern_grid(v, stage, &own, grid);
    for (int i = 0; i < 3; i++)
      if (grid[i] > caps->max_workgroup_count[i])
        VKF_KERN_REFUSE("takes %u workgroups in dimension %d, the device allows %u", grid[i], i,
                        caps->max_workgroup_count[i]);
  }
  return NULL;
}

/* What vkf_variant.max_width limits. */
static uint32_t width_of(const vkf_problem *p) {
  return vkf_op_is_attention(p->op) ? VKF_MAX(p->attention.key_width, p->attention.value_width)
         : p->op == VKF_OP_TOP_K    ? p->top_k.k
                                    : 0;
}

const char *vkf_kern_fit(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why, size_t size) {
  const char *reason;
  if (v->op != p->op) VKF_KERN_REFUSE("a kernel of %s, not of %s", vkf_op_name(v->op), vkf_op_name(p->op));
  if (p->order == VKF_ORDER_ASCENDING && v->order != VKF_ORDER_ASCENDING)
    VKF_KERN_REFUSE("adds up in another order than this run asks for");
  if (p->reproducible && v->not_reproducible)
    VKF_KERN_REFUSE("is unrolled too far for the reproducible mode's arithmetic");
  if (v->own && p->op == VKF_OP_MATMUL && p->matmul.is_gated)
    VKF_KERN_REFUSE("a kernel of your own computes no gates, and this matmul has them");
  if (v->max_width && width_of(p) > v->max_width)
    VKF_KERN_REFUSE("takes %s up to %u, here it is %u", p->op == VKF_OP_TOP_K ? "k" : "head widths", v->max_width,
                    width_of(p));
  if (p->packing.format != VKF_FORMAT_F32 && !(v->formats >> p->packing.format & 1))
    VKF_KERN_REFUSE("does not read numbers stored as %s", vkf_format_get(p->packing.format)->name);
  for (const vkf_refusal *r = p->refused; r; r = r->next)
    if (r->variant == v) VKF_KERN_REFUSE("the driver cannot make it, or only with spilled registers");
  reason = fit_device(v, p, caps, why, size);
  if (!reason && v->family->fit) reason = v->family->fit(v, p, caps, why, size);
  return reason;
}

/* ---- defaults ---------------------------------------------------------------------------------------------------- */

#define FEW_ROWS 8
#define NO_RULE SIZE_MAX

static bool is_of(const vkf_problem *p, const vkf_caps *caps, vkf_device_class device) {
  switch (device) {
    case VKF_FOR_CPU:
      return caps->is_cpu;
    case VKF_FOR_GPU:
      return !caps->is_cpu;
    case VKF_FOR_GPU_FEW_ROWS:
      return !caps->is_cpu && p->matmul.m <= FEW_ROWS;
    case VKF_FOR_UNIFORM_LOADS:
      return caps->uniform_loads;
    default:
      return device == VKF_FOR_ANY;
  }
}

/* Returns the family's place among the defaults of its op on this device. */
static size_t rule_of(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  return is_of(p, caps, v->family->device) ? v->family->place : NO_RULE;
}

static double effort_of(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  if (v->family->effort) return v->family->effort(v, p, caps);
  return v->subgroup && caps->subgroup_size != v->subgroup ? 1 : 0;
}

bool vkf_kern_rank_of(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, const vkf_tuned *tuned,
                      vkf_kern_rank *out, char *why, size_t size) {
  if (vkf_kern_fit(v, p, caps, why, size)) return false;
  if (v->needs & VKF_NEED_GPU && caps->is_cpu) {
    snprintf(why, size, "a kernel for GPUs: on a CPU driver only when it is forced");
    return false;
  }
  const vkf_problem *near = vkf_kern_tuned_near(tuned, p);
  *out = (vkf_kern_rank){.variant = v,
                         .time = vkf_kern_tuned_find(tuned, near, v),
                         .rule = rule_of(v, p, caps),
                         .effort = effort_of(v, p, caps)};
  out->leads = near && !out->time;
  for (const vkf_tuned_time *t = NULL; out->leads && (t = vkf_kern_tuned_next(tuned, near, t));)
    out->leads = out->rule < rule_of(t->variant, p, caps);
  return true;
}

bool vkf_kern_is_better(const vkf_kern_rank *a, const vkf_kern_rank *b) {
  if (a->leads != b->leads) return a->leads;
  if (!a->time != !b->time) return a->time != NULL;
  if (a->time && a->time->ns != b->time->ns) return a->time->ns < b->time->ns;
  if (a->rule != b->rule) return a->rule < b->rule;
  if (a->effort != b->effort) return a->effort < b->effort;
  return a->variant < b->variant;
}

const char *vkf_kern_reason(const vkf_kern_rank *rank, char *why, size_t size) {
  if (rank->time)
    snprintf(why, size, "%.1f us, measured on %s", rank->time->ns / 1e3, rank->time->from);
  else
    snprintf(why, size, "%s", rank->rule == NO_RULE ? "least work for the size" : rank->variant->family->reason);
  return why;
}

/* Finds a kernel for GPUs on a CPU driver: slow there, but it may fit the limit of loop turns when no other does. */
static const vkf_variant *last_resort(const vkf_problem *p, const vkf_caps *caps, char *why, size_t size) {
  char text[256];
  size_t n;
  const vkf_variant *table = vkf_kern_variants(&n);
  for (const vkf_variant *v = table; v < table + n; v++) {
    if (v->op != p->op || vkf_kern_fit(v, p, caps, text, sizeof text)) continue;
    snprintf(why, size, "a kernel for GPUs: no other fits");
    return v;
  }
  return NULL;
}

const vkf_variant *vkf_kern_pick(const vkf_problem *p, const vkf_caps *caps, const vkf_tuned *tuned, char *why,
                                 size_t size) {
  vkf_kern_rank best = {0}, rank;
  char text[256];
  uint32_t n_fit = 0;
  snprintf(why, size, "no kernel of %s", vkf_op_name(p->op));
  size_t n;
  const vkf_variant *table = vkf_kern_variants(&n);
  for (const vkf_variant *v = table; v < table + n; v++) {
    if (v->op != p->op) continue;
    if (!vkf_kern_rank_of(v, p, caps, tuned, &rank, text, sizeof text)) {
      if (!best.variant) snprintf(why, size, "%s: %s", v->family->name, text);
      continue;
    }
    n_fit++;
    if (!best.variant || vkf_kern_is_better(&rank, &best)) best = rank;
  }
  if (best.variant) snprintf(why, size, "%s; best of %u that fit", vkf_kern_reason(&best, text, sizeof text), n_fit);
  return best.variant ? best.variant : last_resort(p, caps, why, size);
}

vkf_weight_packing vkf_kern_weight_packing(const vkf_caps *caps, const vkf_tuned *tuned, uint32_t n, uint32_t k,
                                           vkf_format format, const vkf_variant *forced) {
  enum { NOMINAL_ROWS = 64 }; /* a packing serves every M: that of many rows decides */
  vkf_weight_packing best_packing = {VKF_LAYOUT_W_ROWS, 1, 1, format};
  bool has_best = false;
  size_t best_rule = NO_RULE, n_variants;
  double best_slowdown = 0;
  char why[256];
  if (forced && forced->op == VKF_OP_MATMUL) { /* it may be a caller's, which is not in the table */
    const vkf_problem p = {.op = VKF_OP_MATMUL,
                           .matmul = {.m = NOMINAL_ROWS, .n = n, .k = k},
                           .packing = vkf_kern_packing_of(forced, format),
                           .order = VKF_ORDER_FAST};
    if (!vkf_kern_fit(forced, &p, caps, why, sizeof why)) return p.packing;
  }
  const vkf_variant *table = vkf_kern_variants(&n_variants);
  for (const vkf_variant *v = table; v < table + n_variants; v++) {
    vkf_problem p = {.op = VKF_OP_MATMUL, .matmul = {.m = NOMINAL_ROWS, .n = n, .k = k}, .order = VKF_ORDER_FAST};
    if (v->op != VKF_OP_MATMUL || (v->needs & VKF_NEED_GPU && caps->is_cpu)) continue;
    p.packing = vkf_kern_packing_of(v, format);
    if (vkf_kern_fit(v, &p, caps, why, sizeof why)) continue;
    double slowdown = vkf_kern_tuned_slowdown(tuned, n, k, &p.packing);
    if (slowdown <= 0) slowdown = vkf_kern_tuned_slowdown(tuned, 0, 0, &p.packing);
    if (slowdown > 0 ? best_slowdown > 0 && slowdown >= best_slowdown
                     : best_slowdown > 0 || (has_best && rule_of(v, &p, caps) >= best_rule))
      continue;
    has_best = true;
    best_rule = rule_of(v, &p, caps);
    best_packing = p.packing;
    best_slowdown = slowdown;
  }
  return best_packing;
}

/* Returns the best variant, by the defaults, of the families with this place in the probe, with its own packing of the
 * weight. */
static const vkf_variant *best_probed(uint32_t place, vkf_problem *p, const vkf_caps *caps) {
  vkf_kern_rank best = {0}, rank;
  char why[256];
  size_t n;
  const vkf_variant *table = vkf_kern_variants(&n);
  for (const vkf_variant *v = table; v < table + n; v++) {
    if (v->family->probed != place) continue;
    p->packing = vkf_kern_packing_of(v, VKF_FORMAT_F32);
    if (!vkf_kern_rank_of(v, p, caps, NULL, &rank, why, sizeof why)) continue;
    if (!best.variant || vkf_kern_is_better(&rank, &best)) best = rank;
  }
  return best.variant;
}

uint32_t vkf_kern_probe_candidates(const vkf_caps *caps, vkf_problem *p,
                                   const vkf_variant *variants[VKF_MAX_PROBE_CANDIDATES]) {
  uint32_t n = 0;
  *p =
      (vkf_problem){.op = VKF_OP_MATMUL, .matmul = {.m = 64, .n = 256, .k = 256}, .order = vkf_kern_order(caps, false)};
  /* Whether loads at uniform addresses beat texel loads depends on the processor's vector unit and on the driver's
   * version. Mesa 22.3 has no such loads; between it and 26 nothing was measured. */
  if (caps->driver_id != VKF_DRIVER_ID_LAVAPIPE || caps->driver_version < 23u << 22) return 0;
  for (uint32_t place = 1; place <= VKF_MAX_PROBE_CANDIDATES; place++) {
    variants[n] = best_probed(place, p, caps);
    n += variants[n] != NULL;
  }
  return n > 1 ? n : 0;
}

vkf_order_class vkf_kern_order(const vkf_caps *caps, bool batch_invariant) {
  return caps->is_cpu || batch_invariant ? VKF_ORDER_ASCENDING : VKF_ORDER_FAST;
}
