/* validate: compares every node of a model's plans.
 *
 * Memory is filled with NaN before each run, so that reading what was never written is seen. A model runs both in full
 * passes, as vkf_session_run() makes them, and in the packed steps of sessions (engine/steps.h), on the device and on
 * the scalar path. Reports err/bound of each node, and for each block how far the two chains have drifted apart.
 */
#include <math.h>
#include <stdio.h>

#include "engine/steps.h"
#include "lab/replay.h"
#include "lab/validate.h"
#include "ref/ref.h"
#include "ref/walk.h"

enum { B = 2, S = 7, T = 5, SLOTS = 4 };

/* One backend's side, with its own plan cache, whose slots stay readable. */
typedef struct side {
  vkf_session session; /* of the opened model, on this side's backend and weights */
  vkf_weights *weights;
  vkf_bucket *bucket;
} side;

typedef struct pass {
  const char *name; /* "encode", "full", "projections" */
  vkf_plan_request request;
  vkf_sizes sizes;
} pass;

/* A packed step, without beams or with two a sentence: how many ids each slot is fed, and which slot it continues. */
typedef struct packed_step {
  const char *name;
  uint32_t beams, fed[SLOTS], order[SLOTS];
} packed_step;

/* Prompts; prompts, a part of one and single ids side by side; single ids. */
static const packed_step packed_steps[] = {
    {"prompts", 1, {5, 1, 3, 0}, {0, 1, 2, 3}},     {"mixed", 1, {1, 2, 1, 5}, {0, 1, 2, 3}},
    {"singles", 1, {1, 1, 0, 1}, {0, 1, 2, 3}},     {"beams prompts", 2, {3, 3, 0, 0}, {0, 1, 2, 3}},
    {"beams mixed", 2, {1, 1, 4, 4}, {1, 0, 2, 3}}, {"beams singles", 2, {1, 1, 1, 1}, {1, 0, 3, 2}}};

/* A program that ran. */
typedef struct ran {
  vkf_program *program;
  const vkf_plan *plan;
  vkf_dims dims;
} ran;

/* Returns the length of the source; images determine theirs. */
static uint32_t source_length(const vkf_net_info *info) {
  return info->image[0] > 0 ? info->max_positions : S;
}

static vkf_status side_init(side *s, vkf_model *model, vkf_backend *backend) {
  vkf_weight_source source;
  s->session = (vkf_session){.model = model, .env = model->env};
  vkf_model_net_weights(model->net, &source);
  VKF_CALL(backend->table->weights_create(backend, &source, NULL, &s->weights));
  vkf_engine_plan_cache_init(&s->session.plan_cache, model->env, backend, model->net, s->weights);
  s->session.plan_cache.keep_all = true;
  return vkf_engine_bucket_get(
      &s->session.plan_cache, &(vkf_need_sizes){B, source_length(vkf_model_net_info(model->net)), B, T}, 0, &s->bucket);
}

static void side_finish(side *s) {
  if (!s->session.plan_cache.env) return;
  vkf_backend *backend = s->session.plan_cache.backend;
  vkf_engine_plan_cache_finish(&s->session.plan_cache);
  if (s->weights) backend->table->weights_destroy(&s->weights);
}

static void fill_ids(int32_t *ids, size_t n, uint32_t vocab, uint64_t stream) {
  for (size_t i = 0; i < n; i++) ids[i] = (int32_t)(vkf_rng_u64(7, stream, i) % vocab);
}

/* Runs the encoder on given ids, or on noise as images. */
static vkf_status run_encode(vkf_session *session, const vkf_cached_plan *cached, vkf_dims *dims, const int32_t *mask) {
  vkf_status st = VKF_OK;
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  int32_t ids[B * S];
  float *pixels = NULL;
  if (info->image[0] == 0) {
    fill_ids(ids, B * S, info->vocab, 1);
    return vkf_engine_encode(session, cached, dims, &(vkf_encode_input){.B = B, .S = S, .ids = ids, .mask = mask});
  }
  size_t n = (size_t)B * info->image[0] * info->image[1] * info->image[2];
  pixels = vkf_env_alloc(session->env, n, sizeof *pixels);
  if (!pixels) VKF_TRY(VKF_ERROR_MEMORY);
  for (size_t i = 0; i < n; i++) pixels[i] = (float)(vkf_rng_u64(7, 1, i) % 512) / 256 - 1;
  VKF_TRY(vkf_engine_encode(session, cached, dims,
                            &(vkf_encode_input){.B = B, .S = source_length(info), .pixels = pixels}));
done:
  vkf_env_free(session->env, pixels);
  return st;
}

