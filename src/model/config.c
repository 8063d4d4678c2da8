/* config: keys of config.json, with messages that name the file and the key. See internal.h. */
#include <math.h>
#include <string.h>

#include "model/internal.h"

#define MAX_SIZE (1 << 24)

static vkf_status size_from(vkf_net *net, const char *key, int64_t value, uint32_t *out) {
  if (value < 1 || value > MAX_SIZE)
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT, "%s: expected 1 .. %d as %s, found %lld", net->config_path,
                        MAX_SIZE, key, (long long)value);
  *out = (uint32_t)value;
  return VKF_OK;
}

vkf_status vkf_model_get_size(vkf_net *net, vkf_file_value config, const char *key, uint32_t *out) {
  int64_t value = 0;
  VKF_CALL(vkf_file_json_get_int64(config, key, &value));
  return size_from(net, key, value, out);
}

vkf_status vkf_model_find_size(vkf_net *net, vkf_file_value config, const char *key, uint32_t fallback, uint32_t *out) {
  int64_t value = 0;
  VKF_CALL(vkf_file_json_find_int64(config, key, fallback, &value));
  return size_from(net, key, value, out);
}

vkf_status vkf_model_find_token(vkf_net *net, vkf_file_value config, const char *key, int32_t fallback, int32_t *out) {
  int64_t value = 0;
  VKF_CALL(vkf_file_json_find_int64(config, key, fallback, &value));
  if (value < -1 || value > MAX_SIZE)
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT, "%s: expected a token id as %s, found %lld", net->config_path, key,
                        (long long)value);
  *out = (int32_t)value;
  return VKF_OK;
}

bool vkf_model_activation_of(const char *name, vkf_activation *out) {
  static const struct {
    const char *name;
    vkf_activation activation;
  } names[] = {{"relu", VKF_ACT_RELU},
               {"gelu", VKF_ACT_GELU},
               {"gelu_new", VKF_ACT_GELU_TANH},
               {"gelu_pytorch_tanh", VKF_ACT_GELU_TANH},
               {"gelu_fast", VKF_ACT_GELU_TANH},
               {"gelu_accurate", VKF_ACT_GELU_TANH},
               {"gelu_python_tanh", VKF_ACT_GELU_TANH},
               {"gelu_python", VKF_ACT_GELU},
               {"tanh", VKF_ACT_TANH},
               {"sigmoid", VKF_ACT_SIGMOID},
               {"quick_gelu", VKF_ACT_QUICK_GELU},
               {"relu2", VKF_ACT_RELU2},
               {"linear", VKF_ACT_NONE},
               {"swish", VKF_ACT_SWISH},
               {"silu", VKF_ACT_SWISH}};
  for (size_t i = 0; i < VKF_COUNT(names); i++) {
    if (strcmp(name, names[i].name) != 0) continue;
    *out = names[i].activation;
    return true;
  }
  return false;
}

vkf_status vkf_model_find_activation(vkf_net *net, vkf_file_value config, const char *key, const char *fallback,
                                     vkf_activation *out) {
  const char *name = NULL;
  VKF_CALL(vkf_file_json_find_string(config, key, fallback, &name));
  if (vkf_model_activation_of(name, out)) return VKF_OK;
  return vkf_env_fail(
      net->env, VKF_ERROR_UNSUPPORTED,
      "%s: expected a supported activation (relu, gelu, gelu_new, silu, tanh and others) as %s, found \"%s\"",
      net->config_path, key, name);
}

vkf_status vkf_model_only_bool(vkf_net *net, vkf_file_value config, const char *key, bool only) {
  bool value = only;
  VKF_CALL(vkf_file_json_find_bool(config, key, only, &value));
  if (value != only)
    return vkf_env_fail(net->env, VKF_ERROR_UNSUPPORTED, "%s: %s %s is not supported", net->config_path, key,
                        value ? "true" : "false");
  return VKF_OK;
}

vkf_status vkf_model_only_absent(vkf_net *net, vkf_file_value config, const char *key) {
  vkf_file_kind kind = vkf_file_json_kind(vkf_file_json_member(config, key));
  if (kind == VKF_FILE_ABSENT || kind == VKF_FILE_NULL) return VKF_OK;
  return vkf_env_fail(net->env, VKF_ERROR_UNSUPPORTED, "%s: %s is not supported", net->config_path, key);
}

vkf_status vkf_model_only_string(vkf_net *net, vkf_file_value config, const char *key, const char *only) {
  const char *value = NULL;
  VKF_CALL(vkf_file_json_find_string(config, key, only, &value));
  if (strcmp(value, only) != 0)
    return vkf_env_fail(net->env, VKF_ERROR_UNSUPPORTED, "%s: %s \"%s\" is not supported", net->config_path, key,
                        value);
  return VKF_OK;
}

vkf_status vkf_model_find_number(vkf_net *net, vkf_file_value config, const char *key, double fallback, double least,
                                 double most, double *out) {
  VKF_CALL(vkf_file_json_find_double(config, key, fallback, out));
  if (!(*out >= least && *out <= most))
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT, "%s: expected %g .. %g as %s, found %g", net->config_path, least,
                        most, key, *out);
  return VKF_OK;
}

vkf_status vkf_model_find_epsilon(vkf_net *net, vkf_file_value config, const char *key, double fallback, float *out) {
  double value = 0;
  vkf_status st = vkf_model_find_number(net, config, key, fallback, 0, 1, &value);
  *out = (float)value;
  return st;
}

vkf_status vkf_model_split_heads(vkf_net *net, vkf_model_stack *stack, const char *key) {
  uint32_t d_model = net->info.d_model;
  if (d_model % stack->n_heads != 0)
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT, "%s: expected a divisor of d_model %u as %s, found %u",
                        net->config_path, d_model, key, stack->n_heads);
  stack->n_kv_heads = stack->n_heads;
  stack->key_width = stack->value_width = d_model / stack->n_heads;
  stack->scale = (float)(1 / sqrt(stack->key_width));
  return VKF_OK;
}

vkf_status vkf_model_get_layers(vkf_net *net, vkf_file_value config, const char *activation, double epsilon,
                                vkf_model_stack *stack) {
  VKF_CALL(vkf_model_get_size(net, config, "hidden_size", &net->info.d_model));
  VKF_CALL(vkf_model_get_size(net, config, "num_hidden_layers", &stack->n_layers));
  VKF_CALL(vkf_model_get_size(net, config, "num_attention_heads", &stack->n_heads));
  VKF_CALL(vkf_model_get_size(net, config, "intermediate_size", &stack->d_ff));
  VKF_CALL(vkf_model_split_heads(net, stack, "num_attention_heads"));
  VKF_CALL(vkf_model_find_activation(net, config, "hidden_act", activation, &stack->activation));
  return vkf_model_find_epsilon(net, config, "layer_norm_eps", epsilon, &stack->norm_eps);
}

const char *vkf_model_architecture_name(vkf_architecture architecture) {
  static const char *const names[] = {[VKF_ARCHITECTURE_ENCODER_DECODER] = "encoder-decoder",
                                      [VKF_ARCHITECTURE_ENCODER] = "encoder",
                                      [VKF_ARCHITECTURE_DECODER] = "decoder"};
  return (unsigned)architecture < VKF_COUNT(names) ? names[architecture] : NULL;
}
