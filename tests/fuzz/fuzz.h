/* What the fuzz targets share: an environment, the input as a file, and checks of what every reader promises.
 *
 * A target aborts if a promise is broken; everything else is left to the sanitizers. Files go to a folder of this
 * process, which stays if the target dies. */
#ifndef VKF_TESTS_FUZZ_FUZZ_H
#define VKF_TESTS_FUZZ_FUZZ_H

#define _XOPEN_SOURCE 700
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/base.h"
#include "support/tiny_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition)                                                   \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not kept: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                                  \
    }                                                                           \
  } while (0)

static char fuzz_folder_path[256];

static inline void fuzz_remove_folder(void) {
  folder_remove(fuzz_folder_path, "marian/config.json", "marian/model.safetensors", "marian", "config.json",
                "model.safetensors");
}

/* Returns the folder, which the first call makes. */
static inline const char *fuzz_folder(void) {
  if (fuzz_folder_path[0]) return fuzz_folder_path;
  const char *base = getenv("TMPDIR");
  snprintf(fuzz_folder_path, sizeof fuzz_folder_path, "%s/vkf-fuzz-XXXXXX", base && *base ? base : "/tmp");
  FUZZ_CHECK(mkdtemp(fuzz_folder_path));
  atexit(fuzz_remove_folder);
  return fuzz_folder_path;
}

/* Checks that a failure, and only a failure, has a message, and that the environment holds the same status. */
static inline vkf_status fuzz_check_status(const vkf_env *env, vkf_status status) {
  FUZZ_CHECK(env->first == status);
  FUZZ_CHECK((status == VKF_OK) == (env->message[0] == 0));
  return status;
}

/* Call this after everything was destroyed. */
static inline void fuzz_end(const vkf_env *env) {
  FUZZ_CHECK(env->live_bytes == 0);
}

#endif
