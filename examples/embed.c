/* Prints how similar texts are: the cosines of their vectors, from a model of sentence-transformers or any encoder.
 *
 *   example_embed MODEL TEXT TEXT...
 *
 * The same source is compiled as C11 and as C++17.
 */
#include <stdio.h>
#include <vkformer/vkformer.h>

static void print_similarity(const vkf_result *result, char **texts) {
  const vkf_array *array = vkf_result_find(result, "similarity"); /* [n, n] */
  const size_t n = array->shape[0];
  const double *cosines = (const double *)array->data;
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < n; j++) printf("%7.4f", cosines[i * n + j]);
    printf("  %s\n", texts[i]);
  }
}

int main(int argc, char **argv) {
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  vkf_result *result = NULL;
  vkf_embedding_params params;
  if (argc < 4) {
    fprintf(stderr, "usage: %s MODEL TEXT TEXT...\n", argv[0]);
    return 2;
  }
  vkf_embedding_params_init(&params);
  params.similarity = true;

  vkf_status status = vkf_context_create(NULL, &context);
  if (!status) status = vkf_device_open(context, NULL, &device);
  if (!status) status = vkf_model_open(device, argv[1], &model);
  if (!status) status = vkf_session_create(model, NULL, &session);
  if (!status) status = vkf_session_embed(session, (const char *const *)(argv + 2), (size_t)argc - 2, &params, &result);
  if (!status) print_similarity(result, argv + 2);
  if (status) fprintf(stderr, "%s\n", session ? vkf_session_message(session) : vkf_context_message(context));

  vkf_result_destroy(&result);
  vkf_session_destroy(&session);
  vkf_model_close(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  return status != VKF_OK;
}
