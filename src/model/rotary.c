/* rotary: frequencies of rotary positions with their scalings, computed in double, and buckets of relative positions.
 *
 * Su et al. 2021 (RoFormer); linear scaling: Chen et al. 2023; yarn: Peng et al. 2023; longrope: Ding et al. 2024;
 * llama3: the rule of Llama 3.1. Refuses other scalings by name.
 */
#include <math.h>
#include <string.h>

#include "model/internal.h"

#define PI 3.14159265358979323846

/* What scalings read. */
typedef struct scaling {
  vkf_file_value keys; /* rope_scaling or rope_parameters */
  double theta, factor;
  double original; /* positions that the model was trained for first */
  uint32_t width;  /* columns that turn */
  uint32_t n;      /* frequencies, one a pair of columns */
  bool only_longrope;
} scaling;

/* Changes the frequencies, and may set *factor, which multiplies all cosines and sines. */
typedef vkf_status scale_fn(vkf_net *net, const scaling *s, double *frequencies, double *factor);

static vkf_status scale_linear(vkf_net *net, const scaling *s, double *frequencies, double *factor) {
  (void)net, (void)factor;
  for (uint32_t i = 0; i < s->n; i++) frequencies[i] /= s->factor;
  return VKF_OK;
}

/* Stretches long waves, keeps short ones, and blends both in between. */
static vkf_status scale_llama3(vkf_net *net, const scaling *s, double *frequencies, double *factor) {
  double low = 0, high = 0;
  (void)factor;
  VKF_CALL(vkf_model_find_number(net, s->keys, "low_freq_factor", 1, 1e-6, 1e6, &low));
  VKF_CALL(vkf_model_find_number(net, s->keys, "high_freq_factor", 4, 1e-6, 1e6, &high));
  if (!(low < high))
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT,
                        "%s: expected low_freq_factor below high_freq_factor, found %g and %g", net->config_path, low,
                        high);
  for (uint32_t i = 0; i < s->n; i++) {
    double wave = 2 * PI / frequencies[i], scaled = frequencies[i] / s->factor;
    double blend = (s->original / wave - low) / (high - low);
    if (wave > s->original / low)
      frequencies[i] = scaled;
    else if (wave >= s->original / high)
      frequencies[i] = (1 - blend) * scaled + blend * frequencies[i];
  }
  return VKF_OK;
}

static double yarn_factor(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * log(factor) + 1;
}

/* Returns the pair whose wave turns n times over the original positions. */
static double yarn_pair(const scaling *s, double n) {
  return s->width * log(s->original / (n * 2 * PI)) / (2 * log(s->theta));
}

static vkf_status scale_yarn(vkf_net *net, const scaling *s, double *frequencies, double *factor) {
  double fast = 0, slow = 0, scale = 0, scale_all = 0;
  bool is_truncated = true;
  VKF_CALL(vkf_model_find_number(net, s->keys, "beta_fast", 32, 1e-6, 1e6, &fast));
  VKF_CALL(vkf_model_find_number(net, s->keys, "beta_slow", 1, 1e-6, 1e6, &slow));
  VKF_CALL(vkf_model_find_number(net, s->keys, "mscale", 0, 0, 1e6, &scale));
  VKF_CALL(vkf_model_find_number(net, s->keys, "mscale_all_dim", 0, 0, 1e6, &scale_all));
  VKF_CALL(vkf_file_json_find_bool(s->keys, "truncate", true, &is_truncated));
  if (vkf_file_json_kind(vkf_file_json_member(s->keys, "truncate")) == VKF_FILE_NULL) is_truncated = false;
  bool has_scales = scale > 0 && scale_all > 0;
  *factor = has_scales ? yarn_factor(s->factor, scale) / yarn_factor(s->factor, scale_all) : yarn_factor(s->factor, 1);
  double first = yarn_pair(s, fast), last = yarn_pair(s, slow);
  if (is_truncated) {
    first = floor(first);
    last = ceil(last);
  }
  first = fmax(first, 0);
  last = fmin(last, s->width - 1.0);
  if (first == last) last += 0.001;
  for (uint32_t i = 0; i < s->n; i++) {
    double stretched = fmin(fmax((i - first) / (last - first), 0), 1);
    frequencies[i] = frequencies[i] / s->factor * stretched + frequencies[i] * (1 - stretched);
  }
  return VKF_OK;
}

