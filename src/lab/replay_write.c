/* replay_write: a node written down. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "file/json.h"
#include "kern/kern.h"
#include "lab/replay.h"
#include "op/fields.h"
#include "op/shape.h"

static void add_number(vkf_text *text, double value) {
  vkf_text_printf(text, isfinite(value) ? "%.17g" : "\"%g\"", value);
}

static void add_list(vkf_text *text, const uint32_t *numbers, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) vkf_text_printf(text, "%s%u", i ? ", " : "[", numbers[i]);
  vkf_text_printf(text, "]");
}

static void add_sizes(vkf_text *text, const char *key, const uint32_t *dims) {
  vkf_text_printf(text, ",\n\"%s\": {\"B\": %u, \"S\": %u, \"R\": %u, \"T\": %u, \"past\": %u, \"out\": %u}", key,
                  dims[VKF_DIM_B], dims[VKF_DIM_S], dims[VKF_DIM_R], dims[VKF_DIM_T], dims[VKF_DIM_PAST],
                  dims[VKF_DIM_OUT]);
}

static void add_params(vkf_text *text, const vkf_node *node) {
  size_t n = 0;
  const vkf_field *fields = vkf_op_fields(node->op, &n);
  vkf_text_printf(text, ",\n\"params\": {");
  for (size_t i = 0; i < n; i++) {
    const void *at = (const char *)&node->params + fields[i].offset;
    uint32_t whole = 0;
    vkf_text_printf(text, "%s\"%s\": ", i ? ", " : "", fields[i].name);
    if (fields[i].kind == VKF_FIELD_FLAG) {
      vkf_text_printf(text, *(const bool *)at ? "true" : "false");
    } else if (fields[i].kind == VKF_FIELD_NUMBER) {
      add_number(text, (double)*(const float *)at);
    } else {
      memcpy(&whole, at, sizeof whole);
      if (fields[i].kind == VKF_FIELD_COUNT)
        vkf_text_printf(text, "%u", whole);
      else
        vkf_text_printf(text, "\"%s\"", vkf_field_word(fields[i].kind, whole));
    }
  }
  vkf_text_printf(text, "}");
}

static void add_operand(vkf_text *text, const vkf_walk *walk, const char *name, uint32_t slot, bool first) {
  const vkf_slot *s = &walk->plan->slots[slot];
  uint32_t caps[VKF_MAX_SLOT_RANK];
  vkf_text_printf(text, "%s  {\"name\": \"%s\", \"extents\": [", first ? "" : ",\n", name);
  for (uint32_t i = 0; i < s->rank; i++) {
    caps[i] = s->extent[i].cap;
    vkf_text_printf(text, "%s\"%s\"", i ? ", " : "", vkf_dim_name(s->extent[i].dim));
  }
  vkf_text_printf(text, "], \"capacity\": ");
  add_list(text, caps, s->rank);
  vkf_text_printf(text, ", \"format\": \"%s\"", vkf_format_get(s->format)->name);
  if (s->kind == VKF_SLOT_WEIGHT) vkf_text_printf(text, ", \"weight\": %u", walk->weights->infos[s->index].use);
  vkf_text_printf(text, "}");
}

static void add_operands(vkf_text *text, const vkf_walk *walk, const vkf_node *node, const vkf_op_shapes *shapes) {
  bool first = true;
  vkf_text_printf(text, ",\n\"operands\": [\n");
  for (uint32_t i = 0; i < VKF_MAX_INPUTS; i++) {
    if (node->in[i] == VKF_NO_SLOT) continue;
    add_operand(text, walk, shapes->in[i].name, node->in[i], first);
    first = false;
  }
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++)
    if (node->out[o] != VKF_NO_SLOT) add_operand(text, walk, shapes->out[o].name, node->out[o], false);
  vkf_text_printf(text, "]");
}

/* Of a matmul's result: how large they are, and which one the element lies in. */
static void add_tile(vkf_text *text, const char *variant, const vkf_bench_element *element) {
  const vkf_variant *v = vkf_kern_find(variant);
  if (!v || v->op != VKF_OP_MATMUL) return;
  const uint32_t shape[] = {v->tile.gemm.bm, v->tile.gemm.bn};
  const uint32_t at[] = {element->at[0] / shape[0], element->at[1] / shape[1]};
  vkf_text_printf(text, ", \"tile_shape\": ");
  add_list(text, shape, 2);
  vkf_text_printf(text, ", \"tile\": ");
  add_list(text, at, 2);
}

static vkf_status add_worst(vkf_text *text, const vkf_walk *walk, uint32_t index, const vkf_judgement *j,
                            const char *variant) {
  vkf_status st = VKF_OK;
  vkf_bench_element worst;
  VKF_TRY(vkf_ref_walk_worst(walk, index, j, &worst));
  vkf_text_printf(text, ",\n\"worst\": {\"output\": \"%s\", \"shape\": ", worst.output);
  add_list(text, worst.shape, worst.rank);
  vkf_text_printf(text, ", \"element\": ");
  add_list(text, worst.at, worst.rank);
  add_tile(text, variant, &worst);
  const struct {
    const char *key;
    double value;
  } numbers[] = {{"expected", worst.expected},
                 {"found", worst.found},
                 {"error", fabs(worst.found - worst.expected)},
                 {"bound", worst.bound},
                 {"ratio", j->ratio}};
  for (size_t i = 0; i < VKF_COUNT(numbers); i++) {
    vkf_text_printf(text, ", \"%s\": ", numbers[i].key);
    add_number(text, numbers[i].value);
  }
  vkf_text_printf(text, "}");
done:
  return st;
}

