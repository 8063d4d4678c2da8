/* base: what every room uses: errors, log, host memory, arena, growing text, checked sizes.
 *
 * Owns the environment of one context (vkf_env): there is no global state. It knows no tensors, files or Vulkan.
 * Invariant: the message kept is that of the first cause since vkf_env_clear().
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

/* One fallible call of a function that holds nothing: it returns the status of a call that fails. */
#define VKF_CALL(call)                   \
  do {                                   \
    const vkf_status called = (call);    \
    if (called != VKF_OK) return called; \
  } while (0)
/* The same in a function that has something to release: it has `vkf_status st = VKF_OK;` and one label `done:` that
 * cleans up and returns st. */
#define VKF_TRY(call)            \
  do {                           \
    st = (call);                 \
    if (st != VKF_OK) goto done; \
  } while (0)
/* The same for a cause found here: VKF_FAIL(env, VKF_ERROR_FORMAT, "expected %u, found %u", a, b). */
#define VKF_FAIL(env, status, ...)                   \
  do {                                               \
    st = vkf_env_fail((env), (status), __VA_ARGS__); \
    goto done;                                       \
  } while (0)

/* ---- environment ------------------------------------------------------------------------------------------------- */

/* Used by one thread at a time, except as the comment of `parent` says. */
typedef struct vkf_env {
  struct vkf_env *parent;   /* NULL, or: memory is counted there, too, by any thread; its allocator is used here */
  struct vkf_env *listener; /* NULL, or: failures and log lines go there */
  vkf_allocator allocator;
  vkf_log_fn log;
  void *log_user;
  vkf_log_level log_level;
  vkf_status first;   /* status of the first cause; VKF_OK: none */
  char message[1024]; /* its sentence */
  bool too_large;     /* its cause: a tensor or a grid exceeds a limit of the device, so a smaller batch may fit */
  pid_t process;      /* that made its Vulkan objects; 0: it has none. Of an environment with a parent it is there */
  _Atomic uint64_t n_allocations; /* calls that wanted memory, ever */
  uint64_t fail_at;               /* fault injection: the allocation with this number (from 1) fails; 0: none */
  _Atomic uint64_t live_bytes;    /* host bytes held now through this environment and its children */
} vkf_env;

void vkf_env_init(vkf_env *env, const vkf_context_params *params);
/* An environment for another thread: a message of its own, the parent's allocator and log. The parent outlives it. */
void vkf_env_init_child(vkf_env *env, vkf_env *parent);
/* Forgets the last failure; the public door calls it at the start of every call. */
void vkf_env_clear(vkf_env *env);
/* A failure set aside while other calls of the environment may clear or replace it. */
typedef struct vkf_env_failure {
  vkf_status first;
  char message[1024];
  bool too_large;
} vkf_env_failure;
void vkf_env_save_failure(const vkf_env *env, vkf_env_failure *out);
void vkf_env_restore_failure(vkf_env *env, const vkf_env_failure *failure);
/* Records the first cause and returns `status`. */
vkf_status vkf_env_fail(vkf_env *env, vkf_status status, const char *fmt, ...) VKF_PRINTF(3, 4);
/* The same where a tensor or a grid exceeds a limit of the device: sets env->too_large as well. */
vkf_status vkf_env_fail_too_large(vkf_env *env, vkf_status status, const char *fmt, ...) VKF_PRINTF(3, 4);
/* Puts words before the kept message ("model.safetensors: ..."); returns `status`. */
vkf_status vkf_env_prefix(vkf_env *env, vkf_status status, const char *fmt, ...) VKF_PRINTF(3, 4);
void vkf_env_log(vkf_env *env, vkf_log_level level, const char *fmt, ...) VKF_PRINTF(3, 4);

/* A callback of the caller's that runs. A failure of what it calls is forgotten afterwards. */
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
/* Whether this thread is inside a callback of the environment, of a child of it or of its parent. */
bool vkf_env_callback_runs(const vkf_env *env);
/* Whether this process is a child of the one that made the environment's Vulkan objects. A driver's threads are not in
 * it, so it would wait for them forever; and what it destroyed would be gone from a GPU for its parent, too. If so,
 * records that `call`, a function of the library, is refused there. */
bool vkf_env_in_child(vkf_env *env, const char *call);
/* The same, also if `call` would disturb a function of the library inside whose callback this thread is. */
bool vkf_env_refuses(vkf_env *env, const char *call);

