/* validate: every op over its cases and every fitting variant, then every node of a model's plans.
 *
 * Memory is filled with NaN before each run, so that reading what was never written shows. A model is run as a full
 * pass and as a cached step of two beams, on the device and on the scalar path; blocks report err/bound of their nodes
 * and the drift of the two chains.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/opened.h"
#include "engine/walk.h"
#include "kern/kern.h"
#include "op/cases.h"
#include "ref/ref.h"

typedef struct validation {
  vkf_env *env;
  vkf_backend *backend;
  vkf_validate_fn on_row;
  void *user;
  double worst;
} validation;

/* NaN counts as the worst. */
static double worse(double a, double b) {
  return a >= b ? a : b;
}

static void report(validation *v, const vkf_validate_row *row) {
  v->worst = worse(v->worst, row->ratio);
  if (isnan(row->ratio)) v->worst = INFINITY;
  if (v->on_row) v->on_row(v->user, row);
}

/* ---- ops ---- */

/* *ran: false where the variant does not fit the case. */
static vkf_status run_case(validation *v, const vkf_case *c, const char *variant, vkf_judgement *j, bool *ran) {
  vkf_status st = VKF_OK;
  const vkf_backend_table *b = v->backend->table;
  const vkf_program_options options = {.keep_all = true, .variant = variant};
  vkf_case_run run = {0};
  vkf_weights *weights = NULL;
  vkf_program *program = NULL;
  vkf_walk walk = {0};
  *ran = false;
  VKF_TRY(vkf_case_make(v->env, c, &run));
  if (run.weights.n_weights) VKF_TRY(b->weights_create(v->backend, &run.weights, variant, &weights));
  st = b->program_create(v->backend, &run.plan, weights, NULL, &options, &program);
  if (st == VKF_ERROR_ARGUMENT && variant) { /* does not fit */
    vkf_env_clear(v->env);
    st = VKF_OK;
    goto done;
  }
  VKF_TRY(st);
  VKF_TRY(b->poison(program));
  VKF_TRY(b->run(program, &run.dims, 0, run.plan.n_blocks));
  VKF_TRY(vkf_engine_walk_init(&walk, v->env, v->backend, &run.plan, program, &run.dims, &run.weights));
  VKF_TRY(vkf_engine_walk_node(&walk, 0, j));
  *ran = true;
done:
  vkf_engine_walk_finish(&walk);
  if (program) b->program_destroy(&program);
  if (weights) b->weights_destroy(&weights);
  vkf_case_finish(&run);
  return st;
}

static vkf_status validate_variant(validation *v, vkf_op op, const char *variant) {
  vkf_status st = VKF_OK;
  size_t n = 0;
  const vkf_case *cases = vkf_op_cases(op, &n);
  vkf_validate_row row = {.scope = "op", .name = vkf_op_name(op), .variant = variant ? variant : "", .drift = -1};
  for (size_t i = 0; i < n; i++) {
    vkf_judgement j = {0};
    bool ran = false;
    VKF_TRY(run_case(v, &cases[i], variant, &j, &ran));
    if (!ran) continue;
    row.n_cases++;
    if (!(j.ratio <= 1))
      vkf_env_log(v->env, VKF_LOG_WARNING,
                  "%s %s, case \"%s\": element %llu of output %u is %.9g, expected %.9g within %.3g", row.name,
                  row.variant, cases[i].name, (unsigned long long)j.worst, j.worst_out, j.worst_got, j.worst_exact,
                  j.worst_bound);
    row.ratio = isnan(j.ratio) ? INFINITY : worse(row.ratio, j.ratio);
  }
  if (row.n_cases) report(v, &row);
done:
  return st;
}

static vkf_status validate_ops(validation *v, bool ref) {
  vkf_status st = VKF_OK;
  size_t n = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  char name[128];
  for (uint32_t op = 0; op < VKF_OP_COUNT; op++) {
    if (ref) VKF_TRY(validate_variant(v, op, NULL));
    for (size_t i = 0; i < n && !ref; i++)
      if (variants[i].op == op) VKF_TRY(validate_variant(v, op, vkf_kern_name(&variants[i], name, sizeof name)));
  }
done:
  return st;
}