/* A slot as it was, dense at actual sizes. */
static vkf_status add_array(vkf_result *result, const vkf_walk *walk, const char *name, uint32_t slot) {
  vkf_status st = VKF_OK;
  const vkf_slot *s = &walk->plan->slots[slot];
  size_t shape[VKF_MAX_SLOT_RANK];
  void *data = NULL;
  for (uint32_t i = 0; i < s->rank; i++) shape[i] = vkf_slot_extent(s, i, walk->dims);
  VKF_TRY(vkf_engine_result_add(result, name, s->dtype, s->rank, shape, &data));
  VKF_TRY(vkf_slot_compact(walk->env, s, walk->dims, walk->bases[slot], data));
done:
  return st;
}

/* What output o should have been. */
static vkf_status add_exact(vkf_result *result, vkf_walk *walk, uint32_t index, uint32_t o, const char *name) {
  vkf_status st = VKF_OK;
  const uint32_t slot = walk->plan->nodes[index].out[o];
  const vkf_slot *s = &walk->plan->slots[slot];
  const char *const suffixes[] = {"exact", "bound"};
  double *values[2] = {NULL, NULL}, *kept;
  size_t shape[VKF_MAX_SLOT_RANK];
  vkf_view view = {.rank = s->rank};
  size_t stride = 1;
  char full[64];
  for (uint32_t i = s->rank; i-- > 0; stride *= s->extent[i].cap) {
    shape[i] = view.extent[i] = vkf_slot_extent(s, i, walk->dims);
    view.stride[i] = stride;
  }
  for (int i = 0; i < 2; i++) {
    values[i] = vkf_env_alloc(walk->env, vkf_slot_elements(s), sizeof **values);
    if (!values[i]) VKF_TRY(VKF_ERROR_MEMORY);
  }
  VKF_TRY(vkf_ref_walk_values(walk, index, o, values[0], values[1]));
  for (int i = 0; i < 2; i++) {
    uint32_t at[VKF_MAX_SLOT_RANK] = {0};
    snprintf(full, sizeof full, "%s.%s", name, suffixes[i]);
    VKF_TRY(vkf_engine_result_add(result, full, VKF_F64, s->rank, shape, (void **)&kept));
    do *kept++ = values[i][vkf_view_offset(&view, at)];
    while (vkf_view_next(&view, at));
  }
done:
  vkf_env_free(walk->env, values[0]);
  vkf_env_free(walk->env, values[1]);
  return st;
}

vkf_status vkf_lab_replay_write(const vkf_device *dev, vkf_walk *walk, uint32_t index, const vkf_judgement *j,
                                const char *pass, vkf_result **out) {
  vkf_status st = VKF_OK;
  const vkf_node *node = &walk->plan->nodes[index];
  const char *variant = walk->backend->table->node_variant(walk->program, index, NULL);
  vkf_result *result = NULL;
  vkf_op_shapes shapes;
  const vkf_dims capacity = vkf_dims_make(&walk->plan->capacity);
  vkf_text text;
  vkf_text_init(&text, walk->env);
  VKF_TRY(vkf_op_shapes_of(walk->env, walk->plan, node, &shapes));
  vkf_text_printf(&text, "{\"pass\": \"%s\",\n\"node\": ", pass);
  vkf_file_json_quote(&text, node->name);
  vkf_text_printf(&text, ",\n\"op\": \"%s\",\n\"variant\": \"%s\",\n\"deterministic\": %s", vkf_op_name(node->op),
                  variant, dev->ctx->deterministic ? "true" : "false");
  add_params(&text, node);
  add_sizes(&text, "sizes", walk->dims->v);
  add_sizes(&text, "capacity", capacity.v);
  add_operands(&text, walk, node, &shapes);
  VKF_TRY(add_worst(&text, walk, index, j, variant));
  vkf_text_printf(&text, "}\n");
  VKF_TRY(vkf_text_status(&text));
  VKF_TRY(vkf_engine_result_create(walk->env, &result));
  VKF_TRY(vkf_engine_result_add_text(result, text.data));
  for (uint32_t i = 0; i < VKF_MAX_INPUTS; i++)
    if (node->in[i] != VKF_NO_SLOT) VKF_TRY(add_array(result, walk, shapes.in[i].name, node->in[i]));
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) {
    if (node->out[o] == VKF_NO_SLOT) continue;
    VKF_TRY(add_array(result, walk, shapes.out[o].name, node->out[o]));
    VKF_TRY(add_exact(result, walk, index, o, shapes.out[o].name));
  }
done:
  vkf_text_finish(&text);
  if (st) vkf_engine_result_destroy(&result);
  *out = result;
  return st;
}
