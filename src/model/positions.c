/* positions: sinusoidal tables (Vaswani et al. 2017, section 3.5) and position ids. */
#include <math.h>

#include "model/internal.h"

void vkf_model_sinusoids(vkf_model_position_kind kind, uint32_t n, uint32_t width, float *table) {
  bool is_stretched = kind == VKF_POSITION_STRETCHED; /* an odd last column stays 0 there */
  uint32_t n_sines = is_stretched ? width / 2 : VKF_CEIL_DIV(width, 2);
  uint32_t n_columns = is_stretched ? 2 * n_sines : width;
  for (uint32_t position = 0; position < n; position++) {
    float *row = table + (size_t)position * width;
    row[width - 1] = 0;
    for (uint32_t c = 0; c < n_columns; c++) {
      uint32_t pair = c / 2;
      double exponent = is_stretched ? pair / VKF_MAX(n_sines - 1.0, 1.0) : 2.0 * pair / width;
      double angle = position / pow(10000, exponent);
      bool is_cosine = c % 2 == 1;
      uint32_t column = kind == VKF_POSITION_INTERLEAVED ? c : pair + (is_cosine ? n_sines : 0);
      row[column] = (float)(is_cosine ? cos(angle) : sin(angle));
    }
  }
}

/* Returns the number of token t in its row, by the stack's rule; `past` tokens are cached. */
static int64_t number(const vkf_model_stack *stack, const vkf_model_tokens *tokens, size_t row, uint32_t t) {
  const int32_t *mask = tokens->mask != NULL ? tokens->mask + row * tokens->mask_stride : NULL;
  const int32_t *ids = tokens->ids != NULL ? tokens->ids + row * tokens->length : NULL; /* NULL for images */
  int64_t n = (int64_t)tokens->past + t;
  if (stack->position_ids == VKF_POSITION_IDS_NON_PADS) {
    const int32_t pad = (int32_t)stack->position_offset;
    if (ids[t] == pad) return 0;
    n = tokens->past;
    for (uint32_t i = 0; i <= t; i++) n += ids[i] != pad;
  } else if (mask != NULL && stack->position_ids == VKF_POSITION_IDS_UNMASKED) {
    uint32_t last = tokens->past + t;
    if (mask[last] == 0) return -1;
    n = -1;
    for (uint32_t i = 0; i <= last; i++) n += mask[i] != 0;
  }
  return n;
}

void vkf_model_positions(const vkf_net *net, const vkf_model_tokens *tokens, int32_t *out) {
  const vkf_model_stack *stack = tokens->stage == VKF_STAGE_DECODE ? &net->decoder : &net->encoder;
  for (size_t r = 0; r < tokens->rows; r++)
    for (uint32_t t = 0; t < tokens->length; t++)
      *out++ = (int32_t)VKF_MAX(number(stack, tokens, r, t) + (int64_t)stack->position_offset, 0);
}
