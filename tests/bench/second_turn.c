/* Measures the second turn of a conversation: compares feeding N more ids to a slot of 1,000 with feeding the 1,000, in
 * ms until the logits of the last id; medians of ROUNDS, in which both take turns. The environment sets lavapipe's
 * vector width and threads (LP_NATIVE_VECTOR_WIDTH=512, LP_NUM_THREADS).
 *
 * usage: bench_second_turn MODEL [DEVICE]   A decoder with 1,010 positions.
 */
#include "bench/slot.h"

enum { FIRST = 1000, MOST = 10, TURNS = 3, ROUNDS = 9, VOCAB = 256 };
static const size_t turns[TURNS] = {1, 4, MOST};

int main(int argc, char **argv) {
  int32_t ids[FIRST + MOST];
  double ms[TURNS + 1][ROUNDS];
  slot s;
  for (int32_t i = 0; i < FIRST + MOST; i++) ids[i] = 5 + i * 31 % (VOCAB - 5);
  const bool is_right = argc > 1 && argc < 4;
  vkf_status st = slot_open(&s, is_right ? argv[1] : NULL, argc > 2 ? argv[2] : NULL, FIRST + MOST, false);
  for (int r = 0; r < ROUNDS && !st; r++) {
    st = vkf_session_truncate(s.session, 0, 0);
    if (!st) st = slot_feed(&s, ids, FIRST, CLOCK_MONOTONIC, &ms[TURNS][r]);
    for (int i = 0; i < TURNS && !st; i++) {
      st = slot_feed(&s, ids + FIRST, turns[i], CLOCK_MONOTONIC, &ms[i][r]);
      if (!st) st = vkf_session_truncate(s.session, 0, FIRST);
    }
  }
  if (!st) {
    const double all = median(ms[TURNS], ROUNDS);
    printf("%d ids %.1f ms\n", FIRST, all);
    for (int i = 0; i < TURNS; i++) {
      const double more = median(ms[i], ROUNDS);
      printf("%zu more %.2f ms, %.3f of it\n", turns[i], more, more / all);
    }
  }
  return slot_close(&s, st, "usage: bench_second_turn MODEL [DEVICE]");
}
