/* case_program: a case made ready on a backend as a model is: weights packed, kernels chosen, blocks recorded. */
#ifndef VKF_OP_CASE_PROGRAM_H
#define VKF_OP_CASE_PROGRAM_H

#include "op/cases.h"

typedef struct vkf_case_program {
  vkf_backend *backend;
  vkf_timing timing; /* what is timed at least; set before _ready() */
  bool statistics;   /* the driver keeps what it tells about the kernels; set before _ready() */
  vkf_case_run run;
  vkf_weights *weights;
  vkf_program *program; /* keeps all slots, NaN before it runs; NULL: the variant does not fit the case */
} vkf_case_program;

/* variant: forced, NULL: the one that is chosen. The caller finishes *out, after a failure too. */
vkf_status vkf_case_program_init(vkf_backend *backend, const vkf_case *c, const char *variant, vkf_case_program *out);
/* The same of a run that is in p->run already, whoever made it; what was ready before goes. */
vkf_status vkf_case_program_ready(vkf_case_program *p, vkf_backend *backend, const char *variant);
void vkf_case_program_finish(vkf_case_program *p);

#endif
