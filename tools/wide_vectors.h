/* wide_vectors: whether the program asks Mesa's software driver for vectors of 512 bits.
 *
 * lavapipe takes 256 bits even where the processor has AVX-512; LP_NATIVE_VECTOR_WIDTH in the environment says
 * otherwise. On a processor without AVX-512 the wide vectors are split, which is slower than the narrow ones.
 * Invariant: what the user has put into the environment stays.
 */
#ifndef VKFORMER_TOOLS_WIDE_VECTORS_H
#define VKFORMER_TOOLS_WIDE_VECTORS_H

#include <stdbool.h>
#include <stddef.h>

#define TOOL_VECTOR_WIDTH "LP_NATIVE_VECTOR_WIDTH"

/* environment: the variable's value, NULL where it is not set. refused: --no-wide-vectors. */
static inline bool tool_wants_wide_vectors(bool cpu_has_avx512, const char *environment, bool refused) {
  return cpu_has_avx512 && environment == NULL && !refused;
}

static inline bool tool_cpu_has_avx512(void) {
#if (defined(__GNUC__) || defined(__clang__)) && (defined(__x86_64__) || defined(__i386__))
  return __builtin_cpu_supports("avx512f") != 0;
#else
  return false;
#endif
}

#endif
