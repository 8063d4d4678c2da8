/* Some drivers end a loop after a number of turns. Each kernel must be right at the largest problem for which it says
 * that its turns suffice, and refuse the next larger one. Problems several times as large must be right on the kernel
 * that is chosen, if one takes them. The data show whatever is left out: sums of whole numbers, which are exact, and
 * rows in which few numbers count, the last one among them. A driver without such a limit runs only the large problems,
 * once each.
 *
 * VKF_OP_VARIANT=NAME: that variant alone, on every driver.
 */
#include "kern/attention.h"
#include "kern/kern.h"
#include "op/case_program.h"
#include "ref/walk.h"
#include "support/calls.h"
#include "support/driver.h"
#include "support/half.h"
#include "support/problems.h"
#include "vkop/vkop.h"

extern const vkf_family vkf_family_append_turned, vkf_family_norm_wide;

enum { LIMIT = 65535, USUAL_WIDTH = 36 };

/* Returns a problem of the op that grows with n alone. width: of the heads (attention) or the number of ids (top_k). */
static vkf_case case_of(vkf_op op, uint32_t n, uint32_t width) {
  vkf_case c = {.name = vkf_op_name(op), .op = op, .sizes = {.B = 1, .S = 1, .R = 1, .T = 1, .out = 1}, .seed = n};
  c.data = VKF_DATA_HALVES;
  if (op == VKF_OP_MATMUL) {
    c.params.matmul = (vkf_matmul_params){.rows = VKF_DIM_R, .n = 3, .k = n};
  } else if (op == VKF_OP_ATTENTION || op == VKF_OP_ATTENTION_WEIGHTS) {
    c.data = VKF_DATA_FEW;
    c.params.attention = plain_attention(VKF_DIM_R, VKF_DIM_T, 1, width, width == USUAL_WIDTH ? 48 : width, 0.25f);
    c.sizes.S = n;
  } else if (op == VKF_OP_NORM) {
    c.data = VKF_DATA_FEW;
    c.params.norm = (vkf_norm_params){.rows = VKF_DIM_R, .width = n, .eps = 1e-5f};
  } else if (op == VKF_OP_LOG_SOFTMAX) {
    c.data = VKF_DATA_FEW;
    c.params.log_softmax = (vkf_log_softmax_params){VKF_DIM_R, n};
  } else if (op == VKF_OP_TOP_K) {
    c.data = VKF_DATA_FEW;
    c.params.top_k = (vkf_top_k_params){VKF_DIM_R, n, VKF_MIN(n, width == USUAL_WIDTH ? 8 : width)};
  } else if (op == VKF_OP_LOGIT_EDIT) {
    c.data = VKF_DATA_NORMAL;
    c.params.logit_edit = (vkf_logit_edit_params){.rows = VKF_DIM_R, .width = 4, .max_edits = n};
  } else if (op == VKF_OP_GATE) {
    c.data = VKF_DATA_NORMAL;
    c.params.gate = (vkf_gate_params){.rows = VKF_DIM_R, .width = n, .up_column = n, .activation = VKF_ACT_SWISH};
  } else if (op == VKF_OP_EMBED) {
    c.params.embed = (vkf_embed_params){.rows = VKF_DIM_R, .width = n, .n_ids = 1, .scale = 2};
  } else if (op == VKF_OP_APPEND) {
    c.params.append = (vkf_append_params){.seqs = VKF_DIM_R,
                                          .tokens = VKF_DIM_T,
                                          .past = VKF_DIM_ZERO,
                                          .n_heads = 1,
                                          .key_width = n / 2,
                                          .value_width = n / 2,
                                          .v_column = n / 2};
  } else if (op == VKF_OP_GATHER) {
    c.params.gather = (vkf_gather_params){.rows = VKF_DIM_R, .x_rows = VKF_DIM_B, .width = n};
  } else if (op == VKF_OP_ROPE) {
    c.params.rope = (vkf_rope_params){
        .rows = VKF_DIM_R, .width = n, .n_heads = n / 4, .head_width = 4, .rotary = 4, .n_positions = 1};
  } else if (op == VKF_OP_RELATIVE_BIAS) {
    c.params.relative_bias = (vkf_relative_bias_params){.n_heads = 1, .n_buckets = 8, .n_distances = n};
  } else {
    assert_int_equal(op, VKF_OP_PATCHES);
    c.params.patches =
        (vkf_patches_params){.channels = 1, .height = 1, .width = n, .patch_height = 1, .patch_width = n};
  }
  return c;
}

