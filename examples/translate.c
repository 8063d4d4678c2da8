/* The library in one page: opens a model folder and translates the texts of the command line.
 *
 *   example_translate MODEL TEXT...
 *
 * The same source is compiled as C11 and as C++17.
 */
#include <stdio.h>
#include <vkformer/vkformer.h>

/* Prints warnings of the library, for example that a software driver is used because there is no GPU. */
static void print_line(void *user, vkf_log_level level, const char *line) {
  (void)user;
  if (level <= VKF_LOG_WARNING) fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv) {
  vkf_context_params params;
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  vkf_result *result = NULL;
  if (argc < 3) {
    fprintf(stderr, "usage: %s MODEL TEXT...\n", argv[0]);
    return 2;
  }
  const char *const *texts = (const char *const *)(argv + 2);
  size_t n_texts = (size_t)argc - 2;

  vkf_context_params_init(&params);
  params.log = print_line;
  params.log_level = VKF_LOG_WARNING;
  vkf_status status = vkf_context_create(&params, &context);
  if (!status) status = vkf_device_open(context, NULL, &device); /* the best GPU, or the device that VKF_DEVICE names */
  if (!status) status = vkf_model_open(device, argv[1], &model);
  if (!status) status = vkf_session_create(model, NULL, &session);
  if (!status) status = vkf_session_translate(session, texts, n_texts, NULL, &result);
  for (size_t i = 0; !status && i < n_texts; i++) puts(vkf_result_text(result, i));
  if (status) fprintf(stderr, "%s\n", session ? vkf_session_message(session) : vkf_context_message(context));

  vkf_result_destroy(&result);
  vkf_session_destroy(&session);
  vkf_model_close(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  return status != VKF_OK;
}
