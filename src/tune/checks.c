/* checks: the list of checks: what each one runs, and which facts change when it fails. */
#include "tune/checks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kern/kern.h"
#include "shared/constants.h"
#include "shared/reproducible.h"

/* Turns of loops to check: as many as work can be split for, and many more for devices that state no limit. */
enum { LOOP_TURNS = 65535, LONG_LOOP_TURNS = 1 << 20 };
enum { SUBGROUPS = 4 };                              /* of a workgroup that has several */
enum { WORKGROUP = 64, MAX_SHARED_WORKGROUP = 256 }; /* the largest that a kernel with shared memory has */

static uint32_t bits_of(float x) {
  return (uint32_t)vkf_reproducible_bits(x);
}

/* Returns a pseudo-random word for i. */
static uint32_t noise(uint32_t i) {
  return (uint32_t)vkf_rng_u64(18, 0, i);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static void size_words(const vkf_check_trial *t, uint32_t own, uint32_t *given, uint32_t *expected) {
  given[0] = noise(own);
  expected[0] = t->subgroup_size;
}

/* Returns the first lane of its subgroup. */
static uint32_t first_of(const vkf_check_trial *t, uint32_t own) {
  return own - own % t->subgroup_size;
}

static void shuffle_words(const vkf_check_trial *t, uint32_t own, uint32_t *given, uint32_t *expected) {
  const uint32_t first = first_of(t, own), lane = own - first;
  given[0] = noise(own);
  expected[0] = noise(first + t->subgroup_size - 1 - lane);
  expected[1] = noise(first + noise(0) % t->subgroup_size);
  expected[2] = noise(own ^ 1);
  expected[3] = noise(own ^ t->subgroup_size / 2);
}

static void ballot_words(const vkf_check_trial *t, uint32_t own, uint32_t *given, uint32_t *expected) {
  const uint32_t first = first_of(t, own);
  uint64_t odd = 0;
  for (uint32_t i = 0; i < t->subgroup_size; i++) odd |= (uint64_t)(noise(first + i) & 1) << i;
  given[0] = noise(own);
  expected[0] = noise(first);
  expected[1] = noise(first + 3);
  expected[2] = (uint32_t)odd;
  expected[3] = (uint32_t)(odd >> 32);
}

/* Adds whole numbers below 2^16; the sum is exact in any order. */
static void arithmetic_words(const vkf_check_trial *t, uint32_t own, uint32_t *given, uint32_t *expected) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < t->subgroup_size; i++) sum += noise(first_of(t, own) + i) & 0xffff;
  given[0] = noise(own);
  expected[0] = bits_of((float)sum);
}

static void shared_words(const vkf_check_trial *t, uint32_t own, uint32_t *given, uint32_t *expected) {
  const uint32_t factor = noise(0) | 1, n = t->shared_words;
  given[0] = factor;
  expected[0] = 0;
  for (uint32_t i = own; i < n; i += t->workgroup) expected[0] += (n - i) * factor;
  expected[1] = (uint32_t)((uint64_t)n * (n + 1) / 2) * factor;
}

/* Returns a small whole number: sums of up to 64 products and one more number are exact in every order and
 * precision. */
static float matrix_number(uint32_t i, uint32_t first_bit, uint32_t n_bits) {
  const uint32_t most = (1u << n_bits) - 1;
  return (float)(noise(i) >> first_bit & most) - (float)(most / 2);
}

/* Returns the words of a subgroup: elements of the largest of the three matrices. */
static uint32_t matrix_elements(const vkf_matrix_shape *s) {
  return VKF_MAX(s->m * s->n, VKF_MAX(s->m, s->n) * s->k);
}

