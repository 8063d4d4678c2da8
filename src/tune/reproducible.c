/* reproducible: the mode needs correctly rounded divisions and square roots, and no fused multiply-add or contraction.
 * Vulkan does not guarantee correct rounding of divisions and roots, so this tests it: one case of each op that uses
 * them runs on the device and on the scalar path.
 */
#include "tune/reproducible.h"

#include <stdio.h>

#include "op/case_program.h"
#include "ref/ref.h"
#include "tune/problem.h"

static const vkf_op ops[] = {VKF_OP_NORM, VKF_OP_GATE, VKF_OP_LOG_SOFTMAX, VKF_OP_ATTENTION};

/* Returns the first case of an op with plain data; every op has one. */
static const vkf_case *plain_case(vkf_op op) {
  size_t n = 0;
  const vkf_case *cases = vkf_op_cases(op, &n);
  for (size_t i = 0; i < n; i++)
    if (cases[i].data == VKF_DATA_NORMAL && cases[i].format == VKF_FORMAT_F32) return &cases[i];
  return &cases[0];
}

/* Runs the case and reads its first output, *n elements; the memory is the caller's. */
static vkf_status run_case(vkf_env *env, vkf_backend *backend, const vkf_case *c, uint32_t **out, size_t *n) {
  vkf_status st = VKF_OK;
  const vkf_backend_table *b = backend->table;
  vkf_case_program p;
  *out = NULL;
  VKF_TRY(vkf_case_program_init(backend, c, NULL, &p));
  VKF_TRY(b->run(p.program, &p.run.dims, 0, p.run.plan.n_blocks));
  const uint32_t slot = p.run.plan.nodes[0].out[0];
  *n = vkf_slot_elements_at(&p.run.plan.slots[slot], &p.run.dims);
  *out = vkf_env_alloc(env, *n, sizeof **out);
  if (!*out) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(b->read(p.program, slot, &p.run.dims, *out));
done:
  vkf_case_program_finish(&p);
  return st;
}

void vkf_tune_reproducible_text(const vkf_tuning *t, char *text, size_t size) {
  const vkf_caps *caps = vkf_gpu_device_caps(t->gpu);
  vkf_problem problem;
  char name[128];
  uint64_t sum = VKF_HASH_START; /* of the kernels' names */
  for (size_t i = 0; i < VKF_COUNT(ops); i++) {
    vkf_tune_problem_of(plain_case(ops[i]), caps, (vkf_tune_mode){.reproducible = true}, &t->rows, NULL, &problem);
    const vkf_variant *variant = vkf_kern_pick(&problem, caps, &t->rows, NULL, 0);
    if (variant) sum = vkf_hash_text(sum, vkf_kern_name(variant, name, sizeof name));
  }
  snprintf(text, size, "reproducible:%016llx", (unsigned long long)sum);
}

vkf_status vkf_tune_reproducible_check(vkf_tuning *t, char *found, size_t size) {
  vkf_status st = VKF_OK;
  vkf_env *env = t->env;
  vkf_backend *ref = NULL;
  uint32_t *own = NULL, *expected = NULL;
  size_t n = 0;
  snprintf(found, size, "%s", "");
  VKF_TRY(vkf_ref_backend_create(env, &ref));
  ref->reproducible = true;
  for (size_t i = 0; i < VKF_COUNT(ops) && !*found; i++) {
    VKF_TRY(run_case(env, t->backend, plain_case(ops[i]), &own, &n));
    VKF_TRY(run_case(env, ref, plain_case(ops[i]), &expected, &n));
    for (size_t e = 0; e < n && !*found; e++)
      if (own[e] != expected[e])
        snprintf(found, size, "%s has other bits than on the scalar path: element %zu is %08x, expected %08x",
                 vkf_op_name(ops[i]), e, own[e], expected[e]);
    vkf_env_free(env, own);
    vkf_env_free(env, expected);
    own = expected = NULL;
  }
done:
  vkf_env_free(env, own);
  vkf_env_free(env, expected);
  if (ref) ref->table->destroy(&ref);
  return st;
}
