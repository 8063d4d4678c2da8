/* session: runs a model in one thread.
 *
 * Owns a message, a line to the device, a backend on it, caches, plans and step buffers. Changes nothing that another
 * session sees, except what docs/architecture.md lists under "Threads". Invariant: a call holds `busy`, so closing the
 * model waits for it.
 */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <time.h>

#include "engine/opened.h"
#include "ref/ref.h"
#include "vkop/vkop.h"

/* ---- life -------------------------------------------------------------------------------------------------------- */

static vkf_status make_backend(vkf_session *s) {
  vkf_device *dev = s->model->dev;
  if (dev->gpu) {
    VKF_CALL(vkf_gpu_device_branch(dev->gpu, s->env, &s->gpu));
    VKF_CALL(vkf_vkop_backend_create(s->gpu, s->ctx->batch_invariant, &s->backend));
    vkf_vkop_backend_tune(s->backend, &dev->tuning.rows);
  } else {
    VKF_CALL(vkf_ref_backend_create(s->env, &s->backend));
  }
  s->backend->reproducible = dev->backend->reproducible;
  s->backend->observer = dev->backend->observer;
  return VKF_OK;
}

/* Frees all that depends on the model. s->model stays set, so that closing the model waits for this session. */
static void free_parts(vkf_session *s) {
  vkf_engine_slots_destroy(&s->slots);
  if (s->plan_cache.env) {
    vkf_engine_plan_cache_report(&s->plan_cache);
    vkf_engine_plan_cache_finish(&s->plan_cache);
    s->plan_cache.env = NULL;
  }
  if (s->backend) s->backend->table->destroy(&s->backend);
  vkf_gpu_device_destroy(&s->gpu);
  s->tokenizer.shared = NULL;
}

static void destroy(vkf_session **session) {
  vkf_session *s = *session;
  if (!s) return;
  free_parts(s);
  pthread_mutex_destroy(&s->busy);
  vkf_env_free(&s->ctx->env, s);
  *session = NULL;
}

/* Adds a session to the context's list, and locks it, so that closing its model waits until it is made. Returns false
 * if the model is being closed. */
static bool enter(vkf_session *s) {
  pthread_mutex_lock(&s->ctx->lock);
  const bool is_open = !atomic_load(&s->model->is_closing);
  if (is_open) {
    pthread_mutex_lock(&s->busy);
    s->next = s->ctx->sessions;
    s->ctx->sessions = s;
  }
  pthread_mutex_unlock(&s->ctx->lock);
  return is_open;
}

/* Removes a busy session from the context's list, and unlocks it. */
static void leave(vkf_session *s) {
  vkf_session **at = &s->ctx->sessions;
  pthread_mutex_lock(&s->ctx->lock);
  while (*at != s) at = &(*at)->next;
  *at = s->next;
  pthread_mutex_unlock(&s->ctx->lock);
  pthread_mutex_unlock(&s->busy);
}

