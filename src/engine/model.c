/* Opens model folders on a device, and tells what is known of a model. */
#include <string.h>
#include <vkformer/lab.h>

#include "engine/opened.h"

vkf_storage vkf_engine_storage_of(vkf_format format) {
  return format < VKF_FORMAT_COUNT ? (vkf_storage)(format + 1) : VKF_STORAGE_AUTO;
}

/* Finds the format of a vkf_storage; AUTO: `without`. caches: only formats that keys and values can have. */
static vkf_status find_format(vkf_env *env, const char *what, vkf_storage storage, bool caches, vkf_format without,
                              vkf_format *out) {
  char names[64];
  for (*out = 0; *out < VKF_FORMAT_COUNT && vkf_engine_storage_of(*out) != storage; ++*out) {
  }
  if (storage == VKF_STORAGE_AUTO) *out = without;
  if (storage == VKF_STORAGE_AUTO || (*out < VKF_FORMAT_COUNT && (!caches || vkf_format_get(*out)->caches)))
    return VKF_OK;
  const char *name = *out < VKF_FORMAT_COUNT ? vkf_format_get(*out)->name : "no vkf_storage";
  return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "%s: expected auto, %s, found %s", what,
                      vkf_format_names(caches, names, sizeof names), name);
}

static void destroy(vkf_model **model) {
  if (!*model) return;
  vkf_model *m = *model;
  vkf_engine_sessions_part(m);
  if (m->weights) m->dev->backend->table->weights_destroy(&m->weights);
  vkf_engine_tokenizer_close(m->env, &m->tokenizer);
  vkf_decode_generation_finish(&m->generation);
  vkf_model_net_close(&m->net);
  vkf_env_free(m->env, m);
  *model = NULL;
}

/* What loaded() needs to report progress and to keep little of the files in memory. */
typedef struct watcher {
  vkf_env *env;
  const vkf_net *net;
  const vkf_weight_source *source;
  const vkf_model_params *params;
  uint64_t done_bits, all_bits, rested_bits;
} watcher;

static uint64_t bits_of(const vkf_weight_info *info, uint32_t rows) {
  return (uint64_t)rows * (info->rank == 2 ? info->shape[1] : 1) * vkf_format_get(info->format)->bits;
}

static vkf_status loaded(void *user, uint32_t index, uint32_t n) {
  watcher *w = user;
  int stop = 0;
  w->done_bits += bits_of(&w->source->infos[index], n);
  if (w->done_bits - w->rested_bits >= w->all_bits / 16) { /* not at each call, because it takes time */
    vkf_model_net_rest(w->net);
    w->rested_bits = w->done_bits;
  }
  if (w->params->on_progress)
    VKF_CALLBACK(w->env, stop = w->params->on_progress(w->params->user, w->done_bits / 8, w->all_bits / 8));
  return stop ? vkf_env_fail(w->env, VKF_ERROR_STOPPED, "the caller stopped the loading of the weights") : VKF_OK;
}

static vkf_status check_source(vkf_env *env, const vkf_file_source *source) {
  if (source->folder) return VKF_OK;
  if (!source->files) return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "expected a model folder or files, found NULL");
  for (size_t i = 0; i < source->n; i++)
    if (!source->files[i].name || !source->files[i].data)
      return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "files[%zu] (%s): expected a name and data, found NULL", i,
                          source->files[i].name ? source->files[i].name : "no name");
  for (size_t i = 0; i < source->n; i++)
    for (size_t k = 0; k < i; k++)
      if (!strcmp(source->files[i].name, source->files[k].name))
        return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "files[%zu] (%s): expected a name that no other file has", i,
                            source->files[i].name);
  return VKF_OK;
}

uint64_t vkf_engine_model_identity(const vkf_model *m) {
  vkf_model *known = (vkf_model *)m; /* no model is allocated as const */
  uint64_t identity = atomic_load(&known->identity);
  if (identity) return identity;
  identity = VKF_MAX(vkf_model_net_identity(m->net), 1);
  atomic_store(&known->identity, identity);
  return identity;
}

