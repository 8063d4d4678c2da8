/* base: what every room uses: errors, log, host memory, arenas, growing text, numbers, cores.
 *
 * Owns the environment of a context (vkf_env), which takes the place of global state. Knows no tensors, files or
 * Vulkan. Invariant: the message kept is that of the first failure since vkf_env_clear().
 */
#ifndef VKF_BASE_BASE_H
#define VKF_BASE_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <vkformer/vkformer.h>

#if defined(__GNUC__)
#define VKF_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define VKF_PRINTF(fmt, args)
#endif

#define VKF_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define VKF_MIN(a, b) ((a) < (b) ? (a) : (b))
#define VKF_MAX(a, b) ((a) > (b) ? (a) : (b))
#define VKF_CEIL_DIV(a, b) (((a) + (b)-1) / (b))
#define VKF_ROUND_UP(a, b) (VKF_CEIL_DIV(a, b) * (b))

/* Makes a call and returns its status if it fails. For functions that have nothing to release. */
#define VKF_CALL(call)                   \
  do {                                   \
    const vkf_status called = (call);    \
    if (called != VKF_OK) return called; \
  } while (0)
/* The same for functions that have something to release: they declare `vkf_status st = VKF_OK;`, and their one label
 * `done:` cleans up and returns st. */
#define VKF_TRY(call)            \
  do {                           \
    st = (call);                 \
    if (st != VKF_OK) goto done; \
  } while (0)
/* Records a failure and jumps to `done:`, as in VKF_FAIL(env, VKF_ERROR_FORMAT, "expected %u, found %u", a, b). */
#define VKF_FAIL(env, status, ...)                   \
  do {                                               \
    st = vkf_env_fail((env), (status), __VA_ARGS__); \
    goto done;                                       \
  } while (0)

/* ---- environment ------------------------------------------------------------------------------------------------- */

/* Used by one thread at a time, except that threads of its children change its counters. */
typedef struct vkf_env {
  struct vkf_env *parent;   /* NULL, or: it counts this one's memory, and its allocator is used here */
  struct vkf_env *listener; /* NULL, or: it gets the failures and log lines */
  vkf_allocator allocator;
  vkf_log_fn log;
  void *log_user;
  vkf_log_level log_level;
  vkf_status first;   /* status of the first failure; VKF_OK: none */
  char message[1024]; /* that failure as a sentence */
  bool too_large;     /* it failed because a tensor or a grid exceeds a limit of the device: a smaller batch may fit */
  pid_t process;      /* made the Vulkan objects; 0: there are none. A child uses its parent's */
  _Atomic uint64_t n_allocations; /* calls that asked for memory so far */
  uint64_t fail_at;               /* fault injection: the allocation with this number (from 1) fails; 0: none */
  _Atomic uint64_t live_bytes;    /* host bytes held now through this environment and its children */
} vkf_env;

void vkf_env_init(vkf_env *env, const vkf_context_params *params);
/* Makes an environment for another thread, with its own message and the parent's allocator and log. The parent must
 * outlive it. */
void vkf_env_init_child(vkf_env *env, vkf_env *parent);
/* Forgets the recorded failure. Every public function calls it first. */
void vkf_env_clear(vkf_env *env);
/* A copy of the recorded failure, to restore it after calls that may clear or replace it. */
typedef struct vkf_env_failure {
  vkf_status first;
  char message[1024];
  bool too_large;
} vkf_env_failure;
void vkf_env_save_failure(const vkf_env *env, vkf_env_failure *out);
void vkf_env_restore_failure(vkf_env *env, const vkf_env_failure *failure);
/* Records a failure unless one is recorded already. Returns `status`. */
vkf_status vkf_env_fail(vkf_env *env, vkf_status status, const char *fmt, ...) VKF_PRINTF(3, 4);
/* The same if a tensor or a grid exceeds a limit of the device: also sets env->too_large. */
vkf_status vkf_env_fail_too_large(vkf_env *env, vkf_status status, const char *fmt, ...) VKF_PRINTF(3, 4);
/* Prepends words to the kept message ("model.safetensors: ..."). Returns `status`. */
vkf_status vkf_env_prefix(vkf_env *env, vkf_status status, const char *fmt, ...) VKF_PRINTF(3, 4);
void vkf_env_log(vkf_env *env, vkf_log_level level, const char *fmt, ...) VKF_PRINTF(3, 4);