/* ---- host memory ------------------------------------------------------------------------------------------------- */

/* NULL when out of memory (the failure is recorded) or when count*size overflows; zeroed. size 0 gives a valid pointer.
 */
void *vkf_env_alloc(vkf_env *env, size_t count, size_t size);
/* As realloc; the new part is not zeroed. On failure the old memory stays and NULL is returned. */
void *vkf_env_realloc(vkf_env *env, void *old, size_t count, size_t size);
/* Returns `old` if its *capacity is enough for `need` elements; else reallocates it, to at least twice the capacity. */
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
/* For messages: what a file is that begins with these bytes, if it is compressed; else NULL. */
const char *vkf_packed(const void *bytes, size_t n);

/* A growing byte string, followed by a zero byte; data is NULL before the first append. After a failed append `failed`
 * stays set. */
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
/* VKF_ERROR_MEMORY if an append failed. */
vkf_status vkf_text_status(const vkf_text *text);
/* The same, after which `data` is a string, also where nothing was appended. */
vkf_status vkf_text_end(vkf_text *text);

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* false on overflow. */
bool vkf_size_mul(size_t a, size_t b, size_t *out);
bool vkf_size_add(size_t a, size_t b, size_t *out);

size_t vkf_dtype_bytes(vkf_dtype dtype);
const char *vkf_name_of_dtype(vkf_dtype dtype); /* "F32", as safetensors writes it */

float vkf_f16_to_f32(uint16_t half);
uint16_t vkf_f16_from_f32(float value); /* to nearest even */
float vkf_bf16_to_f32(uint16_t bits);
uint16_t vkf_bf16_from_f32(float value); /* to nearest even, NaN stays NaN */
/* The same for n numbers, in loops that compilers turn into vector code. The 16-bit side may be at any address. */
void vkf_f16_to_f32_all(const void *in, size_t n, float *out);
void vkf_f16_from_f32_all(const float *in, size_t n, void *out);
void vkf_bf16_to_f32_all(const void *in, size_t n, float *out);
void vkf_bf16_from_f32_all(const float *in, size_t n, void *out);

/* Counter-based random numbers: value = f(seed, stream, counter), no state. */
uint64_t vkf_rng_u64(uint64_t seed, uint64_t stream, uint64_t counter);
double vkf_rng_unit(uint64_t seed, uint64_t stream, uint64_t counter); /* [0,1) */
/* The sum of four uniform numbers: mean 0, sigma 1, within 3.47; near enough to a normal one, in a fifth of its time.
 */
double vkf_rng_normal(uint64_t seed, uint64_t stream, uint64_t counter);

/* FNV-1a in 64 bits (Fowler, Noll, Vo), a byte or a word a step. */
#define VKF_HASH_START UINT64_C(14695981039346656037)
static inline uint64_t vkf_hash_step(uint64_t hash, uint64_t value) {
  return (hash ^ value) * UINT64_C(1099511628211);
}
uint64_t vkf_hash_bytes(uint64_t hash, const void *bytes, size_t n);
uint64_t vkf_hash_text(uint64_t hash, const char *text);
/* For many bytes: it takes eight at a time. The hash is not that of vkf_hash_bytes(). */
uint64_t vkf_hash_words(uint64_t hash, const void *bytes, size_t n);

uint64_t vkf_clock_ns(void); /* monotonic */

/* ---- cores ------------------------------------------------------------------------------------------------------- */

enum { VKF_MAX_THREADS = 16 }; /* of vkf_parallel() */
uint32_t vkf_cores(void);      /* how many this process may use; at least 1 */
uint64_t vkf_host_bytes(void); /* of this machine's memory; 0: not known */
/* Calls part(user, thread, i) for every i < n, on up to `most` threads (VKF_MAX_THREADS if it is more) of which the
 * caller's is one, and returns when all calls have returned. They run at the same time and in any order, so a part
 * changes only what is its own, or its thread's (thread < most). It takes no memory from an environment, and records
 * and logs nothing there: allocator and log are called on the caller's thread alone. If the system starts no more
 * threads, those that run do all the work. */
typedef void vkf_part_fn(void *user, uint32_t thread, size_t i);
void vkf_parallel(size_t n, uint32_t most, vkf_part_fn *part, void *user);

/* true if `bytes` is well-formed UTF-8 (no surrogates, no overlong forms); *bad: offset of the first fault. */
bool vkf_utf8_check(const char *bytes, size_t size, size_t *bad);

#endif
