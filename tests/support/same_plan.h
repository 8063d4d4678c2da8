/* Compares two nets that should compute the same: node by node, parameter by parameter, table by table. */
#ifndef VKF_TESTS_SUPPORT_SAME_PLAN_H
#define VKF_TESTS_SUPPORT_SAME_PLAN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/internal.h"
#include "op/fields.h"

/* Compares member by member, because the padding between members may have any bytes. */
static inline void same_params(const vkf_node *a, const vkf_node *b) {
  size_t n = 0;
  assert_int_equal(a->op, b->op);
  const vkf_field *fields = vkf_op_fields(a->op, &n);
  for (size_t i = 0; i < n; i++)
    assert_memory_equal((const char *)&a->params + fields[i].offset, (const char *)&b->params + fields[i].offset,
                        fields[i].kind == VKF_FIELD_FLAG ? sizeof(bool) : sizeof(uint32_t));
}

static inline void same_plan(vkf_net *a, vkf_net *b, vkf_stage stage) {
  uint32_t images = vkf_model_net_info(a)->max_positions, S = vkf_model_net_info(a)->image[0] > 0 ? images : 5;
  vkf_plan_request request = {.stage = stage,
                              .capacity = {.B = 2, .S = S, .R = 2, .T = 9, .past = 3},
                              .hidden_states = true,
                              .attentions = true,
                              .mask = true};
  bool is_last = stage == VKF_STAGE_DECODE || vkf_model_net_info(a)->architecture == VKF_ARCHITECTURE_ENCODER;
  request.logits = is_last && vkf_model_net_info(a)->has_head;
  vkf_plan *p = NULL, *q = NULL;
  assert_int_equal(vkf_model_plan_build(a, a->env, &request, &p), VKF_OK);
  assert_int_equal(vkf_model_plan_build(b, b->env, &request, &q), VKF_OK);
  assert_int_equal(p->n_nodes, q->n_nodes);
  assert_int_equal(p->n_slots, q->n_slots);
  for (uint32_t i = 0; i < p->n_nodes; i++) {
    assert_string_equal(p->nodes[i].name, q->nodes[i].name);
    same_params(&p->nodes[i], &q->nodes[i]);
    assert_memory_equal(p->nodes[i].in, q->nodes[i].in, sizeof p->nodes[i].in);
  }
  for (uint32_t i = 0; i < p->n_slots; i++) {
    assert_int_equal(p->slots[i].index, q->slots[i].index);
    assert_int_equal(vkf_slot_elements(&p->slots[i]), vkf_slot_elements(&q->slots[i]));
    if (p->slots[i].kind != VKF_SLOT_CONSTANT) continue;
    assert_memory_equal(p->slots[i].data, q->slots[i].data, vkf_slot_elements(&p->slots[i]) * sizeof(float));
  }
  vkf_model_plan_destroy(&p);
  vkf_model_plan_destroy(&q);
}

#endif
