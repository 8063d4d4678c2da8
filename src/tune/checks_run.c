/* checks_run: runs checks on a device. All shaders run in one submit; the host compares their words with those that it
 * expects. The check of the clock compares the time between the ends of two submits with the host's.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <time.h>

#include "tune/checks.h"

enum { MAX_ALL_TRIALS = VKF_N_CHECKS * VKF_MAX_TRIALS, MAX_WORDS = 4 };

/* A trial that runs. */
typedef struct attempt {
  vkf_check check;
  const vkf_check_row *row;
  vkf_check_trial trial;
  uint32_t constants[5], push[2];
  vkf_gpu_pipeline_params params;
  uint64_t given_begin, found_begin; /* offsets in the buffers, bytes */
  uint64_t given_bytes, found_bytes;
} attempt;

typedef struct attempts {
  vkf_env *env;
  vkf_gpu_device *device;
  vkf_check_result *results;
  attempt all[MAX_ALL_TRIALS];
  uint32_t n;
  vkf_gpu_buffer *given, *found;
  uint64_t given_bytes, found_bytes;
} attempts;

/* Marks the check as failed. Keeps ASCII only, because the text is written to files and may be cut. */
static void fail_check(vkf_check_result *result, const char *text) {
  result->state = VKF_CHECK_FAILED;
  snprintf(result->text, sizeof result->text, "%.*s", (int)sizeof result->text - 1, text);
  for (char *c = result->text; *c; c++)
    if (*c < ' ' || *c > '~') *c = '?';
}

/* ---- what is tried ----------------------------------------------------------------------------------------------- */

static void add(attempts *a, vkf_check check, const struct vkf_kern_spirv *module, const vkf_check_trial *trial) {
  const vkf_caps *caps = vkf_gpu_device_caps(a->device);
  const uint64_t align = VKF_MAX(caps->storage_offset_alignment, 16);
  attempt *it = &a->all[a->n++];
  *it = (attempt){.check = check, .row = vkf_tune_check_row(check), .trial = *trial};
  it->constants[0] = trial->workgroup; /* VKF_C_WORKGROUP, _SUBGROUP_SIZE, _BM, _BN, _BK */
  it->constants[1] = VKF_MAX(trial->subgroup_size, 1);
  it->constants[2] = trial->matrix.m ? trial->matrix.m : VKF_MAX(VKF_MAX(trial->shared_words, trial->turns), 1);
  it->constants[3] = VKF_MAX(trial->matrix.n, 1);
  it->constants[4] = VKF_MAX(trial->matrix.k, 1);
  it->given_begin = VKF_ROUND_UP(a->given_bytes, align);
  it->found_begin = VKF_ROUND_UP(a->found_bytes, align);
  it->given_bytes = (uint64_t)trial->n * it->row->n_given * 4;
  it->found_bytes = (uint64_t)trial->n * it->row->n_found * 4;
  a->given_bytes = it->given_begin + it->given_bytes;
  a->found_bytes = it->found_begin + it->found_bytes;
  it->params =
      (vkf_gpu_pipeline_params){.name = module->name,
                                .code = module->words,
                                .code_bytes = module->n_words * 4,
                                .constants = it->constants,
                                .n_constants = VKF_COUNT(it->constants),
                                .n_bindings = 2,
                                .push_bytes = sizeof it->push,
                                .subgroup_size = trial->subgroup_size,
                                .subgroup_full = vkf_gpu_wants_full(caps, trial->workgroup, trial->subgroup_size)};
}

static void list(attempts *a, const struct vkf_kern_spirv *modules, uint32_t wanted) {
  const vkf_caps *caps = vkf_gpu_device_caps(a->device);
  vkf_check_trial trials[VKF_MAX_TRIALS];
  char text[64];
  for (vkf_check check = 0; check < VKF_N_CHECKS; check++) {
    if (!(wanted >> check & 1) || !vkf_tune_check_row(check)->module) continue;
    if (!vkf_tune_check_text(check, caps, text, sizeof text)) continue;
    if (vkf_tune_check_not_done(check, caps, modules)) continue;
    const uint32_t n = vkf_tune_check_trials(check, caps, trials);
    for (uint32_t i = 0; i < n; i++) add(a, check, vkf_tune_check_module(check, modules), &trials[i]);
  }
}

/* Makes all pipelines, then gets them one by one to find which failed. A lost device or too little memory fails no
 * check. */
static vkf_status make_pipelines(attempts *a, vkf_gpu_pipeline *pipelines[MAX_ALL_TRIALS]) {
  vkf_status st = VKF_OK;
  vkf_gpu_pipeline_params params[MAX_ALL_TRIALS];
  for (uint32_t i = 0; i < a->n; i++) params[i] = a->all[i].params;
  st = vkf_gpu_pipelines_make(a->device, params, a->n);
  for (uint32_t i = 0; i < a->n && (st == VKF_OK || st == VKF_ERROR_DEVICE); i++) {
    vkf_env_clear(a->env);
    st = vkf_gpu_pipeline_get(a->device, &params[i], &pipelines[i]);
    if (st != VKF_ERROR_DEVICE) continue;
    fail_check(&a->results[a->all[i].check], a->env->message);
    pipelines[i] = NULL;
  }
  if (st != VKF_ERROR_DEVICE) return st;
  vkf_env_clear(a->env);
  return VKF_OK;
}

