/* Runs the cases of every op on every variant that fits. Results must be within the derived bound, and exact where sums
 * of half-integers are exact in any order. For a variant that never ran the reason is printed.
 *
 * Each driver runs half of the cases on the variant that is chosen for them (support/half.h). A forced variant runs a
 * share of the cases, and the next variant the neighbouring ones, because drivers take long to compile kernels
 * (lavapipe seconds for a large tile). Of large variants that both drivers can run, each driver runs every second one.
 * VKF_OP_SHARE=STRIDE,FIRST: one case in STRIDE, from FIRST on; CMake gives each driver other ones. A variant of matmul
 * runs a quarter of this share. It runs the other cases with one epilogue for all (with split K, which is compiled for
 * each K, an eighth of them, half on each driver; fewer gated ones). leaves_widths() says which of them a variant
 * leaves out. Cases with a long K do not run at all: op.turns runs each variant at the longest K that it takes.
 * `vkformer validate --ops` (scripts/accept) runs all cases on each variant.
 * VKF_OP_SUBGROUP=N: forces only variants that are written for subgroups of N, with four times the share; another
 * driver or vector width runs the others (those that VKF_OP_VARIANT names run their share). With the chosen variants it
 * runs every second case of its half, or a quarter of the half where a variant of another subgroup size is chosen.
 * VKF_OP_VARIANT=NAME: that variant alone, on all cases of its op in one format and on a quarter of them in each other
 * format; NAME,NAME...: these variants, on VKF_OP_SHARE.
 * VKF_OP_CASES=all: all cases; VKF_OP_CASES=norm,top_k: these ops alone, all cases with the variant that is chosen and
 * a quarter of them with each other variant.
 * VKF_OP_RAN=FILE: writes a line for each variant, "ran NAME" or "left NAME", for scripts/report.
 * Buffers end at guard pages, where the driver's memory has them (guard_pages.c), so a kernel that reads beyond its
 * operands crashes this program.
 */
#include <math.h>

#include "op/case_program.h"
#include "ref/walk.h"
#include "kern/kern.h"
#include "support/driver.h"
#include "support/half.h"
#include "support/problems.h"
#include "support/range.h"

enum { MAX_VARIANTS = 1024, LONG_K = 10000 };

/* Returns true if a case takes long: a large tile computes thousands of elements for the two or three that it has. */
static bool is_long(const vkf_case *c) {
  return c->data == VKF_DATA_FEW || (c->op == VKF_OP_MATMUL && c->params.matmul.k >= LONG_K);
}

static bool has_run[MAX_VARIANTS]; /* by index in the table of variants */

static void note(const char *ran) {
  size_t n = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  char name[96];
  assert_between(n, 1, MAX_VARIANTS);
  for (size_t i = 0; i < n; i++)
    if (!strcmp(vkf_kern_name(&variants[i], name, sizeof name), ran)) has_run[i] = true;
}

/* Runs a case with a variant; NULL: the one that is chosen. Returns false if it does not fit; then *r needs no finish.
 */
static bool start(driver *d, vkf_backend *backend, const vkf_case *c, const char *variant, vkf_case_program *r) {
  const vkf_status st = vkf_case_program_init(backend, c, variant, r);
  /* With VKF_TEST_LIMITS the device may be too small for every kernel. */
  if (st != VKF_ERROR_UNSUPPORTED || !getenv("VKF_TEST_LIMITS")) driver_ok(d, st);
  if (st != VKF_OK && !variant) print_message("  left out: %s\n", last_message(d->context));
  if (r->program)
    driver_ok(d, backend->table->run(r->program, &r->run.dims, 0, r->run.plan.n_blocks));
  else
    vkf_case_program_finish(r);
  return r->program;
}

/* Returns true if the sums are exact in any order and nothing after them rounds. */
static bool is_reproducible(const vkf_case *c) {
  return c->op == VKF_OP_MATMUL && c->data == VKF_DATA_HALVES && c->format == VKF_FORMAT_F32 &&
         c->params.matmul.activation == VKF_ACT_NONE && !c->params.matmul.is_gated;
}