/* Like case_of(), with what this kernel needs beyond the case of its op. */
static vkf_case case_for(const vkf_variant *v, uint32_t n, uint32_t width) {
  vkf_case c = case_of(v->op, n, width);
  if (v->family == &vkf_family_append_turned) {
    c.params.append.n_q_heads = c.params.append.n_positions = 1;
    c.params.append.rotary = 2;
  }
  return c;
}

/* Returns NULL if the variant fits the problem on these caps, else why not. caps: the device's, with the limit. */
static const char *fits(const vkf_variant *v, uint32_t n, uint32_t width, const vkf_caps *caps, char *why,
                        size_t size) {
  const vkf_case c = case_for(v, n, width);
  const vkf_dims dims = vkf_dims_make(&c.sizes);
  const vkf_node node = {.op = c.op, .params = c.params}; /* its first input is x, of n columns */
  vkf_slot x = {.rank = 2, .extent = {[1] = {VKF_DIM_ONE, n}}};
  const vkf_plan plan = {.slots = &x, .n_slots = 1};
  vkf_problem p;
  vkf_vkop_node_problem(&plan, &node, &dims, &p);
  p.order = v->order;
  if (v->op == VKF_OP_MATMUL) {
    p.packing = vkf_kern_weight_packing(caps, NULL, p.matmul.n, p.matmul.k, format_of(v), v);
  }
  return vkf_kern_fit(v, &p, caps, why, size);
}

/* Runs a case and compares it. variant NULL: the one that is chosen. Returns false if no kernel takes the case. */
static bool is_right(driver *d, const vkf_case *c, const char *variant) {
  vkf_backend *backend = d->device->backend;
  vkf_comparison j = {0};
  vkf_walk walk = {0};
  vkf_case_program r;
  vkf_status st = vkf_case_program_init(backend, c, variant, &r);
  if (st == VKF_ERROR_UNSUPPORTED || (st == VKF_OK && !r.program)) {
    vkf_case_program_finish(&r);
    vkf_env_clear(&d->context->env);
    return false;
  }
  driver_ok(d, st);
  driver_ok(d, backend->table->run(r.program, &r.run.dims, 0, r.run.plan.n_blocks));
  driver_ok(d,
            vkf_ref_walk_init(&walk, &d->context->env, backend, &r.run.plan, r.program, &r.run.dims, &r.run.weights));
  driver_ok(d, vkf_ref_walk_node(&walk, 0, &j));
  if (!(j.ratio <= 1))
    fail_msg("%s of %u: element %llu is %.9g, expected %.9g within %.3g", variant ? variant : c->name,
             (unsigned)c->seed, (unsigned long long)j.worst, j.worst_got, j.worst_exact, j.worst_bound);
  vkf_ref_walk_finish(&walk);
  vkf_case_program_finish(&r);
  return true;
}

/* Returns the largest n that fits and is a multiple of 4; 0: not even the smallest fits, so turns are not the reason.
 */
