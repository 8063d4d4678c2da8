/* tuning: what is known of one device beyond the facts that its driver states: measured times, the results of its
 * checks, and what its compiler made.
 *
 * The device owns and closes it. tuned.h, probe.h and compiled.h say who fills which member.
 */
#ifndef VKF_TUNE_TUNING_H
#define VKF_TUNE_TUNING_H

#include "kern/tuned.h"
#include "op/backend.h"
#include "tune/checks.h"
#include "tune/tuned_file.h"

typedef struct vkf_tuning {
  vkf_env *env;
  const char *cache_folder;   /* of the context; NULL: nothing is kept */
  const char *refused_folder; /* the folder of the context if it is not trusted: it is neither read nor written */
  vkf_gpu_device *gpu;        /* NULL: the scalar path, which has no facts and no checks */
  vkf_backend *backend;       /* NULL until the checks have run */
  bool reproducible;          /* the device is in that mode */

  vkf_tuned_key key;   /* of this device */
  vkf_tuned_file file; /* everything that was read and found */
  bool is_newer;       /* tuned.json is of a later version: it stays as it is, and nothing is kept */
  bool has_warned;     /* about a tuned.json that cannot be read */
  char unkept[256];    /* why it could not be written; "" if it was, or if only the log says why */
  vkf_arena arena;     /* of the rows */
  vkf_tuned rows;      /* the times that count for this device */

  vkf_check_result checks[VKF_N_CHECKS];
  uint64_t compiled_hash; /* of the bytes that the pipeline cache was made from; 0: none */
} vkf_tuning;

#endif
