/* spans: reads and checks the spans of packed batches. See internal.h. */
#include "ref/internal.h"
#include "shared/constants.h"

vkf_span vkf_ref_span_of(const vkf_view *spans, uint32_t seq, const vkf_span *whole) {
  if (!spans->data) return *whole;
  const int32_t *s = vkf_ref_ints(spans, seq);
  return (vkf_span){(uint32_t)s[VKF_SPAN_ROW],  (uint32_t)s[VKF_SPAN_QUERIES], (uint32_t)s[VKF_SPAN_PAST],
                    (uint32_t)s[VKF_SPAN_KEYS], (uint32_t)s[VKF_SPAN_SLOT],    (uint32_t)s[VKF_SPAN_FIRST]};
}

static vkf_status check(vkf_env *env, const vkf_call *call, uint32_t seq, const char *what, uint64_t found,
                        uint64_t most) {
  if (found <= most) return VKF_OK;
  return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s: span %u: expected %s up to %llu, found %llu", call->name, seq,
                      what, (unsigned long long)most, (unsigned long long)found);
}

vkf_status vkf_ref_check_spans(vkf_env *env, const vkf_call *call, const vkf_view *spans, uint32_t rows,
                               const vkf_span *most, const vkf_view *cache, bool causal) {
  for (uint32_t seq = 0; spans->data && seq < spans->extent[0]; seq++) {
    const vkf_span s = vkf_ref_span_of(spans, seq, NULL);
    VKF_CALL(check(env, call, seq, "queries", s.queries, most->queries));
    VKF_CALL(check(env, call, seq, "rows", (uint64_t)s.row + s.queries, rows));
    VKF_CALL(check(env, call, seq, "keys", s.keys, most->keys));
    if (causal) VKF_CALL(check(env, call, seq, "past and queries", (uint64_t)s.past + s.queries, s.keys));
    VKF_CALL(check(env, call, seq, "a slot", s.slot, cache->extent[0] - 1));
    VKF_CALL(check(env, call, seq, "keys in its slot", (uint64_t)s.first + s.keys, cache->extent[2]));
  }
  return VKF_OK;
}
