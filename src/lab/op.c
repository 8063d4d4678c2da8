/* op: vkf_device_run_op(): the table of ops and blocks that it knows, and the run.
 *
 * An op is a plan of one node or a few, built by the function of its row. Weights are packed, kernels picked and blocks
 * recorded as in a model. Refuses inputs and parameters that the row does not name.
 */
#include "lab/op.h"

#include <string.h>

#include "ref/walk.h"

#define ATTENTION_INPUTS(P) " " P "wq " P "wk " P "wv " P "wo " P "bq " P "bk " P "bv " P "bo "
#define FFN_INPUTS " wg bg w1 b1 w2 b2 "
#define NORM_INPUTS " norm1_weight norm1_bias norm2_weight norm2_bias "
#define BLOCK_PARAMS " heads kv_heads norm eps rms activation trace "

static const struct {
  const char *name;
  void (*build)(vkf_op_build *);
  const char *inputs, *params; /* the names that it accepts, each between spaces */
} public_ops[] = {
    {"matmul", vkf_lab_op_matmul, " x w bias residual ", " activation scale trace "},
    {"norm", vkf_lab_op_norm, " x residual weight bias ", " eps rms trace "},
    {"layer_norm", vkf_lab_op_norm, " x residual weight bias ", " eps trace "},
    {"softmax", vkf_lab_op_softmax, " x mask ", " trace "},
    {"log_softmax", vkf_lab_op_log_softmax, " x ", " trace "},
    {"top_k", vkf_lab_op_top_k, " x ", " k trace "},
    {"gate", vkf_lab_op_gate, " x ", " activation trace "},
    {"embed", vkf_lab_op_embed, " ids table positions position_table ", " scale trace "},
    {"positional_encoding", vkf_lab_op_positional_encoding, " positions ", " width layout trace "},
    {"rope", vkf_lab_op_rope, " x positions cos sin ", " heads base pairs trace "},
    {"patches", vkf_lab_op_patches, " x ", " patch trace "},
    {"attention", vkf_lab_op_attention, " q k v mask bias ", " scale softcap causal window trace "},
    {"attention_weights", vkf_lab_op_attention_weights, " q k mask bias ", " scale softcap causal window trace "},
    {"multi_head_attention", vkf_lab_op_multi_head_attention, " x memory mask " ATTENTION_INPUTS(""),
     " heads kv_heads causal trace "},
    {"ffn", vkf_lab_op_ffn, " x " FFN_INPUTS, " activation trace "},
    {"encoder_block", vkf_lab_op_encoder_block, " x mask " ATTENTION_INPUTS("") FFN_INPUTS NORM_INPUTS,
     BLOCK_PARAMS " causal "},
    {"decoder_block", vkf_lab_op_decoder_block,
     " x memory mask self_mask norm3_weight norm3_bias " ATTENTION_INPUTS("self_") ATTENTION_INPUTS("cross_")
         FFN_INPUTS NORM_INPUTS,
     BLOCK_PARAMS},
};

static bool has_word(const char *words, const char *word, size_t n) {
  if (n == 0 || memchr(word, ' ', n)) return false;
  for (const char *at = words; (at = strchr(at, word[0])); at++)
    if (at > words && at[-1] == ' ' && strncmp(at, word, n) == 0 && at[n] == ' ') return true;
  return false;
}

/* Returns the row of the table; -1 after a failure. */
static int find_op(vkf_env *env, const char *name) {
  vkf_text names;
  for (size_t i = 0; name && i < VKF_COUNT(public_ops); i++)
    if (!strcmp(name, public_ops[i].name)) return (int)i;
  vkf_text_init(&names, env);
  for (size_t i = 0; i < VKF_COUNT(public_ops); i++)
    vkf_text_printf(&names, "%s%s", i ? i + 1 < VKF_COUNT(public_ops) ? ", " : " or " : "", public_ops[i].name);
  if (!names.failed)
    vkf_env_fail(env, VKF_ERROR_ARGUMENT, "expected the op %s, found %s", names.data, name ? name : "NULL");
  vkf_text_finish(&names);
  return -1;
}

/* Whether the op has this input. A traced op also has the errors of its inputs: NAME.error. */
static bool has_input(const vkf_op_build *o, int i, const char *name) {
  const char *end = name ? strrchr(name, '.') : NULL;
  if (!name) return false;
  return has_word(public_ops[i].inputs, name,
                  end && o->trace && !strcmp(end, ".error") ? (size_t)(end - name) : strlen(name));
}

