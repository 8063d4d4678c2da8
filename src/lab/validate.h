/* validate: the state of one validation of a device, and its parts. */
#ifndef VKF_LAB_VALIDATE_H
#define VKF_LAB_VALIDATE_H

#include <vkformer/lab.h>

#include "engine/engine.h"
#include "kern/kern.h"

typedef struct vkf_validation {
  vkf_env *env;
  const vkf_device *dev;
  vkf_backend *backend;   /* the device's */
  vkf_validate_fn on_row; /* may be NULL */
  void *user;
  double worst;      /* the largest ratio so far; infinite once one was NaN */
  bool bisect;       /* ends at the first node over its bound */
  vkf_result *fault; /* that node (replay.h); NULL: none so far */
} vkf_validation;

void vkf_lab_validate_report(vkf_validation *v, const vkf_validate_row *row);
/* Adds a case to its op, or a node to its block: counts, times, the largest ratio. */
void vkf_lab_validate_add(vkf_validate_row *sum, const vkf_validate_row *part);

/* Validates a kernel on the cases of its op in every format that it reads. One row a format, or one that says why no
 * case ran. */
vkf_status vkf_lab_validate_variant(vkf_validation *v, const vkf_variant *variant);
/* Validates every case on every variant (ref: on the scalar path) in float32, and a share of the cases in every other
 * format that the variant reads. */
vkf_status vkf_lab_validate_ops(vkf_validation *v, bool ref);
/* Validates every op in every format on one case of odd sizes, on the variant that is picked for it. */
vkf_status vkf_lab_validate_quick(vkf_validation *v);
/* Whether a variant of the op reads this format. */
bool vkf_lab_is_read(vkf_op op, vkf_format format);

#endif