/* Divides each frequency by a factor of its own. Sequences longer than the original positions have other factors, with
 * which the keys in the cache would have to be computed again. So the model ends at the original positions. */
static vkf_status scale_longrope(vkf_net *net, const scaling *s, double *frequencies, double *factor) {
  vkf_file_value factors;
  VKF_CALL(vkf_file_json_find_array(s->keys, "short_factor", &factors));
  if (vkf_file_json_count(factors) != s->n)
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT, "%s: expected %u numbers as %s.short_factor, found %zu",
                        net->config_path, s->n, s->keys.path, vkf_file_json_count(factors));
  for (uint32_t i = 0; i < s->n; i++) {
    double stretch = 0;
    VKF_CALL(vkf_file_json_as_double(vkf_file_json_at(factors, i), &stretch));
    if (!(stretch > 0))
      return vkf_env_fail(net->env, VKF_ERROR_FORMAT, "%s: expected numbers over 0 as %s.short_factor, found %g",
                          net->config_path, s->keys.path, stretch);
    frequencies[i] /= stretch;
  }
  if (s->factor > 1) *factor = sqrt(1 + log(s->factor) / log(s->original));
  if (net->info.max_positions > s->original) net->info.max_positions = (uint32_t)s->original;
  return VKF_OK;
}

/* "dynamic" changes only sequences longer than max_position_embeddings, which are refused. */
static const struct {
  const char *type;
  scale_fn *scale;           /* NULL: frequencies stay as they are */
  bool has_attention_factor; /* the key attention_factor overrides the factor */
} scalings[] = {{"default", NULL, false},        {"dynamic", NULL, false},           {"linear", scale_linear, false},
                {"llama3", scale_llama3, false}, {"longrope", scale_longrope, true}, {"yarn", scale_yarn, true}};

static vkf_status apply(vkf_net *net, const scaling *s, const char *type, vkf_model_rotary *rotary) {
  const bool is_default = strcmp(type, "default") == 0, is_longrope = strcmp(type, "longrope") == 0;
  if (s->only_longrope && !is_longrope && !is_default)
    return vkf_env_fail(net->env, VKF_ERROR_UNSUPPORTED, "%s: expected longrope as %s.rope_type, found \"%s\"",
                        net->config_path, s->keys.path, type);
  for (size_t i = 0; i < VKF_COUNT(scalings); i++) {
    if (strcmp(type, scalings[i].type) != 0) continue;
    if (scalings[i].scale != NULL) VKF_CALL(scalings[i].scale(net, s, rotary->frequencies, &rotary->factor));
    if (!scalings[i].has_attention_factor) return VKF_OK;
    return vkf_model_find_number(net, s->keys, "attention_factor", rotary->factor, 1e-6, 1e6, &rotary->factor);
  }
  return vkf_env_fail(net->env, VKF_ERROR_UNSUPPORTED, "%s: %s.rope_type \"%s\" is not supported", net->config_path,
                      s->keys.path, type);
}

