/* compile: compiles every variant that fits a problem, runs none, and reports what the driver says about them.
 *
 * Owns nothing. Reads no results, so a driver without its GPU is enough.
 */
#include <stdio.h>
#include <string.h>
#include <vkformer/lab.h>

#include "lab/validate.h"
#include "op/case_program.h"
#include "tune/problem.h"
#include "vkop/vkop.h"

typedef struct compilation {
  vkf_env *env;
  vkf_backend *backend;
  vkf_compiled_fn on_kernel;
  void *user;
  const vkf_case *of;
  vkf_case_program program; /* of it */
  char picked[128];         /* for it; "": none can be compiled */
} compilation;

/* Prepares the case on a variant (NULL: the picked one). *failure: "", or why the driver cannot compile it. */
static vkf_status ready(compilation *c, const char *variant, char *failure, size_t size) {
  vkf_status st = vkf_case_program_ready(&c->program, c->backend, variant);
  *failure = 0;
  if (st != VKF_ERROR_DEVICE && st != VKF_ERROR_UNSUPPORTED) return st;
  snprintf(failure, size, "%s", c->env->message);
  vkf_env_clear(c->env);
  return VKF_OK;
}

/* Compiles a variant and reports a row for each stage; none if it does not fit. */
static vkf_status compile_variant(compilation *c, const vkf_variant *v) {
  vkf_status st = VKF_OK;
  vkf_arena arena;
  char name[128], failure[sizeof c->env->message];
  vkf_compiled_kernel row = {.size = sizeof row,
                             .problem = c->of->name,
                             .op = vkf_op_name(v->op),
                             .variant = vkf_kern_name(v, name, sizeof name),
                             .format = vkf_engine_storage_of(c->of->format),
                             .workgroup = vkf_kern_workgroup(v),
                             .shared_bytes = vkf_kern_shared_bytes(v)};
  row.picked = !strcmp(c->picked, name);
  vkf_arena_init(&arena, c->env);
  VKF_TRY(ready(c, name, failure, sizeof failure));
  if (failure[0]) {
    row.failure = failure;
    VKF_CALLBACK(c->env, c->on_kernel(c->user, &row));
  }
  for (; c->program.program && row.stage < vkf_vkop_stages(c->program.program, 0); row.stage++) {
    vkf_bench_statistic *told = NULL;
    VKF_TRY(vkf_vkop_statistics(c->program.program, 0, row.stage, &arena, &told, &row.n_statistics));
    row.statistics = told;
    VKF_CALLBACK(c->env, c->on_kernel(c->user, &row));
  }
done:
  vkf_arena_finish(&arena);
  return st;
}

static vkf_status compile_case(compilation *c, const vkf_case *of) {
  vkf_status st = VKF_OK;
  char failure[sizeof c->env->message];
  size_t n = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  c->of = of;
  c->program = (vkf_case_program){.statistics = true};
  VKF_TRY(vkf_case_make(c->env, of, &c->program.run));
  VKF_TRY(ready(c, NULL, failure, sizeof failure));
  snprintf(c->picked, sizeof c->picked, "%s",
           c->program.program ? c->backend->table->node_variant(c->program.program, 0, NULL) : "");
  for (size_t i = 0; i < n; i++)
    if (variants[i].op == of->op) VKF_TRY(compile_variant(c, &variants[i]));
done:
  vkf_case_program_finish(&c->program);
  return st;
}

/* Compiles the first case of each op that no problem describes, in each format that its kernels read. */
static vkf_status compile_others(compilation *c) {
  for (vkf_op op = 0; op < VKF_OP_COUNT; op++) {
    size_t n = 0;
    const vkf_case *cases = vkf_op_cases(op, &n);
    if (vkf_tune_problem_has_form(op)) continue;
    for (vkf_format f = 0; f < VKF_FORMAT_COUNT; f++) {
      if (!vkf_lab_is_read(op, f)) continue;
      vkf_case formatted = cases[0];
      formatted.format = f;
      VKF_CALL(compile_case(c, &formatted));
    }
  }
  return VKF_OK;
}

vkf_status vkf_device_compile(vkf_device *dev, const char *problem, vkf_compiled_fn on_kernel, void *user) {
  if (!dev) return VKF_ERROR_ARGUMENT;
  if (!on_kernel) return vkf_engine_null(&dev->ctx->env, "on_kernel");
  compilation c = {.env = &dev->ctx->env, .backend = dev->backend, .on_kernel = on_kernel, .user = user};
  vkf_case of;
  if (vkf_env_refuses(c.env, "vkf_device_compile")) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(c.env);
  if (!dev->gpu)
    return vkf_env_fail(c.env, VKF_ERROR_UNSUPPORTED, "the scalar path has no kernels; expected a Vulkan device");
  if (!problem) VKF_CALL(compile_others(&c));
  if (!problem) return VKF_OK;
  VKF_CALL(vkf_tune_problem_parse(c.env, problem, &of));
  return compile_case(&c, &of);
}
