/* kernels: lists which variants fit a problem, how they rank, and why. */
#include <stdio.h>
#include <vkformer/lab.h>

#include "engine/engine.h"
#include "tune/problem.h"

typedef struct listing {
  vkf_case c;
  vkf_problem problem; /* with the packing that runs use */
  const vkf_caps *caps;
  vkf_tune_mode mode;
  const vkf_tuned *tuned;
} listing;

/* Returns the rank of a variant among those that read this packing, from 1; 0: it is not one of them. */
static uint32_t place_of(const listing *l, const vkf_variant *v) {
  vkf_kern_rank own, other;
  char why[256];
  size_t n = 0;
  uint32_t place = 1;
  const vkf_variant *table = vkf_kern_variants(&n);
  if (!vkf_kern_rank_of(v, &l->problem, l->caps, l->tuned, &own, why, sizeof why)) return 0;
  for (size_t i = 0; i < n; i++)
    if (vkf_kern_rank_of(&table[i], &l->problem, l->caps, l->tuned, &other, why, sizeof why))
      place += vkf_kern_is_better(&other, &own);
  return place;
}

static void list_variant(const listing *l, const vkf_variant *v, vkf_kernel_fn on_kernel, void *user) {
  char name[128], reason[256], why[600] = "", text[256];
  vkf_problem own;
  vkf_kern_rank rank;
  vkf_tune_problem_of(&l->c, l->caps, l->mode, l->tuned, v, &own);
  vkf_kernel_info info = {.size = sizeof info,
                          .op = vkf_op_name(v->op),
                          .name = vkf_kern_name(v, name, sizeof name),
                          .reason = vkf_kern_fit(v, &own, l->caps, reason, sizeof reason),
                          .order = v->order,
                          .workgroup = vkf_kern_workgroup(v),
                          .shared_bytes = vkf_kern_shared_bytes(v)};
  if (!info.reason) {
    info.rank = place_of(l, v);
    info.picked = info.rank == 1;
    info.candidate = vkf_kern_rank_of(v, &own, l->caps, l->tuned, &rank, text, sizeof text);
    info.tuned_ns = info.candidate && rank.time ? rank.time->ns : 0;
    info.why = text;
    if (info.candidate) vkf_kern_reason(&rank, text, sizeof text);
    if (info.candidate && !info.rank) {
      vkf_kern_fit(v, &l->problem, l->caps, reason, sizeof reason);
      snprintf(why, sizeof why, "%s; but it %s", text, reason);
      info.why = why;
    }
  }
  on_kernel(user, &info);
}

vkf_status vkf_device_list_kernels(vkf_device *dev, const char *problem, vkf_kernel_fn on_kernel, void *user) {
  if (!dev) return VKF_ERROR_ARGUMENT;
  if (!problem) return vkf_engine_null(&dev->ctx->env, "problem");
  if (!on_kernel) return vkf_engine_null(&dev->ctx->env, "on_kernel");
  vkf_env *env = &dev->ctx->env;
  size_t n = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  listing l = {.mode = {dev->ctx->batch_invariant, dev->backend->reproducible}, .tuned = &dev->tuning.rows};
  if (vkf_env_refuses(env, "vkf_device_list_kernels")) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(env);
  VKF_CALL(vkf_tune_problem_parse(env, problem, &l.c));
  if (!dev->gpu)
    return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED, "the scalar path has no kernels; expected a Vulkan device");
  l.caps = vkf_gpu_device_caps(dev->gpu);
  vkf_tune_problem_of(&l.c, l.caps, l.mode, l.tuned, NULL, &l.problem);
  for (size_t i = 0; i < n; i++)
    if (variants[i].op == l.c.op) VKF_CALLBACK(env, list_variant(&l, &variants[i], on_kernel, user));
  return VKF_OK;
}
