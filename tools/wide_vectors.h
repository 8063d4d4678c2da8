/* wide_vectors: whether the program asks Mesa's software driver for vectors of 512 bits.
 *
 * lavapipe takes 256 bits even where the processor has AVX-512; LP_NATIVE_VECTOR_WIDTH in the environment says
 * otherwise. On a processor without AVX-512 the wide vectors are split, which is slower than the narrow ones.
 * Mesa's cache of compiled shaders does not tell widths apart in every version (25.0.7: what 256 bits left there gives
 * NaN at 512 bits, and the other way round a crash), so wide vectors come with a cache of their own.
 * Invariant: what the user has put into the environment stays, but that this cache is a folder in the user's.
 */
#ifndef VKFORMER_TOOLS_WIDE_VECTORS_H
#define VKFORMER_TOOLS_WIDE_VECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TOOL_VECTOR_WIDTH "LP_NATIVE_VECTOR_WIDTH"
#define TOOL_MESA_CACHE "MESA_SHADER_CACHE_DIR"

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

/* Where Mesa keeps what it compiled for wide vectors. mesa, xdg, home: the values of TOOL_MESA_CACHE, XDG_CACHE_HOME
 * and HOME, NULL where they are not set. Writes its parent, too. false: no folder is known, or its name is too long. */
static inline bool tool_wide_vectors_cache(const char *mesa, const char *xdg, const char *home, char *parent,
                                           char *folder, size_t size) {
  const char *base = mesa && mesa[0] ? mesa : xdg && xdg[0] ? xdg : home && home[0] ? home : NULL;
  if (!base) return false;
  const int n = snprintf(parent, size, "%s%s", base, base == home ? "/.cache" : "");
  const int m = snprintf(folder, size, "%s%s/mesa-512-bits", base, base == home ? "/.cache" : "");
  return n >= 0 && (size_t)n < size && m >= 0 && (size_t)m < size;
}

#endif
