/* The reproducible mode: every output of a forward pass has the bits of the scalar path in that mode, so any two
 * devices that pass have the same bits. Tests some folders, and every op by itself with special values among its
 * numbers. */
#include "kern/kern.h"
#include "op/case_program.h"
#include "ref/ref.h"
#include "support/golden.h"
#include "support/sessions.h"

enum { SPECIAL_ROOM = 1 << 20 };

/* Returns what a folder's model computes on a device. */
static vkf_result *run(const driver *d, const char *folder) {
  char path[GOLDEN_PATH];
  vkf_model *model = NULL;
  vkf_result *expected = NULL, *found = NULL;
  vkf_array inputs[GOLDEN_MAX_INPUTS];
  const vkf_run_params all = {VKF_RUN_PARAMS_INIT, .hidden_states = 1, .attentions = 1};
  driver_ok(d, vkf_model_open(d->device, golden_path(path, folder, "."), &model));
  driver_ok(d, vkf_arrays_read(d->context, golden_path(path, folder, "expected.safetensors"), &expected));
  driver_ok(d, vkf_session_run(session_of(model), inputs, golden_inputs(expected, inputs), &all, &found));
  vkf_result_destroy(&expected);
  close_model(&model);
  return found;
}

/* Counts the elements whose bits differ, over all outputs. */
static size_t count_differences(const char *folder, const driver *one, const driver *other) {
  size_t different = 0;
  vkf_result *a = run(one, folder), *b = run(other, folder);
  assert_true(vkf_result_count(a) > 0);
  assert_int_equal(vkf_result_count(a), vkf_result_count(b));
  for (size_t i = 0; i < vkf_result_count(a); i++) {
    const vkf_array *x = vkf_result_at(a, i), *y = vkf_result_find(b, x->name);
    size_t n = 1, before = different;
    if (!y) fail_msg("%s: no %s on the other device", folder, x->name);
    for (size_t j = 0; j < x->rank; j++) n *= x->shape[j];
    for (size_t j = 0; j < n; j++) different += ((const uint32_t *)x->data)[j] != ((const uint32_t *)y->data)[j];
    if (different > before) print_message("  %s: %s: %zu of %zu\n", folder, x->name, different - before, n);
  }
  vkf_result_destroy(&a);
  vkf_result_destroy(&b);
  return different;
}

static void test_bits_of_the_scalar_path(void **state) {
  static const char *const folders[] = {"marian",        "gpt-neox",          "llama-yarn",
                                        "t5-v1.1-gated", "bert-model-pooled", "vit"};
  driver ref = *(driver *)*state; /* in the same context */
  driver_ok(&ref, vkf_device_open(ref.context, "ref", &ref.device));
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    if (golden_is_in_share(i) && count_differences(folders[i], *state, &ref) > 0)
      fail_msg("%s: the bits differ", folders[i]);
  vkf_device_close(&ref.device);
}

/* The mode must change what is computed; else the test above would compare a device with itself. */
static void test_the_mode_is_another(void **state) {
  assert_true(count_differences("marian", *state, driver_shared(DRIVER_PLAIN)) > 0);
}

/* ---- special values, op by op ------------------------------------------------------------------------------------ */

/* The special values that a pass puts among the numbers of a case. */
static const struct {
  const char *name;
  uint32_t bits[12];
} kinds[] = {
    {"zeros and numbers too small",
     {0x80000000, 0x00000001, 0x807fffff, 0x00400000, 0x00800000, 0x80800001, 0x0d7fffff, 0x0d800000, 0x8dc00000,
      0x0dc00000, 0x8d800000, 0x00000000}},
    {"NaN",
     {0x7fc00000, 0xffc00001, 0x7f800001, 0x3f800000, 0xbf800000, 0x40000000, 0x3f800000, 0xc0400000, 0x3f000000,
      0x3f800001, 0xbf800000, 0x40000000}},
    {"infinities",
     {0x7f800000, 0xff800000, 0xff800000, 0x3f800000, 0xbf800000, 0x40000000, 0x3f800000, 0xc0400000, 0x3f000000,
      0x3f800001, 0xbf800000, 0x40000000}},
    {"the largest numbers",
     {0x7f7fffff, 0xff7fffff, 0x7effffff, 0xfe800000, 0x5f000000, 0xdf800000, 0x3f800000, 0xbf800000, 0x40000000,
      0x7f7fffff, 0x3f000000, 0xc2c80000}},
};

