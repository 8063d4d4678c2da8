/* replay_read: reads a written node as a plan of one node. */
#include <math.h>
#include <string.h>

#include "file/json.h"
#include "lab/replay.h"
#include "op/fields.h"
#include "op/shape.h"

enum { MAX_OPERANDS = VKF_MAX_INPUTS + VKF_MAX_OUTPUTS };

typedef struct reader {
  vkf_env *env;
  const vkf_array *arrays;
  size_t n_arrays;
  vkf_case_run *run;
  vkf_node *node;
  vkf_op_shapes shapes;
  vkf_slot slots[MAX_OPERANDS];
  vkf_weight_info infos[VKF_MAX_INPUTS];
  const float *weights[VKF_MAX_INPUTS];
  bool has_beams; /* the node reads how many rows of R share one of B */
} reader;

/* ---- the node ---------------------------------------------------------------------------------------------------- */

static vkf_status get_count(reader *r, vkf_file_value object, const char *key, uint32_t *out) {
  int64_t number = 0;
  VKF_CALL(vkf_file_json_get_int64(object, key, &number));
  if (number < 0 || number > UINT32_MAX)
    return vkf_env_fail(r->env, VKF_ERROR_FORMAT, "%s: expected a number from 0 to %u, found %lld", key, UINT32_MAX,
                        (long long)number);
  *out = (uint32_t)number;
  return VKF_OK;
}

static vkf_status find_word(reader *r, vkf_field_kind kind, const char *key, const char *word, uint32_t *out) {
  for (uint32_t i = 0; vkf_field_word(kind, i); i++) {
    if (strcmp(vkf_field_word(kind, i), word)) continue;
    *out = i;
    return VKF_OK;
  }
  return vkf_env_fail(r->env, VKF_ERROR_FORMAT, "%s: there is no \"%s\"", key, word);
}

static vkf_status read_field(reader *r, vkf_file_value params, const vkf_field *f) {
  void *at = (char *)&r->node->params + f->offset;
  uint32_t whole = 0;
  const char *word;
  double number = 0;
  if (f->kind == VKF_FIELD_FLAG) {
    VKF_CALL(vkf_file_json_get_bool(params, f->name, at));
  } else if (f->kind == VKF_FIELD_NUMBER) {
    VKF_CALL(vkf_file_json_get_double(params, f->name, &number));
    *(float *)at = (float)number;
  } else {
    if (f->kind == VKF_FIELD_COUNT) {
      VKF_CALL(get_count(r, params, f->name, &whole));
    } else {
      VKF_CALL(vkf_file_json_get_string(params, f->name, &word));
      VKF_CALL(find_word(r, f->kind, f->name, word, &whole));
    }
    r->has_beams |= f->kind == VKF_FIELD_DIM && whole == VKF_DIM_BEAMS;
    memcpy(at, &whole, sizeof whole);
  }
  return VKF_OK;
}

static vkf_status read_node(reader *r, vkf_file_value root) {
  const char *name = NULL, *op = NULL;
  size_t n = 0;
  vkf_file_value params;
  VKF_CALL(vkf_file_json_get_string(root, "node", &name));
  VKF_CALL(vkf_file_json_get_string(root, "op", &op));
  VKF_CALL(vkf_file_json_get_object(root, "params", &params));
  r->node->name = vkf_arena_strdup(&r->run->arena, name);
  if (!r->node->name) return VKF_ERROR_MEMORY;
  r->node->op = vkf_op_find(op);
  if (r->node->op == VKF_OP_COUNT) return vkf_env_fail(r->env, VKF_ERROR_FORMAT, "op: there is no \"%s\"", op);
  const vkf_field *fields = vkf_op_fields(r->node->op, &n);
  for (size_t i = 0; i < n; i++) VKF_CALL(read_field(r, params, &fields[i]));
  return VKF_OK;
}

/* Reads sizes and checks what callers of a plan must ensure: sizes within the capacity, whole numbers of beams,
 * products below 2^31. */