static vkf_status write_given(attempts *a) {
  vkf_status st = VKF_OK;
  uint32_t expected[MAX_WORDS];
  uint32_t *given = vkf_env_alloc(a->env, (size_t)a->given_bytes, 1);
  if (!given) return VKF_ERROR_MEMORY;
  for (uint32_t k = 0; k < a->n; k++) {
    const attempt *it = &a->all[k];
    for (uint32_t i = 0; i < it->trial.n; i++)
      it->row->words(&it->trial, i, given + it->given_begin / 4 + (size_t)i * it->row->n_given, expected);
  }
  VKF_TRY(vkf_gpu_buffer_write(a->given, 0, given, a->given_bytes));
  VKF_TRY(vkf_gpu_buffer_fill(a->found, 0, a->found_bytes, 0xdeadbeefu)); /* marks words that are never written */
done:
  vkf_env_free(a->env, given);
  return st;
}

static vkf_status record(attempts *a, vkf_gpu_pipeline *const *pipelines, vkf_gpu_block *block) {
  for (uint32_t i = 0; i < a->n; i++) {
    attempt *it = &a->all[i];
    const uint64_t address = vkf_gpu_buffer_address(a->given) + it->given_begin;
    it->push[0] = (uint32_t)address;
    it->push[1] = (uint32_t)(address >> 32);
    const vkf_gpu_binding bindings[] = {{a->given, it->given_begin, it->given_bytes},
                                        {a->found, it->found_begin, it->found_bytes}};
    const vkf_gpu_access accesses[] = {{a->given, it->given_begin, it->given_begin + it->given_bytes, VKF_GPU_READ},
                                       {a->found, it->found_begin, it->found_begin + it->found_bytes, VKF_GPU_WRITE}};
    if (pipelines[i])
      VKF_CALL(vkf_gpu_block_dispatch(block, &(vkf_gpu_dispatch){.label = it->row->name,
                                                                 .pipeline = pipelines[i],
                                                                 .bindings = bindings,
                                                                 .n_bindings = 2,
                                                                 .push = it->push,
                                                                 .push_bytes = sizeof it->push,
                                                                 .grid = {it->trial.n_groups, 1, 1},
                                                                 .accesses = accesses,
                                                                 .n_accesses = 2}));
  }
  return VKF_OK;
}

/* ---- what came of it --------------------------------------------------------------------------------------------- */

static void compare(const attempt *it, const uint32_t *found, vkf_check_result *result) {
  uint32_t given[MAX_WORDS], expected[MAX_WORDS];
  const vkf_matrix_shape *shape = &it->trial.matrix;
  char text[sizeof result->text], size[40] = "", matrix[48] = "";
  if (result->state == VKF_CHECK_FAILED) return;
  *result = (vkf_check_result){.state = VKF_CHECK_PASSED};
  if (it->trial.workgroup > it->trial.subgroup_size && it->trial.subgroup_size)
    snprintf(size, sizeof size, " in %u subgroups of %u", it->trial.workgroup / it->trial.subgroup_size,
             it->trial.subgroup_size);
  else if (it->trial.subgroup_size)
    snprintf(size, sizeof size, " in subgroups of %u", it->trial.subgroup_size);
  if (shape->m) snprintf(matrix, sizeof matrix, " of %ux%ux%u", shape->m, shape->n, shape->k);
  for (uint32_t i = 0; i < it->trial.n && result->state != VKF_CHECK_FAILED; i++) {
    it->row->words(&it->trial, i, given, expected);
    for (uint32_t k = 0; k < it->row->n_found; k++, found++) {
      if (*found == expected[k]) continue;
      snprintf(text, sizeof text, "word %u of %s %u%s%s: expected %08x, found %08x", k,
               shape->m ? "element" : "invocation", i, matrix, size, expected[k], *found);
      fail_check(result, text);
      break;
    }
  }
}

static vkf_status compare_all(attempts *a) {
  vkf_status st = VKF_OK;
  uint32_t *found = vkf_env_alloc(a->env, (size_t)a->found_bytes, 1);
  if (!found) return VKF_ERROR_MEMORY;
  VKF_TRY(vkf_gpu_buffer_read(a->found, 0, found, a->found_bytes));
  for (uint32_t i = 0; i < a->n; i++)
    compare(&a->all[i], found + a->all[i].found_begin / 4, &a->results[a->all[i].check]);
done:
  vkf_env_free(a->env, found);
  return st;
}

