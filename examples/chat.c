/* A conversation in steps: example_chat MODEL. Each line of standard input is appended to the conversation, whose ids
 * are never computed again, and is answered greedily with up to 64 ids.
 */
#include <stdio.h>
#include <string.h>
#include <vkformer/vkformer.h>

int main(int argc, char **argv) {
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  vkf_session_params params;
  vkf_model_info info;
  vkf_special_ids special;
  char line[4096];
  if (argc != 2) return fprintf(stderr, "usage: %s MODEL\n", argv[0]), 2;
  vkf_session_params_init(&params);
  vkf_model_info_init(&info);
  vkf_special_ids_init(&special);
  params.n_slots = 1;
  vkf_status status = vkf_context_create(NULL, &context);
  if (!status) status = vkf_device_open(context, NULL, &device);
  if (!status) status = vkf_model_open(device, argv[1], &model);
  if (!status) status = vkf_model_get_info(model, &info);
  if (!status) status = vkf_model_get_special_ids(model, &special);
  if (!status) status = vkf_session_create(model, &params, &session);
  vkf_tokenizer *tokenizer = vkf_session_tokenizer(session);
  while (!status && fgets(line, sizeof line, stdin)) {
    vkf_result *tokens = NULL, *text = NULL;
    size_t n = 0, n_all = 0;
    int32_t id = 0;
    line[strcspn(line, "\n")] = 0;
    if (!*line) continue;
    status = vkf_tokenizer_encode(tokenizer, line, NULL, &tokens);
    const int32_t *ids = vkf_result_i32(tokens, "ids", &n);
    if (!status) status = vkf_session_feed(session, 0, ids, n, 1);
    vkf_session_ids(session, 0, &n);
    for (int i = 0; i < 64 && (i == 0 || id != special.eos) && !status; i++) { /* the answer: ids after the line's */
      status = vkf_session_step(session);
      const float *logits = vkf_session_logits(session, 0, NULL);
      id = 0;
      for (size_t v = 1; v < info.vocab && logits; v++)
        if (logits[v] > logits[id]) id = (int32_t)v;
      if (!status) status = vkf_session_feed(session, 0, &id, 1, 1); /* the last one runs with the next line */
    }
    ids = vkf_session_ids(session, 0, &n_all);
    if (!status) status = vkf_tokenizer_decode(tokenizer, ids + n, n_all - n, NULL, &text);
    if (!status) puts(vkf_result_text(text, 0));
    vkf_result_destroy(&text);
    vkf_result_destroy(&tokens);
  }
  if (status) fprintf(stderr, "%s\n", session ? vkf_session_message(session) : vkf_context_message(context));
  vkf_session_destroy(&session);
  vkf_model_close(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  return status != VKF_OK;
}
