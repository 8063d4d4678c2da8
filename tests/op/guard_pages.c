/* Guard pages for the tests of ops: each shared map of a file is followed by a page without access. lavapipe of Mesa 26
 * makes such maps for device memory. Buffers end at the guard page (vkf_gpu_faults.end_at), so a kernel that reads or
 * writes beyond an operand crashes the program. Drivers that take memory from malloc() have no such pages.
 * tests/CMakeLists.txt exports both functions, so that drivers call them.
 */
#define _GNU_SOURCE /* mmap64 */
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, MAX_MAPS = 4096 };
static void *guarded[MAX_MAPS]; /* maps with a guard page; maps beyond MAX_MAPS get none */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns the index of `at` in guarded[], or MAX_MAPS. */
static size_t place_of(const void *at) {
  size_t i = 0;
  while (i < MAX_MAPS && guarded[i] != at) i++;
  return i;
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void *mmap64(void *at, size_t bytes, int protection, int flags, int file, off64_t offset) {
  if (!at && file >= 0 && (flags & MAP_TYPE) == MAP_SHARED && bytes % PAGE == 0) {
    pthread_mutex_lock(&lock);
    const size_t place = place_of(NULL);
    if (place < MAX_MAPS) {
      at = (void *)syscall(SYS_mmap, NULL, bytes + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
      if (at != MAP_FAILED) guarded[place] = at;
      flags |= MAP_FIXED;
    }
    pthread_mutex_unlock(&lock);
    if (at == MAP_FAILED) return at;
  }
  return (void *)syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
}

EXPORTED int munmap(void *at, size_t bytes) {
  pthread_mutex_lock(&lock);
  const size_t place = at ? place_of(at) : MAX_MAPS;
  if (place < MAX_MAPS) {
    guarded[place] = NULL;
    bytes += PAGE;
  }
  pthread_mutex_unlock(&lock);
  return (int)syscall(SYS_munmap, at, bytes);
}
