/* validate: one validation of a device: what is compared, and where the results go. */
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
  double worst;      /* the largest ratio so far; infinite after one that is not a number */
  bool bisect;       /* ends at the first node over its bound */
  vkf_result *fault; /* that node (replay.h); NULL: none so far */
} vkf_validation;

void vkf_lab_validate_report(vkf_validation *v, const vkf_validate_row *row);
/* A case to its op, a node to its block: counts, times, the largest ratio. */
void vkf_lab_validate_add(vkf_validate_row *sum, const vkf_validate_row *part);

/* A kernel over the cases of its op, in every format that it reads: a row a format, or one that says why no case ran.
 */
vkf_status vkf_lab_validate_variant(vkf_validation *v, const vkf_variant *variant);
/* Every case on every variant (ref: on the op), in float32; every other format that a variant reads on a share of
 * them. */
vkf_status vkf_lab_validate_ops(vkf_validation *v, bool ref);
/* Every op in every format on one case of odd sizes, on the variant that is chosen for it. */
vkf_status vkf_lab_validate_quick(vkf_validation *v);
/* Does a variant of the op read this format? */
bool vkf_lab_is_read(vkf_op op, vkf_format format);

#endif
