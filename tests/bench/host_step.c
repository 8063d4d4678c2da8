/* What the host takes for a token: the processor's time of a step of one slot, in ms, the median of TOKENS. On a shim
 * (scripts/farm) nothing runs on the device, so this is all the time that a step takes.
 *
 * usage: bench_host_step MODEL   A decoder with 512 positions. The device is the first one; its probes are left out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <vkformer/lab.h>

enum { WARM = 100, TOKENS = 400 };

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
  const vkf_session_params params = {VKF_SESSION_PARAMS_INIT, .n_slots = 1, .slot_tokens = WARM + TOKENS};
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  double ms[WARM + TOKENS];
  vkf_status st = argc == 2 ? vkf_context_create(NULL, &context) : VKF_ERROR_ARGUMENT;
  if (!st) vkf_context_skip_checks(context);
  if (!st) st = vkf_device_open(context, NULL, &device);
  if (!st) st = vkf_model_open(device, argv[1], &model);
  if (!st) st = vkf_session_create(model, &params, &session);
  for (int i = 0; i < WARM + TOKENS && !st; i++) {
    const int32_t id = 5;
    const double before = now_ms();
    st = vkf_session_feed(session, 0, &id, 1, 1);
    if (!st) st = vkf_session_step(session);
    ms[i] = now_ms() - before;
  }
  if (st) {
    fprintf(stderr, "bench_host_step: %s\n",
            session   ? vkf_session_message(session)
            : context ? vkf_context_message(context)
                      : "expected MODEL");
  } else {
    qsort(ms + WARM, TOKENS, sizeof *ms, compare);
    printf("%.4f\n", ms[WARM + TOKENS / 2]);
  }
  vkf_session_destroy(&session);
  vkf_model_close(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  return st != VKF_OK;
}
