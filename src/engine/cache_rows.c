/* cache_rows: see cache_rows.h. */
#include "engine/cache_rows.h"

vkf_status vkf_engine_cache_rows_init(vkf_cache_rows *c, vkf_env *env, uint32_t n, uint32_t keys) {
  *c = (vkf_cache_rows){.n = n,
                        .keys = keys,
                        .ends = vkf_env_alloc(env, n, sizeof *c->ends),
                        .users = vkf_env_alloc(env, n, sizeof *c->users),
                        .places = vkf_env_alloc(env, n, sizeof *c->places)};
  return c->ends && c->users && c->places ? VKF_OK : VKF_ERROR_MEMORY;
}

void vkf_engine_cache_rows_finish(vkf_cache_rows *c, vkf_env *env) {
  vkf_env_free(env, c->ends);
  vkf_env_free(env, c->users);
  vkf_env_free(env, c->places);
  *c = (vkf_cache_rows){0};
}

void vkf_engine_cache_rows_want(vkf_cache_rows *c, uint32_t slot, uint32_t tokens) {
  vkf_cache_place *place = &c->places[slot];
  if (place->is_placed && --c->users[place->row] == 0) c->ends[place->row] = 0;
  *place = (vkf_cache_place){.tokens = tokens};
}

/* Returns the fullest row with room for so many tokens. Ties: the first. */
static uint32_t find_row(const vkf_cache_rows *c, uint32_t tokens) {
  uint32_t best = c->n;
  for (uint32_t row = 0; row < c->n; row++)
    if (tokens <= c->keys - c->ends[row] && (best == c->n || c->ends[row] > c->ends[best])) best = row;
  return best;
}

void vkf_engine_cache_rows_place(vkf_cache_rows *c) {
  for (;;) {
    vkf_cache_place *next = NULL;
    for (uint32_t slot = 0; slot < c->n; slot++) {
      vkf_cache_place *place = &c->places[slot];
      if (!place->is_placed && place->tokens > (next ? next->tokens : 0)) next = place;
    }
    if (!next) return;
    next->row = find_row(c, next->tokens);
    next->first = c->ends[next->row];
    next->is_placed = true;
    c->ends[next->row] += next->tokens;
    c->users[next->row]++;
  }
}