/* A running callback of the user. Failures of what it calls are forgotten when it ends. */
typedef struct vkf_env_callback {
  vkf_env *env;
  vkf_env_failure before;
  const struct vkf_env_callback *outer; /* of this thread; NULL: none */
} vkf_env_callback;
void vkf_env_callback_begin(vkf_env *env, vkf_env_callback *callback);
void vkf_env_callback_end(const vkf_env_callback *callback);
#define VKF_CALLBACK(env, call)               \
  do {                                        \
    vkf_env_callback callback;                \
    vkf_env_callback_begin((env), &callback); \
    call;                                     \
    vkf_env_callback_end(&callback);          \
  } while (0)
/* Returns whether this thread is in a callback of the environment, of one of its children or of its parent. */
bool vkf_env_callback_runs(const vkf_env *env);
/* Returns whether this process is a child of the one that made the environment's Vulkan objects. If so, records that
 * `call`, a function of the library, is refused there: a child has none of the driver's threads and would wait for them
 * forever, and what it destroyed on a GPU would be gone for its parent, too. */
bool vkf_env_in_child(vkf_env *env, const char *call);
/* The same, but also refuses inside a callback (vkf_env_callback_runs()), where `call` would disturb the function that
 * called back. */
bool vkf_env_refuses(vkf_env *env, const char *call);

/* ---- host memory ------------------------------------------------------------------------------------------------- */

/* Returns zeroed memory, or NULL (recorded) if there is none or count*size overflows. Size 0 gives a valid pointer. */
void *vkf_env_alloc(vkf_env *env, size_t count, size_t size);
/* Works as realloc(): does not zero the new part; on failure returns NULL and keeps the old memory. */
void *vkf_env_realloc(vkf_env *env, void *old, size_t count, size_t size);
/* Makes room for `need` elements: returns `old` if *capacity is enough, else reallocates to at least twice as much. */
void *vkf_env_grow(vkf_env *env, void *old, size_t *capacity, size_t need, size_t size);
void vkf_env_free(vkf_env *env, void *memory);
char *vkf_env_strdup(vkf_env *env, const char *text);

/* Memory that is freed all at once. Allocations are 16-byte aligned and zeroed. */
typedef struct vkf_arena {
  vkf_env *env;
  struct vkf_arena_block *blocks;
} vkf_arena;
void vkf_arena_init(vkf_arena *arena, vkf_env *env);
void vkf_arena_finish(vkf_arena *arena);
void *vkf_arena_alloc(vkf_arena *arena, size_t count, size_t size); /* NULL: recorded */
char *vkf_arena_strdup(vkf_arena *arena, const char *text);
char *vkf_arena_printf(vkf_arena *arena, const char *fmt, ...) VKF_PRINTF(2, 3);

bool vkf_ends_with(const char *text, const char *end);
/* Returns a phrase for messages if a file that begins with these bytes is compressed, else NULL. */
const char *vkf_packed(const void *bytes, size_t n);

/* A growing byte string with a zero byte behind it; data is NULL before the first append. A failed append sets `failed`
 * for good. */
