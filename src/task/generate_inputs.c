/* generate_inputs: see generate_inputs.h. */
#include "task/generate_inputs.h"

#include <string.h>

#define PREFIX "decoder_input_ids"

/* Returns whether no row begins with the start id. Then it is put before all rows, as in transformers. */
static bool needs_start(const vkf_generate_arrays *in, int32_t start) {
  for (size_t r = 0; r < in->prefix[0]; r++)
    if (in->prefix_ids[r * in->prefix[1]] == start) return false;
  return true;
}

/* Masks the pads of ids that have no mask, unless the pad is an end id, too: as transformers' generate does for
 * decoders. It reads the pads of a source as tokens; here they are masked, too. */
static vkf_status infer_mask(vkf_env *env, const vkf_generation_config *config, vkf_generate_arrays *in) {
  bool has_pads = false;
  size_t n = in->shape[0] * in->shape[1];
  for (size_t i = 0; i < config->eos.n; i++)
    if (config->eos.ids[i] == config->pad) return VKF_OK;
  for (size_t i = 0; i < n && config->pad != VKF_NO_TOKEN; i++) has_pads = has_pads || in->ids[i] == config->pad;
  if (!has_pads) return VKF_OK;
  in->mask = vkf_env_alloc(env, n, sizeof *in->mask);
  if (!in->mask) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < n; i++) in->mask[i] = in->ids[i] != config->pad;
  return VKF_OK;
}

static vkf_status read_prefix(vkf_session *session, const vkf_generation_config *config, const vkf_array *inputs,
                              size_t n_inputs, vkf_generate_arrays *in) {
  vkf_env *env = session->env;
  int32_t *ids = NULL, start = vkf_decode_generation_start(config);
  VKF_CALL(vkf_engine_array_ids(env, inputs, n_inputs, PREFIX, true, in->prefix, false, &in->prefix_ids));
  if (!in->prefix_ids) return VKF_OK;
  size_t n = in->prefix[1];
  if (in->prefix[0] != in->shape[0])
    return vkf_env_fail(env, VKF_ERROR_ARGUMENT, PREFIX ": expected %zu rows, as input_ids has, found %zu",
                        in->shape[0], in->prefix[0]);
  if (start == VKF_NO_TOKEN)
    return vkf_env_fail(
        env, VKF_ERROR_ARGUMENT,
        PREFIX ": expected decoder_start_token_id or bos_token_id in the generation configuration, found neither");
  VKF_CALL(vkf_engine_check_ids(session, PREFIX, in->prefix_ids, in->prefix[0], n,
                                vkf_model_net_info(session->model->net)->target_vocab));
  if (!needs_start(in, start)) return VKF_OK;
  ids = vkf_env_alloc(env, in->prefix[0] * (n + 1), sizeof *ids);
  if (!ids) return VKF_ERROR_MEMORY;
  for (size_t r = 0; r < in->prefix[0]; r++) {
    ids[r * (n + 1)] = start;
    memcpy(ids + r * (n + 1) + 1, in->prefix_ids + r * n, n * sizeof *ids);
  }
  vkf_env_free(env, in->prefix_ids);
  in->prefix_ids = ids;
  in->prefix[1] = n + 1;
  return VKF_OK;
}

vkf_status vkf_task_generate_arrays_init(vkf_session *session, const vkf_generation_config *config,
                                         const vkf_array *inputs, size_t n_inputs, vkf_generate_arrays *in) {
  bool two = vkf_model_net_info(session->model->net)->architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  *in = (vkf_generate_arrays){0};
  VKF_CALL(vkf_engine_check_names(session->env, inputs, n_inputs, "generate",
                                  two ? "input_ids, attention_mask, " PREFIX : "input_ids, attention_mask"));
  VKF_CALL(vkf_engine_array_ids(session->env, inputs, n_inputs, "input_ids", false, in->shape, false, &in->ids));
  VKF_CALL(vkf_engine_array_ids(session->env, inputs, n_inputs, "attention_mask", true, in->shape, true, &in->mask));
  if (!in->mask) VKF_CALL(infer_mask(session->env, config, in));
  return read_prefix(session, config, inputs, n_inputs, in);
}

void vkf_task_generate_arrays_finish(vkf_env *env, vkf_generate_arrays *in) {
  vkf_env_free(env, in->ids);
  vkf_env_free(env, in->mask);
  vkf_env_free(env, in->prefix_ids);
  *in = (vkf_generate_arrays){0};
}
