#include "op/case_program.h"

static void destroy(vkf_case_program *p) {
  if (p->program) p->backend->table->program_destroy(&p->program);
  if (p->weights) p->backend->table->weights_destroy(&p->weights);
}

vkf_status vkf_case_program_ready(vkf_case_program *p, vkf_backend *backend, const char *variant) {
  const vkf_backend_table *b = backend->table;
  const vkf_program_options options = {
      .keep_all = true, .statistics = p->statistics, .timing = p->timing, .variant = variant};
  destroy(p);
  p->backend = backend;
  VKF_CALL(b->weights_create(backend, &p->run.weights, variant, &p->weights));
  const vkf_status st = b->program_create(backend, &p->run.plan, p->weights, NULL, &options, &p->program);
  if (st == VKF_ERROR_ARGUMENT && variant) {
    vkf_env_clear(backend->env);
    return VKF_OK;
  }
  return st ? st : b->poison(p->program);
}

vkf_status vkf_case_program_init(vkf_backend *backend, const vkf_case *c, const char *variant, vkf_case_program *out) {
  *out = (vkf_case_program){0};
  VKF_CALL(vkf_case_make(backend->env, c, &out->run));
  return vkf_case_program_ready(out, backend, variant);
}

void vkf_case_program_finish(vkf_case_program *p) {
  destroy(p);
  vkf_case_finish(&p->run);
}