/* Runs a case and compares it with the scalar path. Returns false if the variant does not fit. */
static bool verify(driver *d, const vkf_case *c, const char *variant) {
  vkf_backend *backend = d->device->backend;
  vkf_comparison j = {0};
  vkf_walk walk = {0};
  vkf_case_program r;
  if (!start(d, backend, c, variant, &r)) return false;
  driver_ok(d,
            vkf_ref_walk_init(&walk, &d->context->env, backend, &r.run.plan, r.program, &r.run.dims, &r.run.weights));
  driver_ok(d, vkf_ref_walk_node(&walk, 0, &j));
  if (!(j.ratio <= (is_reproducible(c) ? 0 : 1)))
    fail_msg("%s, %s, %s, case \"%s\": element %llu of output %u is %.9g, expected %.9g within %.3g",
             vkf_op_name(c->op), backend->table->node_variant(r.program, 0, NULL), vkf_format_get(c->format)->name,
             c->name, (unsigned long long)j.worst, j.worst_out, j.worst_got, j.worst_exact, j.worst_bound);
  note(backend->table->node_variant(r.program, 0, NULL));
  vkf_ref_walk_finish(&walk);
  vkf_case_program_finish(&r);
  return true;
}

static bool reads(const vkf_variant *v, vkf_op op, uint32_t format) {
  return v->op == op && v->formats >> format & 1;
}

/* Prints why a variant did not run. Fails the test if it fits a plain problem, in this format or in another one. */
static void explain(const vkf_variant *v, const char *name, vkf_format format, const vkf_caps *caps) {
  vkf_problem problem = problem_of(v->op, 32, 64, v->op == VKF_OP_TOP_K ? 4 : 64);
  problem.order = v->order;
  char why[256] = "";
  problem.packing = vkf_kern_weight_packing(caps, NULL, 64, 64, format, v);
  const char *reason = vkf_kern_fit(v, &problem, caps, why, sizeof why);
  if (!reason) fail_msg("%s fits a plain problem and no case reached it", name);
  print_message("  %s does not run here: %s\n", name, reason);
  for (uint32_t f = 0; f < VKF_FORMAT_COUNT; f++) {
    problem.packing = vkf_kern_weight_packing(caps, NULL, 64, 64, (vkf_format)f, v);
    if (format == format_of(v) && reads(v, v->op, f) && !vkf_kern_fit(v, &problem, caps, why, sizeof why))
      fail_msg("%s fits in %s, which no case has", name, vkf_format_get((vkf_format)f)->name);
  }
}

/* Is the name in the comma-separated list? */
static bool is_listed(const char *list, const char *name) {
  const size_t n = strlen(name);
  for (const char *at = list; (at = strstr(at, name)); at++)
    if ((at == list || at[-1] == ',') && (at[n] == ',' || !at[n])) return true;
  return false;
}

/* Does VKF_OP_CASES ask for the op? */
static bool is_asked(vkf_op op) {
  const char *asked = getenv("VKF_OP_CASES");
  return !asked || !*asked || !strcmp(asked, "all") || is_listed(asked, vkf_op_name(op));
}

/* Does VKF_OP_VARIANT ask for the variant? NULL: the one that is chosen for a case. */
static bool is_asked_variant(const char *name) {
  const char *asked = getenv("VKF_OP_VARIANT");
  return !asked || !*asked || (name && is_listed(asked, name));
}

static bool asks_for_one_variant(void) {
  const char *asked = getenv("VKF_OP_VARIANT");
  return asked && *asked && !strchr(asked, ',');
}

/* Does another driver, too, run the variant that is chosen for a case? See VKF_OP_SUBGROUP. */
static bool is_chosen_elsewhere(driver *d, const vkf_case *c) {
  vkf_backend *backend = d->device->backend;
  vkf_case_program r;
  if (!own_subgroup()) return false;
  driver_ok(d, vkf_case_program_init(backend, c, NULL, &r));
  const vkf_variant *v = vkf_kern_find(backend->table->node_variant(r.program, 0, NULL));
  vkf_case_program_finish(&r);
  return v && v->subgroup != own_subgroup();
}