vkf_status vkf_model_find_rotary(vkf_net *net, vkf_file_value config, const vkf_model_rotary_rules *rules,
                                 vkf_model_stack *stack) {
  vkf_model_rotary *rotary = &stack->rotary;
  scaling s = {.only_longrope = rules->is_phi3};
  const char *type = NULL;
  const bool whole = rules->turns_whole_heads;
  double theta = rules->theta, part = whole ? 1 : rules->part, positions = VKF_MAX(net->info.max_positions, 1u);
  VKF_CALL(vkf_file_json_find_object(config, "rope_scaling", &s.keys)); /* wins over rope_parameters unless empty */
  if (vkf_file_json_count(s.keys) == 0) VKF_CALL(vkf_file_json_find_object(config, "rope_parameters", &s.keys));
  VKF_CALL(vkf_model_find_number(net, config, "rope_theta", theta, 1, 1e15, &theta));
  VKF_CALL(vkf_model_find_number(net, s.keys, "rope_theta", theta, 1, 1e15, &s.theta));
  VKF_CALL(vkf_file_json_find_string(s.keys, "type", "default", &type));
  VKF_CALL(vkf_file_json_find_string(s.keys, "rope_type", type, &type));
  if (rules->is_phi3 && (strcmp(type, "su") == 0 || strcmp(type, "yarn") == 0)) type = "longrope";
  VKF_CALL(vkf_model_find_number(net, config, "partial_rotary_factor", part, 0, 1, &part));
  VKF_CALL(vkf_model_find_number(net, s.keys, "partial_rotary_factor", part, 0, 1, &part));
  if (whole && part != 1 && strcmp(type, "default") != 0)
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT,
                        "%s: partial_rotary_factor: with rope_type \"%s\" expected 1, found %g", net->config_path, type,
                        part);
  if (whole) part = 1;
  VKF_CALL(vkf_model_find_number(net, s.keys, "original_max_position_embeddings", positions, 1, 1e9, &positions));
  if (rules->is_phi3) positions = 4096;
  /* This key wins over that of the scaling, as in transformers. */
  VKF_CALL(vkf_model_find_number(net, config, "original_max_position_embeddings", positions, 1, 1e9, &s.original));
  VKF_CALL(vkf_model_find_number(net, s.keys, "factor", VKF_MAX(net->info.max_positions, 1u) / s.original, 1e-6, 1e6,
                                 &s.factor));
  s.width = (uint32_t)(stack->key_width * part);
  s.n = VKF_CEIL_DIV(s.width, 2); /* if the width is odd, one column more turns, as in transformers */
  if (s.n == 0 || 2 * s.n > stack->key_width || (rules->turns_pairs && s.width % 2 != 0))
    return vkf_env_fail(net->env, VKF_ERROR_FORMAT, "%s: expected pairs of columns that turn, found %u of a head of %u",
                        net->config_path, s.width, stack->key_width);
  rotary->width = 2 * s.n;
  rotary->factor = 1;
  rotary->frequencies = vkf_arena_alloc(&net->arena, s.n, sizeof *rotary->frequencies);
  if (rotary->frequencies == NULL) return VKF_ERROR_MEMORY;
  for (uint32_t i = 0; i < s.n; i++) rotary->frequencies[i] = pow(s.theta, -2.0 * i / s.width);
  VKF_CALL(apply(net, &s, type, rotary));
  stack->positions = VKF_POSITION_ROTARY;
  return VKF_OK;
}

void vkf_model_rotations(const vkf_model_rotary *rotary, uint32_t n, float *table) {
  for (uint32_t position = 0; position < n; position++)
    for (uint32_t i = 0; i < rotary->width / 2; i++) {
      double angle = position * rotary->frequencies[i];
      *table++ = (float)(cos(angle) * rotary->factor);
      *table++ = (float)(sin(angle) * rotary->factor);
    }
}

/* Computes in float32 and in this order, as the models were trained: at a border, another rounding gives another
 * bucket. */
static int32_t bucket(uint32_t distance, uint32_t n_buckets, uint32_t max_distance) {
  uint32_t n_exact = n_buckets / 2;
  if (distance < n_exact) return (int32_t)distance;
  float part = logf((float)distance / (float)n_exact) / (float)log((double)max_distance / n_exact);
  return (int32_t)VKF_MIN(n_exact + (uint32_t)(part * (float)(n_buckets - n_exact)), n_buckets - 1);
}

void vkf_model_buckets(const vkf_model_relative *relative, bool both_directions, int32_t *out) {
  int64_t last = both_directions ? relative->max_distance : 0;
  uint32_t n_buckets = both_directions ? relative->n_buckets / 2 : relative->n_buckets;
  for (int64_t d = -(int64_t)relative->max_distance; d <= last; d++) {
    int32_t behind = d > 0 ? (int32_t)n_buckets : 0;
    *out++ = behind + bucket((uint32_t)(d < 0 ? -d : d), n_buckets, relative->max_distance);
  }
}
