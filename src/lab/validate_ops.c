/* validate: compares every op on its cases with every fitting variant, or on one case.
 *
 * Memory is filled with NaN before each run, so that reading what was never written is seen. Invariant: a variant that
 * runs no case has a row that says why.
 */
#include <math.h>

#include "kern/kern.h"
#include "lab/validate.h"
#include "op/case_program.h"
#include "ref/walk.h"
#include "vkop/vkop.h"

/* Verifies a case in a format on a variant (NULL: the picked one), reports it and adds it to *sum. Does nothing if the
 * variant does not fit. */
static vkf_status verify_case(vkf_validation *v, const vkf_case *c, vkf_format format, const char *variant,
                              vkf_validate_row *sum) {
  vkf_status st = VKF_OK;
  const vkf_backend_table *b = v->backend->table;
  vkf_case formatted = *c;
  vkf_case_program p;
  vkf_walk walk = {0};
  vkf_comparison j = {0};
  vkf_validate_row row = *sum;
  formatted.format = format;
  VKF_TRY(vkf_case_program_init(v->backend, &formatted, variant, &p));
  if (!p.program) goto done;
  uint64_t begin = vkf_clock_ns();
  VKF_TRY(b->run(p.program, &p.run.dims, 0, p.run.plan.n_blocks));
  row.seconds = 1e-9 * (double)(vkf_clock_ns() - begin);
  VKF_TRY(vkf_ref_walk_init(&walk, v->env, v->backend, &p.run.plan, p.program, &p.run.dims, &p.run.weights));
  VKF_TRY(vkf_ref_walk_node(&walk, 0, &j));
  vkf_ref_walk_warn(&walk, 0, &j, vkf_format_get(format)->name);
  row.scope = VKF_SCOPE_CASE;
  row.part = c->name;
  row.variant = b->node_variant(p.program, 0, NULL);
  row.n_cases = 1;
  row.n_elements = j.n;
  row.ratio = j.ratio;
  vkf_lab_validate_report(v, &row);
  vkf_lab_validate_add(sum, &row);
done:
  vkf_ref_walk_finish(&walk);
  vkf_case_program_finish(&p);
  return st;
}

static vkf_validate_row op_row(vkf_op op, vkf_format format, const char *variant) {
  return (vkf_validate_row){.size = sizeof(vkf_validate_row),
                            .scope = VKF_SCOPE_OP,
                            .name = vkf_op_name(op),
                            .part = "",
                            .op = vkf_op_name(op),
                            .variant = variant ? variant : "",
                            .format = vkf_engine_storage_of(format),
                            .drift = -1,
                            .left_out = ""};
}

/* Whether a format runs case i. float32 runs all cases; the other formats take turns. */
static bool has_case(vkf_format format, size_t i) {
  return format == VKF_FORMAT_F32 || i % VKF_FORMAT_COUNT == (size_t)format;
}

/* Validates a variant in one format. Destroys its pipelines at the end, because those of all variants together take
 * gigabytes on software drivers. *ran: at least one case ran. */
static vkf_status validate_variant(vkf_validation *v, vkf_op op, vkf_format format, const char *variant, bool *ran) {
  vkf_status st = VKF_OK;
  size_t n = 0, n_pipelines = 0;
  const vkf_case *cases = vkf_op_cases(op, &n);
  vkf_validate_row row = op_row(op, format, variant);
  if (v->dev->gpu) vkf_gpu_device_pipelines(v->dev->gpu, &n_pipelines, NULL);
  for (size_t i = 0; i < n; i++)
    if (has_case(format, i)) VKF_TRY(verify_case(v, &cases[i], format, variant, &row));
  *ran = row.n_cases > 0;
  if (*ran) vkf_lab_validate_report(v, &row);
done:
  if (v->dev->gpu) vkf_gpu_pipelines_trim(v->dev->gpu, n_pipelines);
  return st;
}

bool vkf_lab_is_read(vkf_op op, vkf_format format) {
  size_t n = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  for (size_t i = 0; i < n; i++)
    if (variants[i].op == op && (variants[i].formats | 1u) >> format & 1) return true;
  return false;
}

/* Returns why a variant does not fit a case; NULL: it fits. */
static const char *why_not(vkf_validation *v, const vkf_variant *variant, const vkf_case *c, char *why, size_t size) {
  const vkf_caps *caps = vkf_gpu_device_caps(v->dev->gpu);
  vkf_case_run run = {0};
  vkf_problem p;
  const char *reason = NULL;
  if (!vkf_case_make(v->env, c, &run)) {
    const vkf_dims dims = vkf_dims_make(&run.plan.capacity);
    vkf_vkop_node_problem(&run.plan, &run.plan.nodes[0], &dims, &p);
    p.reproducible = v->backend->reproducible;
    p.order = p.reproducible ? VKF_ORDER_ASCENDING : variant->order;
    p.packing.format = c->format;
    if (c->op == VKF_OP_MATMUL)
      p.packing = vkf_kern_weight_packing(caps, &v->dev->tuning.rows, p.matmul.n, p.matmul.k, c->format, variant);
    reason = vkf_kern_fit(variant, &p, caps, why, size);
  }
  vkf_case_finish(&run);
  return reason;
}

