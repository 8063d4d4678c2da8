/* Devices: finds one by a selector, opens or adopts it, and makes its backend. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <vkformer/vulkan.h>

#include "engine/engine.h"
#include "ref/ref.h"
#include "tune/cache.h"
#include "tune/compiled.h"
#include "tune/limits.h"
#include "tune/probe.h"
#include "tune/tuned.h"
#include "vkop/vkop.h"

/* ---- selectors --------------------------------------------------------------------------------------------------- */

static bool contains(const char *text, const char *part) {
  size_t n = strlen(part);
  for (; *text; text++) {
    size_t i = 0;
    while (i < n && text[i] && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i])) i++;
    if (i == n) return true;
  }
  return false;
}

static bool equal(const char *a, const char *b) {
  return strlen(a) == strlen(b) && contains(a, b);
}

/* Parses 32 hexadecimal digits; dashes are skipped. */
static bool parse_uuid(const char *text, uint8_t uuid[16]) {
  size_t n = 0;
  for (; *text; text++) {
    if (*text == '-') continue;
    if (!isxdigit((unsigned char)*text) || n == 32) return false;
    int digit = isdigit((unsigned char)*text) ? *text - '0' : tolower((unsigned char)*text) - 'a' + 10;
    uuid[n / 2] = (uint8_t)(n % 2 ? uuid[n / 2] << 4 | digit : digit);
    n++;
  }
  return n == 32;
}

/* Larger is better. Lavapipe is the fastest software driver. */
static int score(const vkf_caps *caps) {
  switch (caps->kind) {
    case VKF_DEVICE_DISCRETE:
      return 6;
    case VKF_DEVICE_INTEGRATED:
      return 5;
    case VKF_DEVICE_VIRTUAL:
      return 4;
    case VKF_DEVICE_OTHER:
      return 3;
    default:
      return caps->driver_id == VKF_DRIVER_ID_LAVAPIPE ? 2 : 1;
  }
}

/* Returns the best device of the wanted kinds with this alias (NULL: any); SIZE_MAX: there is none. */
static size_t best_device(const vkf_context *ctx, bool want_gpu, bool want_cpu, const char *alias) {
  size_t best = SIZE_MAX, n = vkf_gpu_instance_count(ctx->instance);
  for (size_t i = 0; i < n; i++) {
    const vkf_caps *caps = vkf_gpu_instance_caps(ctx->instance, i);
    if (!(caps->is_cpu ? want_cpu : want_gpu) || (alias && strcmp(alias, vkf_engine_alias(caps)))) continue;
    if (best == SIZE_MAX || score(caps) > score(vkf_gpu_instance_caps(ctx->instance, best))) best = i;
  }
  return best;
}

static vkf_status no_device(vkf_context *ctx, const char *selector) {
  vkf_text list;
  vkf_status st;
  size_t n = vkf_gpu_instance_count(ctx->instance);
  if (!ctx->instance) return vkf_env_fail(&ctx->env, VKF_ERROR_NO_DEVICE, "%s", ctx->no_loader);
  if (!n)
    return vkf_env_fail(&ctx->env, VKF_ERROR_NO_DEVICE,
                        "no Vulkan device was found: `vkformer doctor` says why; --device ref computes without one");
  vkf_text_init(&list, &ctx->env);
  for (size_t i = 0; i < n; i++)
    vkf_text_printf(&list, "%zu: %s, ", i, vkf_gpu_instance_caps(ctx->instance, i)->device_name);
  st = vkf_env_fail(
      &ctx->env, VKF_ERROR_NO_DEVICE,
      "no device matches \"%s\": expected gpu, cpu, lavapipe, swiftshader, a UUID, or the number or a part "
      "of the name of one of %s%zu: ref; `vkformer doctor` says why others are missing",
      selector, list.data ? list.data : "", n);
  vkf_text_finish(&list);
  return st;
}

/* Finds a device by a part of its name. Fails with the list of devices unless exactly one matches. */
static vkf_status find_by_name(vkf_context *ctx, const char *selector, size_t *index) {
  vkf_status st = VKF_OK;
  size_t n = vkf_gpu_instance_count(ctx->instance), n_found = 0;
  vkf_text found;
  vkf_text_init(&found, &ctx->env);
  for (size_t i = 0; i < n; i++) {
    const vkf_caps *caps = vkf_gpu_instance_caps(ctx->instance, i);
    if (!contains(caps->device_name, selector) && !contains(caps->driver_name, selector) &&
        !contains(caps->driver_info, selector))
      continue;
    vkf_text_printf(&found, "%s%zu: %s (%s)", n_found++ ? ", " : "", i, caps->device_name, caps->driver_name);
    *index = i;
  }
  if (n_found == 0) VKF_TRY(no_device(ctx, selector));
  if (n_found > 1)
    VKF_FAIL(&ctx->env, VKF_ERROR_NO_DEVICE, "\"%s\" matches %zu devices: %s; expected one", selector, n_found,
             found.data ? found.data : "");
done:
  vkf_text_finish(&found);
  return st;
}