static vkf_status open_model(vkf_device *dev, const vkf_file_source *files, const vkf_model_params *params,
                             vkf_model **out) {
  if (!dev) return VKF_ERROR_ARGUMENT;
  if (!out) return vkf_engine_null(&dev->ctx->env, "out");
  vkf_status st = VKF_OK;
  vkf_env *env = &dev->ctx->env;
  vkf_model *m = NULL;
  vkf_weight_source source;
  vkf_model_params p;
  *out = NULL;
  if (vkf_env_refuses(env, files->folder ? "vkf_model_open" : "vkf_model_open_memory")) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(env);
  VKF_TRY(VKF_PARAMS_READ(env, vkf_model_params, params, &p));
  VKF_TRY(check_source(env, files));
  m = vkf_env_alloc(env, 1, sizeof *m);
  if (!m) VKF_TRY(VKF_ERROR_MEMORY);
  m->dev = dev;
  m->env = env;
  vkf_decode_generation_init(&m->generation, env);
  /* Software drivers are limited by arithmetic: unpacking costs more than fewer bytes save. */
  const vkf_format automatic = vkf_engine_is_gpu(dev) ? VKF_FORMAT_COUNT : VKF_FORMAT_F32;
  VKF_TRY(find_format(env, "weights", p.weights, false, automatic, &m->weight_format));
  if (dev->backend->reproducible && m->weight_format < VKF_FORMAT_COUNT && vkf_format_get(m->weight_format)->block)
    VKF_FAIL(env, VKF_ERROR_UNSUPPORTED,
             "%s weights have no defined order of products with their scales: expected f32, "
             "f16, bf16 or auto in the reproducible mode",
             vkf_format_get(m->weight_format)->name);
  const vkf_format automatic_cache = dev->backend->reproducible ? VKF_FORMAT_F32 : automatic;
  VKF_TRY(find_format(env, "cache of keys and values", p.kv_cache, true, automatic_cache, &m->cache_format));
  VKF_TRY(vkf_model_net_open(env, files, &m->net));
  m->cache_format = vkf_model_net_store(m->net, m->weight_format, m->cache_format);
  VKF_TRY(vkf_decode_generation_read(&m->generation, files));
  if (vkf_model_net_info(m->net)->can_generate)
    VKF_TRY(vkf_decode_generation_fit(&m->generation, vkf_model_net_info(m->net)->target_vocab));
  VKF_TRY(vkf_engine_tokenizer_open(env, files, &m->tokenizer));
  m->handle = (vkf_tokenizer){.env = env, .shared = &m->tokenizer};
  vkf_model_net_weights(m->net, &source);
  watcher watching = {.env = env, .net = m->net, .source = &source, .params = &p};
  for (uint32_t i = 0; i < source.n_weights; i++)
    watching.all_bits += bits_of(&source.infos[i], source.infos[i].shape[0]);
  source.loaded = loaded;
  source.watcher = &watching;
  const vkf_model *same = p.weights_of;
  if (same && same->dev->backend->table == dev->backend->table &&
      vkf_engine_model_identity(same) == vkf_engine_model_identity(m))
    source.same = same->weights;
  VKF_TRY(dev->backend->table->weights_create(dev->backend, &source, NULL, &m->weights));
  vkf_model_net_rest(m->net);
  vkf_env_log(env, VKF_LOG_INFO, "%s: weights take %.3f MB on the device (%s)", vkf_file_source_name(files),
              (double)dev->backend->table->weights_bytes(m->weights) / 1e6,
              m->weight_format < VKF_FORMAT_COUNT ? vkf_format_get(m->weight_format)->name : "auto");
  for (size_t i = 0; i < vkf_model_net_info(m->net)->n_unused; i++)
    vkf_env_log(env, VKF_LOG_INFO, "%s: tensor %s is not used", vkf_file_source_name(files),
                vkf_model_net_info(m->net)->unused[i]);
done:
  if (st) destroy(&m);
  *out = m;
  return st;
}

