/* case_program: makes a case ready on a backend like a model: packs its weights, chooses kernels, records blocks. */
#ifndef VKF_OP_CASE_PROGRAM_H
#define VKF_OP_CASE_PROGRAM_H

#include "op/cases.h"

typedef struct vkf_case_program {
  vkf_backend *backend;
  vkf_timing timing; /* the least that is timed; set before _ready() */
  bool statistics;   /* the driver keeps what it reports about the kernels; set before _ready() */
  vkf_case_run run;
  vkf_weights *weights;
  vkf_program *program; /* keeps all slots, NaN before it runs; NULL: the variant does not fit the case */
} vkf_case_program;

/* variant: forced; NULL: the one that is chosen. Call finish() even if this fails. */
vkf_status vkf_case_program_init(vkf_backend *backend, const vkf_case *c, const char *variant, vkf_case_program *out);
/* The same for a run that is already in p->run. Destroys the weights and the program that p had before. */
vkf_status vkf_case_program_ready(vkf_case_program *p, vkf_backend *backend, const char *variant);
void vkf_case_program_finish(vkf_case_program *p);

#endif
