/* replay: vkf_device_replay(). */
#include "lab/replay.h"

#include "kern/kern.h"
#include "op/case_program.h"
#include "ref/ref.h"

static vkf_status run_node(vkf_case_program *p) {
  return p->backend->table->run(p->program, &p->run.dims, 0, p->run.plan.n_blocks);
}

vkf_status vkf_device_replay(vkf_device *dev, const char *node_json, const vkf_array *arrays, size_t n_arrays,
                             vkf_result **out) {
  if (!dev) return VKF_ERROR_ARGUMENT;
  if (!node_json) return vkf_engine_null(&dev->ctx->env, "node_json");
  if (!out) return vkf_engine_null(&dev->ctx->env, "out");
  if (n_arrays && !arrays) return vkf_engine_null(&dev->ctx->env, "arrays");
  vkf_status st = VKF_OK;
  vkf_env *env = &dev->ctx->env;
  vkf_backend *ref = NULL;
  vkf_case_program p = {0};
  vkf_walk walk = {0};
  vkf_comparison j = {0};
  const char *variant = NULL;
  *out = NULL;
  if (vkf_env_refuses(env, "vkf_device_replay")) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(env);
  VKF_TRY(vkf_lab_replay_read(env, node_json, arrays, n_arrays, &p.run, &variant));
  VKF_TRY(vkf_ref_backend_create(env, &ref));
  VKF_TRY(vkf_case_program_ready(&p, ref, NULL)); /* it refuses indices outside their tables */
  VKF_TRY(run_node(&p));
  if (!dev->gpu || !vkf_kern_find(variant)) variant = NULL;
  VKF_TRY(vkf_case_program_ready(&p, dev->backend, variant));
  if (!p.program) VKF_TRY(vkf_case_program_ready(&p, dev->backend, NULL)); /* it does not fit here */
  VKF_TRY(run_node(&p));
  VKF_TRY(vkf_ref_walk_init(&walk, env, dev->backend, &p.run.plan, p.program, &p.run.dims, &p.run.weights));
  VKF_TRY(vkf_ref_walk_node(&walk, 0, &j));
  VKF_TRY(vkf_lab_replay_write(dev, &walk, 0, &j, "replay", out));
done:
  vkf_ref_walk_finish(&walk);
  vkf_case_program_finish(&p);
  if (ref) ref->table->destroy(&ref);
  return st;
}