/* ---- a model ---- */

enum { B = 2, S = 7, BEAMS = 2, T = 5, R = B * BEAMS };

/* One backend's side: its programs, kept readable. */
typedef struct side {
  vkf_model model; /* a view of the opened model with this side's backend and weights */
  vkf_capacity *capacity;
} side;

typedef struct pass {
  const char *name; /* "encode", "full", "step" */
  vkf_plan_request request;
  vkf_sizes sizes;
} pass;

/* The length of the source: of images, what they have. */
static uint32_t source_length(const vkf_net_info *info) {
  return info->image[0] > 0 ? info->max_positions : S;
}

static vkf_status side_init(side *s, const vkf_model *model, vkf_backend *backend) {
  vkf_status st = VKF_OK;
  vkf_weight_source source;
  s->model = *model;
  s->model.weights = NULL;
  vkf_model_net_weights(model->net, &source);
  VKF_TRY(backend->table->weights_create(backend, &source, NULL, &s->model.weights));
  vkf_engine_programs_init(&s->model.programs, model->env, backend, model->net, s->model.weights);
  s->model.programs.keep_all = true;
  VKF_TRY(vkf_engine_capacity_get(
      &s->model.programs, &(vkf_need_sizes){B, source_length(vkf_model_net_info(model->net)), R, T + 1}, &s->capacity));
done:
  return st;
}

static void side_finish(side *s) {
  if (!s->model.programs.env) return;
  vkf_backend *backend = s->model.programs.backend;
  vkf_engine_programs_finish(&s->model.programs);
  if (s->model.weights) backend->table->weights_destroy(&s->model.weights);
}

static void fill_ids(int32_t *ids, size_t n, uint32_t vocab, uint64_t stream) {
  for (size_t i = 0; i < n; i++) ids[i] = (int32_t)(vkf_rng_u64(7, stream, i) % vocab);
}

/* The encoder on given ids, or on noise as images. */
static vkf_status run_encode(vkf_model *m, const vkf_ready *ready, const vkf_dims *dims, const int32_t *mask) {
  vkf_status st = VKF_OK;
  const vkf_net_info *info = vkf_model_net_info(m->net);
  int32_t ids[B * S];
  float *pixels = NULL;
  if (info->image[0] == 0) {
    fill_ids(ids, B * S, info->vocab, 1);
    return vkf_engine_encode(m, ready, dims, &(vkf_encode_input){.B = B, .S = S, .ids = ids, .mask = mask});
  }
  size_t n = (size_t)B * info->image[0] * info->image[1] * info->image[2];
  pixels = vkf_env_alloc(m->env, n, sizeof *pixels);
  if (!pixels) VKF_FAIL(m->env, VKF_ERROR_MEMORY, "no memory for images");
  for (size_t i = 0; i < n; i++) pixels[i] = (float)(vkf_rng_u64(7, 1, i) % 512) / 256 - 1;
  VKF_TRY(vkf_engine_encode(m, ready, dims, &(vkf_encode_input){.B = B, .S = source_length(info), .pixels = pixels}));
done:
  vkf_env_free(m->env, pixels);
  return st;
}

