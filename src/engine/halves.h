/* halves: a batch that holds a tensor larger than the device takes goes in two parts, and those again.
 *
 * A sentence has the same result in whatever batch it stands (orders of sums do not depend on it), so nothing but time
 * changes. What is too large for one sentence stays an error.
 */
#ifndef VKF_ENGINE_HALVES_H
#define VKF_ENGINE_HALVES_H

#include "engine/opened.h"

typedef struct vkf_halves {
  vkf_model *m;
  /* Sentences [first, first + the inputs' rows) of the whole batch. */
  vkf_status (*run)(void *user, const vkf_array *inputs, size_t n_inputs, size_t first, vkf_result **out);
  void *user;
  int32_t pad; /* of `sequences`, where one part's are shorter than the other's */
} vkf_halves;

/* Whether this failure is that of a tensor larger than the device takes, of a batch that can be halved; it is forgotten
 * then. */
bool vkf_engine_halves_help(vkf_model *model, vkf_status status, size_t batch);
/* As halves->run for all of the inputs, whose first axis is the batch. VKF_ERROR_STOPPED: *out has the rows of the
 * parts that were begun. */
vkf_status vkf_engine_by_halves(const vkf_halves *halves, const vkf_array *inputs, size_t n_inputs, size_t first,
                                vkf_result **out);

#endif