static void test_every_case(void **state) {
  if (!is_asked_variant(NULL)) skip();
  for (uint32_t op = 0; op < VKF_OP_COUNT; op++) {
    size_t n = 0, n_ran = 0;
    if (!is_asked(op)) continue;
    const vkf_case *cases = vkf_op_cases(op, &n);
    assert_true(n > 0);
    for (size_t i = 0; i < n; i++) {
      if (!is_in_my_half(op + i) || has_twin(i / 2)) continue;
      if (i / 2 % 4 != 0 && is_chosen_elsewhere(*state, &cases[i])) continue;
      n_ran += verify(*state, &cases[i], NULL);
    }
    assert_true(n_ran > 0);
  }
}

/* Is case `at` in the share of a forced variant? variant: its index in the table. */
static bool is_in_share(const vkf_variant *v, size_t at, size_t variant) {
  const char *asked = getenv("VKF_OP_CASES"), *share = getenv("VKF_OP_SHARE");
  size_t stride, first;
  const bool asks = asked && *asked;
  if ((asks && !strcmp(asked, "all")) || asks_for_one_variant() || !share || !*share) return true;
  if (sscanf(share, "%zu,%zu", &stride, &first) != 2 || stride == 0) fail_msg("VKF_OP_SHARE: found \"%s\"", share);
  if (asks)
    stride = 4;
  else if (v->op == VKF_OP_MATMUL)
    stride *= 4;
  else if (v->subgroup && v->subgroup == own_subgroup())
    stride = (stride + 3) / 4;
  return at % stride == (variant + first) % stride;
}

/* The epilogue that the cases outside a variant's share have. A kernel is compiled anew for each epilogue, and all
 * kernels have the same function for it (shaders/lib/epilogue.glsl); only the sums are a kernel's own. */
static const uint32_t one_epilogue = 1u << VKF_MATMUL_BIAS | 1u << VKF_MATMUL_RESIDUAL;

static vkf_case with_one_epilogue(const vkf_case *c) {
  vkf_case out = *c;
  out.params.matmul.activation = VKF_ACT_NONE;
  out.inputs = c->params.matmul.is_gated ? 1u << VKF_MATMUL_BIAS : one_epilogue;
  return out;
}

/* Does the variant leave out the case because of its widths? A kernel is compiled for k in whole vectors or single
 * numbers, and for results in pairs or single ones. Each variant runs vectors with pairs, and one of the three other
 * combinations; its neighbours in the table run the other two. */
static bool leaves_widths(const vkf_case *c, size_t variant) {
  const size_t way = (c->params.matmul.k % 4 ? 1 : 0) + (c->params.matmul.n % 2 ? 2 : 0);
  return way != 0 && way != 1 + variant % 3;
}

/* Does the variant leave out the case because it is gated? Gates are one more epilogue to compile, so every third
 * variant runs a quarter of the gated cases. Neighbours in the table are of one family. */
static bool leaves_gates(const vkf_case *c, size_t at, size_t variant) {
  return c->params.matmul.is_gated && (variant % 3 != 0 || at % 4 != variant / 3 % 4);
}