/* Runs a pass on given ids. The source has pads at its end; the target, if it has a mask, a pad before it and a hole.
 */
static vkf_status run_pass(side *s, const pass *p, const vkf_cached_plan *cached, vkf_dims *dims) {
  static const int32_t source_mask[B * S] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0};
  static const int32_t target_mask[B * T] = {1, 1, 1, 1, 1, 0, 1, 0, 1, 1};
  static const uint32_t last[B] = {T - 1, T - 1};
  vkf_session *session = &s->session;
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  const vkf_encode_input source = {.B = B, .S = S, .mask = source_mask};
  int32_t ids[B * T];
  if (p->request.stage == VKF_STAGE_ENCODE) return run_encode(session, cached, dims, source_mask);
  fill_ids(ids, B * T, info->is_pooled ? info->vocab : info->target_vocab, 2);
  return vkf_engine_decode(
      session, cached, dims,
      &(vkf_decode_input){.R = B,
                          .T = T,
                          .ids = ids,
                          .mask = p->request.target_mask ? target_mask : NULL,
                          .reads = info->is_pooled ? last : NULL,
                          .source = info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER ? &source : NULL});
}

/* Compares a node and adds it to its block. */
static vkf_status verify_node(vkf_validation *v, const char *pass, vkf_walk *dev, const vkf_walk *ref, uint32_t n,
                              vkf_validate_row *block) {
  const vkf_node *node = &dev->plan->nodes[n];
  const vkf_slot *out = &dev->plan->slots[node->out[0]];
  vkf_comparison j = {0};
  vkf_validate_row row = *block;
  VKF_CALL(vkf_ref_walk_node(dev, n, &j));
  row.scope = VKF_SCOPE_NODE;
  row.part = node->name;
  row.op = vkf_op_name(node->op);
  row.variant = dev->backend->table->node_variant(dev->program, n, NULL);
  row.n_cases = 1;
  row.n_elements = j.n;
  row.seconds = 0;
  row.ratio = j.ratio;
  row.drift = -1;
  if (!v->bisect) vkf_ref_walk_warn(dev, n, &j, row.name);
  if (out->kind == VKF_SLOT_TEMP && out->dtype == VKF_F32)
    block->drift = row.drift = vkf_ref_walk_drift(dev, ref, node->out[0]);
  vkf_lab_validate_add(block, &row);
  vkf_lab_validate_report(v, &row);
  if (v->bisect && !(j.ratio <= 1)) VKF_CALL(vkf_lab_replay_write(v->dev, dev, n, &j, pass, &v->fault));
  return VKF_OK;
}

static vkf_status verify_pass(vkf_validation *v, const char *pass, vkf_walk *dev, const vkf_walk *ref) {
  for (uint32_t b = 0; b < dev->plan->n_blocks && !v->fault; b++) {
    const vkf_block *block = &dev->plan->blocks[b];
    char name[96];
    vkf_validate_row row = {.size = sizeof row,
                            .scope = VKF_SCOPE_BLOCK,
                            .name = name,
                            .part = "",
                            .op = "",
                            .variant = "",
                            .drift = -1,
                            .left_out = ""};
    snprintf(name, sizeof name, "%s %s", pass, block->name);
    for (uint32_t n = block->first_node; n < block->first_node + block->n_nodes && !v->fault; n++)
      VKF_CALL(verify_node(v, pass, dev, ref, n, &row));
    vkf_lab_validate_report(v, &row);
  }
  return VKF_OK;
}

/* Compares the programs that ran on both sides. */
static vkf_status compare(vkf_validation *v, side sides[2], const char *pass, const ran has[2]) {
  vkf_status st = VKF_OK;
  vkf_walk walks[2] = {{0}, {0}};
  vkf_weight_source source;
  vkf_model_net_weights(sides[0].session.model->net, &source);
  for (int i = 0; i < 2; i++)
    VKF_TRY(vkf_ref_walk_init(&walks[i], v->env, sides[i].session.plan_cache.backend, has[i].plan, has[i].program,
                              &has[i].dims, &source));
  VKF_TRY(verify_pass(v, pass, &walks[0], &walks[1]));
done:
  for (int i = 0; i < 2; i++) vkf_ref_walk_finish(&walks[i]);
  return st;
}