static uint32_t largest(const vkf_variant *v, uint32_t width, const vkf_caps *caps) {
  char why[256];
  const bool has_heads = v->op == VKF_OP_ATTENTION || v->op == VKF_OP_ATTENTION_WEIGHTS;
  /* Sums of more products of half-integers are not exact in float32. What is longer exceeds a storage binding. */
  const uint32_t most = v->op == VKF_OP_MATMUL ? 1u << 19 : has_heads ? 1u << 18 : 1u << 24;
  const uint64_t numbers = caps->max_storage_range_bytes / sizeof(float) / (has_heads ? width : 2);
  uint32_t low = 16, high = (uint32_t)VKF_MIN(most, numbers / 16 * 16 - 16);
  if (fits(v, low, width, caps, why, sizeof why)) return 0;
  if (!fits(v, high, width, caps, why, sizeof why)) return high;
  while (high - low > 4) {
    const uint32_t middle = (low + high) / 8 * 4;
    *(fits(v, middle, width, caps, why, sizeof why) ? &high : &low) = middle;
  }
  return low;
}

static void check_limit(driver *d, const vkf_variant *v, const char *name, uint32_t width, const vkf_caps *caps) {
  char why[256];
  const uint32_t most = largest(v, width, caps);
  if (!most) return;
  vkf_case c = case_for(v, most, width);
  c.format = format_of(v);
  if (!is_right(d, &c, name)) fail_msg("%s does not run %u, which it should fit", name, most);
  if (fits(v, most + 4, width, caps, why, sizeof why) && !strstr(why, "turns"))
    fail_msg("%s does not fit %u for another reason: %s", name, most + 4, why);
  print_message("  %s: up to %u\n", name, most);
}

/* Returns true if the table has a smaller tile of the same kernel and drivers run halves (support/half.h); then only
 * the smallest runs. Its turns have the same formula, and a large tile computes thousands of elements for the three
 * that there are. */
static bool has_smaller_tile(const vkf_variant *v, const vkf_variant *variants, size_t n) {
  if (v->op != VKF_OP_MATMUL || !takes_half()) return false;
  for (size_t i = 0; i < n; i++) {
    const vkf_variant *o = &variants[i];
    if (o->family == v->family && o->subgroup == v->subgroup && o->access == v->access &&
        o->tile.gemm.bk == v->tile.gemm.bk && o->tile.gemm.bm * o->tile.gemm.bn < v->tile.gemm.bm * v->tile.gemm.bn)
      return true;
  }
  return false;
}

static void test_every_variant_at_its_limit(void **state) {
  driver *d = *state;
  const char *asked = getenv("VKF_OP_VARIANT"); /* as in test_ops.c */
  vkf_caps caps = *vkf_gpu_device_caps(d->device->gpu);
  size_t n = 0, n_ran = 0;
  if (caps.max_loop_turns > LIMIT && !asked) skip();
  const vkf_variant *variants = vkf_kern_variants(&n);
  char name[96];
  caps.max_loop_turns = VKF_MIN(caps.max_loop_turns, LIMIT);
  for (size_t i = 0; i < n; i++) {
    vkf_kern_name(&variants[i], name, sizeof name);
    if (asked && *asked && strcmp(asked, name)) continue;
    if (variants[i].family == &vkf_family_norm_wide) continue; /* its registers limit its rows; op.ops tests that */
    if (strstr(variants[i].family->name, "columns")) continue; /* rows add workgroups, not turns */
    if (!is_mine(&variants[i]) || has_smaller_tile(&variants[i], variants, n)) continue;
    if (runs_elsewhere(&variants[i], i) || has_twin(i)) continue;
    check_limit(d, &variants[i], name, USUAL_WIDTH, &caps);
    if (variants[i].op == VKF_OP_ATTENTION && variants[i].tile.attention.slice && !variants[i].combine)
      check_limit(d, &variants[i], name, 128, &caps); /* values in two pieces */
    if (variants[i].op == VKF_OP_TOP_K && !variants[i].subgroup) check_limit(d, &variants[i], name, 64, &caps);
    n_ran++;
  }
  assert_true(n_ran > 0);
}

