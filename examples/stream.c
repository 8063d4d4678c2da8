/* Tokens as they come: translates one text greedily and prints each piece when it is there.
 *
 *   example_stream MODEL TEXT
 */
#include <stdio.h>
#include <vkformer/vkformer.h>

/* Called after each step; row is the index of the text. Non-zero would stop. */
static int print_token(void *user, size_t row, int32_t token) {
  const char *piece = vkf_tokenizer_piece((const vkf_tokenizer *)user, token);
  (void)row;
  printf("%s ", piece ? piece : "?");
  fflush(stdout);
  return 0;
}

int main(int argc, char **argv) {
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  vkf_result *result = NULL;
  vkf_generate_params params;
  if (argc != 3) {
    fprintf(stderr, "usage: %s MODEL TEXT\n", argv[0]);
    return 2;
  }
  const char *text = argv[2];

  vkf_status status = vkf_context_create(NULL, &context);
  if (!status) status = vkf_device_open(context, NULL, &device);
  if (!status) status = vkf_model_open(device, argv[1], &model);
  if (!status) status = vkf_session_create(model, NULL, &session);
  vkf_generate_params_init(&params);
  params.config_json = "{\"num_beams\": 1}";
  params.on_token = print_token;
  params.user = session ? vkf_session_tokenizer(session) : NULL;
  if (!status) status = vkf_session_translate(session, &text, 1, &params, &result);
  if (!status) printf("\n%s\n", vkf_result_text(result, 0));
  if (status) fprintf(stderr, "%s\n", session ? vkf_session_message(session) : vkf_context_message(context));

  vkf_result_destroy(&result);
  vkf_session_destroy(&session);
  vkf_model_close(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  return status != VKF_OK;
}
