/* replay: writes down one node of a model's plan with the very inputs that it had, and reads it again.
 *
 * It writes JSON (the op, its parameters, the sizes, its operands, the worst element) and the operands as arrays. With
 * both you can run the node alone, on any device. What is read may come from anywhere. So every number is checked with
 * the op's shape rule and every array with its extents; the scalar path, which runs the node before a device does,
 * checks indices.
 */
#ifndef VKF_LAB_REPLAY_H
#define VKF_LAB_REPLAY_H

#include <vkformer/lab.h>

#include "engine/engine.h"
#include "op/cases.h"
#include "ref/walk.h"

/* Node `index` of a program that has run, and its comparison: a text (JSON), the operands, and of each output NAME what
 * the device gave, NAME.exact and NAME.bound. pass: "step". */
vkf_status vkf_lab_replay_write(const vkf_device *dev, vkf_walk *walk, uint32_t index, const vkf_comparison *j,
                                const char *pass, vkf_result **out);

/* The same as a plan of one node; finished with vkf_case_finish(). The arrays must outlive it. *variant: that the node
 * had, in the arena. */
vkf_status vkf_lab_replay_read(vkf_env *env, const char *json, const vkf_array *arrays, size_t n_arrays,
                               vkf_case_run *out, const char **variant);

#endif
