/* Runs a fuzz target without a fuzzer: on every seed of a folder, then on seeds that are changed at random, always in
 * the same way. It finds what is near the seeds, in seconds and with any compiler; scripts/fuzz looks further.
 *
 *   fuzz_replay_SUBJECT FOLDER N      N changed seeds
 */
#define _XOPEN_SOURCE 700
#include <dirent.h>

#include "fuzz.h"

enum { MAX_SEEDS = 4096, MAX_BYTES = 1 << 16, MAX_CHANGES = 4 };

typedef struct seed {
  uint8_t *bytes;
  size_t n;
} seed;

static seed seeds[MAX_SEEDS];
static size_t n_seeds;
static uint64_t counter; /* of the random numbers */

static size_t random_below(size_t n) {
  return n ? (size_t)(vkf_rng_u64(17, 0, counter++) % n) : 0;
}

static void read_seed(const char *folder, const char *name) {
  char path[1024];
  seed *s = &seeds[n_seeds];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  FUZZ_CHECK(file && n_seeds < MAX_SEEDS);
  s->bytes = malloc(MAX_BYTES);
  FUZZ_CHECK(s->bytes);
  s->n = fread(s->bytes, 1, MAX_BYTES, file);
  fclose(file);
  n_seeds++;
}

/* Makes one change: replaces, inserts or removes bytes, or takes the rest from another seed. Returns the new size. */
static size_t change(uint8_t *bytes, size_t n) {
  static const char interesting[] = "{}[]\",:-0987654321eE.\\u\x80\xff\x00\x7f";
  size_t at = random_below(n + 1), length = 1 + random_below(8);
  switch (random_below(5)) {
    case 0:
      if (at < n) bytes[at] ^= (uint8_t)(1u << random_below(8));
      return n;
    case 1:
      if (at < n) bytes[at] = (uint8_t)interesting[random_below(sizeof interesting)];
      return n;
    case 2: /* remove */
      if (length > n - at) length = n - at;
      memmove(bytes + at, bytes + at + length, n - at - length);
      return n - length;
    case 3: /* insert bytes from elsewhere */
      if (n == 0 || n + length > MAX_BYTES) return n;
      memmove(bytes + at + length, bytes + at, n - at);
      for (size_t i = 0; i < length; i++) bytes[at + i] = bytes[random_below(n)];
      return n + length;
    default: { /* the rest is another seed's */
      const seed *other = &seeds[random_below(n_seeds)];
      size_t from = random_below(other->n + 1), rest = other->n - from;
      if (at + rest > MAX_BYTES) return n;
      memcpy(bytes + at, other->bytes + from, rest);
      return at + rest;
    }
  }
}

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_seed(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

/* Runs the target on a block of the input's size, so that a sanitizer sees a read behind it. */
static void run(const uint8_t *bytes, size_t n) {
  uint8_t *copy = malloc(n ? n : 1);
  FUZZ_CHECK(copy);
  if (n) memcpy(copy, bytes, n);
  LLVMFuzzerTestOneInput(copy, n);
  free(copy);
}

int main(int argc, char **argv) {
  struct dirent **entries = NULL;
  static uint8_t bytes[MAX_BYTES];
  FUZZ_CHECK(argc == 3);
  int n_entries = scandir(argv[1], &entries, is_seed, by_name);
  FUZZ_CHECK(n_entries > 0);
  for (int i = 0; i < n_entries; i++) {
    read_seed(argv[1], entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
  for (size_t i = 0; i < n_seeds; i++) run(seeds[i].bytes, seeds[i].n);
  long n_changed = atol(argv[2]);
  for (long i = 0; i < n_changed; i++) {
    const seed *s = &seeds[random_below(n_seeds)];
    size_t n = s->n;
    memcpy(bytes, s->bytes, n);
    for (size_t c = 1 + random_below(MAX_CHANGES); c > 0; c--) n = change(bytes, n);
    run(bytes, n);
  }
  printf("%zu seeds and %ld changed ones\n", n_seeds, n_changed);
  for (size_t i = 0; i < n_seeds; i++) free(seeds[i].bytes);
  return 0;
}