static vkf_status validate_pass(vkf_validation *v, side sides[2], const pass *p) {
  ran has[2];
  for (int i = 0; i < 2; i++) {
    const vkf_cached_plan *cached = NULL;
    VKF_CALL(vkf_engine_plan_get(&sides[i].session.plan_cache, sides[i].bucket, &p->request, &cached));
    has[i] = (ran){cached->program, cached->plan, vkf_dims_make(&p->sizes)};
    VKF_CALL(run_pass(&sides[i], p, cached, &has[i].dims));
  }
  return compare(v, sides, p->name, has);
}

/* ---- packed steps ------------------------------------------------------------------------------------------------ */

static vkf_status see(void *user, vkf_program *program, const vkf_plan *plan, const vkf_dims *dims, uint32_t first,
                      uint32_t n) {
  (void)first;
  (void)n;
  *(ran *)user = (ran){program, plan, *dims};
  return VKF_OK;
}

static vkf_status begin_steps(side *s, uint32_t beams, vkf_steps *steps) {
  const vkf_net_info *info = vkf_model_net_info(s->session.model->net);
  const bool two = info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  static const uint32_t places[SLOTS] = {0, 1, 2, 3};
  int32_t ids[SLOTS * S];
  VKF_CALL(vkf_engine_steps_init(steps, &s->session,
                                 &(vkf_steps_params){.n_sources = SLOTS / beams,
                                                     .each = beams,
                                                     .slot_tokens = 2 * T,
                                                     .source_tokens = two ? S : 0,
                                                     .edits = 2,
                                                     .head = {.ancestry = beams > 1,
                                                              .log_softmax = beams > 1,
                                                              .renormalize = beams > 1,
                                                              .top_k = VKF_MIN(2 * beams, info->target_vocab)}}));
  if (!two) return VKF_OK;
  fill_ids(ids, VKF_COUNT(ids), info->vocab, 1);
  return vkf_engine_steps_encode(steps, &(vkf_encode_input){.B = SLOTS / beams, .S = S, .ids = ids, .places = places});
}

static vkf_status run_step(vkf_steps *steps, const packed_step *p, uint32_t past[SLOTS]) {
  static const vkf_logit_edit edits[2 * SLOTS] = {{VKF_LOGIT_EDIT_PENALTY, 1, 1.3f, 0},
                                                  {VKF_LOGIT_EDIT_SET, 0, -INFINITY, 0},
                                                  {VKF_LOGIT_EDIT_ADD, 2, 0.5f, 0},
                                                  {VKF_LOGIT_EDIT_PENALTY, 3, 0.7f, 0}};
  static const uint32_t offsets[SLOTS + 1] = {0, 2, 3, 4, 4};
  vkf_search_row rows[SLOTS];
  uint32_t order[SLOTS];
  int32_t ids[SLOTS][T];
  vkf_batch_step step = {.rows = rows, .order = order, .edits = edits, .edit_offsets = offsets};
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    fill_ids(ids[slot], T, steps->n_vocab, 2 + 16 * slot + past[slot]);
    if (!p->fed[slot]) continue;
    order[step.n_rows] = p->order[slot];
    rows[step.n_rows++] =
        (vkf_search_row){.slot = slot, .past = past[slot], .n = p->fed[slot], .ids = ids[slot], .n_out = 1};
    past[slot] += p->fed[slot];
  }
  return vkf_engine_steps_run(steps, &step);
}

static vkf_status validate_steps(vkf_validation *v, side sides[2], uint32_t beams) {
  vkf_status st = VKF_OK;
  ran has[2] = {{0}, {0}};
  vkf_steps steps[2] = {{0}, {0}};
  uint32_t past[2][SLOTS] = {{0}};
  const vkf_observer observers[2] = {{.on_run = see, .user = &has[0]}, {.on_run = see, .user = &has[1]}}, *before[2];
  for (int i = 0; i < 2; i++) {
    before[i] = sides[i].session.plan_cache.backend->observer;
    sides[i].session.plan_cache.backend->observer = &observers[i];
  }
  for (int i = 0; i < 2; i++) VKF_TRY(begin_steps(&sides[i], beams, &steps[i]));
  if (has[0].plan && beams == 1) VKF_TRY(compare(v, sides, "sources", has));
  for (size_t k = 0; k < VKF_COUNT(packed_steps) && !v->fault; k++) {
    if (packed_steps[k].beams != beams) continue;
    for (int i = 0; i < 2; i++) VKF_TRY(run_step(&steps[i], &packed_steps[k], past[i]));
    VKF_TRY(compare(v, sides, packed_steps[k].name, has));
  }
done:
  for (int i = 0; i < 2; i++) {
    sides[i].session.plan_cache.backend->observer = before[i];
    vkf_engine_steps_finish(&steps[i]);
  }
  return st;
}

