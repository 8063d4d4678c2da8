/* The step buffer, binding 0 of every kernel: the sizes of this run, one uint a dimension, in the order of vkf_dim
 * (op/op.h). A kernel gets the indices of the dimensions that it needs in its parameters. */
#ifndef VKF_SHARED_STEP_H
#define VKF_SHARED_STEP_H

#define VKF_STEP_DIMS 12

#endif
