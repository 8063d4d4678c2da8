/* search_needs: what the searches of a generation configuration need: rows, copies, candidates, memory. */
#include "decode/search.h"

bool vkf_decode_search_ranks_all(const vkf_generation_config *config) {
  return config->prefix_bias_beta > 0 || config->num_beam_groups > 1 || config->force_words.n > 0;
}

vkf_status vkf_decode_scratch_init(vkf_search_scratch *scratch, vkf_env *env, const vkf_generation_config *config,
                                   uint32_t n_vocab) {
  const bool has_candidates = config->do_sample || vkf_decode_search_ranks_all(config) || config->return_alternatives;
  *scratch = (vkf_search_scratch){0};
  VKF_CALL(vkf_decode_marks_init(&scratch->marks, env, n_vocab));
  if (has_candidates) scratch->candidates = vkf_env_alloc(env, n_vocab, sizeof *scratch->candidates);
  return has_candidates && !scratch->candidates ? VKF_ERROR_MEMORY : VKF_OK;
}

void vkf_decode_scratch_finish(vkf_search_scratch *scratch) {
  if (scratch->marks.env == NULL) return;
  vkf_env_free(scratch->marks.env, scratch->candidates);
  vkf_decode_marks_finish(&scratch->marks);
}

uint32_t vkf_decode_search_copies(const vkf_generation_config *config) {
  return config->do_sample || config->return_alternatives ? config->num_return_sequences : 1;
}

uint32_t vkf_decode_search_results(const vkf_generation_config *config) {
  return config->num_return_sequences / vkf_decode_search_copies(config);
}

uint32_t vkf_decode_search_rows(const vkf_generation_config *config) {
  return config->do_sample ? 1 : config->num_beams;
}

bool vkf_decode_search_forks(const vkf_generation_config *config, bool has_source) {
  return config->num_beams > 1 || (!has_source && vkf_decode_search_copies(config) > 1);
}

bool vkf_decode_search_scores(const vkf_generation_config *config, bool wanted) {
  return wanted || config->num_beams > 1 || config->return_alternatives;
}

uint32_t vkf_decode_search_k(const vkf_generation_config *config, uint32_t n_vocab, bool scores) {
  if (config->do_sample || vkf_decode_search_ranks_all(config)) return 0;
  if (config->num_beams == 1) return vkf_decode_search_scores(config, scores) ? 0 : 1;
  return (uint32_t)VKF_MIN(VKF_MAX(vkf_decode_beams_keep(config), vkf_decode_search_copies(config)), n_vocab);
}

uint32_t vkf_decode_search_longest(uint64_t max_length, uint64_t n_positions, uint32_t n_prompt) {
  uint64_t most = VKF_MIN(max_length, (uint64_t)INT32_MAX);
  return (uint32_t)(n_positions == 0 ? most : VKF_MIN(most, VKF_MAX(n_positions, n_prompt) + 1));
}

/* With beams, pad_token_id 0 is replaced by the first end id, as in transformers. */
int32_t vkf_decode_search_fill(const vkf_generation_config *c) {
  const bool has_pad = c->num_beams > 1 ? c->pad > 0 : c->pad != VKF_NO_TOKEN;
  if (has_pad || c->eos.n == 0) return c->num_beams > 1 ? VKF_MAX(c->pad, 0) : c->pad;
  return c->eos.ids[0];
}
