/* Two threads on one model: each translates every second text, with its own session.
 *
 *   example_threads MODEL TEXT...
 *
 * The same source is compiled as C11 and as C++17. Linked with -pthread.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <vkformer/vkformer.h>

typedef struct worker {
  vkf_model *model;
  const char *const *texts;
  size_t n, first; /* texts first, first + 2, ... */
  vkf_result **results;
} worker;

static void *work(void *user) {
  const worker *w = (const worker *)user;
  vkf_session *session = NULL;
  vkf_status status = vkf_session_create(w->model, NULL, &session);
  for (size_t i = w->first; i < w->n && !status; i += 2)
    status = vkf_session_translate(session, &w->texts[i], 1, NULL, &w->results[i]);
  if (status) fprintf(stderr, "%s: %s\n", vkf_status_name(status), vkf_session_message(session));
  vkf_session_destroy(&session);
  return NULL;
}

int main(int argc, char **argv) {
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  vkf_model *model = NULL;
  if (argc < 3) return fprintf(stderr, "usage: %s MODEL TEXT...\n", argv[0]), 2;
  const size_t n = (size_t)argc - 2;
  vkf_result **results = (vkf_result **)calloc(n, sizeof *results);
  vkf_status status = vkf_context_create(NULL, &context);
  if (!status) status = vkf_device_open(context, NULL, &device);
  if (!status) status = vkf_model_open(device, argv[1], &model);
  if (status) fprintf(stderr, "%s\n", vkf_context_message(context));

  worker workers[2] = {{model, (const char *const *)(argv + 2), n, 0, results},
                       {model, (const char *const *)(argv + 2), n, 1, results}};
  pthread_t other;
  const int alone = !model || pthread_create(&other, NULL, work, &workers[1]); /* then this thread does all the work */
  if (model) work(&workers[0]);
  if (model && alone) work(&workers[1]);
  if (!alone) pthread_join(other, NULL);
  for (size_t i = 0; results && i < n; i++) {
    puts(results[i] ? vkf_result_text(results[i], 0) : "(no translation)");
    status = results[i] ? status : VKF_ERROR_STOPPED;
    vkf_result_destroy(&results[i]);
  }
  free(results);
  vkf_model_close(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  return status != VKF_OK;
}