static void test_every_variant(void **state) {
  driver *d = *state;
  const char *asked = getenv("VKF_OP_CASES");
  const bool takes_long = asks_for_one_variant() || (asked && !strcmp(asked, "all"));
  size_t n = 0, n_cases = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  char name[96];
  for (size_t i = 0; i < n; i++) {
    const vkf_case *cases = vkf_op_cases(variants[i].op, &n_cases);
    size_t n_ran = 0;
    if (!is_asked(variants[i].op) || (is_asked_variant(NULL) && !is_mine(&variants[i]))) continue;
    if (runs_elsewhere(&variants[i], i)) continue;
    vkf_kern_name(&variants[i], name, sizeof name);
    if (!is_asked_variant(name)) continue;
    for (size_t c = 0; c < n_cases; c++) {
      const bool whole = is_in_share(&variants[i], c, i);
      if (!takes_long && is_long(&cases[c])) continue;
      vkf_case plain = whole || cases[c].op != VKF_OP_MATMUL ? cases[c] : with_one_epilogue(&cases[c]);
      plain.format = format_of(&variants[i]);
      const bool is_rest = plain.op == VKF_OP_MATMUL && !leaves_widths(&plain, i) && !leaves_gates(&plain, c, i) &&
                           (!variants[i].combine || (c % 8 == i % 8 && is_in_my_half(c / 8)));
      if (whole || (is_rest && is_mine(&variants[i]))) n_ran += verify(d, &plain, name);
    }
    for (size_t c = 0; c < n_cases && !n_ran; c++) {
      vkf_case any = cases[c];
      any.format = format_of(&variants[i]);
      n_ran += verify(d, &any, name);
    }
    if (n_ran) print_message("  %s: %zu cases\n", name, n_ran);
    if (!n_ran) explain(&variants[i], name, format_of(&variants[i]), vkf_gpu_device_caps(d->device->gpu));
  }
}

static bool any_reads(vkf_op op, uint32_t format) {
  size_t n = 0;
  const vkf_variant *v = vkf_kern_variants(&n);
  while (n > 0 && !reads(&v[n - 1], op, format)) n--;
  return n > 0;
}

/* Weights, keys and values in every format except f32: a share of the cases on the variant that is chosen, and one case
 * on each variant. The formats take turns (VKF_OP_CASES=all: every format on all cases). */
static void test_every_format(void **state) {
  const bool one = asks_for_one_variant();
  if (!is_asked_variant(NULL) && !one) skip();
  driver *d = *state;
  const char *asked = getenv("VKF_OP_CASES");
  const bool all = asked && !strcmp(asked, "all");
  size_t n = 0, n_cases = 0, n_compared = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  for (uint32_t f = 1; f < VKF_FORMAT_COUNT; f++) {
    for (uint32_t op = 0; op < VKF_OP_COUNT; op++) {
      const vkf_case *cases = vkf_op_cases(op, &n_cases);
      for (size_t i = 0; any_reads(op, f) && i < n_cases; i++) {
        vkf_case c = cases[i];
        c.format = (vkf_format)f;
        const bool turn = i % (2 * VKF_FORMAT_COUNT) == f && is_in_my_half(i / (2 * VKF_FORMAT_COUNT));
        if (!one && (all || turn)) n_compared += verify(d, &c, NULL);
      }
    }
    for (size_t i = 0; i < n; i++) {
      const bool turn =
          one || !reads(&variants[i], variants[i].op, VKF_FORMAT_INT8) || 1 + i % (VKF_FORMAT_COUNT - 1) == f;
      const vkf_case *cases = vkf_op_cases(variants[i].op, &n_cases);
      size_t n_ran = 0;
      char name[96];
      if (!reads(&variants[i], variants[i].op, f) || !is_mine(&variants[i]) || !(all || turn)) continue;
      /* Four neighbours in the table, which take the four formats, run on the same driver. */
      if (runs_elsewhere(&variants[i], i / (VKF_FORMAT_COUNT - 1)) || has_twin(i / (VKF_FORMAT_COUNT - 1))) continue;
      if (!is_asked_variant(vkf_kern_name(&variants[i], name, sizeof name))) continue;
      for (size_t at = 0; at < n_cases && (all || one || !n_ran); at += one ? 4 : 1) {
        vkf_case c = cases[(i * 7 + f * 5 + at) % n_cases];
        c.format = (vkf_format)f;
        n_ran += verify(d, &c, name);
      }
      n_compared += n_ran;
      if (!n_ran) explain(&variants[i], name, (vkf_format)f, vkf_gpu_device_caps(d->device->gpu));
    }
  }
  print_message("  %zu cases in other formats\n", n_compared);
}

