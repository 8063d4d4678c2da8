/* Takes any bytes as a safetensors file: if it opens, each tensor is found by its name and can be read to its end. */
#include "fuzz.h"

#include "file/safetensors.h"

static void read_all(const vkf_file_tensors *tensors, const vkf_file_tensor *t) {
  FUZZ_CHECK(vkf_file_tensors_find(tensors, t->name) == t);
  FUZZ_CHECK(t->n_elements * vkf_dtype_bytes(t->dtype) == t->bytes);
  float *values = malloc(t->n_elements * sizeof(float) + 1);
  FUZZ_CHECK(values);
  vkf_file_numbers_to_f32(t->dtype, t->data, t->n_elements, values);
  free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[512];
  vkf_env env;
  vkf_file_tensors *tensors = NULL;
  vkf_env_init(&env, NULL);
  snprintf(path, sizeof path, "%s/model.safetensors", fuzz_folder());
  FUZZ_CHECK(tiny_put(fuzz_folder(), "model.safetensors", data, size));
  if (fuzz_check_status(&env, vkf_file_tensors_open(&env, path, &tensors)) == VKF_OK) {
    for (size_t i = 0; i < vkf_file_tensors_count(tensors); i++) read_all(tensors, vkf_file_tensors_at(tensors, i));
  } else {
    FUZZ_CHECK(tensors == NULL);
  }
  vkf_file_tensors_close(&tensors);
  fuzz_end(&env);
  return 0;
}
