/* bench_device: the problems "peak" and "overhead": the most that a device can do, and the cost of each step.
 *
 * Its kernels have known results: sums that become 2, products of matrices that each add a half, copies, and sums of
 * ones that are read from memory and from caches. A kernel with a wrong result is not timed. Sums and products are
 * repeated until a submit takes long enough; on GPUs the copies are larger than caches.
 */
#include <math.h>

#include "kern/kern.h"
#include "kern/spirv.h"
#include "lab/bench.h"
#include "tune/times.h"

enum { WORKGROUP = 64, FMA_GROUPS = 512, FMA_ROUNDS = 64, SUMS = 12, STEPS = 8, COPIED = 16, MAX_CONTESTANTS = 9 };
enum { MATRIX_SUMS = 8, MOST_ROUNDS = 1 << 15 }; /* sums of halves are exact up to there, and loops end */
enum { LEAST_NS = 2000 * 1000 };                 /* of a submit whose work can be repeated */
#define COPY_BYTES (UINT64_C(32) << 20)
#define COPY_BYTES_OF_GPU (UINT64_C(512) << 20) /* more than their last-level caches hold */
#define EMPTY_BYTES 256                         /* bound by the empty kernel, so that there is something to wait for */
#define CACHED_BYTES (UINT64_C(64) << 10)       /* of reads from caches */

/* Something that is recorded once and timed. */
typedef struct contestant {
  vkf_gpu_block *block;
  vkf_times times;
  vkf_bench_row row;
  uint32_t repeats; /* of what the row counts, in one submit */
} contestant;

typedef struct contest {
  vkf_env *env;
  vkf_gpu_device *device;
  const vkf_caps *caps;
  vkf_gpu_buffer *to, *from;
  contestant all[MAX_CONTESTANTS];
  uint32_t n;
} contest;

static void contest_finish(contest *c) {
  for (uint32_t i = 0; i < c->n; i++) {
    vkf_gpu_block_destroy(&c->all[i].block);
    vkf_tune_times_finish(&c->all[i].times, c->env);
  }
  vkf_gpu_buffer_destroy(&c->to);
  vkf_gpu_buffer_destroy(&c->from);
}

/* What to record: n dispatches of `groups` workgroups of a module. */
typedef struct work {
  const char *module;
  uint32_t groups, n;
  uint64_t to_bytes, from_bytes; /* written by a dispatch, and read; 0: no such binding */
  const void *push;
  uint32_t push_bytes;
  bool texel; /* reads through a texel buffer */
  vkf_matrix_shape matrix;
  uint32_t subgroup_size; /* of kernels with matrices */
} work;

static vkf_status get_pipeline(contest *c, const work *w, uint32_t n_bindings, vkf_gpu_pipeline **out) {
  static const vkf_gpu_binding_kind kinds[] = {VKF_GPU_BINDING_STORAGE, VKF_GPU_BINDING_TEXEL_F32X4};
  const uint32_t constants[] = {WORKGROUP, 0, w->matrix.m, w->matrix.n, w->matrix.k}; /* VKF_C_WORKGROUP to _BK */
  const struct vkf_kern_spirv *spirv = vkf_kern_spirv_find(vkf_kern_spirv_table, w->module);
  const vkf_gpu_pipeline_params params = {.name = w->module,
                                          .code = spirv->words,
                                          .code_bytes = spirv->n_words * 4,
                                          .constants = constants,
                                          .n_constants = w->matrix.m ? VKF_COUNT(constants) : 1,
                                          .subgroup_size = w->subgroup_size,
                                          .subgroup_full = vkf_gpu_wants_full(c->caps, WORKGROUP, w->subgroup_size),
                                          .n_bindings = n_bindings,
                                          .kinds = w->texel ? kinds : NULL,
                                          .push_bytes = w->push_bytes};
  return vkf_gpu_pipeline_get(c->device, &params, out);
}