vkf_status vkf_session_create(vkf_model *model, const vkf_session_params *params, vkf_session **out) {
  if (!model) return VKF_ERROR_ARGUMENT;
  vkf_status st = VKF_OK;
  vkf_context *ctx = model->dev->ctx;
  if (vkf_env_in_child(&ctx->env, "vkf_session_create")) return VKF_ERROR_ARGUMENT;
  if (!out) {
    pthread_mutex_lock(&ctx->lock);
    st = vkf_engine_null(&ctx->env, "out");
    pthread_mutex_unlock(&ctx->lock);
    return st;
  }
  vkf_session_params p;
  vkf_env env; /* several threads may create sessions at once */
  bool is_listed = false;
  *out = NULL;
  vkf_env_init_child(&env, &ctx->env);
  vkf_session *s = vkf_env_alloc(&env, 1, sizeof *s);
  if (!s) VKF_TRY(VKF_ERROR_MEMORY);
  s->model = model;
  s->ctx = ctx;
  s->env = &s->own;
  s->own = env;
  s->tokenizer = (vkf_tokenizer){.env = s->env, .session = s, .shared = &model->tokenizer};
  pthread_mutex_init(&s->busy, NULL);
  s->created = vkf_clock_ns();
  VKF_TRY(VKF_PARAMS_READ(s->env, vkf_session_params, params, &p));
  is_listed = enter(s);
  if (!is_listed) VKF_FAIL(s->env, VKF_ERROR_ARGUMENT, "expected a model that is open, found one that was closed");
  s->kv_cache_bytes = p.kv_cache_bytes;
  VKF_TRY(make_backend(s));
  s->backend->should_stop = p.should_stop;
  s->backend->stop_user = p.user;
  vkf_engine_plan_cache_init(&s->plan_cache, s->env, s->backend, model->net, model->weights);
  VKF_TRY(vkf_engine_slots_create(s, &p, &s->slots));
done:
  if (st) {
    env = s ? s->own : env;
    if (is_listed) leave(s);
    destroy(&s);
    pthread_mutex_lock(&ctx->lock);
    vkf_env_clear(&ctx->env);
    vkf_env_fail(&ctx->env, st, "%s", env.message);
    pthread_mutex_unlock(&ctx->lock);
  } else {
    pthread_mutex_unlock(&s->busy);
  }
  *out = s;
  return st;
}

void vkf_session_destroy(vkf_session **session) {
  if (!session || !*session || vkf_env_refuses(&(*session)->own, "vkf_session_destroy")) return;
  pthread_mutex_lock(&(*session)->busy); /* waits for a call of another thread */
  free_parts(*session);
  leave(*session);
  destroy(session);
}

/* Refuses new calls on the model's sessions. Returns an idle one, locked; NULL: all *n_left sessions run a call. */
static vkf_session *take_idle(vkf_model *model, size_t *n_left) {
  vkf_context *ctx = model->dev->ctx;
  vkf_session *taken = NULL;
  *n_left = 0;
  pthread_mutex_lock(&ctx->lock);
  for (vkf_session *s = ctx->sessions; s; s = s->next) {
    if (s->model != model) continue;
    atomic_store(&s->is_closing, true);
    *n_left += 1;
    if (!taken && pthread_mutex_trylock(&s->busy) == 0) taken = s;
  }
  pthread_mutex_unlock(&ctx->lock);
  return taken;
}

void vkf_engine_sessions_part(vkf_model *model) {
  const struct timespec millisecond = {.tv_nsec = 1000000};
  atomic_store(&model->is_closing, true);
  for (size_t n_left = 1; n_left > 0;) {
    vkf_session *s = take_idle(model, &n_left);
    if (s) {
      free_parts(s); /* it logs, and the log callback may take the context's lock */
      s->model = NULL;
      pthread_mutex_unlock(&s->busy);
    } else if (n_left > 0) {
      nanosleep(&millisecond, NULL);
    }
  }
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

vkf_status vkf_session_get_info(vkf_session *s, vkf_session_info *out) {
  vkf_status st = vkf_engine_session_begin(s, "vkf_session_get_info");
  if (st) return st;
  if (!out) return vkf_engine_session_end(s, vkf_engine_null(s->env, "out"), NULL);
  const vkf_plan_cache_bytes runs = vkf_engine_plan_cache_bytes(&s->plan_cache),
                             slots = vkf_engine_slots_bytes(s->slots);
  const vkf_session_info full = {VKF_SESSION_INFO_INIT,
                                 .run_bytes = runs.caches + runs.step + runs.plans,
                                 .slots_bytes = slots.caches + slots.plans,
                                 .cache_bytes = runs.caches + slots.caches,
                                 .step_bytes = runs.step,
                                 .plan_bytes = runs.plans + slots.plans,
                                 .staging_bytes = s->gpu ? vkf_gpu_device_staging(s->gpu) : 0};
  st = VKF_INFO_WRITE(s->env, vkf_session_info, &full, out);
  return vkf_engine_session_end(s, st, NULL);
}
