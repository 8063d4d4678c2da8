/* make: folders of random weights. See model.h.
 *
 * The names and shapes are those that the families request: a net without files keeps a list of them. */
#include <string.h>

#include "file/folder.h"
#include "file/map.h"
#include "file/write.h"
#include "model/internal.h"

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

typedef struct maker {
  vkf_env *env;
  const vkf_array *arrays;
  const float *constants; /* of each array that has no random numbers */
  const vkf_make_params *params;
  double deviation;
  uint64_t done_bytes, all_bytes;
} maker;

/* A piece of an array, which several cores fill in parts. */
enum { PART = 4096 };
typedef struct piece {
  const maker *m;
  size_t index, first, n;
  char *dst;
} piece;

static void fill_part(void *user, uint32_t thread, size_t part) {
  const piece *p = user;
  const maker *m = p->m;
  const vkf_array *a = &m->arrays[p->index];
  const bool is_constant = vkf_ends_with(a->name, "bias") || a->rank == 1;
  const size_t begin = part * PART, n = VKF_MIN(p->n - begin, (size_t)PART);
  float numbers[PART];
  (void)thread;
  for (size_t i = 0; i < n; i++)
    numbers[i] = is_constant ? m->constants[p->index]
                             : (float)(m->deviation * vkf_rng_normal(m->params->seed, p->index, p->first + begin + i));
  void *dst = p->dst + begin * vkf_dtype_bytes(a->dtype);
  if (a->dtype == VKF_F32)
    memcpy(dst, numbers, n * sizeof *numbers);
  else
    (a->dtype == VKF_F16 ? vkf_f16_from_f32_all : vkf_bf16_from_f32_all)(numbers, n, dst);
}

static vkf_status fill(void *user, size_t index, size_t first, size_t n, void *dst) {
  maker *m = user;
  const vkf_array *a = &m->arrays[index];
  piece whole = {m, index, first, n, dst};
  vkf_parallel(VKF_CEIL_DIV(n, PART), vkf_cores(), fill_part, &whole);
  m->done_bytes += n * vkf_dtype_bytes(a->dtype);
  const vkf_make_params *p = m->params;
  int stop = 0;
  if (p->on_progress != NULL) VKF_CALLBACK(m->env, stop = p->on_progress(p->user, m->done_bytes, m->all_bytes));
  if (!stop) return VKF_OK;
  return vkf_env_fail(m->env, VKF_ERROR_STOPPED, "the progress callback asked to stop after %llu bytes",
                      (unsigned long long)m->done_bytes);
}

static vkf_status find_deviation(vkf_net *net, const vkf_file_map *config, double *out) {
  vkf_status st = VKF_OK;
  vkf_file_json *json = NULL;
  VKF_TRY(vkf_file_json_parse(net->env, net->config_path, (const char *)config->data, config->bytes, &json));
  VKF_TRY(vkf_model_find_number(net, vkf_file_json_root(json), "init_std", 0.02, 0, 10, out));
  VKF_TRY(vkf_model_find_number(net, vkf_file_json_root(json), "initializer_range", *out, 0, 10, out));
done:
  vkf_file_json_destroy(&json);
  return st;
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

/* Returns the name of a tensor in the file. A base model, which has no head, is stored without net->base. */
static const char *stored_name(const vkf_net *net, const char *name) {
  size_t base = net->base != NULL && !net->info.has_head ? strlen(net->base) : 0;
  return strncmp(name, net->base != NULL ? net->base : "", base) == 0 ? name + base : name;
}

/* Returns what the model adds to the numbers of a tensor. */
static float plus_of(const vkf_net *net, const vkf_file_tensor *t) {
  for (uint32_t i = 0; i < net->n_weights; i++)
    if (net->weights[i].plus != 0 && net->weights[i].parts[0].tensor == t) return net->weights[i].plus;
  return 0;
}

static vkf_status write_weights(const vkf_net *net, maker *m, const char *path) {
  vkf_status st = VKF_ERROR_MEMORY;
  vkf_array *arrays = vkf_env_alloc(net->env, net->n_wanted, sizeof *arrays);
  float *constants = vkf_env_alloc(net->env, net->n_wanted, sizeof *constants);
  if (arrays == NULL || constants == NULL) goto done;
  for (uint32_t i = 0; i < net->n_wanted; i++) {
    const vkf_file_tensor *t = net->wanted[i];
    arrays[i] = (vkf_array){.name = stored_name(net, t->name), .dtype = m->params->dtype, .rank = t->rank};
    memcpy(arrays[i].shape, t->shape, sizeof t->shape);
    constants[i] = vkf_ends_with(t->name, "bias") ? 0 : 1 - plus_of(net, t);
  }
  m->arrays = arrays;
  m->constants = constants;
  st = vkf_file_tensors_write_filled(net->env, path, arrays, net->n_wanted, fill, m);
done:
  vkf_env_free(net->env, constants);
  vkf_env_free(net->env, arrays);
  return st;
}

vkf_status vkf_model_folder_make(vkf_env *env, const char *config_path, const char *folder,
                                 const vkf_make_params *params) {
  vkf_status st = VKF_OK;
  vkf_net *net = NULL;
  vkf_file_map config = {0};
  vkf_file_folder made = {0};
  vkf_text config_copy, weights;
  maker m = {.env = env, .params = params};
  vkf_text_init(&config_copy, env);
  vkf_text_init(&weights, env);
  if (params->dtype != VKF_F32 && params->dtype != VKF_F16 && params->dtype != VKF_BF16)
    VKF_FAIL(env, VKF_ERROR_ARGUMENT, "expected F32, F16 or BF16 as dtype of the weights, found %s",
             vkf_name_of_dtype(params->dtype));
  VKF_TRY(vkf_file_map_read(env, config_path, &config));
  VKF_TRY(vkf_model_net_want(env, config_path, &net));
  VKF_TRY(find_deviation(net, &config, &m.deviation));
  m.all_bytes = net->info.n_parameters * vkf_dtype_bytes(params->dtype);
  VKF_TRY(vkf_file_folder_open(env, folder, &made));
  VKF_TRY(vkf_file_folder_check_room(&made, m.all_bytes));
  vkf_file_folder_join(&made, "config.json", &config_copy);
  vkf_file_folder_join(&made, "model.safetensors", &weights);
  VKF_TRY(vkf_text_status(&config_copy));
  VKF_TRY(vkf_text_status(&weights));
  VKF_TRY(vkf_file_write(env, config_copy.data, &(vkf_file_part){config.data, config.bytes}, 1));
  VKF_TRY(write_weights(net, &m, weights.data));
  VKF_TRY(vkf_file_folder_commit(&made));
done:
  vkf_text_finish(&weights);
  vkf_text_finish(&config_copy);
  vkf_file_folder_finish(&made);
  vkf_file_map_close(&config);
  vkf_model_net_close(&net);
  return st;
}
