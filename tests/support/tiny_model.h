/* A whole encoder-decoder of the transformer format, small enough to be opened thousands of times.
 *
 * Through the public interface only. Widths are 8, there is one layer on each side, the vocabulary has 16 ids.
 */
#ifndef VKF_TESTS_SUPPORT_TINY_MODEL_H
#define VKF_TESTS_SUPPORT_TINY_MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vkformer/vkformer.h>

#include "support/folder.h"

enum { TINY_WIDTH = 8, TINY_VOCAB = 16, TINY_TENSORS = 31, TINY_NUMBERS = 3 * TINY_WIDTH * TINY_WIDTH };

static const char tiny_config[] =
    "{\"model_type\": \"transformer\", \"vocab_size\": 16, \"d_model\": 8, \"nhead\": 2, \"num_encoder_layers\": 1,\n"
    " \"num_decoder_layers\": 1, \"dim_feedforward\": 8, \"activation\": \"relu\", \"norm_first\": false,\n"
    " \"bos_token_id\": 1, \"eos_token_id\": 2, \"pad_token_id\": 0, \"tie_word_embeddings\": true}\n";

typedef struct tiny_tensors {
  vkf_array arrays[TINY_TENSORS];
  char names[TINY_TENSORS][80];
  float data[TINY_TENSORS][TINY_NUMBERS];
  size_t n;
} tiny_tensors;

/* Adds a tensor (columns 0: a vector) of numbers between -0.5 and 0.5; the scales of norms are 1. */
static inline void tiny_add(tiny_tensors *t, const char *prefix, const char *name, size_t rows, size_t columns) {
  size_t i = t->n++, n = rows * (columns ? columns : 1);
  snprintf(t->names[i], sizeof t->names[i], "%s%s", prefix, name);
  t->arrays[i] = (vkf_array){
      .name = t->names[i], .dtype = VKF_F32, .rank = columns ? 2 : 1, .shape = {rows, columns}, .data = t->data[i]};
  int is_scale = !strncmp(name, "norm", 4) && strstr(name, "weight") != NULL;
  for (size_t k = 0; k < n; k++) t->data[i][k] = is_scale ? 1 : (float)((i * 7919 + k * 104729) % 1009) / 1009 - 0.5f;
}

static inline void tiny_linear(tiny_tensors *t, const char *prefix, const char *stem, size_t rows) {
  char name[48];
  const char *dot = strstr(stem, "in_proj") ? "_" : ".";
  snprintf(name, sizeof name, "%s%sweight", stem, dot);
  tiny_add(t, prefix, name, rows, TINY_WIDTH);
  snprintf(name, sizeof name, "%s%sbias", stem, dot);
  tiny_add(t, prefix, name, rows, 0);
}

static inline void tiny_layer(tiny_tensors *t, const char *prefix, int has_cross) {
  static const char *const norms[] = {"norm1.weight", "norm1.bias",   "norm2.weight",
                                      "norm2.bias",   "norm3.weight", "norm3.bias"};
  tiny_linear(t, prefix, "self_attn.in_proj", 3 * TINY_WIDTH);
  tiny_linear(t, prefix, "self_attn.out_proj", TINY_WIDTH);
  if (has_cross) tiny_linear(t, prefix, "multihead_attn.in_proj", 3 * TINY_WIDTH);
  if (has_cross) tiny_linear(t, prefix, "multihead_attn.out_proj", TINY_WIDTH);
  tiny_linear(t, prefix, "linear1", TINY_WIDTH);
  tiny_linear(t, prefix, "linear2", TINY_WIDTH);
  for (int i = 0; i < (has_cross ? 6 : 4); i++) tiny_add(t, prefix, norms[i], TINY_WIDTH, 0);
}

static inline void tiny_tensors_init(tiny_tensors *t) {
  t->n = 0;
  tiny_add(t, "", "embed.weight", TINY_VOCAB, TINY_WIDTH);
  tiny_layer(t, "core.encoder.layers.0.", 0);
  tiny_layer(t, "core.decoder.layers.0.", 1);
}

/* Writes these bytes to FOLDER/NAME; returns 0 if that fails. */
static inline int tiny_put(const char *folder, const char *name, const void *data, size_t size) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  if (file == NULL) return 0;
  size_t n = size ? fwrite(data, 1, size, file) : 0;
  return fclose(file) == 0 && n == size;
}

/* Writes FOLDER/model.safetensors. The folder must exist. */
static inline vkf_status tiny_put_tensors(vkf_context *context, const char *folder, const tiny_tensors *t) {
  char path[512];
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  return vkf_arrays_write(context, path, t->arrays, t->n);
}

/* Makes a folder with the model; `folder` is a template for mkdtemp. Returns 0, or -1. */
static inline int tiny_folder_make(char *folder) {
  static tiny_tensors tensors;
  vkf_context *context = NULL;
  if (!mkdtemp(folder) || vkf_context_create(NULL, &context) != VKF_OK) return -1;
  tiny_tensors_init(&tensors);
  vkf_status st = tiny_put_tensors(context, folder, &tensors);
  vkf_context_destroy(&context);
  return st == VKF_OK && tiny_put(folder, "config.json", tiny_config, strlen(tiny_config)) ? 0 : -1;
}

static inline int tiny_folder_remove(const char *folder) {
  return folder_remove(folder, "config.json", "model.safetensors");
}

#endif