static void matrix_words(const vkf_check_trial *t, uint32_t own, uint32_t *given, uint32_t *expected) {
  const vkf_matrix_shape *s = &t->matrix;
  const uint32_t e = own % matrix_elements(s), first = own - e, row = e / s->n, column = e % s->n;
  float sum = matrix_number(own, 6, 6);
  given[0] = noise(own);
  for (uint32_t k = 0; k < s->k; k++)
    sum += matrix_number(first + row * s->k + k, 0, 3) * matrix_number(first + k * s->n + column, 3, 3);
  expected[0] = expected[1] = e < s->m * s->n ? bits_of(sum) : 0;
}

static void copied_words(const vkf_check_trial *t, uint32_t i, uint32_t *given, uint32_t *expected) {
  (void)t;
  given[0] = expected[0] = noise(i);
}

static void half_words(const vkf_check_trial *t, uint32_t i, uint32_t *given, uint32_t *expected) {
  (void)t;
  given[0] = 2 * i | (2 * i + 1) << 16;
  for (uint32_t k = 0; k < 2; k++) {
    const float value = vkf_f16_to_f32((uint16_t)(2 * i + k));
    expected[k] = isnan(value) ? 0x7fc00000u : bits_of(value);
  }
}

/* All f16 numbers, with infinity in place of NaN. */
static void float16_words(const vkf_check_trial *t, uint32_t i, uint32_t *given, uint32_t *expected) {
  (void)t;
  given[0] = 0;
  for (uint32_t k = 0; k < 2; k++) {
    const uint32_t n = 2 * i + k, magnitude = VKF_MIN(n & 0x7fff, 0x7c00u);
    given[0] |= ((n & 0x8000) | magnitude) << 16 * k;
  }
  expected[0] = given[0];
}

static void storage16_words(const vkf_check_trial *t, uint32_t i, uint32_t *given, uint32_t *expected) {
  (void)t;
  given[0] = noise(i);
  expected[0] = given[0] << 16 | given[0] >> 16;
}

static void dot_words(const vkf_check_trial *t, uint32_t i, uint32_t *given, uint32_t *expected) {
  int32_t sum = 0;
  (void)t;
  for (uint32_t k = 0; k < 2; k++) given[k] = i ? noise(2 * i + k) : 0x80808080u;
  for (uint32_t c = 0; c < 32; c += 8) sum += (int8_t)(given[0] >> c) * (int8_t)(given[1] >> c);
  expected[0] = (uint32_t)sum;
}

static void storage8_words(const vkf_check_trial *t, uint32_t i, uint32_t *given, uint32_t *expected) {
  (void)t;
  const uint32_t x = given[0] = noise(i);
  expected[0] = x << 24 | (x & 0xff00) << 8 | (x >> 8 & 0xff00) | x >> 24;
}

/* Random numbers of magnitudes 2^-32 to 2^32. */
static void rounding_words(const vkf_check_trial *t, uint32_t i, uint32_t *given, uint32_t *expected) {
  float x[3];
  (void)t;
  for (uint32_t k = 0; k < 3; k++) {
    const uint32_t word = noise(3 * i + k);
    given[k] = (word & 0x807fffff) | (95 + (word >> 23 & 63)) << 23;
    x[k] = vkf_reproducible_float((int32_t)given[k]);
  }
  if (i % 2) { /* almost cancels: a fused multiply-add has other bits */
    x[2] = -vkf_reproducible_mul(x[0], x[1]);
    given[2] = bits_of(x[2]);
  }
  expected[0] = bits_of(vkf_reproducible_div(x[0], x[1]));
  expected[1] = bits_of(sqrtf(fabsf(x[1])));
  expected[2] = bits_of(vkf_reproducible_mad(x[0], x[1], x[2]));
}

