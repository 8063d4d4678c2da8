/* wide_vectors: asks Mesa's software driver for wide vectors, and gives each width a shader cache of its own.
 *
 * lavapipe uses 256 bits even if the processor has AVX-512, unless LP_NATIVE_VECTOR_WIDTH in the environment says
 * otherwise. On a processor without AVX-512 wide vectors are split, which is slower than narrow ones. Some versions of
 * Mesa's cache of compiled shaders mix up widths: 22.3.6 runs code for 512 bits at 128, and its times are wrong; with
 * 25.0.7, code cached at 256 bits gives NaN at 512, and the other way round it crashes. So each width that is requested
 * has its own cache. Invariant: variables that the user has set are not changed, except that the cache becomes a folder
 * inside the user's.
 */
#ifndef VKFORMER_TOOLS_WIDE_VECTORS_H
#define VKFORMER_TOOLS_WIDE_VECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define TOOL_VECTOR_WIDTH "LP_NATIVE_VECTOR_WIDTH"
#define TOOL_MESA_CACHE "MESA_SHADER_CACHE_DIR"

/* Returns the width in bits: the value of TOOL_VECTOR_WIDTH (`environment`, NULL if it is not set), else 512 if the
 * processor has AVX-512; 0: the driver's own choice. refused: --no-wide-vectors. */
static inline unsigned tool_vector_width(bool cpu_has_avx512, const char *environment, bool refused) {
  if (environment) return (unsigned)strtoul(environment, NULL, 10);
  return cpu_has_avx512 && !refused ? 512 : 0;
}

static inline bool tool_cpu_has_avx512(void) {
#if (defined(__GNUC__) || defined(__clang__)) && (defined(__x86_64__) || defined(__i386__))
  return __builtin_cpu_supports("avx512f") != 0;
#else
  return false;
#endif
}

/* Finds the folder for what Mesa compiles for vectors of so many bits, and its parent. It is not called mesa-N-bits:
 * older versions of this program, whose threads compiled side by side, may have left kernels of mixed widths there.
 * mesa, xdg, home: the values of TOOL_MESA_CACHE, XDG_CACHE_HOME and HOME, NULL if they are not set. A child process
 * has the folder in its environment already and keeps it. false: no folder is known, or its name is too long.
 */
static inline bool tool_vectors_cache(unsigned bits, const char *mesa, const char *xdg, const char *home, char *parent,
                                      char *folder, size_t size) {
  const char *base = mesa && mesa[0] ? mesa : xdg && xdg[0] ? xdg : home && home[0] ? home : NULL;
  if (!base) return false;
  const char *inner = base == home ? "/.cache" : "";
  const int n = snprintf(parent, size, "%s%s", base, inner);
  const int m = snprintf(folder, size, "%s%s/lavapipe-%u-bits", base, inner, bits);
  if (n < 0 || (size_t)n >= size || m < 0 || (size_t)m >= size) return false;
  char *last = strrchr(parent, '/');
  if (!last || strcmp(last, strrchr(folder, '/')) != 0) return true;
  memcpy(folder, parent, (size_t)n + 1);
  *last = 0;
  return true;
}

/* Whether the disk of `folder` has enough room. Mesa maps the index of its cache, 1.3 MB with holes; writing to a hole
 * while the disk is full kills the process (SIGBUS). */
static inline bool tool_cache_has_room(const char *folder) {
  enum { ROOM = 4 << 20 };
  struct statvfs facts;
  return statvfs(folder, &facts) != 0 || facts.f_bavail >= ROOM / facts.f_frsize;
}

#endif