/* One number in `every` is of the kind; of weights one in 4 `every`, of the values of edits one in two. */
typedef struct special_source {
  vkf_weight_source plain;
  size_t kind, every;
} special_source;

static void put_special(size_t kind, size_t every, uint64_t seed, float *numbers, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) {
    const uint64_t pick = vkf_rng_u64(seed, kind, i);
    if (pick % every == 0) memcpy(&numbers[i], &kinds[kind].bits[pick / every % 12], sizeof *numbers);
  }
}

static void load_special(void *user, uint32_t index, uint32_t first, uint32_t n, float *dst) {
  const special_source *s = user;
  const vkf_weight_info *info = &s->plain.infos[index];
  const uint64_t width = info->rank == 2 ? info->shape[1] : 1;
  s->plain.load(s->plain.user, index, first, n, dst);
  for (uint32_t r = 0; r < n; r++)
    put_special(s->kind, 4 * s->every, 100 + index + (uint64_t)(first + r) * 7, dst + r * width, width);
}

/* The first addition to a row of logits meets a number that it makes special: a sum nearer to 0 than 2^-100, NaN (of
 * one, and of infinities of both signs), infinity. */
static void put_special_sums(const vkf_case_run *run, size_t kind) {
  static const uint32_t pairs[VKF_COUNT(kinds)][2] = {
      {0x0dc00000, 0x8d800000}, {0x3f800000, 0xffc00001}, {0x7f800000, 0xff800000}, {0x7f7fffff, 0x7f7fffff}};
  const uint32_t *in = run->plan.nodes[0].in;
  const vkf_slot *x = &run->plan.slots[in[VKF_LOGIT_EDIT_X]];
  const int32_t *offsets = run->plan.slots[in[VKF_LOGIT_EDIT_OFFSETS]].data;
  float *logits = (float *)(uintptr_t)x->data;
  int32_t *edits = (int32_t *)(uintptr_t)run->plan.slots[in[VKF_LOGIT_EDIT_EDITS]].data;
  const uint32_t width = x->extent[x->rank - 1].cap;
  for (uint64_t row = 0; row < vkf_slot_elements_at(x, &run->dims) / width; row++)
    for (int32_t e = offsets[row]; e < offsets[row + 1]; e++) {
      int32_t *edit = &edits[4 * e];
      if (edit[0] != VKF_LOGIT_EDIT_ADD || (uint32_t)edit[1] >= width) continue;
      memcpy(&logits[row * width + (uint32_t)edit[1]], &pairs[kind][0], sizeof *logits);
      memcpy(&edit[2], &pairs[kind][1], sizeof *edit);
      break;
    }
}

static void make_special(vkf_env *env, const vkf_case *c, size_t kind, size_t every, vkf_case_run *run,
                         special_source *source) {
  assert_int_equal(vkf_case_make(env, c, run), VKF_OK);
  for (uint32_t i = 0; i < VKF_MAX_INPUTS; i++) {
    const uint32_t slot = run->plan.nodes[0].in[i];
    if (slot == VKF_NO_SLOT || !run->plan.slots[slot].data) continue;
    const vkf_slot *s = &run->plan.slots[slot];
    float *data = (float *)(uintptr_t)s->data;
    if (s->dtype == VKF_F32) put_special(kind, every, 10 + i, data, vkf_slot_elements(s));
    for (uint32_t e = 0; c->op == VKF_OP_LOGIT_EDIT && i == VKF_LOGIT_EDIT_EDITS && e < s->extent[0].cap; e++)
      put_special(kind, 2, 50 + e, &data[4 * e + 2], 1);
  }
  if (c->op == VKF_OP_LOGIT_EDIT) put_special_sums(run, kind);
  *source = (special_source){.plain = run->weights, .kind = kind, .every = every};
  run->weights.user = source;
  run->weights.load = load_special;
}

/* Runs a case on a backend, by a variant or (NULL) the one that is picked, and puts all its outputs into `out`, which
 * has room for them. Returns their number; 0: the variant does not fit. */
