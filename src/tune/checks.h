/* checks: small shaders whose results the host knows. They test what kernels depend on. One more check compares the
 * device's clock with the host's.
 *
 * The list in checks.c has a row for each check. probe.c keeps their results and acts on failures.
 */
#ifndef VKF_TUNE_CHECKS_H
#define VKF_TUNE_CHECKS_H

#include "gpu/gpu.h"
#include "kern/checks.h"
#include "kern/spirv.h"

/* One run of a check's shader. */
typedef struct vkf_check_trial {
  uint32_t subgroup_size;  /* its subgroups fill the workgroup; 0: any */
  uint32_t workgroup;      /* invocations */
  uint32_t n_groups;       /* workgroups */
  uint32_t n;              /* sets of words: one per invocation, or one per element of the matrices */
  uint32_t shared_words;   /* of shared memory */
  uint32_t turns;          /* of loops in an invocation */
  vkf_matrix_shape matrix; /* of a cooperative product; 0: none */
} vkf_check_trial;

typedef struct vkf_check_row {
  const char *name, *title; /* in files; in messages */
  const char *module;       /* of its shader; NULL: this check has none */
  size_t fact;            /* offset of the bool in vkf_caps that says whether the device has it; 0: every device has */
  bool by_subgroup_size;  /* has a trial for every subgroup size that kernels are written for */
  bool by_matrix;         /* and for every shape of cooperative matrices in those kernels */
  uint32_t n_invocations; /* 0: one workgroup */
  uint32_t n_given, n_found; /* words of an invocation, or of an element */
  /* Computes the words that set i < trial->n is given, and those that it must return. */
  void (*words)(const vkf_check_trial *trial, uint32_t i, uint32_t *given, uint32_t *expected);
} vkf_check_row;

const vkf_check_row *vkf_tune_check_row(vkf_check check);
/* Returns the check's shader; NULL: the build left it out. */
const struct vkf_kern_spirv *vkf_tune_check_module(vkf_check check, const struct vkf_kern_spirv *modules);

typedef struct vkf_check_result {
  vkf_check_state state;
  char text[200]; /* what was expected and found, or why it did not run; "" otherwise */
} vkf_check_result;

enum { VKF_MAX_TRIALS = 16 };

/* Whether a device with these facts has what is checked. Sets `text` to the name of the check and what its result
 * depends on ("shared:32768"). */
bool vkf_tune_check_text(vkf_check check, const vkf_caps *caps, char *text, size_t size);
/* Sets the trials of a check; returns how many. */
uint32_t vkf_tune_check_trials(vkf_check check, const vkf_caps *caps, vkf_check_trial trials[VKF_MAX_TRIALS]);

/* Returns why the check does not run on such a device; NULL: it runs. */
const char *vkf_tune_check_not_done(vkf_check check, const vkf_caps *caps, const struct vkf_kern_spirv *modules);

/* Runs those checks of `wanted` (1 << vkf_check) that apply to the device and can run here; the results of the others
 * do not change. modules: a table as vkf_kern_spirv_table. If a pipeline cannot be made, its check has failed. Errors:
 * out of memory, a lost device. */
vkf_status vkf_tune_checks_run(vkf_gpu_device *device, const struct vkf_kern_spirv *modules, uint32_t wanted,
                               vkf_check_result results[VKF_N_CHECKS]);

/* Removes from the facts what the check tests, and what depends on it. */
void vkf_tune_check_mark_failed(vkf_caps *caps, vkf_check check);

#endif