/* Checks that another kernel has taken over by the end of the run and that the result is right. Returns false if the
 * variant does not fit. */
static bool is_left_to_another(driver *d, const vkf_case *c, const char *name) {
  vkf_case_program r;
  if (!start(d, d->device->backend, c, name, &r)) return false;
  assert_string_not_equal(d->device->backend->table->node_variant(r.program, 0, NULL), name);
  vkf_case_program_finish(&r);
  assert_true(verify(d, c, name));
  return true;
}

/* A kernel that rounds to f16 leaves activations beyond the range of f16 to another kernel. One that reads bf16 weights
 * does the same with weights beyond that range. */
static void test_wide_numbers(void **state) {
  driver *d = *state;
  size_t n = 0, n_tried = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  for (size_t i = 0; i < n; i++) {
    char name[96];
    vkf_case c = {0};
    size_t n_cases = 0;
    if (!variants[i].matrix.m) continue;
    const vkf_case *cases = vkf_op_cases(variants[i].op, &n_cases);
    for (size_t at = 0; at < n_cases; at++)
      if (cases[at].data == VKF_DATA_HUGE) c = cases[at];
    assert_non_null(c.name);
    c.format = format_of(&variants[i]);
    n_tried += is_left_to_another(d, &c, vkf_kern_name(&variants[i], name, sizeof name));
    if (!(variants[i].formats >> VKF_FORMAT_BF16 & 1)) continue;
    c.format = VKF_FORMAT_BF16;
    c.data = VKF_DATA_HUGE_W;
    n_tried += is_left_to_another(d, &c, name);
  }
  if (n_tried == 0) skip();
}

/* N is not compiled into a kernel: a matmul with another N uses the pipelines that exist. */
static void test_pipelines_are_shared(void **state) {
  driver *d = *state;
  size_t n = 0, before, after;
  const vkf_variant *variants = vkf_kern_variants(&n);
  const vkf_case one = {.name = "n 20",
                        .op = VKF_OP_MATMUL,
                        .params = {.matmul = {.rows = VKF_DIM_BS, .n = 20, .k = 256}},
                        .inputs = one_epilogue, /* compiled already */
                        .sizes = {.B = 1, .S = 5},
                        .data = VKF_DATA_HALVES};
  vkf_case other = one;
  other.params.matmul.n = 36;
  for (size_t i = 0; i < n; i++) {
    char name[96];
    vkf_kern_name(&variants[i], name, sizeof name);
    if (variants[i].op != VKF_OP_MATMUL || variants[i].combine || !is_asked_variant(name)) continue;
    if (!is_mine(&variants[i])) continue;
    if (!verify(d, &one, name)) continue;
    vkf_gpu_device_pipelines(d->device->gpu, &before, NULL);
    if (!verify(d, &other, name)) continue;
    vkf_gpu_device_pipelines(d->device->gpu, &after, NULL);
    if (after != before) fail_msg("%s: compiled anew for another N", name);
  }
}

