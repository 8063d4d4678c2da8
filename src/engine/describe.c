/* Describes a forward pass and a step of generation as text, a line for each block and node: `vkformer info --plan`. */
#include <stdio.h>
#include <vkformer/lab.h>

#include "engine/opened.h"

/* "[2,16,64]" */
static const char *shape_text(const vkf_slot *s, const vkf_dims *dims, char *buffer, size_t size) {
  size_t used = 0;
  for (uint32_t i = 0; i < s->rank && used < size; i++)
    used += (size_t)snprintf(buffer + used, size - used, "%c%u", i ? ',' : '[', vkf_slot_extent(s, i, dims));
  if (used < size) snprintf(buffer + used, size - used, "]");
  return buffer;
}

static void describe_block(vkf_text *text, const vkf_plan_cache *p, const vkf_cached_plan *cached, const vkf_dims *dims,
                           uint32_t index) {
  const vkf_plan *plan = cached->plan;
  const vkf_block *b = &plan->blocks[index];
  vkf_block_stats stats;
  double flops = 0, bytes = 0;
  p->backend->table->block_stats(cached->program, index, &stats);
  for (uint32_t n = b->first_node; n < b->first_node + b->n_nodes; n++) {
    vkf_cost cost = vkf_op_cost(plan, &plan->nodes[n], dims);
    flops += cost.flops;
    bytes += cost.bytes;
  }
  vkf_text_printf(text, "%-14s %3u dispatch%-2s (%u indirect) %3u barrier%-1s %10.3f Mflop %10.3f MB\n", b->name,
                  stats.n_dispatches, stats.n_dispatches == 1 ? "" : "es", stats.n_indirect, stats.n_barriers,
                  stats.n_barriers == 1 ? "" : "s", flops / 1e6, bytes / 1e6);
  for (uint32_t n = b->first_node; n < b->first_node + b->n_nodes; n++) {
    char shape[64];
    const vkf_slot *out = &plan->slots[plan->nodes[n].out[0]];
    vkf_text_printf(text, "  %-36s %-16s %s\n", plan->nodes[n].name, shape_text(out, dims, shape, sizeof shape),
                    p->backend->table->node_variant(cached->program, n, NULL));
  }
}

static vkf_status describe_stage(vkf_session *session, vkf_text *text, vkf_bucket *bucket,
                                 const vkf_plan_request *request, const vkf_sizes *sizes) {
  const vkf_cached_plan *cached = NULL;
  vkf_dims dims = vkf_dims_make(sizes);
  VKF_CALL(vkf_engine_plan_get(&session->plan_cache, bucket, request, &cached));
  VKF_CALL(session->plan_cache.backend->table->program_record(cached->program));
  for (uint32_t b = 0; b < cached->plan->n_blocks; b++) describe_block(text, &session->plan_cache, cached, &dims, b);
  return VKF_OK;
}

/* Lists the bytes of the model and these plans by kind, then what the device counts. */
static void describe_memory(vkf_session *session, vkf_text *text) {
  const vkf_gpu_device *gpu = session->model->dev->gpu;
  const vkf_plan_cache_bytes bytes = vkf_engine_plan_cache_bytes(&session->plan_cache);
  const uint64_t weights = session->plan_cache.backend->table->weights_bytes(session->model->weights),
                 staging = gpu ? vkf_gpu_device_staging(gpu) : 0;
  const struct {
    const char *kind;
    uint64_t bytes;
  } rows[] = {{"weights", weights},
              {"keys and values", bytes.caches},
              {"inputs, activations, results", bytes.step},
              {"constants and sizes of plans", bytes.plans},
              {"staging", staging}};
  uint64_t all = 0, counted = 0, peak;
  vkf_text_printf(text, "\nmemory of a session with these plans\n");
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_text_printf(text, "  %-30s %12llu bytes\n", rows[i].kind, (unsigned long long)rows[i].bytes);
    all += rows[i].bytes;
  }
  vkf_text_printf(text, "  %-30s %12llu bytes\n", "all of these", (unsigned long long)all);
  if (gpu) vkf_gpu_device_memory(gpu, &counted, &peak);
  if (gpu) vkf_text_printf(text, "  %-30s %12llu bytes\n", "as the device counts", (unsigned long long)counted);
  vkf_text_printf(text, "  %-30s %12llu bytes\n", "host memory of this library",
                  (unsigned long long)session->model->dev->ctx->env.live_bytes);
}