static vkf_status read_sizes(reader *r, vkf_file_value root, const char *key, const vkf_sizes *most, vkf_sizes *out) {
  vkf_file_value object;
  const struct {
    const char *key;
    uint32_t *to, most;
  } sizes[] = {{"B", &out->B, most->B},
               {"S", &out->S, most->S},
               {"R", &out->R, most->R},
               {"T", &out->T, most->T},
               {"past", &out->past, most->past},
               {"out", &out->out, most->out},
               {"BS", &out->source_rows, most->source_rows},
               {"RT", &out->target_rows, most->target_rows}};
  VKF_CALL(vkf_file_json_get_object(root, key, &object));
  for (size_t i = 0; i < VKF_COUNT(sizes); i++) {
    VKF_CALL(get_count(r, object, sizes[i].key, sizes[i].to));
    if (*sizes[i].to > sizes[i].most)
      return vkf_env_fail(r->env, VKF_ERROR_FORMAT, "%s.%s: expected at most %u, found %u", key, sizes[i].key,
                          sizes[i].most, *sizes[i].to);
  }
  if (out->B == 0 || (r->has_beams && out->R % out->B) || (uint64_t)out->B * out->S > INT32_MAX ||
      (uint64_t)out->R * out->T > INT32_MAX)
    return vkf_env_fail(r->env, VKF_ERROR_FORMAT, "%s: expected R a multiple of B, and B*S and R*T below 2^31", key);
  if (out->source_rows > out->B * out->S || out->target_rows > out->R * out->T)
    return vkf_env_fail(r->env, VKF_ERROR_FORMAT, "%s: expected BS up to B*S and RT up to R*T, found %u and %u", key,
                        out->source_rows, out->target_rows);
  return VKF_OK;
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

static int find_shape(const vkf_operand_shape *shapes, int n, const char *name) {
  while (n-- > 0)
    if (shapes[n].name && !strcmp(shapes[n].name, name)) break;
  return n; /* -1: none */
}

static vkf_status read_extents(reader *r, vkf_file_value operand, vkf_slot *slot) {
  vkf_file_value extents, caps;
  uint64_t elements = 1;
  VKF_CALL(vkf_file_json_get_array(operand, "extents", &extents));
  VKF_CALL(vkf_file_json_get_array(operand, "capacity", &caps));
  if (vkf_file_json_count(extents) != slot->rank || vkf_file_json_count(caps) != slot->rank)
    return vkf_env_fail(r->env, VKF_ERROR_FORMAT, "%s: expected %u extents and as many capacities", slot->name,
                        slot->rank);
  for (uint32_t i = 0; i < slot->rank; i++) {
    const char *word = NULL;
    uint32_t dim = 0;
    int64_t cap = 0;
    VKF_CALL(vkf_file_json_as_string(vkf_file_json_at(extents, i), &word));
    VKF_CALL(find_word(r, VKF_FIELD_DIM, slot->name, word, &dim));
    VKF_CALL(vkf_file_json_as_int64(vkf_file_json_at(caps, i), &cap));
    if (cap < 1 || cap > UINT32_MAX || (elements *= (uint64_t)cap) > UINT32_MAX)
      return vkf_env_fail(r->env, VKF_ERROR_FORMAT,
                          "%s: expected capacities over 0 of less than 2^32 elements together", slot->name);
    slot->extent[i] = (vkf_extent){(vkf_dim)dim, (uint32_t)cap};
  }
  return VKF_OK;
}

/* Finds the array of an input, which must have the operand's actual extents. */
static vkf_status find_data(reader *r, const vkf_slot *slot, const vkf_array **out) {
  const vkf_array *a = *out = vkf_engine_array_find(r->arrays, r->n_arrays, slot->name);
  if (!a) return vkf_env_fail(r->env, VKF_ERROR_FORMAT, "expected an array called %s, found none", slot->name);
  bool fits = a->dtype == slot->dtype && a->rank == slot->rank && a->data;
  for (uint32_t i = 0; fits && i < slot->rank; i++) fits = a->shape[i] == vkf_slot_extent(slot, i, &r->run->dims);
  if (!fits)
    return vkf_env_fail(r->env, VKF_ERROR_FORMAT,
                        "array %s: expected %s of %u dimensions with the extents of its operand", slot->name,
                        vkf_name_of_dtype(slot->dtype), slot->rank);
  return VKF_OK;
}

static void load_weight(void *user, uint32_t index, uint32_t first, uint32_t n, float *dst) {
  const reader *r = user;
  const size_t width = r->infos[index].rank == 2 ? r->infos[index].shape[1] : 1;
  memcpy(dst, (const float *)r->weights[index] + first * width, n * width * sizeof *dst);
}

/* Makes a constant of an activation, at capacity; elements outside the actual sizes are NaN. */
static vkf_status make_constant(reader *r, vkf_slot *slot, const vkf_array *a) {
  const uint64_t n = vkf_slot_elements(slot);
  float *data = vkf_arena_alloc(&r->run->arena, n, sizeof *data); /* or int32_t */
  if (!data) return VKF_ERROR_MEMORY;
  for (uint64_t i = 0; slot->dtype == VKF_F32 && i < n; i++) data[i] = NAN;
  VKF_CALL(vkf_slot_scatter(r->env, slot, &r->run->dims, a->data, data));
  slot->kind = VKF_SLOT_CONSTANT;
  slot->data = data;
  return VKF_OK;
}

static vkf_status make_input(reader *r, vkf_file_value operand, vkf_slot *slot) {
  const vkf_array *a = NULL;
  int64_t use = -1;
  VKF_CALL(find_data(r, slot, &a));
  VKF_CALL(vkf_file_json_find_int64(operand, "weight", -1, &use));
  if (use < 0) return make_constant(r, slot, a);
  if (use > (VKF_WEIGHT_MATMUL | VKF_WEIGHT_TABLE) || slot->rank > 2 || slot->dtype != VKF_F32)
    return vkf_env_fail(r->env, VKF_ERROR_FORMAT, "%s cannot be a weight of use %lld", slot->name, (long long)use);
  slot->kind = VKF_SLOT_WEIGHT;
  slot->index = r->run->weights.n_weights++;
  r->weights[slot->index] = a->data;
  r->infos[slot->index] = (vkf_weight_info){.name = slot->name,
                                            .rank = slot->rank,
                                            .shape = {slot->extent[0].cap, slot->extent[1].cap},
                                            .use = (uint32_t)use,
                                            .format = slot->format};
  return VKF_OK;
}

static vkf_status read_operand(reader *r, vkf_file_value operand) {
  const char *name = NULL, *format = NULL;
  VKF_CALL(vkf_file_json_get_string(operand, "name", &name));
  VKF_CALL(vkf_file_json_get_string(operand, "format", &format));
  const int i = find_shape(r->shapes.in, VKF_MAX_INPUTS, name), o = find_shape(r->shapes.out, VKF_MAX_OUTPUTS, name);
  if (i < 0 && o < 0)
    return vkf_env_fail(r->env, VKF_ERROR_FORMAT, "operands: %s has none called %s", vkf_op_name(r->node->op), name);
  const vkf_operand_shape *shape = i < 0 ? &r->shapes.out[o] : &r->shapes.in[i];
  uint32_t *number = i < 0 ? &r->node->out[o] : &r->node->in[i];
  vkf_slot *slot = &r->slots[r->run->plan.n_slots];
  if (*number != VKF_NO_SLOT)
    return vkf_env_fail(r->env, VKF_ERROR_FORMAT, "operands: expected each once, found %s twice", name);
  *slot = (vkf_slot){.name = shape->name, .dtype = shape->dtype, .rank = shape->rank};
  slot->format = vkf_format_find(format);
  if (slot->format == VKF_FORMAT_COUNT)
    return vkf_env_fail(r->env, VKF_ERROR_FORMAT, "%s: there is no format %s", name, format);
  VKF_CALL(read_extents(r, operand, slot));
  *number = r->run->plan.n_slots++;
  if (i >= 0) {
    VKF_CALL(make_input(r, operand, slot));
  } else {
    slot->kind = VKF_SLOT_TEMP;
    slot->output = shape->name;
  }
  return VKF_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static vkf_status read_all(reader *r, vkf_file_value root) {
  vkf_case_run *run = r->run;
  const uint32_t most = UINT32_C(1) << 30;
  const vkf_sizes any = {most, most, most, most, most, most, most, most};
  vkf_sizes sizes = {0};
  vkf_file_value operands;
  vkf_block *block = vkf_arena_alloc(&run->arena, 1, sizeof *block);
  r->node = vkf_arena_alloc(&run->arena, 1, sizeof *r->node);
  if (!block || !r->node) return VKF_ERROR_MEMORY;
  for (int i = 0; i < VKF_MAX_INPUTS; i++) r->node->in[i] = VKF_NO_SLOT;
  for (int o = 0; o < VKF_MAX_OUTPUTS; o++) r->node->out[o] = VKF_NO_SLOT;
  VKF_CALL(read_node(r, root));
  VKF_CALL(read_sizes(r, root, "capacity", &any, &run->plan.capacity));
  VKF_CALL(read_sizes(r, root, "sizes", &run->plan.capacity, &sizes));
  run->dims = vkf_dims_make(&sizes);
  VKF_CALL(vkf_op_shapes_of(r->env, &run->plan, r->node, &r->shapes));
  VKF_CALL(vkf_file_json_get_array(root, "operands", &operands));
  for (size_t i = 0; i < vkf_file_json_count(operands); i++) VKF_CALL(read_operand(r, vkf_file_json_at(operands, i)));
  *block = (vkf_block){.name = r->node->name, .n_nodes = 1};
  run->plan.slots = r->slots;
  run->plan.nodes = r->node;
  run->plan.blocks = block;
  run->plan.n_nodes = run->plan.n_blocks = 1;
  run->weights.user = r;
  run->weights.infos = r->infos;
  run->weights.load = load_weight;
  return vkf_plan_check(r->env, &run->plan);
}

vkf_status vkf_lab_replay_read(vkf_env *env, const char *json, const vkf_array *arrays, size_t n_arrays,
                               vkf_case_run *out, const char **variant) {
  vkf_status st = VKF_OK;
  vkf_file_json *document = NULL;
  const char *name = NULL;
  *out = (vkf_case_run){0};
  vkf_arena_init(&out->arena, env);
  reader *r = vkf_arena_alloc(&out->arena, 1, sizeof *r);
  if (!r) VKF_TRY(VKF_ERROR_MEMORY);
  *r = (reader){.env = env, .arrays = arrays, .n_arrays = n_arrays, .run = out};
  VKF_TRY(vkf_file_json_parse(env, "the node", json, strlen(json), &document));
  VKF_TRY(vkf_file_json_find_string(vkf_file_json_root(document), "variant", "", &name));
  *variant = vkf_arena_strdup(&out->arena, name);
  if (!*variant) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(read_all(r, vkf_file_json_root(document)));
done:
  vkf_file_json_destroy(&document);
  if (st) vkf_case_finish(out);
  return st;
}