static vkf_status record(contest *c, const work *w, contestant *out) {
  const vkf_gpu_block_params params = {w->module, VKF_GPU_TIMING_BLOCK, 0};
  vkf_gpu_pipeline *pipeline = NULL;
  const uint32_t n_bindings = w->from_bytes ? 2 : 1;
  const vkf_gpu_binding bindings[] = {{c->to, 0, w->to_bytes}, {c->from, 0, w->from_bytes}};
  const vkf_gpu_access accesses[] = {{c->to, 0, w->to_bytes, VKF_GPU_WRITE}, {c->from, 0, w->from_bytes, VKF_GPU_READ}};
  VKF_CALL(get_pipeline(c, w, n_bindings, &pipeline));
  VKF_CALL(vkf_gpu_block_begin(c->device, &params, &out->block));
  for (uint32_t i = 0; i < w->n; i++)
    VKF_CALL(vkf_gpu_block_dispatch(out->block, &(vkf_gpu_dispatch){.label = w->module,
                                                                    .pipeline = pipeline,
                                                                    .bindings = bindings,
                                                                    .n_bindings = n_bindings,
                                                                    .push = w->push,
                                                                    .push_bytes = w->push_bytes,
                                                                    .grid = {w->groups, 1, 1},
                                                                    .accesses = accesses,
                                                                    .n_accesses = n_bindings}));
  return vkf_gpu_block_end(out->block);
}

static vkf_status submit(contest *c, contestant *x) {
  uint64_t serial = 0;
  VKF_CALL(vkf_gpu_submit(c->device, &x->block, 1, &serial));
  return vkf_gpu_wait(c->device, serial);
}

/* Times one submit, by the device's time stamps if it has any, unless the row is about the host. */
static vkf_status time_one(void *user, uint32_t i, double *ns) {
  contest *c = user;
  contestant *x = &c->all[i];
  uint64_t start = vkf_clock_ns(), device_ns = 0;
  VKF_CALL(submit(c, x));
  *ns = (double)(vkf_clock_ns() - start);
  if (x->row.clock == VKF_CLOCK_DEVICE) {
    VKF_CALL(vkf_gpu_block_time(x->block, &device_ns));
    *ns = (double)device_ns;
  }
  *ns /= x->repeats;
  return VKF_OK;
}

/* Verifies that each of the n sums is `sum`. */
static vkf_status verify_sums(contest *c, contestant *x, size_t n, float sum) {
  vkf_status st = VKF_OK;
  float *sums = vkf_env_alloc(c->env, n, sizeof *sums);
  if (!sums) return VKF_ERROR_MEMORY;
  VKF_TRY(submit(c, x));
  VKF_TRY(vkf_gpu_buffer_read(c->to, 0, sums, n * sizeof *sums));
  for (size_t i = 0; i < n; i++)
    if (!(sums[i] == sum)) x->row.ratio = INFINITY;
done:
  vkf_env_free(c->env, sums);
  return st;
}

static vkf_status verify_copy(contest *c, contestant *x, uint64_t bytes) {
  enum { PIECE = 1 << 20 };
  vkf_status st = VKF_OK;
  uint32_t *read = vkf_env_alloc(c->env, PIECE, 1);
  if (!read) return VKF_ERROR_MEMORY;
  VKF_TRY(vkf_gpu_buffer_fill(c->from, 0, bytes, 0x3f812345u));
  VKF_TRY(vkf_gpu_buffer_fill(c->to, 0, bytes, 0));
  VKF_TRY(submit(c, x));
  for (uint64_t at = 0; at < bytes; at += PIECE) {
    const uint64_t n = VKF_MIN(bytes - at, PIECE);
    VKF_TRY(vkf_gpu_buffer_read(c->to, at, read, n));
    for (uint32_t i = 0; i < n / 4; i++)
      if (read[i] != 0x3f812345u) x->row.ratio = INFINITY;
  }
done:
  vkf_env_free(c->env, read);
  return st;
}

static contestant *add(contest *c, const char *problem, const char *variant, bool by_device) {
  contestant *x = &c->all[c->n++];
  x->repeats = 1;
  x->row = (vkf_bench_row){.size = sizeof(vkf_bench_row),
                           .problem = problem,
                           .variant = variant,
                           .clock = by_device && c->caps->timestamps ? VKF_CLOCK_DEVICE : VKF_CLOCK_SUBMIT,
                           .workgroup = WORKGROUP};
  return x;
}

