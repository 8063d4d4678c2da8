/* op: names and dimensions.
 *
 * Names ops, activations and dimensions, and computes the dimensions that follow from others. The names of ops come
 * from the one list, so a new op needs no line here.
 */
#include "op/op.h"

#include <string.h>

static const char *const names[VKF_OP_COUNT] = {
#define X(NAME, name) #name,
    VKF_OP_LIST(X)
#undef X
};

static const char *const activations[VKF_ACT_COUNT] = {
    [VKF_ACT_NONE] = "none",       [VKF_ACT_RELU] = "relu",
    [VKF_ACT_GELU] = "gelu",       [VKF_ACT_GELU_TANH] = "gelu_tanh",
    [VKF_ACT_SWISH] = "swish",     [VKF_ACT_TANH] = "tanh",
    [VKF_ACT_SIGMOID] = "sigmoid", [VKF_ACT_QUICK_GELU] = "quick_gelu",
    [VKF_ACT_RELU2] = "relu2",
};

static const char *const dimensions[VKF_DIM_COUNT] = {
    [VKF_DIM_ONE] = "1",     [VKF_DIM_ZERO] = "0",    [VKF_DIM_B] = "B",         [VKF_DIM_S] = "S",
    [VKF_DIM_BS] = "BS",     [VKF_DIM_R] = "R",       [VKF_DIM_T] = "T",         [VKF_DIM_RT] = "RT",
    [VKF_DIM_PAST] = "PAST", [VKF_DIM_KEYS] = "KEYS", [VKF_DIM_BEAMS] = "BEAMS", [VKF_DIM_OUT] = "OUT",
};

const char *vkf_op_name(vkf_op op) {
  return (unsigned)op < VKF_OP_COUNT ? names[op] : "?";
}

vkf_op vkf_op_find(const char *name) {
  for (unsigned i = 0; i < VKF_OP_COUNT; i++) {
    if (strcmp(names[i], name) == 0) return (vkf_op)i;
  }
  return VKF_OP_COUNT;
}

const char *vkf_activation_name(vkf_activation act) {
  return (unsigned)act < VKF_ACT_COUNT ? activations[act] : "?";
}

const char *vkf_dim_name(vkf_dim dim) {
  return (unsigned)dim < VKF_DIM_COUNT ? dimensions[dim] : "?";
}

vkf_dim vkf_op_rows(vkf_dim seqs, vkf_dim tokens) {
  return tokens == VKF_DIM_ONE                      ? seqs
         : seqs == VKF_DIM_B && tokens == VKF_DIM_S ? VKF_DIM_BS
         : seqs == VKF_DIM_R && tokens == VKF_DIM_T ? VKF_DIM_RT
                                                    : VKF_DIM_ZERO;
}

vkf_dims vkf_dims_make(const vkf_sizes *sizes) {
  vkf_dims dims = {{0}};
  dims.v[VKF_DIM_ONE] = 1;
  dims.v[VKF_DIM_B] = sizes->B;
  dims.v[VKF_DIM_S] = sizes->S;
  dims.v[VKF_DIM_BS] = sizes->source_rows ? sizes->source_rows : sizes->B * sizes->S;
  dims.v[VKF_DIM_R] = sizes->R;
  dims.v[VKF_DIM_T] = sizes->T;
  dims.v[VKF_DIM_RT] = sizes->target_rows ? sizes->target_rows : sizes->R * sizes->T;
  dims.v[VKF_DIM_PAST] = sizes->past;
  dims.v[VKF_DIM_KEYS] = sizes->past + sizes->T;
  dims.v[VKF_DIM_BEAMS] = sizes->B > 0 ? sizes->R / sizes->B : 0;
  dims.v[VKF_DIM_OUT] = sizes->out;
  return dims;
}
