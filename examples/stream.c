/* Translates one text greedily and prints what each token adds as soon as it is there.
 *
 *   example_stream MODEL TEXT
 */
#include <stdio.h>
#include <string.h>
#include <vkformer/vkformer.h>

typedef struct so_far {
  vkf_tokenizer *tokenizer;
  int32_t ids[1024];
  size_t n, printed; /* ids; bytes of their text that were printed */
} so_far;

/* Called after each step; row is the index of the text. Returns non-zero to stop. */
static int print_token(void *user, size_t row, int32_t token) {
  so_far *s = (so_far *)user;
  vkf_result *result = NULL;
  (void)row;
  if (s->n == sizeof s->ids / sizeof s->ids[0]) return 1;
  s->ids[s->n++] = token;
  if (vkf_tokenizer_decode(s->tokenizer, s->ids, s->n, NULL, &result) != VKF_OK) return 1;
  const char *text = vkf_result_text(result, 0);
  const size_t length = strlen(text), from = s->printed ? s->printed : strspn(text, " ");
  /* if a text ends with U+FFFD, its last bytes begin a character that the next token completes */
  if (length > from && (length < 3 || strcmp(text + length - 3, "\xef\xbf\xbd") != 0)) {
    fputs(text + from, stdout);
    fflush(stdout);
    s->printed = length;
  }
  vkf_result_destroy(&result);
  return 0;
}

int main(int argc, char **argv) {
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  vkf_result *result = NULL;
  vkf_generate_params params;
  so_far shown;
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
  memset(&shown, 0, sizeof shown);
  shown.tokenizer = session ? vkf_session_tokenizer(session) : NULL;
  params.user = &shown;
  if (!status) status = vkf_session_translate(session, &text, 1, &params, &result);
  if (!status) puts("");
  if (status) fprintf(stderr, "%s\n", session ? vkf_session_message(session) : vkf_context_message(context));

  vkf_result_destroy(&result);
  vkf_session_destroy(&session);
  vkf_model_close(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  return status != VKF_OK;
}