/* Records work with as many rounds as make it long enough to time. flops: of a round. *rounds: how many. */
static vkf_status record_rounds(contest *c, const work *of, double flops, contestant *x, uint32_t *rounds) {
  struct {
    uint32_t rounds;
    float half, one;
  } push = {FMA_ROUNDS, 0.5f, 1};
  work w = *of;
  w.push = &push;
  w.push_bytes = sizeof push;
  for (;; push.rounds *= 4) {
    double ns[2]; /* the first run also compiles */
    VKF_CALL(record(c, &w, x));
    for (int i = 0; i < 2; i++) VKF_CALL(time_one(c, (uint32_t)(x - c->all), &ns[i]));
    if (ns[1] >= LEAST_NS || push.rounds * 4 > MOST_ROUNDS) break;
    vkf_gpu_block_destroy(&x->block);
  }
  *rounds = push.rounds;
  x->row.flops = flops * push.rounds;
  x->row.bytes = (double)w.to_bytes;
  return VKF_OK;
}

static vkf_status add_sums(contest *c) {
  static const char *const modules[][2] = {{"bench_fma", "fma"}, {"bench_mul_add", "multiply-add"}};
  for (size_t i = 0; i < VKF_COUNT(modules); i++) {
    contestant *x = add(c, "peak", modules[i][1], true);
    const work w = {.module = modules[i][0], .groups = FMA_GROUPS, .n = 1, .to_bytes = 4 * WORKGROUP * FMA_GROUPS};
    uint32_t rounds;
    VKF_CALL(record_rounds(c, &w, 2.0 * WORKGROUP * FMA_GROUPS * STEPS * SUMS, x, &rounds));
    VKF_CALL(verify_sums(c, x, (size_t)WORKGROUP * FMA_GROUPS, 2.0f * SUMS));
  }
  return VKF_OK;
}

/* Finds the first matrix shape of the device for which kernels are written, and its subgroup size. false: there is
 * none. */
static bool find_matrix(const vkf_caps *caps, work *w) {
  if (caps->is_cpu || !caps->coopmat) return false; /* kernels do not use matrices on CPU drivers */
  for (uint32_t i = 0; i < caps->n_matrix_shapes; i++)
    for (uint32_t size = 8; size <= WORKGROUP; size *= 2) {
      if (!vkf_kern_is_written_for_matrix(size, &caps->matrix_shapes[i]) || !vkf_kern_has_subgroup(caps, size))
        continue;
      w->matrix = caps->matrix_shapes[i];
      w->subgroup_size = size;
      return true;
    }
  return false;
}

static vkf_status add_matrices(contest *c) {
  work w = {.module = "bench_matrix", .groups = FMA_GROUPS, .n = 1};
  if (!vkf_kern_spirv_find(vkf_kern_spirv_table, w.module) || !find_matrix(c->caps, &w)) return VKF_OK;
  const uint32_t subgroups = FMA_GROUPS * (WORKGROUP / w.subgroup_size);
  const size_t n = (size_t)subgroups * w.matrix.m * w.matrix.n;
  uint32_t rounds;
  w.to_bytes = 4 * n;
  if (w.to_bytes > vkf_gpu_buffer_bytes(c->to)) return VKF_OK; /* the device's ranges are very small */
  contestant *x = add(c, "peak", "matrix", true);
  VKF_CALL(record_rounds(c, &w, 2.0 * (double)n * w.matrix.k * MATRIX_SUMS, x, &rounds));
  return verify_sums(c, x, n, 0.5f * MATRIX_SUMS * (float)rounds);
}

/* Adds reads of a large set and as many of a small one, for each way to read. */
static vkf_status add_reads(contest *c, uint64_t bytes, uint32_t groups) {
  static const struct {
    const char *module, *name;
    bool texel, cached;
  } reads[] = {{"bench_read", "read", false, false},
               {"bench_read_texel", "read-texels", true, false},
               {"bench_read", "read-cached", false, true},
               {"bench_read_texel", "read-texels-cached", true, true}};
  const uint32_t one = 0x3f800000u; /* 1.0f */
  VKF_CALL(vkf_gpu_buffer_fill(c->from, 0, bytes, one));
  for (size_t i = 0; i < VKF_COUNT(reads); i++) {
    const uint64_t set_bytes = reads[i].cached ? VKF_MIN(CACHED_BYTES, bytes) : bytes;
    const uint32_t set = (uint32_t)(set_bytes / 16);
    const work w = {.module = reads[i].module,
                    .groups = groups,
                    .n = 1,
                    .to_bytes = (uint64_t)groups * WORKGROUP * 4,
                    .from_bytes = set_bytes,
                    .push = &set,
                    .push_bytes = sizeof set,
                    .texel = reads[i].texel};
    if (reads[i].texel && (!c->caps->max_texel_bindings || c->caps->max_texel_elements < set)) continue;
    contestant *x = add(c, "peak", reads[i].name, true);
    x->row.bytes = (double)groups * WORKGROUP * (COPIED * 16 + 4);
    VKF_CALL(record(c, &w, x));
    VKF_CALL(verify_sums(c, x, (size_t)WORKGROUP * groups, 4.0f * COPIED));
  }
  return VKF_OK;
}

