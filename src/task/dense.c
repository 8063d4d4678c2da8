/* dense: see dense.h. */
#include "task/dense.h"

#include <math.h>

#include "file/safetensors.h"

static vkf_status load(vkf_arena *arena, const vkf_file_tensors *tensors, const char *name, size_t rank,
                       const size_t shape[2], const float **out) {
  const vkf_file_tensor *found = NULL;
  VKF_CALL(vkf_file_tensors_get_shaped(tensors, name, rank, shape, &found));
  float *numbers = vkf_arena_alloc(arena, found->n_elements, sizeof *numbers);
  if (!numbers) return VKF_ERROR_MEMORY;
  *out = numbers;
  return vkf_file_numbers_to_f32(found->dtype, found->data, found->n_elements, numbers)
             ? VKF_OK
             : vkf_env_fail(arena->env, VKF_ERROR_FORMAT, "%s: expected floating-point numbers as \"%s\"", found->file,
                            name);
}

vkf_status vkf_task_dense_load(vkf_dense *dense, vkf_arena *arena, const vkf_file_source *source, const char *file) {
  vkf_status st = VKF_OK;
  const size_t shape[] = {dense->n_out, dense->n_in};
  vkf_file_tensors *tensors = NULL;
  VKF_TRY(vkf_file_tensors_open_file(arena->env, source, file, &tensors));
  VKF_TRY(load(arena, tensors, "linear.weight", 2, shape, &dense->weight));
  if (dense->has_bias) VKF_TRY(load(arena, tensors, "linear.bias", 1, shape, &dense->bias));
done:
  vkf_file_tensors_close(&tensors);
  return st;
}

void vkf_task_dense_run(const vkf_dense *dense, const double *x, double *y) {
  for (uint32_t i = 0; i < dense->n_out; i++) {
    const float *row = dense->weight + (size_t)i * dense->n_in;
    y[i] = dense->has_bias ? dense->bias[i] : 0;
    for (uint32_t k = 0; k < dense->n_in; k++) y[i] += (double)row[k] * x[k];
    if (dense->is_tanh) y[i] = tanh(y[i]);
  }
}
