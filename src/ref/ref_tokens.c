/* gate and patches: gate multiplies act of one part of a row by another, patches turns images into rows. */
#include "ref/reproducible.h"
#include "ref/internal.h"

/* ---- gate -------------------------------------------------------------------------------------------------------- */

vkf_status vkf_ref_gate(vkf_env *env, const vkf_call *call) {
  (void)env;
  const vkf_gate_params *p = &call->params->gate;
  const vkf_rounding *r = call->rounding;
  for (uint32_t row = 0; row < call->dims->v[p->rows]; row++) {
    const float *x = vkf_ref_row(&call->in[VKF_GATE_X], row);
    for (uint32_t i = 0; i < p->width; i++) {
      if (call->reproducible) {
        float y = mul(activate(p->activation, x[p->gate_column + i]), x[p->up_column + i]);
        vkf_ref_store_same(call, 0, row * call->out[0].stride[0] + i, y);
        continue;
      }
      double gate = (double)x[p->gate_column + i], up = (double)x[p->up_column + i], bound = 0;
      double result = vkf_ref_activate(p->activation, gate) * up;
      if (vkf_ref_wants_bounds(call)) {
        bound = fabs(up) * vkf_ref_activate_bound(p->activation, gate, 0, r);
        bound += r->u * (fabs(result) + bound) + r->tiny;
      }
      vkf_ref_store(call, 0, row * call->out[0].stride[0] + i, result, bound);
    }
  }
  return VKF_OK;
}

/* ---- patches ----------------------------------------------------------------------------------------------------- */

vkf_status vkf_ref_patches(vkf_env *env, const vkf_call *call) {
  (void)env;
  const vkf_patches_params *p = &call->params->patches;
  uint32_t tokens = call->dims->v[VKF_DIM_S], across = p->width / p->patch_width;
  uint32_t n_patches = p->height / p->patch_height * across;
  for (uint32_t row = 0; row < call->dims->v[VKF_DIM_BS]; row++) {
    const float *x = vkf_ref_row(&call->in[VKF_PATCHES_X], row / tokens);
    uint32_t t = row % tokens, patch = t - p->leading;
    bool is_patch = t >= p->leading && patch < n_patches;
    size_t to = row * call->out[0].stride[0];
    for (uint32_t c = 0; c < p->channels; c++) {
      for (uint32_t i = 0; i < p->patch_height; i++) {
        for (uint32_t j = 0; j < p->patch_width; j++, to++) {
          uint32_t y = patch / across * p->patch_height + i, left = patch % across * p->patch_width + j;
          vkf_ref_store_same(call, 0, to, is_patch ? x[((size_t)c * p->height + y) * p->width + left] : 0);
        }
      }
    }
  }
  return VKF_OK;
}