/* Writes the inputs of a pass and runs it. */
static vkf_status run_pass(side *s, const pass *p, const vkf_ready *ready, const vkf_dims *dims) {
  static const int32_t mask[B * S] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0};
  static const vkf_edit edits[] = {{VKF_EDIT_PENALTY, 1, 1.3f, 0},
                                   {VKF_EDIT_SET, 0, -INFINITY, 0},
                                   {VKF_EDIT_ADD, 2, 0.5f, 0},
                                   {VKF_EDIT_PENALTY, 3, 0.7f, 0}};
  vkf_status st = VKF_OK;
  vkf_model *m = &s->model;
  const vkf_programs *programs = &m->programs;
  const vkf_net_info *info = vkf_model_net_info(m->net);
  vkf_need_sizes caps = vkf_engine_capacity_sizes(s->capacity);
  int32_t ids[R * T], out_rows[R * T], positions[R * T], *ancestry = NULL;
  uint32_t offsets[64] = {0};
  vkf_edit all_edits[8] = {{0}};
  VKF_TRY(programs->backend->table->poison(ready->program));
  if (p->request.stage == VKF_STAGE_ENCODE) {
    VKF_TRY(run_encode(m, ready, dims, mask));
    goto done;
  }
  uint32_t length = p->sizes.T, past = p->sizes.past;
  fill_ids(ids, (size_t)R * length, info->target_vocab, 2 + past);
  vkf_model_positions(m->net, &(vkf_model_tokens){VKF_STAGE_DECODE, R, length, past, ids, NULL, 0, false}, positions);
  ancestry = vkf_env_alloc(m->env, (size_t)caps.R * caps.keys, sizeof *ancestry);
  if (!ancestry) VKF_FAIL(m->env, VKF_ERROR_MEMORY, "no memory for the order of beams");
  for (uint32_t r = 0; r < R; r++) {
    out_rows[r] = (int32_t)(r * length + length - 1);
    for (uint32_t t = 0; t < past + length; t++)
      ancestry[(size_t)r * caps.keys + t] = (int32_t)(t < past ? r ^ 1 : r); /* beams changed places */
  }
  memcpy(all_edits, edits, sizeof edits);
  for (uint32_t r = 0; r < VKF_COUNT(offsets); r++) offsets[r] = VKF_MIN(r, (uint32_t)VKF_COUNT(edits));
  VKF_TRY(vkf_engine_write_input(programs, ready, VKF_INPUT_TARGET_IDS, dims, ids));
  VKF_TRY(vkf_engine_write_input(programs, ready, VKF_INPUT_TARGET_POSITIONS, dims, positions));
  VKF_TRY(vkf_engine_write_input(programs, ready, VKF_INPUT_ANCESTRY, dims, ancestry));
  VKF_TRY(vkf_engine_write_input(programs, ready, VKF_INPUT_OUT_ROWS, dims, out_rows));
  VKF_TRY(vkf_engine_write_input(programs, ready, VKF_INPUT_EDIT_OFFSETS, dims, offsets));
  VKF_TRY(vkf_engine_write_input(programs, ready, VKF_INPUT_EDITS, dims, all_edits));
  VKF_TRY(vkf_engine_write_mask(m, ready, VKF_INPUT_MASK, dims, B, p->sizes.S,
                                info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER ? mask : NULL));
  VKF_TRY(vkf_engine_run_ready(programs, ready, dims));
done:
  vkf_env_free(m->env, ancestry);
  return st;
}

static vkf_status judge_pass(validation *v, const pass *p, vkf_walk *dev, const vkf_walk *ref) {
  vkf_status st = VKF_OK;
  for (uint32_t b = 0; b < dev->plan->n_blocks; b++) {
    const vkf_block *block = &dev->plan->blocks[b];
    char name[96];
    vkf_validate_row row = {.scope = "block", .name = name, .variant = "", .n_cases = block->n_nodes, .drift = -1};
    snprintf(name, sizeof name, "%s %s", p->name, block->name);
    for (uint32_t n = block->first_node; n < block->first_node + block->n_nodes; n++) {
      vkf_judgement j = {0};
      VKF_TRY(vkf_engine_walk_node(dev, n, &j));
      if (!(j.ratio <= 1))
        vkf_env_log(v->env, VKF_LOG_WARNING, "%s: node %s (%s): element %llu is %.9g, expected %.9g within %.3g", name,
                    dev->plan->nodes[n].name, dev->backend->table->node_variant(dev->program, n, NULL),
                    (unsigned long long)j.worst, j.worst_got, j.worst_exact, j.worst_bound);
      row.ratio = isnan(j.ratio) ? INFINITY : worse(row.ratio, j.ratio);
      const vkf_slot *out = &dev->plan->slots[dev->plan->nodes[n].out[0]];
      if (out->kind == VKF_SLOT_TEMP && out->dtype == VKF_F32)
        row.drift = vkf_engine_walk_drift(dev, ref, dev->plan->nodes[n].out[0]);
    }
    report(v, &row);
  }
done:
  return st;
}