/* Returns the length without the space after the last word. */
static int length(const char *words) {
  return (int)strlen(words) - 1;
}

static vkf_status check_names(vkf_op_build *o, int i) {
  for (size_t a = 0; a < o->n_inputs; a++)
    if (!has_input(o, i, o->inputs[a].name))
      return vkf_env_fail(o->env, VKF_ERROR_ARGUMENT, "%s has no input called %s; expected%.*s", public_ops[i].name,
                          o->inputs[a].name ? o->inputs[a].name : "NULL", length(public_ops[i].inputs),
                          public_ops[i].inputs);
  for (size_t k = 0; k < vkf_file_json_count(o->params); k++) {
    const char *key = vkf_file_json_key(o->params, k);
    if (!has_word(public_ops[i].params, key, strlen(key)))
      return vkf_env_fail(o->env, VKF_ERROR_ARGUMENT, "%s has no parameter called %s; expected%.*s", public_ops[i].name,
                          key, length(public_ops[i].params), public_ops[i].params);
  }
  return VKF_OK;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static const vkf_op_output *find_output(const vkf_op_build *o, uint32_t slot) {
  for (size_t i = 0; i < o->n_outputs; i++)
    if (o->outputs[i].slot == slot) return &o->outputs[i];
  return NULL;
}

/* Gets the shape of a slot for the caller: an output's as it was declared, else the extents. */
static size_t slot_shape(const vkf_op_build *o, uint32_t slot, size_t shape[VKF_MAX_SLOT_RANK]) {
  const vkf_op_output *output = find_output(o, slot);
  const vkf_slot *s = &o->b.slots[slot];
  for (uint32_t i = 0; i < s->rank; i++) shape[i] = s->extent[i].cap;
  if (output) memcpy(shape, output->shape, output->rank * sizeof *shape);
  return output ? output->rank : s->rank;
}

static vkf_status add_slot(vkf_op_build *o, vkf_result *result, const char *name, const char *suffix, uint32_t slot,
                           vkf_dtype dtype, void **data) {
  size_t shape[VKF_MAX_SLOT_RANK], rank = slot_shape(o, slot, shape);
  const char *full = vkf_lab_op_name(o, name, suffix);
  return o->b.st ? o->b.st : vkf_engine_result_add(result, full, dtype, rank, shape, data);
}

static void add_ratios(const float *data, const double *exact, const double *bound, uint64_t n, double *ratio) {
  for (uint64_t i = 0; i < n; i++) ratio[i] = bound[i] < 0 ? 0 : vkf_compare_ratio((double)data[i], exact[i], bound[i]);
}

/* Adds, for each node in the order of the plan, its outputs, their exact values, the bounds, the ratios and the errors
 * of the whole chain. */
static vkf_status add_trace(vkf_op_build *o, vkf_walk *walk, vkf_op_errors *errors, vkf_result *result) {
  for (uint32_t n = 0; n < o->b.plan.n_nodes; n++) {
    for (uint32_t i = 0; i < VKF_MAX_OUTPUTS; i++) {
      uint32_t slot = o->b.plan.nodes[n].out[i];
      void *data = NULL, *exact = NULL, *bound = NULL, *ratio = NULL, *error = NULL;
      if (slot == VKF_NO_SLOT) continue;
      const vkf_op_output *output = find_output(o, slot);
      const char *name = output ? output->name : o->b.slots[slot].name;
      VKF_CALL(add_slot(o, result, name, "", slot, o->b.slots[slot].dtype, &data));
      memcpy(data, walk->bases[slot], vkf_slot_elements(&o->b.slots[slot]) * 4);
      if (o->b.slots[slot].dtype != VKF_F32) continue;
      VKF_CALL(add_slot(o, result, name, ".exact", slot, VKF_F64, &exact));
      VKF_CALL(add_slot(o, result, name, ".bound", slot, VKF_F64, &bound));
      VKF_CALL(add_slot(o, result, name, ".ratio", slot, VKF_F64, &ratio));
      VKF_CALL(add_slot(o, result, name, ".error", slot, VKF_F32, &error));
      VKF_CALL(vkf_ref_walk_values(walk, n, i, exact, bound));
      add_ratios(data, exact, bound, vkf_slot_elements(&o->b.slots[slot]), ratio);
      VKF_CALL(vkf_lab_op_errors_node(errors, n, walk->dims, walk->bases, i, bound));
      memcpy(error, errors->slots[slot], vkf_slot_elements(&o->b.slots[slot]) * sizeof(float));
    }
  }
  return VKF_OK;
}

static vkf_status run_plan(vkf_op_build *o, vkf_backend *backend, const char *variant, vkf_op_errors *errors,
                           vkf_result *result) {
  vkf_status st = VKF_OK;
  const vkf_backend_table *b = backend->table;
  const vkf_weight_source source = {.user = o, .n_weights = o->n_weights, .infos = o->weights, .load = vkf_lab_op_load};
  const vkf_program_options options = {.keep_all = o->trace, .variant = variant};
  vkf_weights *weights = NULL;
  vkf_program *program = NULL;
  vkf_walk walk = {0};
  vkf_dims dims = vkf_dims_make(&o->b.plan.capacity);
  void *data = NULL;
  VKF_TRY(vkf_plan_check(o->env, &o->b.plan));
  VKF_TRY(b->weights_create(backend, &source, variant, &weights));
  VKF_TRY(b->program_create(backend, &o->b.plan, weights, NULL, &options, &program));
  VKF_TRY(b->run(program, &dims, 0, 1));
  for (size_t i = 0; i < o->n_outputs && !o->trace; i++) { /* a trace has them too */
    uint32_t slot = o->outputs[i].slot;
    VKF_TRY(add_slot(o, result, o->outputs[i].name, "", slot, o->b.slots[slot].dtype, &data));
    VKF_TRY(b->read(program, slot, &dims, data));
  }
  if (!o->trace) goto done;
  VKF_TRY(vkf_ref_walk_init(&walk, o->env, backend, &o->b.plan, program, &dims, &source));
  VKF_TRY(add_trace(o, &walk, errors, result));
done:
  vkf_ref_walk_finish(&walk);
  if (program) b->program_destroy(&program);
  if (weights) b->weights_destroy(&weights);
  return st;
}

vkf_status vkf_device_run_op(vkf_device *dev, const char *op, const char *params_json, const vkf_array *inputs,
                             size_t n_inputs, const char *variant, vkf_result **out) {
  if (!dev) return VKF_ERROR_ARGUMENT;
  if (!op) return vkf_engine_null(&dev->ctx->env, "op");
  if (!out) return vkf_engine_null(&dev->ctx->env, "out");
  if (n_inputs && !inputs) return vkf_engine_null(&dev->ctx->env, "inputs");
  vkf_status st = VKF_OK;
  vkf_env *env = &dev->ctx->env;
  vkf_file_json *json = NULL;
  vkf_result *result = NULL;
  vkf_op_errors errors = {0};
  *out = NULL;
  if (vkf_env_refuses(env, "vkf_device_run_op")) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(env);
  vkf_op_build *o = vkf_env_alloc(env, 1, sizeof *o);
  if (!o) return VKF_ERROR_MEMORY;
  *o = (vkf_op_build){.env = env, .inputs = inputs, .n_inputs = n_inputs};
  vkf_arena_init(&o->arena, env);
  if (!params_json) params_json = "{}";
  int i = find_op(env, op);
  if (i < 0) VKF_TRY(VKF_ERROR_ARGUMENT);
  VKF_TRY(vkf_file_json_parse(env, "the op's parameters", params_json, strlen(params_json), &json));
  VKF_TRY(vkf_file_json_as_object(vkf_file_json_root(json), &o->params));
  o->trace = vkf_lab_op_flag(o, "trace");
  VKF_TRY(o->b.st);
  VKF_TRY(check_names(o, i));
  VKF_TRY(vkf_lab_op_plan(o, op, public_ops[i].build));
  if (o->trace) VKF_TRY(vkf_lab_op_errors_init(&errors, o, op, public_ops[i].build));
  VKF_TRY(vkf_engine_result_create(env, &result));
  VKF_TRY(run_plan(o, dev->backend, variant, &errors, result));
done:
  vkf_lab_op_errors_finish(&errors);
  vkf_file_json_destroy(&json);
  vkf_arena_finish(&o->arena);
  vkf_env_free(env, o);
  if (st) vkf_engine_result_destroy(&result);
  *out = result;
  return st;
}