/* A cache in f16 rounds every number to the right bits: ties, subnormal numbers, the largest, and those too large. */
static void test_cache_rounding(void **state) {
  driver *d = *state;
  size_t n_cases = 0;
  vkf_case c = vkf_op_cases(VKF_OP_APPEND, &n_cases)[0];
  vkf_backend *backend = d->device->backend;
  const vkf_program_options options = {.keep_all = true};
  vkf_case_run run;
  vkf_program *program = NULL;
  vkf_walk walk = {0};
  vkf_comparison j = {0};
  c.format = VKF_FORMAT_F16;
  driver_ok(d, vkf_case_make(&d->context->env, &c, &run));
  const vkf_slot *x = &run.plan.slots[run.plan.nodes[0].in[VKF_APPEND_X]];
  float *data = (float *)(uintptr_t)x->data;
  for (uint64_t round = 0; round < 24; round++) {
    for (uint64_t i = 0; i < vkf_slot_elements(x); i++) {
      uint32_t bits = (uint32_t)vkf_rng_u64(5, round, i);
      bits = (bits & 0x807fffffu) | (100 + (bits >> 23 & 255) % 46) << 23; /* 2^-27 to 2^18 */
      if (i % 3 == 0) bits = (bits & 0xffffe000u) | 0x1000u;               /* half way between two halves */
      if (i % 61 == 7) bits = 0x477fefffu + (uint32_t)(round % 2); /* the last that is kept, the first that is not */
      memcpy(&data[i], &bits, sizeof bits);
    }
    driver_ok(d, backend->table->program_create(backend, &run.plan, NULL, NULL, &options, &program));
    driver_ok(d, backend->table->run(program, &run.dims, 0, 1));
    driver_ok(d, vkf_ref_walk_init(&walk, &d->context->env, backend, &run.plan, program, &run.dims, &run.weights));
    driver_ok(d, vkf_ref_walk_node(&walk, 0, &j));
    if (!(j.ratio == 0))
      fail_msg("round %u: element %u is %.9g, expected %.9g", (unsigned)round, (unsigned)j.worst, j.worst_got,
               j.worst_exact);
    vkf_ref_walk_finish(&walk);
    backend->table->program_destroy(&program);
  }
  assert_true(j.n > 0);
  vkf_case_finish(&run);
}

/* q8 rounds to the same whole numbers as the scalar path, whatever the numbers: half way between two, many orders of
 * magnitude in one block, at and below 2^-100, NaN. A whole number that is off by 1 exceeds the bound of a sum of 64
 * products. */
static void test_q8_rounding(void **state) {
  driver *d = *state;
  const vkf_case c = {.name = "q8 rounding",
                      .op = VKF_OP_MATMUL,
                      .params = {.matmul = {.rows = VKF_DIM_BS, .n = 3, .k = 63}},
                      .sizes = {.B = 1, .S = 120},
                      .data = VKF_DATA_NORMAL,
                      .format = VKF_FORMAT_Q8};
  vkf_backend *backend = d->device->backend;
  vkf_case_program p = {0};
  vkf_walk walk = {0};
  vkf_comparison j = {0};
  driver_ok(d, vkf_case_make(&d->context->env, &c, &p.run));
  float *x = (float *)(uintptr_t)p.run.plan.slots[p.run.plan.nodes[0].in[VKF_MATMUL_X]].data;
  for (uint64_t i = 0; i < 120 * 63; i++) {
    const uint64_t row = i / 63, random = vkf_rng_u64(6, row, i);
    const int exponent = row % 6 < 3 ? 0 : (int)(random >> 40 & 15) - 12;
    x[i] = ldexpf((float)((int32_t)(random & 255) - 127) / 2, row % 7 == 0 ? -100 - (int)(row % 5) : exponent);
    if (row % 3 == 1) x[i] = nextafterf(x[i], random & 256 ? INFINITY : -INFINITY);
    if (i % 63 == row % 32) x[i] = ldexpf(row % 2 ? 127 : 63.5f, row % 7 == 0 ? -106 : (int)(row % 4));
    if (row % 40 == 39 && i % 63 == 40) x[i] = row == 39 ? NAN : -INFINITY;
  }
  driver_ok(d, vkf_case_program_ready(&p, backend, NULL));
  driver_ok(d, backend->table->run(p.program, &p.run.dims, 0, 1));
  driver_ok(d,
            vkf_ref_walk_init(&walk, &d->context->env, backend, &p.run.plan, p.program, &p.run.dims, &p.run.weights));
  driver_ok(d, vkf_ref_walk_node(&walk, 0, &j));
  if (!(j.ratio <= 1))
    fail_msg("element %u is %.9g, expected %.9g within %.3g", (unsigned)j.worst, j.worst_got, j.worst_exact,
             j.worst_bound);
  vkf_ref_walk_finish(&walk);
  vkf_case_program_finish(&p);
}