typedef struct vkf_text {
  vkf_env *env;
  char *data;
  size_t size, capacity;
  bool failed;
} vkf_text;
void vkf_text_init(vkf_text *text, vkf_env *env);
void vkf_text_finish(vkf_text *text);
void vkf_text_append(vkf_text *text, const char *bytes, size_t size);
void vkf_text_printf(vkf_text *text, const char *fmt, ...) VKF_PRINTF(2, 3);
/* Returns VKF_ERROR_MEMORY if an append failed. */
vkf_status vkf_text_status(const vkf_text *text);
/* The same, and makes `data` a string even if nothing was appended. */
vkf_status vkf_text_end(vkf_text *text);

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Return false on overflow. */
bool vkf_size_mul(size_t a, size_t b, size_t *out);
bool vkf_size_add(size_t a, size_t b, size_t *out);

size_t vkf_dtype_bytes(vkf_dtype dtype);
const char *vkf_name_of_dtype(vkf_dtype dtype); /* "F32", as safetensors writes it */

float vkf_f16_to_f32(uint16_t half);
uint16_t vkf_f16_from_f32(float value); /* to nearest even */
float vkf_bf16_to_f32(uint16_t bits);
uint16_t vkf_bf16_from_f32(float value); /* to nearest even, NaN stays NaN */
/* The same for n numbers, in loops that compilers vectorise. The 16-bit numbers may be at any address. */
void vkf_f16_to_f32_all(const void *in, size_t n, float *out);
void vkf_f16_from_f32_all(const float *in, size_t n, void *out);
void vkf_bf16_to_f32_all(const void *in, size_t n, float *out);
void vkf_bf16_from_f32_all(const float *in, size_t n, void *out);

/* Counter-based random numbers: value = f(seed, stream, counter), no state. */
uint64_t vkf_rng_u64(uint64_t seed, uint64_t stream, uint64_t counter);
double vkf_rng_unit(uint64_t seed, uint64_t stream, uint64_t counter); /* [0,1) */
/* Returns a nearly normal number: the sum of four uniform ones, with mean 0, sigma 1 and nothing beyond 3.47, in a
 * fifth of the time that a normal one takes. */
double vkf_rng_normal(uint64_t seed, uint64_t stream, uint64_t counter);

/* FNV-1a in 64 bits (Fowler, Noll, Vo), one byte or word per step. */
#define VKF_HASH_START UINT64_C(14695981039346656037)
static inline uint64_t vkf_hash_step(uint64_t hash, uint64_t value) {
  return (hash ^ value) * UINT64_C(1099511628211);
}
uint64_t vkf_hash_bytes(uint64_t hash, const void *bytes, size_t n);
uint64_t vkf_hash_text(uint64_t hash, const char *text);
/* Faster for many bytes, because it takes eight at a time. Gives another hash than vkf_hash_bytes(). */
uint64_t vkf_hash_words(uint64_t hash, const void *bytes, size_t n);

uint64_t vkf_clock_ns(void); /* monotonic */

/* ---- cores ------------------------------------------------------------------------------------------------------- */

enum { VKF_MAX_THREADS = 16 }; /* of vkf_parallel() */
uint32_t vkf_cores(void);      /* how many this process may use; at least 1 */
uint64_t vkf_host_bytes(void); /* size of this machine's memory; 0: not known */
/* Calls part(user, thread, i) for every i < n, on up to `most` threads (at most VKF_MAX_THREADS), one of which is the
 * caller's. Returns when all calls have returned. They run at the same time and in any order, so a part may change only
 * what belongs to it or to its thread (thread < most). A part must not allocate, fail or log through an environment:
 * the allocator and the log are called on the caller's thread alone. If the system starts no more threads, those that
 * run do all the work. */
typedef void vkf_part_fn(void *user, uint32_t thread, size_t i);
void vkf_parallel(size_t n, uint32_t most, vkf_part_fn *part, void *user);

/* Returns whether `bytes` is well-formed UTF-8 (no surrogates, no overlong forms). If not, *bad (unless NULL) is the
 * offset of the first fault. */
bool vkf_utf8_check(const char *bytes, size_t size, size_t *bad);

#endif
