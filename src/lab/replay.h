/* replay: writes one node of a model's plan with the exact inputs that it had, and reads it again.
 *
 * It writes JSON (the op, its parameters, the sizes, its operands, the worst element) and the operands as arrays. With
 * both, the node can run alone, on any device. What is read is not trusted: every number is checked with the op's shape
 * rule and every array with its extents; the scalar path runs the node first and checks indices.
 */
#ifndef VKF_LAB_REPLAY_H
#define VKF_LAB_REPLAY_H

#include <vkformer/lab.h>

#include "engine/engine.h"
#include "op/cases.h"
#include "ref/walk.h"

/* Writes node `index` of a program that has run, with its comparison: a text (JSON), the inputs, and for each output
 * NAME the device's values, NAME.exact and NAME.bound. pass: "step". */
vkf_status vkf_lab_replay_write(const vkf_device *dev, vkf_walk *walk, uint32_t index, const vkf_comparison *j,
                                const char *pass, vkf_result **out);

/* Reads such a node as a plan of one node; finish it with vkf_case_finish(). The arrays must outlive it. *variant: the
 * one that the node had, in the arena. */
vkf_status vkf_lab_replay_read(vkf_env *env, const char *json, const vkf_array *arrays, size_t n_arrays,
                               vkf_case_run *out, const char **variant);

#endif
