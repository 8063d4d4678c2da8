/* What the host takes for a token: the processor's time of a step of one slot, in ms, the median of TOKENS. On a shim
 * (scripts/farm) nothing runs on the device, so this is all the time that a step takes.
 *
 * usage: bench_host_step MODEL   A decoder with 512 positions. The device is the first one; its probes are left out.
 */
#include <stdio.h>
#include <vkformer/lab.h>

#include "bench/median.h"

enum { WARM = 100, TOKENS = 400 };

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
    const double before = clock_ms(CLOCK_PROCESS_CPUTIME_ID);
    st = vkf_session_feed(session, 0, &id, 1, 1);
    if (!st) st = vkf_session_step(session);
    ms[i] = clock_ms(CLOCK_PROCESS_CPUTIME_ID) - before;
  }
  if (st) {
    fprintf(stderr, "bench_host_step: %s\n",
            session   ? vkf_session_message(session)
            : context ? vkf_context_message(context)
                      : "expected MODEL");
  } else {
    printf("%.4f\n", median(ms + WARM, TOKENS));
  }
  vkf_session_destroy(&session);
  vkf_model_close(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  return st != VKF_OK;
}