static size_t run_special(vkf_context *context, vkf_backend *backend, const vkf_case *c, const char *variant,
                          size_t kind, size_t every, uint32_t *out) {
  size_t n = 0;
  special_source source;
  vkf_case_program p = {0};
  make_special(&context->env, c, kind, every, &p.run, &source);
  vkf_status st = vkf_case_program_ready(&p, backend, variant);
  const bool fits = st != VKF_OK || p.program;
  if (st == VKF_OK && fits) st = backend->table->run(p.program, &p.run.dims, 0, 1);
  for (uint32_t o = 0; st == VKF_OK && fits && o < VKF_MAX_OUTPUTS; o++) {
    const uint32_t slot = p.run.plan.nodes[0].out[o];
    if (slot == VKF_NO_SLOT) continue;
    st = backend->table->read(p.program, slot, &p.run.dims, out + n);
    n += vkf_slot_elements_at(&p.run.plan.slots[slot], &p.run.dims);
    assert_true(n < SPECIAL_ROOM);
  }
  if (st != VKF_OK) fail_msg("%s, \"%s\": %s", vkf_op_name(c->op), c->name, last_message(context));
  vkf_case_program_finish(&p);
  return n;
}

/* A few cases of every op, with special values of every kind, must have the scalar path's bits. Elements that the op
 * does not write hold a NaN on both. */
static void test_special_values(void **state) {
  driver *d = *state;
  static uint32_t own[SPECIAL_ROOM], expected[SPECIAL_ROOM];
  vkf_backend *ref = NULL;
  size_t n_bad_ops = 0;
  assert_int_equal(vkf_ref_backend_create(&d->context->env, &ref), VKF_OK);
  ref->reproducible = true;
  for (uint32_t op = 0; op < VKF_OP_COUNT; op++) {
    size_t n_cases = 0, n_compared = 0, n_different = 0;
    const vkf_case *cases = vkf_op_cases((vkf_op)op, &n_cases);
    for (size_t i = 0; i < n_cases; i += VKF_MAX(n_cases / 6, (size_t)1)) {
      for (size_t kind = 0; kind < VKF_COUNT(kinds); kind++) {
        const size_t every = kind == 0 ? 2 : 40;
        const size_t n = run_special(d->context, d->device->backend, &cases[i], NULL, kind, every, own);
        assert_int_equal(run_special(d->context, ref, &cases[i], NULL, kind, every, expected), n);
        size_t at = 0, before = n_different;
        for (size_t e = 0; e < n; e++) {
          if (own[e] == expected[e]) continue;
          if (n_different++ == before) at = e;
        }
        n_compared += n;
        if (n_different > before)
          print_message("  %s, \"%s\", %s: %zu of %zu differ, element %zu is %08x, expected %08x\n", vkf_op_name(op),
                        cases[i].name, kinds[kind].name, n_different - before, n, at, own[at], expected[at]);
      }
    }
    if (n_different || !n_compared) n_bad_ops++;
  }
  assert_int_equal(n_bad_ops, 0);
  ref->table->destroy(&ref);
}

/* Even without the mode no kernel of top_k may take different subnormal numbers for ties. */
static void test_ties_of_tiny_numbers(void **state) {
  driver *d = *state;
  static uint32_t own[SPECIAL_ROOM], expected[SPECIAL_ROOM];
  vkf_backend *ref = NULL;
  size_t n_variants = 0, n_cases = 0, n_compared = 0;
  const vkf_variant *variants = vkf_kern_variants(&n_variants);
  const vkf_case *cases = vkf_op_cases(VKF_OP_TOP_K, &n_cases);
  assert_int_equal(vkf_ref_backend_create(&d->context->env, &ref), VKF_OK);
  for (size_t i = 0; i < n_cases; i += 3) {
    const size_t n = run_special(d->context, ref, &cases[i], NULL, 0, 1, expected);
    for (size_t v = 0; v < n_variants && d->device->gpu; v++) {
      char name[96];
      if (variants[v].op != VKF_OP_TOP_K) continue;
      vkf_kern_name(&variants[v], name, sizeof name);
      const size_t found = run_special(d->context, d->device->backend, &cases[i], name, 0, 1, own);
      if (!found) continue;
      assert_int_equal(found, n);
      for (size_t e = 0; e < n; e++)
        if (own[e] != expected[e])
          fail_msg("%s, \"%s\": element %zu is %08x, expected %08x", name, cases[i].name, e, own[e], expected[e]);
      n_compared++;
    }
  }
  assert_true(n_compared > 0 || !d->device->gpu);
  ref->table->destroy(&ref);
}

DRIVER_MAIN(DRIVER_TEST_REPRODUCIBLE(test_bits_of_the_scalar_path), DRIVER_TEST_REPRODUCIBLE(test_the_mode_is_another),
            DRIVER_TEST_REPRODUCIBLE(test_special_values), DRIVER_TEST(test_ties_of_tiny_numbers))