static vkf_status submit(vkf_gpu_device *device, vkf_gpu_block *block) {
  uint64_t serial = 0;
  VKF_CALL(vkf_gpu_submit(device, &block, 1, &serial));
  return vkf_gpu_wait(device, serial);
}

static vkf_status try_shaders(attempts *a) {
  vkf_status st = VKF_OK;
  vkf_gpu_pipeline *pipelines[MAX_ALL_TRIALS];
  vkf_gpu_block *block = NULL;
  VKF_TRY(vkf_gpu_buffer_create(a->device, "given", VKF_GPU_MEMORY_DEVICE, a->given_bytes, &a->given));
  VKF_TRY(vkf_gpu_buffer_create(a->device, "found", VKF_GPU_MEMORY_DEVICE, a->found_bytes, &a->found));
  VKF_TRY(make_pipelines(a, pipelines));
  VKF_TRY(write_given(a));
  VKF_TRY(vkf_gpu_block_begin(a->device, &(vkf_gpu_block_params){.label = "probe"}, &block));
  VKF_TRY(record(a, pipelines, block));
  VKF_TRY(vkf_gpu_block_end(block));
  VKF_TRY(submit(a->device, block));
  VKF_TRY(compare_all(a));
done:
  vkf_gpu_block_destroy(&block);
  vkf_gpu_buffer_destroy(&a->given);
  vkf_gpu_buffer_destroy(&a->found);
  return st;
}

/* ---- clocks ------------------------------------------------------------------------------------------------------ */

/* Submits twice with a pause between. Each submit ends between its begin and the end of the wait for it, which bounds
 * the time between both ends; the pause grows until these bounds are close. */
static vkf_status time_ends(vkf_gpu_device *device, vkf_gpu_block *const blocks[2], uint64_t *least, uint64_t *most) {
  enum { TRIES = 6, SHORTEST_NS = 1000 * 1000, LONGEST_NS = 50 * 1000 * 1000 };
  uint64_t begin[2], end[2];
  struct timespec pause = {0, SHORTEST_NS};
  for (int i = 0; i < TRIES; i++) {
    for (int k = 0; k < 2; k++) {
      begin[k] = vkf_clock_ns();
      VKF_CALL(submit(device, blocks[k]));
      end[k] = vkf_clock_ns();
      if (k == 0) nanosleep(&pause, NULL);
    }
    *least = begin[1] - end[0];
    *most = end[1] - begin[0];
    if (*most - *least <= *least / 4) break;
    pause.tv_nsec = (long)VKF_MIN(5 * (*most - *least), LONGEST_NS);
  }
  return VKF_OK;
}

/* Fails the clock's check if the device's time is off by more than a sixteenth. */
static vkf_status try_clock(vkf_gpu_device *device, vkf_check_result *result) {
  vkf_status st = VKF_OK;
  vkf_gpu_block *blocks[2] = {NULL, NULL};
  uint64_t least = 0, most = 0, ns = 0;
  char text[sizeof result->text];
  for (int k = 0; k < 2; k++) {
    VKF_TRY(vkf_gpu_block_begin(device, &(vkf_gpu_block_params){.label = "clock", .timing = VKF_GPU_TIMING_BLOCK},
                                &blocks[k]));
    VKF_TRY(vkf_gpu_block_end(blocks[k]));
  }
  VKF_TRY(time_ends(device, blocks, &least, &most));
  VKF_TRY(vkf_gpu_block_time_since(blocks[0], blocks[1], &ns)); /* very long if the clock went back */
  *result = (vkf_check_result){.state = VKF_CHECK_PASSED};
  if (ns >= least - least / 16 && ns <= most + most / 16) goto done;
  snprintf(text, sizeof text, "expected %.3f to %.3f ms between the ends of two submits, found %.3f",
           (double)least / 1e6, (double)most / 1e6, (double)ns / 1e6);
  fail_check(result, text);
done:
  for (int k = 0; k < 2; k++) vkf_gpu_block_destroy(&blocks[k]);
  return st;
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */

vkf_status vkf_tune_checks_run(vkf_gpu_device *device, const struct vkf_kern_spirv *modules, uint32_t wanted,
                               vkf_check_result results[VKF_N_CHECKS]) {
  vkf_status st = VKF_OK;
  vkf_env *env = vkf_gpu_device_env(device);
  attempts *a = vkf_env_alloc(env, 1, sizeof *a);
  if (!a) return VKF_ERROR_MEMORY;
  *a = (attempts){.env = env, .device = device, .results = results};
  list(a, modules, wanted);
  if (a->n) VKF_TRY(try_shaders(a));
  if (wanted >> VKF_CHECK_OF_TIMESTAMPS & 1 && vkf_gpu_device_caps(device)->timestamps)
    VKF_TRY(try_clock(device, &results[VKF_CHECK_OF_TIMESTAMPS]));
done:
  vkf_env_free(env, a);
  return st;
}