/* The chosen kernel is right, at the limit of any kernel and far beyond. */
static void test_what_is_chosen_is_right(void **state) {
  static const struct {
    vkf_op op;
    uint32_t n[5];
  } sizes[] = {{VKF_OP_MATMUL, {65532, 65535, 65536, 65537, 262144}},
               {VKF_OP_ATTENTION_WEIGHTS, {1000, 4000, 8000, 65535, 0}},
               {VKF_OP_ATTENTION, {4000, 65535, 65537, 0}},
               {VKF_OP_NORM, {65535, 65537, 262144, 0}},
               {VKF_OP_LOG_SOFTMAX, {65535, 65537, 262144, 0}},
               {VKF_OP_TOP_K, {65535, 65537, 262144, 0}},
               {VKF_OP_LOGIT_EDIT, {65537, 262144, 0}},
               {VKF_OP_GATE, {65537, 4194305, 0}},
               {VKF_OP_EMBED, {65537, 4194305, 0}},
               {VKF_OP_APPEND, {65538, 4194308, 0}},
               {VKF_OP_GATHER, {65537, 4194305, 0}},
               {VKF_OP_ROPE, {65537, 4194305, 0}},
               {VKF_OP_RELATIVE_BIAS, {65537, 4194305, 0}},
               {VKF_OP_PATCHES, {65537, 4194305, 0}}};
  driver *d = *state;
  const bool has_limit = vkf_gpu_device_caps(d->device->gpu)->max_loop_turns <= LIMIT;
  uint32_t seen = 0;
  if (getenv("VKF_OP_VARIANT")) skip();
  for (size_t i = 0; i < VKF_COUNT(sizes); seen |= 1u << sizes[i++].op)
    for (size_t k = 0; k < VKF_COUNT(sizes[i].n) && sizes[i].n[k]; k++) {
      if (!has_limit && k + 1 < VKF_COUNT(sizes[i].n) && sizes[i].n[k + 1]) continue; /* the largest */
      const vkf_case c = case_of(sizes[i].op, sizes[i].n[k], USUAL_WIDTH);
      if (!is_right(*state, &c, NULL)) print_message("  %s of %u: no kernel\n", c.name, sizes[i].n[k]);
    }
  assert_int_equal(seen, (1u << VKF_OP_COUNT) - 1); /* a new op needs a row */
}

/* Here kernels with tiles have enough turns; those with a query in each lane do not. */
static void test_odd_heads_of_many_keys(void **state) {
  if (getenv("VKF_OP_VARIANT")) skip();
  const vkf_case c = case_of(VKF_OP_ATTENTION, 20000, 35);
  assert_true(is_right(*state, &c, NULL));
}

/* More queries than the workgroups that Vulkan guarantees in one dimension of a grid: runs every kernel that has a
 * workgroup for each query. */
static void test_queries_beyond_a_grid(void **state) {
  driver *d = *state;
  vkf_case c = case_of(VKF_OP_ATTENTION, 3, 16);
  c.params.attention.n_heads = c.params.attention.n_kv_heads = 3;
  c.sizes.T = LIMIT + 2;
  size_t n = 0, n_ran = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  char name[96];
  if (getenv("VKF_OP_VARIANT")) skip();
  for (size_t i = 0; i < n; i++) {
    if (variants[i].op != VKF_OP_ATTENTION) continue;
    const vkf_problem p = {.op = VKF_OP_ATTENTION, .attention = {.queries = c.sizes.T, .batch = 1, .heads = 3}};
    uint32_t grid[3];
    if (variants[i].family->grid != vkf_kern_attention_grid_by_query) continue;
    vkf_kern_grid(&variants[i], 0, &p, grid);
    assert_true(grid[0] <= LIMIT && grid[0] * (grid[1] / 3) >= c.sizes.T);
    vkf_kern_name(&variants[i], name, sizeof name);
    n_ran += is_right(d, &c, name);
  }
  assert_true(n_ran > 0);
}

DRIVER_MAIN(DRIVER_TEST(test_every_variant_at_its_limit), DRIVER_TEST(test_what_is_chosen_is_right),
            DRIVER_TEST(test_odd_heads_of_many_keys), DRIVER_TEST(test_queries_beyond_a_grid))