static vkf_status describe_plans(vkf_session *session, size_t batch, size_t length, vkf_result **out) {
  vkf_status st = VKF_OK;
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  vkf_result *result = NULL;
  vkf_bucket *bucket = NULL;
  vkf_text text;
  vkf_text_init(&text, session->env);
  if (!batch || !length || batch > UINT32_MAX / 2 / length)
    VKF_FAIL(session->env, VKF_ERROR_ARGUMENT,
             "expected a batch and a length of at least 1, and at most %u tokens, found %zu and %zu", UINT32_MAX / 2,
             batch, length);
  if (info->max_positions && length > info->max_positions)
    VKF_FAIL(session->env, VKF_ERROR_ARGUMENT, "expected a length of at most %u, the model's positions, found %zu",
             info->max_positions, length);
  uint32_t B = (uint32_t)batch, N = (uint32_t)length;
  bool decoder_only = info->architecture == VKF_ARCHITECTURE_DECODER,
       two = info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  VKF_TRY(vkf_engine_bucket_get(&session->plan_cache, &(vkf_need_sizes){B, decoder_only ? 1 : N, B, N}, 0, &bucket));
  vkf_need_sizes caps = vkf_engine_bucket_sizes(bucket);
  vkf_sizes sizes = {.B = B, .S = decoder_only ? 1 : N, .R = B, .T = N, .out = B * N};
  vkf_plan_request request = {.stage = VKF_STAGE_ENCODE,
                              .capacity = {.T = 1, .out = caps.B * caps.S},
                              .last_hidden_state = true,
                              .logits = info->has_head && !two};
  if (!decoder_only) VKF_TRY(describe_stage(session, &text, bucket, &request, &sizes));
  if (info->architecture != VKF_ARCHITECTURE_ENCODER) {
    request.stage = VKF_STAGE_DECODE;
    request.capacity = vkf_engine_pass_capacity(bucket, N);
    request.mask = two;
    request.logits = info->has_head;
    VKF_TRY(describe_stage(session, &text, bucket, &request, &sizes));
  }
  if (info->can_generate) {
    vkf_text_printf(&text, "\na step of generation, %u row%s of 1 token after %u\n", B, B == 1 ? "" : "s", N - 1);
    sizes = (vkf_sizes){.B = B, .S = sizes.S, .R = B, .T = 1, .past = N - 1, .out = B};
    request = (vkf_plan_request){
        .stage = VKF_STAGE_DECODE, .capacity = {.T = 1, .target_rows = caps.R, .out = caps.R}, .top_k = 1};
    VKF_TRY(describe_stage(session, &text, bucket, &request, &sizes));
  }
  describe_memory(session, &text);
  VKF_TRY(vkf_text_status(&text));
  VKF_TRY(vkf_engine_result_create(session->env, &result));
  VKF_TRY(vkf_engine_result_add_text(result, text.data));
done:
  vkf_text_finish(&text);
  if (st) vkf_engine_result_destroy(&result);
  *out = result;
  return st;
}

vkf_status vkf_model_describe_plan(vkf_model *m, size_t batch, size_t length, vkf_result **out) {
  if (!m) return VKF_ERROR_ARGUMENT;
  if (!out) return vkf_engine_null(m->env, "out");
  vkf_session own = {.model = m, .env = m->env};
  *out = NULL;
  if (vkf_env_refuses(m->env, "vkf_model_describe_plan")) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(m->env);
  vkf_engine_plan_cache_init(&own.plan_cache, m->env, m->dev->backend, m->net, m->weights);
  const vkf_status st = describe_plans(&own, batch, length, out);
  vkf_engine_plan_cache_finish(&own.plan_cache);
  return st;
}
