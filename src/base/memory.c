/* memory: counted allocations, and arenas on top of them.
 *
 * Owns the header in front of every allocation, which holds its size. Refuses sizes that overflow or that no object
 * can have (over PTRDIFF_MAX). Invariant: live_bytes (the parent's if there is one) is the sum of the sizes asked for
 * and not yet freed; a failed call changes nothing but n_allocations and the recorded failure.
 */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

/* 16 bytes, so that what follows keeps malloc's alignment. */
#define HEADER_BYTES 16
#define ARENA_BLOCK_BYTES (64 * 1024)

static size_t size_of(const void *memory) {
  size_t size;
  memcpy(&size, (const char *)memory - HEADER_BYTES, sizeof(size));
  return size;
}

void *vkf_env_realloc(vkf_env *env, void *old, size_t count, size_t size) {
  size_t want, whole;
  if (!vkf_size_mul(count, size, &want) || !vkf_size_add(VKF_MAX(want, 1), HEADER_BYTES, &whole) ||
      whole > PTRDIFF_MAX) {
    vkf_env_fail(env, VKF_ERROR_MEMORY, "out of host memory: %zu elements of %zu bytes do not fit in the address space",
                 count, size);
    return NULL;
  }
  vkf_env *counter = env->parent != NULL ? env->parent : env;
  size_t before = old == NULL ? 0 : size_of(old);
  char *block = NULL;
  if (++counter->n_allocations != counter->fail_at)
    block = env->allocator.reallocate(env->allocator.user, old == NULL ? NULL : (char *)old - HEADER_BYTES, whole);
  if (block == NULL) {
    vkf_env_fail(env, VKF_ERROR_MEMORY, "out of host memory: %zu bytes wanted while %llu are held", want,
                 (unsigned long long)counter->live_bytes);
    return NULL;
  }
  memcpy(block, &want, sizeof(want));
  counter->live_bytes += want;
  counter->live_bytes -= before;
  return block + HEADER_BYTES;
}

void *vkf_env_alloc(vkf_env *env, size_t count, size_t size) {
  void *memory = vkf_env_realloc(env, NULL, count, size);
  if (memory != NULL) memset(memory, 0, count * size);
  return memory;
}

void *vkf_env_grow(vkf_env *env, void *old, size_t *capacity, size_t need, size_t size) {
  enum { LEAST = 16 };
  if (need <= *capacity) return old;
  size_t more = *capacity > SIZE_MAX / 2 ? need : VKF_MAX(VKF_MAX(need, 2 * *capacity), LEAST);
  void *moved = vkf_env_realloc(env, old, more, size);
  if (moved != NULL) *capacity = more;
  return moved;
}

void vkf_env_free(vkf_env *env, void *memory) {
  if (memory == NULL) return;
  vkf_env *counter = env->parent != NULL ? env->parent : env;
  counter->live_bytes -= size_of(memory);
  env->allocator.reallocate(env->allocator.user, (char *)memory - HEADER_BYTES, 0);
}

char *vkf_env_strdup(vkf_env *env, const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = vkf_env_realloc(env, NULL, size, 1);
  if (copy != NULL) memcpy(copy, text, size);
  return copy;
}

/* The data follow the struct at the next multiple of 16. */
struct vkf_arena_block {
  struct vkf_arena_block *next;
  size_t used, capacity;
};
#define BLOCK_HEADER_BYTES VKF_ROUND_UP(sizeof(struct vkf_arena_block), 16)

void vkf_arena_init(vkf_arena *arena, vkf_env *env) {
  arena->env = env;
  arena->blocks = NULL;
}

void vkf_arena_finish(vkf_arena *arena) {
  while (arena->blocks != NULL) {
    struct vkf_arena_block *next = arena->blocks->next;
    vkf_env_free(arena->env, arena->blocks);
    arena->blocks = next;
  }
}

static struct vkf_arena_block *add_block(vkf_arena *arena, size_t want) {
  size_t capacity = VKF_MAX(want, ARENA_BLOCK_BYTES), whole;
  if (!vkf_size_add(capacity, BLOCK_HEADER_BYTES, &whole)) whole = SIZE_MAX;
  struct vkf_arena_block *block = vkf_env_alloc(arena->env, whole, 1);
  if (block == NULL) return NULL;
  block->capacity = capacity;
  /* A block for one large piece has little room left, so the first block stays in front. */
  if (want > ARENA_BLOCK_BYTES / 2 && arena->blocks != NULL) {
    block->next = arena->blocks->next;
    arena->blocks->next = block;
  } else {
    block->next = arena->blocks;
    arena->blocks = block;
  }
  return block;
}

void *vkf_arena_alloc(vkf_arena *arena, size_t count, size_t size) {
  size_t want;
  if (!vkf_size_mul(count, size, &want) || want > SIZE_MAX - 15) {
    vkf_env_fail(arena->env, VKF_ERROR_MEMORY,
                 "out of host memory: %zu elements of %zu bytes do not fit in the address space", count, size);
    return NULL;
  }
  want = VKF_ROUND_UP(VKF_MAX(want, 1), 16);
  struct vkf_arena_block *block = arena->blocks;
  if (block == NULL || block->capacity - block->used < want) block = add_block(arena, want);
  if (block == NULL) return NULL;
  void *memory = (char *)block + BLOCK_HEADER_BYTES + block->used;
  block->used += want;
  return memory;
}

char *vkf_arena_strdup(vkf_arena *arena, const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = vkf_arena_alloc(arena, size, 1);
  if (copy != NULL) memcpy(copy, text, size);
  return copy;
}

char *vkf_arena_printf(vkf_arena *arena, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  char *text = vkf_arena_alloc(arena, n < 0 ? 1 : (size_t)n + 1, 1);
  if (text == NULL || n < 0) return text;
  va_start(args, fmt);
  vsnprintf(text, (size_t)n + 1, fmt, args);
  va_end(args);
  return text;
}