/* Numbers from here on are parts of names, such as 4090. */
enum { LEAST_OF_NAMES = 100 };

/* *index: of a Vulkan device; of ref: the number of Vulkan devices. */
static vkf_status select_device(vkf_context *ctx, const char *selector, size_t *index) {
  static const struct {
    const char *name, *alias;
    bool gpu, cpu;
  } aliases[] = {{"lavapipe", "lavapipe", false, true},
                 {"swiftshader", "swiftshader", false, true},
                 {"gpu", NULL, true, false},
                 {"cpu", NULL, false, true}};
  size_t n = vkf_gpu_instance_count(ctx->instance);
  uint8_t uuid[16] = {0};
  char *end = NULL;
  if (!selector) {
    *index = best_device(ctx, true, true, NULL);
    if (*index == SIZE_MAX) return no_device(ctx, "");
    if (vkf_gpu_instance_caps(ctx->instance, *index)->is_cpu)
      vkf_env_log(&ctx->env, VKF_LOG_INFO, "no GPU was found: a software driver is taken");
    return VKF_OK;
  }
  for (size_t i = 0; i < VKF_COUNT(aliases); i++) {
    if (!equal(selector, aliases[i].name)) continue;
    *index = best_device(ctx, aliases[i].gpu, aliases[i].cpu, aliases[i].alias);
    if (*index == SIZE_MAX) return no_device(ctx, selector);
    return VKF_OK;
  }
  if (parse_uuid(selector, uuid)) {
    for (size_t i = 0; i < n; i++)
      if (!memcmp(vkf_gpu_instance_caps(ctx->instance, i)->uuid, uuid, sizeof uuid)) {
        *index = i;
        return VKF_OK;
      }
    return no_device(ctx, selector);
  }
  if (isdigit((unsigned char)*selector)) {
    unsigned long value = strtoul(selector, &end, 10);
    if (!*end && value < LEAST_OF_NAMES) {
      if (value > n) return no_device(ctx, selector);
      *index = value;
      return VKF_OK;
    }
  }
  return find_by_name(ctx, selector, index);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static vkf_status device_alloc(vkf_context *ctx, vkf_device **out) {
  *out = vkf_env_alloc(&ctx->env, 1, sizeof **out);
  if (!*out) return VKF_ERROR_MEMORY;
  (*out)->ctx = ctx;
  return VKF_OK;
}

static vkf_status lower(void *user, vkf_caps *caps) {
  vkf_context *ctx = user;
  return ctx->limits ? vkf_tune_limits_apply(&ctx->env, ctx->limits, caps) : VKF_OK;
}

/* Opens the caches, checks the device and makes its backend, for opened and adopted devices. dev->gpu is set (NULL:
 * ref). */
static vkf_status device_init(vkf_device *dev) {
  vkf_context *ctx = dev->ctx;
  vkf_tuning *t = &dev->tuning;
  if (dev->gpu) {
    const char *folder = ctx->cache_folder;
    const bool refused = folder && vkf_tune_cache_refused(&ctx->env, folder);
    *t = (vkf_tuning){.env = &ctx->env,
                      .cache_folder = refused ? NULL : folder,
                      .refused_folder = refused ? folder : NULL,
                      .gpu = dev->gpu,
                      .reproducible = ctx->deterministic};
    if (vkf_gpu_device_caps(dev->gpu)->coopmat_left_out)
      vkf_env_log(
          &ctx->env, VKF_LOG_WARNING,
          "%s: its matrix cores are not used: this library was built without GL_KHR_cooperative_matrix, which a "
          "newer glslang and newer Vulkan headers know",
          vkf_gpu_device_caps(dev->gpu)->device_name);
    vkf_tune_compiled_open(t);
    vkf_tune_open(t);
    if (ctx->no_checks)
      vkf_env_log(&ctx->env, VKF_LOG_WARNING, "%s: NOT CHECKED, as asked for: its results count for nothing",
                  vkf_gpu_device_caps(dev->gpu)->device_name);
    else
      VKF_CALL(vkf_tune_probe_checks(t, false));
    VKF_CALL(vkf_vkop_backend_create(dev->gpu, ctx->batch_invariant, &dev->backend));
    t->backend = dev->backend;
    VKF_CALL(vkf_tune_use(t));
    if (!ctx->no_checks) VKF_CALL(vkf_tune_probe_kernels(t));
  } else {
    vkf_caps none = {0};
    VKF_CALL(lower(ctx, &none)); /* checks the text: the scalar path has no limits */
    VKF_CALL(vkf_ref_backend_create(&ctx->env, &dev->backend));
  }
  vkf_engine_fill_info(dev->gpu ? vkf_gpu_device_caps(dev->gpu) : NULL, &dev->info);
  dev->backend->reproducible = ctx->deterministic;
  if (ctx->deterministic && dev->gpu && !ctx->no_checks) VKF_CALL(vkf_tune_probe_reproducible(t));
  return VKF_OK;
}

static void destroy(vkf_device **device) {
  if (!*device) return;
  vkf_device *dev = *device;
  if (dev->backend && dev->backend->observer && dev->backend->observer->end)
    dev->backend->observer->end(dev->backend->observer->user);
  if (dev->backend) dev->backend->table->destroy(&dev->backend);
  vkf_tune_close(&dev->tuning);
  if (dev->gpu) vkf_tune_compiled_close(&dev->tuning);
  vkf_gpu_device_destroy(&dev->gpu);
  vkf_env_free(&dev->ctx->env, dev);
  *device = NULL;
}

vkf_status vkf_device_open(vkf_context *ctx, const char *selector, vkf_device **out) {
  if (!ctx) return VKF_ERROR_ARGUMENT;
  if (!out) return vkf_engine_null(&ctx->env, "out");
  vkf_status st = VKF_OK;
  vkf_device *dev = NULL;
  size_t index = 0;
  *out = NULL;
  if (vkf_env_in_child(&ctx->env, "vkf_device_open")) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(&ctx->env);
  if (!selector || !*selector) selector = getenv("VKF_DEVICE");
  if (selector && !*selector) selector = NULL;
  bool ref = selector && equal(selector, "ref");
  if (!ref) {
    VKF_TRY(vkf_engine_instance(ctx));
    VKF_TRY(select_device(ctx, selector, &index));
    ref = index == vkf_gpu_instance_count(ctx->instance);
  }
  VKF_TRY(device_alloc(ctx, &dev));
  if (!ref) {
    const vkf_gpu_device_params params = {.lower = lower, .user = ctx};
    VKF_TRY(vkf_gpu_device_create(ctx->instance, index, &params, &dev->gpu));
  }
  VKF_TRY(device_init(dev));
  vkf_env_log(&ctx->env, VKF_LOG_INFO, "device: %s (%s), chosen %s%s", dev->info.name, dev->info.driver,
              !selector                           ? "as the best one"
              : isdigit((unsigned char)*selector) ? "by its index or UUID, "
                                                  : "by its name, ",
              selector ? selector : "");
done:
  if (st) destroy(&dev);
  *out = dev;
  return st;
}

vkf_status vkf_device_adopt(vkf_context *ctx, const vkf_device_handles *handles, vkf_device **out) {
  if (!ctx) return VKF_ERROR_ARGUMENT;
  if (!out) return vkf_engine_null(&ctx->env, "out");
  vkf_status st = VKF_OK;
  vkf_device *dev = NULL;
  vkf_device_handles own;
  *out = NULL;
  if (vkf_env_in_child(&ctx->env, "vkf_device_adopt")) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(&ctx->env);
  if (!handles) VKF_FAIL(&ctx->env, VKF_ERROR_ARGUMENT, "expected handles of a device to adopt, found NULL");
  VKF_TRY(VKF_PARAMS_READ(&ctx->env, vkf_device_handles, handles, &own));
  VKF_TRY(device_alloc(ctx, &dev));
  const vkf_gpu_device_params params = {.lower = lower, .user = ctx};
  VKF_TRY(vkf_gpu_device_adopt(&ctx->env, &own, &params, &dev->gpu));
  VKF_TRY(device_init(dev));
done:
  if (st) destroy(&dev);
  *out = dev;
  return st;
}

void vkf_device_close(vkf_device **device) {
  if (device && *device && !vkf_env_refuses(&(*device)->ctx->env, "vkf_device_close")) destroy(device);
}