vkf_status vkf_model_open(vkf_device *dev, const char *folder, vkf_model **out) {
  return open_model(dev, &(vkf_file_source){.folder = folder}, NULL, out);
}

vkf_status vkf_model_open_with(vkf_device *dev, const char *folder, const vkf_model_params *params, vkf_model **out) {
  return open_model(dev, &(vkf_file_source){.folder = folder}, params, out);
}

vkf_status vkf_model_open_memory(vkf_device *dev, const vkf_memory_file *files, size_t n,
                                 const vkf_model_params *params, vkf_model **out) {
  return open_model(dev, &(vkf_file_source){.files = files, .n = n}, params, out);
}

void vkf_model_close(vkf_model **model) {
  if (model && *model && !vkf_env_refuses((*model)->env, "vkf_model_close")) destroy(model);
}

vkf_status vkf_model_make_folder(vkf_context *ctx, const char *config_path, const char *folder,
                                 const vkf_make_params *params) {
  if (!ctx) return VKF_ERROR_ARGUMENT;
  vkf_make_params p;
  if (vkf_env_refuses(&ctx->env, "vkf_model_make_folder")) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(&ctx->env);
  if (!config_path || !folder)
    return vkf_env_fail(&ctx->env, VKF_ERROR_ARGUMENT, "expected a config.json and a folder, found NULL");
  VKF_CALL(VKF_PARAMS_READ(&ctx->env, vkf_make_params, params, &p));
  return vkf_model_folder_make(&ctx->env, config_path, folder, &p);
}

vkf_status vkf_model_get_info(const vkf_model *m, vkf_model_info *out) {
  if (!m) return VKF_ERROR_ARGUMENT;
  if (!out) return vkf_engine_null(m->env, "out");
  const vkf_net_info *info = vkf_model_net_info(m->net);
  const vkf_model_info full = {VKF_MODEL_INFO_INIT,
                               .family = info->family,
                               .architecture = info->architecture,
                               .d_model = info->d_model,
                               .n_heads = info->n_heads,
                               .d_ff = info->d_ff,
                               .vocab = info->vocab,
                               .encoder_layers = info->encoder_layers,
                               .decoder_layers = info->decoder_layers,
                               .max_positions = info->max_positions,
                               .n_parameters = info->n_parameters,
                               .file_bytes = info->file_bytes,
                               .device_bytes = m->dev->backend->table->weights_bytes(m->weights),
                               .weights = vkf_engine_storage_of(m->weight_format),
                               .kv_cache = vkf_engine_storage_of(m->cache_format),
                               .has_tokenizer = m->tokenizer.text != NULL,
                               .can_generate = info->can_generate,
                               .n_unused = info->n_unused,
                               .image = {info->image[0], info->image[1], info->image[2]},
                               .n_labels = info->is_pooled ? info->target_vocab : 0};
  vkf_env_clear(m->env);
  return VKF_INFO_WRITE(m->env, vkf_model_info, &full, out);
}

vkf_status vkf_model_get_attention(const vkf_model *m, vkf_attention_kind kind, size_t layer, vkf_attention_info *out) {
  if (!m) return VKF_ERROR_ARGUMENT;
  if (!out) return vkf_engine_null(m->env, "out");
  vkf_attention_info full = {VKF_ATTENTION_INFO_INIT};
  vkf_env_clear(m->env);
  if (!vkf_model_net_attention(m->net, kind, layer, &full))
    return vkf_env_fail(m->env, VKF_ERROR_ARGUMENT,
                        "expected an attention that the model has, found layer %zu of kind %d", layer, (int)kind);
  return VKF_INFO_WRITE(m->env, vkf_attention_info, &full, out);
}

const char *vkf_model_unused_tensor(const vkf_model *m, size_t i) {
  if (!m) return NULL;
  const vkf_net_info *info = vkf_model_net_info(m->net);
  return i < info->n_unused ? info->unused[i] : NULL;
}
