/* Prints the best labels of texts, with their scores.
 *
 *   example_classify MODEL TEXT...
 *
 * The same source is compiled as C11 and as C++17.
 */
#include <stdio.h>
#include <vkformer/vkformer.h>

static void print_labels(const vkf_result *result, char **texts) {
  const vkf_array *labels = vkf_result_find(result, "labels"), *scores = vkf_result_find(result, "scores");
  const size_t n = labels->shape[0], k = labels->rank == 2 ? labels->shape[1] : 0; /* a model may label words */
  const int32_t *label = (const int32_t *)labels->data;
  const double *score = (const double *)scores->data;
  if (!k) fprintf(stderr, "expected a model that labels texts, found one that labels words\n");
  for (size_t i = 0; k && i < n; i++) {
    puts(texts[i]);
    for (size_t j = 0; j < k; j++)
      printf("  %.4f %s\n", score[i * k + j], vkf_result_text(result, (size_t)label[i * k + j]));
  }
}

int main(int argc, char **argv) {
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  vkf_result *result = NULL;
  vkf_classify_params params;
  if (argc < 3) {
    fprintf(stderr, "usage: %s MODEL TEXT...\n", argv[0]);
    return 2;
  }
  vkf_classify_params_init(&params);
  params.top_k = 3;

  vkf_status status = vkf_context_create(NULL, &context);
  if (!status) status = vkf_device_open(context, NULL, &device);
  if (!status) status = vkf_model_open(device, argv[1], &model);
  if (!status) status = vkf_session_create(model, NULL, &session);
  if (!status)
    status = vkf_session_classify(session, (const char *const *)(argv + 2), (size_t)argc - 2, &params, &result);
  if (!status) print_labels(result, argv + 2);
  if (status) fprintf(stderr, "%s\n", session ? vkf_session_message(session) : vkf_context_message(context));

  vkf_result_destroy(&result);
  vkf_session_destroy(&session);
  vkf_model_close(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  return status != VKF_OK;
}