/* The sequence of probe_loops: each turn of a loop computes the next number. */
static void loop_words(const vkf_check_trial *t, uint32_t i, uint32_t *given, uint32_t *expected) {
  const uint32_t nested = VKF_PROBE_INNER_TURNS + 1, rounds = t->turns / nested;
  given[0] = expected[0] = noise(i);
  for (uint32_t k = 0; k < rounds * VKF_PROBE_INNER_TURNS + t->turns % nested; k++)
    expected[0] = expected[0] * VKF_PROBE_FACTOR + VKF_PROBE_TERM;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

#define FACT(member) .fact = offsetof(vkf_caps, member)

static const vkf_check_row rows[VKF_N_CHECKS] = {
    [VKF_CHECK_OF_SUBGROUP_SIZE] = {"subgroup_size", "size of subgroups", "probe_subgroup", .by_subgroup_size = true,
                                    .n_given = 1, .n_found = 1, .words = size_words},
    [VKF_CHECK_OF_SHUFFLE] = {"subgroup_shuffle", "subgroup shuffle", "probe_shuffle", FACT(subgroup_shuffle),
                              .by_subgroup_size = true, .n_given = 1, .n_found = 4, .words = shuffle_words},
    [VKF_CHECK_OF_BALLOT] = {"subgroup_ballot", "subgroup ballot and broadcast", "probe_ballot", FACT(subgroup_ballot),
                             .by_subgroup_size = true, .n_given = 1, .n_found = 4, .words = ballot_words},
    [VKF_CHECK_OF_ARITHMETIC] = {"subgroup_arithmetic", "subgroup arithmetic", "probe_arithmetic",
                                 FACT(subgroup_arithmetic), .by_subgroup_size = true, .n_given = 1, .n_found = 1,
                                 .words = arithmetic_words},
    [VKF_CHECK_OF_SHARED] = {"shared", "shared memory and barriers", "probe_shared", .n_given = 1, .n_found = 2,
                             .words = shared_words},
    [VKF_CHECK_OF_ADDRESS] = {"buffer_address", "buffer addresses", "probe_address", FACT(buffer_address),
                              .n_invocations = 256, .n_given = 1, .n_found = 1, .words = copied_words},
    [VKF_CHECK_OF_HALF] = {"half", "the driver's unpacking of 16-bit numbers", "probe_half", .n_invocations = 0x8000,
                           .n_given = 1, .n_found = 2, .words = half_words},
    [VKF_CHECK_OF_FLOAT16] = {"float16", "packing of 16-bit numbers", "probe_float16", FACT(float16),
                              .n_invocations = 0x8000, .n_given = 1, .n_found = 1, .words = float16_words},
    [VKF_CHECK_OF_STORAGE16] = {"storage16", "16-bit storage", "probe_storage16", FACT(storage16), .n_invocations = 256,
                                .n_given = 1, .n_found = 1, .words = storage16_words},
    [VKF_CHECK_OF_STORAGE8] = {"storage8", "8-bit storage", "probe_storage8", FACT(storage8), .n_invocations = 256,
                               .n_given = 1, .n_found = 1, .words = storage8_words},
    [VKF_CHECK_OF_MATRIX] = {"coopmat", "cooperative matrices", "probe_matrix", FACT(coopmat), .by_subgroup_size = true,
                             .by_matrix = true, .n_given = 1, .n_found = 2, .words = matrix_words},
    [VKF_CHECK_OF_INTEGER_DOT] = {"integer_dot", "products of four 8-bit numbers in a word, added up", "probe_dot",
                                  FACT(integer_dot), .n_invocations = 1024, .n_given = 2, .n_found = 1,
                                  .words = dot_words},
    [VKF_CHECK_OF_TIMESTAMPS] = {"timestamps", "time stamps", FACT(timestamps)},
    [VKF_CHECK_OF_ROUNDING] = {"rounding", "quotients, roots, products and sums rounded one by one", "probe_rounding",
                               .n_invocations = 1024, .n_given = 3, .n_found = 3, .words = rounding_words},
    [VKF_CHECK_OF_LOOPS] = {"loops", "loops to their end", "probe_loops", .n_invocations = 1, .n_given = 1,
                            .n_found = 1, .words = loop_words},
    [VKF_CHECK_OF_LONG_LOOPS] = {"long_loops", "long loops to their end", "probe_loops", .n_invocations = 1,
                                 .n_given = 1, .n_found = 1, .words = loop_words},
    [VKF_CHECK_OF_REPRODUCIBLE] = {.name = "reproducible", .title = "kernels of the reproducible mode"},
};

const vkf_check_row *vkf_tune_check_row(vkf_check check) {
  return &rows[check];
}

static bool stands_before(const vkf_matrix_shape *shapes, uint32_t i) {
  for (uint32_t k = 0; k < i; k++)
    if (shapes[k].m == shapes[i].m && shapes[k].n == shapes[i].n && shapes[k].k == shapes[i].k) return true;
  return false;
}

/* Adds a trial for each shape of the device that kernels for subgroups of this size use; returns the new count. */
static uint32_t matrix_trials(const vkf_caps *caps, uint32_t size, vkf_check_trial trials[VKF_MAX_TRIALS], uint32_t n) {
  for (uint32_t i = 0; i < caps->n_matrix_shapes && n < VKF_MAX_TRIALS; i++) {
    const vkf_matrix_shape *s = &caps->matrix_shapes[i];
    if (!vkf_kern_is_written_for_matrix(size, s) || stands_before(caps->matrix_shapes, i)) continue;
    const uint32_t subgroups = VKF_PROBE_MATRIX_SUBGROUPS;
    trials[n++] = (vkf_check_trial){.subgroup_size = size,
                                    .workgroup = subgroups * size,
                                    .n_groups = 1,
                                    .n = subgroups * matrix_elements(s),
                                    .matrix = *s};
  }
  return n;
}

/* Adds trials with a workgroup of one subgroup and of several; returns the new count. */
static uint32_t subgroup_trials(const vkf_caps *caps, uint32_t size, vkf_check_trial trials[VKF_MAX_TRIALS],
                                uint32_t n) {
  const uint32_t most = VKF_MIN(caps->max_invocations, caps->max_workgroup_size[0]);
  const uint32_t counts[] = {1, VKF_MIN(most / size, SUBGROUPS)};
  for (uint32_t i = 0; i < VKF_COUNT(counts) && n < VKF_MAX_TRIALS; i++) {
    const uint32_t all = counts[i] * size;
    if (i > 0 && counts[i] < 2) break;
    trials[n++] = (vkf_check_trial){.subgroup_size = size, .workgroup = all, .n_groups = 1, .n = all};
  }
  return n;
}

uint32_t vkf_tune_check_trials(vkf_check check, const vkf_caps *caps, vkf_check_trial trials[VKF_MAX_TRIALS]) {
  const vkf_check_row *row = &rows[check];
  uint32_t n = 0;
  for (uint32_t size = 1; row->by_subgroup_size && size <= 128; size *= 2) {
    if (!vkf_kern_is_written_for(size) || !vkf_kern_has_subgroup(caps, size)) continue;
    if (row->by_matrix)
      n = matrix_trials(caps, size, trials, n);
    else
      n = subgroup_trials(caps, size, trials, n);
  }
  if (row->by_subgroup_size || !row->module) return n;
  trials[0] =
      (vkf_check_trial){.workgroup = WORKGROUP, .n_groups = row->n_invocations / WORKGROUP, .n = row->n_invocations};
  if (check == VKF_CHECK_OF_SHARED) {
    const uint32_t most = VKF_MIN(caps->max_invocations, caps->max_workgroup_size[0]);
    trials[0] = (vkf_check_trial){.n_groups = 1, .shared_words = caps->max_shared_bytes / 4};
    trials[0].workgroup = WORKGROUP;
    if (trials[0].shared_words < WORKGROUP) return 0; /* the shader has a word for each invocation */
    while (2 * trials[0].workgroup <= VKF_MIN(VKF_MIN(most, MAX_SHARED_WORKGROUP), trials[0].shared_words))
      trials[0].workgroup *= 2;
    trials[0].n = trials[0].workgroup;
  }
  if (check == VKF_CHECK_OF_LOOPS || check == VKF_CHECK_OF_LONG_LOOPS) {
    const uint32_t turns = check == VKF_CHECK_OF_LOOPS ? LOOP_TURNS : LONG_LOOP_TURNS;
    trials[0] = (vkf_check_trial){.workgroup = 1, .n_groups = 1, .n = 1, .turns = VKF_MIN(caps->max_loop_turns, turns)};
  }
  return 1;
}

bool vkf_tune_check_text(vkf_check check, const vkf_caps *caps, char *text, size_t size) {
  vkf_check_trial trials[VKF_MAX_TRIALS] = {{0}};
  const uint32_t n = vkf_tune_check_trials(check, caps, trials);
  snprintf(text, size, "%s", rows[check].name);
  for (uint32_t i = 0; rows[check].by_subgroup_size && i < n; i++) {
    const vkf_matrix_shape *s = &trials[i].matrix;
    snprintf(text + strlen(text), size - strlen(text), "%c%u", i ? ',' : ':', trials[i].subgroup_size);
    const uint32_t n_subgroups = trials[i].workgroup / trials[i].subgroup_size;
    if (n_subgroups > 1) snprintf(text + strlen(text), size - strlen(text), "x%u", n_subgroups);
    if (s->m) snprintf(text + strlen(text), size - strlen(text), "-%ux%ux%u", s->m, s->n, s->k);
  }
  if (check == VKF_CHECK_OF_SHARED) snprintf(text, size, "%s:%u", rows[check].name, caps->max_shared_bytes);
  if (check == VKF_CHECK_OF_TIMESTAMPS) snprintf(text, size, "%s:%g", rows[check].name, caps->timestamp_ns);
  if (trials[0].turns) snprintf(text, size, "%s:%u", rows[check].name, trials[0].turns);
  if (check == VKF_CHECK_OF_LONG_LOOPS) return caps->max_loop_turns > LOOP_TURNS;
  return !rows[check].fact || *(const bool *)((const char *)caps + rows[check].fact);
}

const struct vkf_kern_spirv *vkf_tune_check_module(vkf_check check, const struct vkf_kern_spirv *modules) {
  return vkf_kern_spirv_find(modules, rows[check].module);
}

const char *vkf_tune_check_not_done(vkf_check check, const vkf_caps *caps, const struct vkf_kern_spirv *modules) {
  vkf_check_trial trials[VKF_MAX_TRIALS];
  if (!rows[check].module) return NULL;
  if (!vkf_tune_check_module(check, modules)) return "the shader compiler of this build did not know it";
  if (vkf_tune_check_trials(check, caps, trials)) return NULL;
  if (check == VKF_CHECK_OF_SHARED) return "the device has less shared memory than the check needs";
  return rows[check].by_matrix ? "no kernel is written for matrices of these shapes in subgroups of this size"
                               : "no kernel is written for subgroups of this size";
}

void vkf_tune_check_mark_failed(vkf_caps *caps, vkf_check check) {
  caps->failed_checks |= 1u << check;
  if (rows[check].fact) *(bool *)((char *)caps + rows[check].fact) = false;
  if (check == VKF_CHECK_OF_SHARED) caps->max_shared_bytes = 0;
  if (check == VKF_CHECK_OF_TIMESTAMPS) caps->timestamp_ns = 0;
  if (check == VKF_CHECK_OF_LONG_LOOPS) caps->max_loop_turns = VKF_MIN(caps->max_loop_turns, LOOP_TURNS);
  if (check == VKF_CHECK_OF_LOOPS) caps->max_loop_turns = 0;
  if (check != VKF_CHECK_OF_SUBGROUP_SIZE) return;
  caps->subgroup_size = caps->subgroup_min = caps->subgroup_max = 0;
  caps->subgroup_size_control = caps->subgroup_full = false;
}
