/* reproducible: whether the kernels of the reproducible mode give the scalar path's bits on a device. */
#ifndef VKF_TUNE_REPRODUCIBLE_H
#define VKF_TUNE_REPRODUCIBLE_H

#include "tune/tuning.h"

/* Writes the name of the check, which depends on the kernels that it runs. t->backend must be made, in the reproducible
 * mode. */
void vkf_tune_reproducible_text(const vkf_tuning *t, char *text, size_t size);
/* Runs the check. found: "" if the bits are the same, else a sentence that names the op. */
vkf_status vkf_tune_reproducible_check(vkf_tuning *t, char *found, size_t size);

#endif