static vkf_status validate_model(vkf_validation *v, vkf_model *model) {
  vkf_status st = VKF_OK;
  vkf_backend *ref = NULL;
  side *sides = vkf_env_alloc(v->env, 2, sizeof *sides);
  const vkf_net_info *info = vkf_model_net_info(model->net);
  bool two = info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER,
       decodes = info->architecture != VKF_ARCHITECTURE_ENCODER;
  if (!sides) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(vkf_ref_backend_create(v->env, &ref));
  VKF_TRY(side_init(&sides[0], model, v->backend));
  VKF_TRY(side_init(&sides[1], model, ref));
  vkf_need_sizes caps = vkf_engine_bucket_sizes(sides[0].bucket);
  pass passes[3] = {
      {"encode",
       {.stage = VKF_STAGE_ENCODE,
        .capacity = {.T = 1, .out = caps.B * caps.S},
        .last_hidden_state = true,
        .mask = true,
        .attentions = true,
        .logits = info->has_head && !two},
       {.B = B, .S = source_length(info), .R = B, .T = 1, .out = B * source_length(info)}},
      {"full",
       {.stage = VKF_STAGE_DECODE,
        .capacity = {.T = T, .out = caps.R * T},
        .mask = two,
        .attentions = true,
        .logits = info->has_head},
       {.B = B, .S = two ? S : 1, .R = B, .T = T, .past = 0, .out = B * T}},
  };
  passes[2] = passes[1]; /* queries and keys as outputs of their own: rotary positions turn them before they are kept */
  passes[2].name = "projections";
  passes[2].request.projections = passes[2].request.target_mask = true;
  for (size_t i = 0; i < VKF_COUNT(passes) && !v->fault; i++) {
    bool encode = passes[i].request.stage == VKF_STAGE_ENCODE;
    if (encode ? info->architecture != VKF_ARCHITECTURE_DECODER : decodes) VKF_TRY(validate_pass(v, sides, &passes[i]));
  }
  for (uint32_t beams = 1; info->can_generate && beams <= 2 && !v->fault; beams++)
    VKF_TRY(validate_steps(v, sides, beams));
done:
  if (sides)
    for (int i = 0; i < 2; i++) side_finish(&sides[i]);
  vkf_env_free(v->env, sides);
  if (ref) ref->table->destroy(&ref);
  return st;
}

vkf_status vkf_device_validate(vkf_device *dev, const vkf_validate_params *params, vkf_validate_fn on_row, void *user,
                               double *worst) {
  if (!dev) return VKF_ERROR_ARGUMENT;
  if (!worst) return vkf_engine_null(&dev->ctx->env, "worst");
  vkf_status st = VKF_OK;
  vkf_validation v = {.env = &dev->ctx->env, .dev = dev, .backend = dev->backend, .on_row = on_row, .user = user};
  vkf_validate_params p;
  if (vkf_env_refuses(v.env, "vkf_device_validate")) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(v.env);
  VKF_TRY(VKF_PARAMS_READ(v.env, vkf_validate_params, params, &p));
  if (p.model && p.model->dev != dev)
    VKF_FAIL(v.env, VKF_ERROR_ARGUMENT, "expected a model that was opened on this device");
  if (p.quick) {
    VKF_TRY(vkf_lab_validate_quick(&v));
  } else if (!p.model || p.ops) {
    VKF_TRY(vkf_lab_validate_ops(&v, dev->gpu == NULL));
  }
  if (p.model) VKF_TRY(validate_model(&v, p.model));
done:
  *worst = v.worst;
  return st;
}

vkf_status vkf_model_bisect(vkf_model *model, vkf_validate_fn on_row, void *user, vkf_result **fault) {
  if (!model) return VKF_ERROR_ARGUMENT;
  if (!fault) return vkf_engine_null(model->env, "fault");
  vkf_device *dev = model->dev;
  vkf_validation v = {
      .env = model->env, .dev = dev, .backend = dev->backend, .on_row = on_row, .user = user, .bisect = true};
  *fault = NULL;
  if (vkf_env_refuses(v.env, "vkf_model_bisect")) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(v.env);
  vkf_status st = validate_model(&v, model);
  if (st) vkf_engine_result_destroy(&v.fault);
  *fault = v.fault;
  return st;
}
