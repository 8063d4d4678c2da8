/* A second turn of a conversation: N ids behind 1,000 in a slot, beside feeding all of them again, in ms until the
 * logits of the last one; medians of ROUNDS in turns. A program that uses the library chooses lavapipe's vectors and
 * threads by the environment (LP_NATIVE_VECTOR_WIDTH=512, LP_NUM_THREADS).
 *
 * usage: bench_second_turn MODEL [DEVICE]   A decoder with 1,010 positions.
 */
#include <stdio.h>
#include <vkformer/vkformer.h>

#include "bench/median.h"

enum { FIRST = 1000, MOST = 10, TURNS = 3, ROUNDS = 9, VOCAB = 256 };
static const size_t turns[TURNS] = {1, 4, MOST};

static vkf_status feed(vkf_session *session, const int32_t *ids, size_t n, double *ms) {
  const double before = clock_ms(CLOCK_MONOTONIC);
  vkf_status st = vkf_session_feed(session, 0, ids, n, 1);
  if (!st) st = vkf_session_step(session);
  *ms = clock_ms(CLOCK_MONOTONIC) - before;
  return st;
}

int main(int argc, char **argv) {
  const vkf_session_params params = {VKF_SESSION_PARAMS_INIT, .n_slots = 1, .slot_tokens = FIRST + MOST};
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  int32_t ids[FIRST + MOST];
  double ms[TURNS + 1][ROUNDS];
  for (int32_t i = 0; i < FIRST + MOST; i++) ids[i] = 5 + i * 31 % (VOCAB - 5);
  vkf_status st = argc > 1 && argc < 4 ? vkf_context_create(NULL, &context) : VKF_ERROR_ARGUMENT;
  if (!st) st = vkf_device_open(context, argc > 2 ? argv[2] : NULL, &device);
  if (!st) st = vkf_model_open(device, argv[1], &model);
  if (!st) st = vkf_session_create(model, &params, &session);
  for (int r = 0; r < ROUNDS && !st; r++) {
    st = vkf_session_truncate(session, 0, 0);
    if (!st) st = feed(session, ids, FIRST, &ms[TURNS][r]);
    for (int i = 0; i < TURNS && !st; i++) {
      st = feed(session, ids + FIRST, turns[i], &ms[i][r]);
      if (!st) st = vkf_session_truncate(session, 0, FIRST);
    }
  }
  if (st) {
    fprintf(stderr, "bench_second_turn: %s\n",
            session   ? vkf_session_message(session)
            : context ? vkf_context_message(context)
                      : "expected MODEL [DEVICE]");
  } else {
    const double all = median(ms[TURNS], ROUNDS);
    printf("%d ids %.1f ms\n", FIRST, all);
    for (int i = 0; i < TURNS; i++) {
      const double more = median(ms[i], ROUNDS);
      printf("%zu more %.2f ms, %.3f of it\n", turns[i], more, more / all);
    }
  }
  vkf_session_destroy(&session);
  vkf_model_close(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  return st != VKF_OK;
}
