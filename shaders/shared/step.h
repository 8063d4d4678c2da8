/* The step buffer, binding 0 of every kernel: the sizes of this run, a uint for each dimension, in the order of vkf_dim
 * (op/op.h). The parameters of a kernel have the indices of the dimensions that it needs. */
#ifndef VKF_SHARED_STEP_H
#define VKF_SHARED_STEP_H

#define VKF_STEP_DIMS 12

#endif
