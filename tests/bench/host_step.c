/* Measures the host's work for a token: the processor time of a step of one slot, in ms, the median of TOKENS. On a
 * shim (scripts/farm) nothing runs on the device, so this is all the time that a step takes.
 *
 * usage: bench_host_step MODEL   A decoder with 512 positions. Takes the first device and skips its checks.
 */
#include "bench/slot.h"

enum { WARM = 100, TOKENS = 400 };

int main(int argc, char **argv) {
  const int32_t id = 5;
  double ms[WARM + TOKENS];
  slot s;
  vkf_status st = slot_open(&s, argc == 2 ? argv[1] : NULL, NULL, WARM + TOKENS, true);
  for (int i = 0; i < WARM + TOKENS && !st; i++) st = slot_feed(&s, &id, 1, CLOCK_PROCESS_CPUTIME_ID, &ms[i]);
  if (!st) printf("%.4f\n", median(ms + WARM, TOKENS));
  return slot_close(&s, st, "usage: bench_host_step MODEL");
}