static vkf_status make_peak(contest *c) {
  uint64_t bytes = c->caps->is_cpu ? COPY_BYTES : COPY_BYTES_OF_GPU;
  while (bytes > c->caps->max_storage_range_bytes || bytes > c->caps->max_allocation_bytes ||
         (bytes > COPY_BYTES && bytes > c->caps->memory_bytes / 8))
    bytes /= 2;
  if (bytes < 4 * WORKGROUP * FMA_GROUPS) /* what the sums write */
    return vkf_env_fail(c->env, VKF_ERROR_UNSUPPORTED,
                        "expected storage ranges of at least %d bytes, found at most %llu", 4 * WORKGROUP * FMA_GROUPS,
                        (unsigned long long)c->caps->max_storage_range_bytes);
  const uint32_t groups = (uint32_t)(bytes / 16 / COPIED / WORKGROUP);
  const work copy = {.module = "bench_copy", .groups = groups, .n = 1, .to_bytes = bytes, .from_bytes = bytes};
  VKF_CALL(vkf_gpu_buffer_create(c->device, "to", VKF_GPU_MEMORY_DEVICE, bytes, &c->to));
  VKF_CALL(vkf_gpu_buffer_create(c->device, "from", VKF_GPU_MEMORY_DEVICE, bytes, &c->from));
  VKF_CALL(add_sums(c));
  VKF_CALL(add_matrices(c));
  contestant *x = add(c, "peak", "copy", true);
  x->row.bytes = 2.0 * (double)bytes;
  VKF_CALL(record(c, &copy, x));
  VKF_CALL(verify_copy(c, x, bytes));
  return add_reads(c, bytes, groups);
}

static vkf_status make_overhead(contest *c) {
  static const struct {
    const char *name;
    uint32_t groups, n;
    bool by_device;
  } rows[] = {{"submit and fence, nothing in it", 0, 0, false},
              {"submit and fence, one dispatch", 1, 1, false},
              {"a dispatch and its barrier, 1 group", 1, 64, true},
              {"a dispatch and its barrier, 32 groups", 32, 64, true},
              {"a dispatch and its barrier, 1024 groups", 1024, 64, true}};
  VKF_CALL(vkf_gpu_buffer_create(c->device, "to", VKF_GPU_MEMORY_DEVICE, EMPTY_BYTES, &c->to));
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    contestant *x = add(c, "overhead", rows[i].name, rows[i].by_device);
    x->repeats = VKF_MAX(rows[i].n, 1u);
    const work w = {.module = "bench_empty", .groups = rows[i].groups, .n = rows[i].n, .to_bytes = EMPTY_BYTES};
    VKF_CALL(record(c, &w, x));
  }
  return VKF_OK;
}

vkf_status vkf_lab_bench_device(vkf_device *dev, bool overhead, const vkf_bench_params *params, vkf_bench_fn on_row,
                                void *user) {
  vkf_status st = VKF_OK;
  vkf_times times[MAX_CONTESTANTS] = {{0}};
  contest c = {.env = &dev->ctx->env, .device = dev->gpu, .caps = vkf_gpu_device_caps(dev->gpu)};
  VKF_TRY(overhead ? make_overhead(&c) : make_peak(&c));
  for (uint32_t i = 0; i < c.n; i++) {
    VKF_TRY(vkf_tune_times_init(&c.all[i].times, c.env));
    if (c.all[i].row.ratio <= 1) times[i] = c.all[i].times; /* a wrong one is not timed */
  }
  const double warm = vkf_tune_warm_seconds(c.caps);
  VKF_TRY(vkf_tune_times_take(times, c.n, warm, params->seconds > 0 ? params->seconds : 0.5, time_one, &c));
  for (uint32_t i = 0; i < c.n; i++) {
    vkf_tune_times_summarize(&times[i], &c.all[i].row);
    VKF_CALLBACK(c.env, on_row(user, &c.all[i].row));
  }
done:
  contest_finish(&c);
  return st;
}