/* Reports a row that says why no case ran: the reason for the first one that does not fit. all: none ran in any format.
 */
static void report_left_out(vkf_validation *v, const vkf_variant *variant, vkf_format format, bool all) {
  size_t n = 0;
  char name[128], why[256];
  const vkf_case *cases = vkf_op_cases(variant->op, &n);
  vkf_validate_row row = op_row(variant->op, format, vkf_kern_name(variant, name, sizeof name));
  row.left_out = NULL;
  for (size_t i = 0; i < n && !row.left_out; i++) {
    vkf_case c = cases[i];
    c.format = format;
    if (has_case(format, i)) row.left_out = why_not(v, variant, &c, why, sizeof why);
  }
  if (!row.left_out) row.left_out = "the device refused every case";
  if (all) row.format = VKF_STORAGE_AUTO;
  vkf_lab_validate_report(v, &row);
}

vkf_status vkf_lab_validate_variant(vkf_validation *v, const vkf_variant *variant) {
  char name[128];
  bool ran[VKF_FORMAT_COUNT] = {0}, any = false;
  for (uint32_t f = 0; f < VKF_FORMAT_COUNT; f++) {
    if (!((variant->formats | 1u) >> f & 1)) continue;
    VKF_CALL(validate_variant(v, variant->op, (vkf_format)f, vkf_kern_name(variant, name, sizeof name), &ran[f]));
    any |= ran[f];
  }
  if (!any) report_left_out(v, variant, VKF_FORMAT_F32, true);
  for (uint32_t f = 0; any && f < VKF_FORMAT_COUNT; f++)
    if ((variant->formats | 1u) >> f & 1 && !ran[f]) report_left_out(v, variant, (vkf_format)f, false);
  return VKF_OK;
}

vkf_status vkf_lab_validate_ops(vkf_validation *v, bool ref) {
  size_t n = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  bool ran;
  for (uint32_t op = 0; op < VKF_OP_COUNT; op++) {
    for (uint32_t f = 0; ref && f < VKF_FORMAT_COUNT; f++)
      if (vkf_lab_is_read(op, f)) VKF_CALL(validate_variant(v, op, (vkf_format)f, NULL, &ran));
    for (size_t i = 0; i < n && !ref; i++)
      if (variants[i].op == op) VKF_CALL(vkf_lab_validate_variant(v, &variants[i]));
  }
  return VKF_OK;
}

/* ---- one case each ----------------------------------------------------------------------------------------------- */

/* Sets *odd if the case has plain data and every extent of the result is odd (their product is) but not all are 1. */
static vkf_status is_odd(vkf_env *env, const vkf_case *c, bool *odd) {
  vkf_status st = VKF_OK;
  vkf_case_run run = {0};
  *odd = false;
  if (c->data != VKF_DATA_NORMAL) goto done;
  VKF_TRY(vkf_case_make(env, c, &run));
  uint64_t n = vkf_slot_elements_at(&run.plan.slots[run.plan.nodes[0].out[0]], &run.dims);
  *odd = n > 1 && n % 2 == 1;
done:
  vkf_case_finish(&run);
  return st;
}

vkf_status vkf_lab_validate_quick(vkf_validation *v) {
  for (uint32_t op = 0; op < VKF_OP_COUNT; op++) {
    size_t n = 0, last = 0;
    const vkf_case *cases = vkf_op_cases(op, &n);
    for (size_t i = 0; i < n; i++) {
      bool odd = false;
      VKF_CALL(is_odd(v->env, &cases[i], &odd));
      if (odd) last = i;
    }
    for (uint32_t f = 0; f < VKF_FORMAT_COUNT; f++) {
      vkf_validate_row row = op_row(op, (vkf_format)f, NULL);
      if (!vkf_lab_is_read(op, f)) continue;
      VKF_CALL(verify_case(v, &cases[last], (vkf_format)f, NULL, &row));
      vkf_lab_validate_report(v, &row);
    }
  }
  return VKF_OK;
}

void vkf_lab_validate_report(vkf_validation *v, const vkf_validate_row *row) {
  v->worst = VKF_MAX(v->worst, row->ratio);
  if (isnan(row->ratio)) v->worst = INFINITY;
  if (v->on_row) VKF_CALLBACK(v->env, v->on_row(v->user, row));
}

void vkf_lab_validate_add(vkf_validate_row *sum, const vkf_validate_row *part) {
  sum->n_cases++;
  sum->n_elements += part->n_elements;
  sum->seconds += part->seconds;
  sum->ratio = isnan(part->ratio) ? INFINITY : VKF_MAX(sum->ratio, part->ratio);
}