/* Returns the first output of a case, dense; the caller frees it. NULL: the variant does not fit. */
static float *first_output(driver *d, vkf_backend *backend, const vkf_case *c, const char *variant, size_t *n) {
  vkf_case_program r;
  if (!start(d, backend, c, variant, &r)) return NULL;
  uint32_t slot = r.run.plan.nodes[0].out[0];
  *n = vkf_slot_elements_at(&r.run.plan.slots[slot], &r.run.dims);
  float *out = malloc(*n * sizeof *out);
  assert_non_null(out);
  driver_ok(d, backend->table->read(r.program, slot, &r.run.dims, out));
  vkf_case_program_finish(&r);
  return out;
}

/* Within order class ascending a variant changes speed and never bits (all NaNs count as equal). Each variant runs its
 * share of the cases, for which it is compiled already. */
static void test_a_class_has_one_set_of_bits(void **state) {
  const vkf_op ops[] = {VKF_OP_NORM, VKF_OP_LOG_SOFTMAX, VKF_OP_ATTENTION};
  if (!is_asked_variant(NULL) || !(is_asked(ops[0]) || is_asked(ops[1]) || is_asked(ops[2]))) skip();
  driver *d = *state;
  size_t n = 0, n_compared = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  const bool is_fast = vkf_kern_order(vkf_gpu_device_caps(d->device->gpu), false) == VKF_ORDER_FAST;
  for (size_t o = 0; o < VKF_COUNT(ops); o++) {
    size_t n_cases = 0, n_expected = 0, n_found = 0;
    if (!is_asked(ops[o])) continue;
    const vkf_case *cases = vkf_op_cases(ops[o], &n_cases);
    for (size_t c = 0; c < n_cases; c++) {
      float *expected = NULL;
      for (size_t i = 0; i < n; i++) {
        char name[96];
        if (variants[i].op != ops[o] || variants[i].order != VKF_ORDER_ASCENDING || !is_mine(&variants[i])) continue;
        if (!is_in_share(&variants[i], c, i)) continue;
        float *found =
            first_output(d, d->device->backend, &cases[c], vkf_kern_name(&variants[i], name, sizeof name), &n_found);
        if (!found) continue;
        if (!expected) expected = first_output(d, d->device->backend, &cases[c], is_fast ? name : NULL, &n_expected);
        n_compared++;
        assert_int_equal(n_found, n_expected);
        for (size_t e = 0; e < n_found; e++)
          if (memcmp(&found[e], &expected[e], sizeof *found) && !(found[e] != found[e] && expected[e] != expected[e]))
            fail_msg("%s, case \"%s\": element %zu is %.9g, the variant that is chosen gives %.9g", name, cases[c].name,
                     e, found[e], expected[e]);
        free(found);
      }
      free(expected);
    }
  }
  print_message("  %zu pairs of variants have equal bits\n", n_compared);
  assert_true(n_compared >= 10);
}

/* Runs last, even if other tests failed. */
static void record_what_ran(void **state) {
  (void)state;
  const char *path = getenv("VKF_OP_RAN");
  size_t n = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  char name[96];
  FILE *file = path ? fopen(path, "w") : NULL;
  if (path && !file) fail_msg("%s: cannot be written", path);
  for (size_t i = 0; file && i < n; i++)
    fprintf(file, "%s %s\n", has_run[i] ? "ran" : "left", vkf_kern_name(&variants[i], name, sizeof name));
  assert_true(!file || fclose(file) == 0);
}

/* Lets buffers end at guard pages (guard_pages.c). */
static int setup(void **state) {
  driver_setup(state);
  vkf_gpu_inject(driver_shared(DRIVER_WITH_LAYER)->device->gpu, &(vkf_gpu_faults){.end_at = 4096});
  return 0;
}
#define GUARDED(name) cmocka_unit_test_setup(name, setup)

DRIVER_MAIN(GUARDED(test_every_case), GUARDED(test_every_variant), GUARDED(test_every_format),
            GUARDED(test_wide_numbers), GUARDED(test_cache_rounding), GUARDED(test_q8_rounding),
            GUARDED(test_pipelines_are_shared), GUARDED(test_a_class_has_one_set_of_bits),
            cmocka_unit_test(record_what_ran))