static vkf_status validate_pass(validation *v, side sides[2], const pass *p) {
  vkf_status st = VKF_OK;
  vkf_walk walks[2] = {{0}, {0}};
  vkf_weight_source source;
  vkf_dims dims = vkf_dims_make(&p->sizes);
  vkf_model_net_weights(sides[0].model.net, &source);
  for (int i = 0; i < 2; i++) {
    const vkf_ready *ready = NULL;
    VKF_TRY(vkf_engine_program_get(&sides[i].model.programs, sides[i].capacity, &p->request, &ready));
    VKF_TRY(run_pass(&sides[i], p, ready, &dims));
    VKF_TRY(vkf_engine_walk_init(&walks[i], v->env, sides[i].model.programs.backend, ready->plan, ready->program, &dims,
                                 &source));
  }
  VKF_TRY(judge_pass(v, p, &walks[0], &walks[1]));
done:
  for (int i = 0; i < 2; i++) vkf_engine_walk_finish(&walks[i]);
  return st;
}

static vkf_status validate_model(validation *v, const vkf_model *model) {
  vkf_status st = VKF_OK;
  vkf_backend *ref = NULL;
  side *sides = vkf_env_alloc(v->env, 2, sizeof *sides);
  const vkf_net_info *info = vkf_model_net_info(model->net);
  bool two = info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER,
       decodes = info->architecture != VKF_ARCHITECTURE_ENCODER;
  if (!sides) VKF_FAIL(v->env, VKF_ERROR_MEMORY, "no memory to validate a model");
  VKF_TRY(vkf_ref_backend_create(v->env, &ref));
  VKF_TRY(side_init(&sides[0], model, v->backend));
  VKF_TRY(side_init(&sides[1], model, ref));
  vkf_need_sizes caps = vkf_engine_capacity_sizes(sides[0].capacity);
  pass passes[] = {
      {"encode",
       {.stage = VKF_STAGE_ENCODE,
        .capacity = {.T = 1, .out = caps.B * caps.S},
        .last_hidden_state = true,
        .mask = true,
        .attentions = true,
        .logits = info->has_head && !two},
       {.B = B, .S = source_length(info), .R = R, .T = 1, .out = B * source_length(info)}},
      {"full",
       {.stage = VKF_STAGE_DECODE,
        .capacity = {.T = T, .out = caps.R * T},
        .mask = two,
        .attentions = true,
        .ancestry = true,
        .logits = info->has_head},
       {.B = B, .S = two ? S : 1, .R = R, .T = T, .past = 0, .out = R * T}},
      {"step",
       {.stage = VKF_STAGE_DECODE,
        .capacity = {.T = 1, .out = caps.R},
        .mask = two,
        .ancestry = true,
        .gather_out = true,
        .log_softmax = info->has_head,
        .max_edits = info->has_head ? 8 : 0,
        .top_k = info->has_head ? VKF_MIN(2 * BEAMS, info->target_vocab) : 0},
       {.B = B, .S = two ? S : 1, .R = R, .T = 1, .past = T, .out = R}},
  };
  for (size_t i = 0; i < VKF_COUNT(passes); i++) {
    bool encode = passes[i].request.stage == VKF_STAGE_ENCODE;
    if (encode ? info->architecture != VKF_ARCHITECTURE_DECODER : decodes) VKF_TRY(validate_pass(v, sides, &passes[i]));
  }
done:
  if (sides)
    for (int i = 0; i < 2; i++) side_finish(&sides[i]);
  vkf_env_free(v->env, sides);
  if (ref) ref->table->destroy(&ref);
  return st;
}

vkf_status vkf_device_validate(vkf_device *dev, vkf_model *model, vkf_validate_fn on_row, void *user, double *worst) {
  vkf_status st = VKF_OK;
  validation v = {.env = &dev->ctx->env, .backend = dev->backend, .on_row = on_row, .user = user};
  vkf_env_clear(v.env);
  if (model && model->dev != dev)
    VKF_FAIL(v.env, VKF_ERROR_ARGUMENT, "expected a model that was opened on this device");
  VKF_TRY(model ? validate_model(&v, model) : validate_ops(&v, dev->gpu == NULL));
done:
  *worst = v.worst;
  return st;
}
