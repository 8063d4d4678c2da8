/* problem: reads "matmul:128,512,512" as a case of the op, for listing, timing and tuning kernels. */
#ifndef VKF_TUNE_PROBLEM_H
#define VKF_TUNE_PROBLEM_H

#include "kern/kern.h"
#include "op/cases.h"

/* The message of VKF_ERROR_ARGUMENT lists the forms. out->name is `text`. */
vkf_status vkf_tune_problem_parse(vkf_env *env, const char *text, vkf_case *out);
#define VKF_PROBLEM_NUMBERS 4
/* Reads numbers from 1 to 2^24, separated by commas, and (if format is not NULL) a format at the end. Returns how many
 * numbers; 0 if the text has another form. */
uint32_t vkf_tune_problem_numbers(const char *text, uint32_t numbers[VKF_PROBLEM_NUMBERS], vkf_format *format);
/* How runs add up: with the same bits in any batch; with the same bits on any device. */
typedef struct vkf_tune_mode {
  bool batch_invariant, reproducible;
} vkf_tune_mode;

/* Sets the problem of a variant that computes this case, with the weight packed as the variant needs it. */
void vkf_tune_problem_of(const vkf_case *c, const vkf_caps *caps, vkf_tune_mode mode, const vkf_tuned *tuned,
                         const vkf_variant *variant, vkf_problem *out);
/* Writes the text of a problem ("matmul:128,512,512"); returns false if no form can express it. */
bool vkf_tune_problem_text(const vkf_problem *problem, char *text, size_t size);
/* Whether problems of this op have a text at all. */
bool vkf_tune_problem_has_form(vkf_op op);

#endif
