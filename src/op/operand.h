/* The parts of shape rules; for the files shape*.c only. */
#ifndef VKF_OP_OPERAND_H
#define VKF_OP_OPERAND_H

#include "op/backend.h"
#include "op/shape.h"
#include "shared/constants.h"

static inline vkf_extent fixed(uint32_t n) {
  return (vkf_extent){VKF_DIM_ONE, n};
}

/* Returns first + n * width, or UINT32_MAX, which no operand has, if that is larger. */
static inline uint32_t reach(uint32_t first, uint32_t n, uint32_t width) {
  uint64_t end = first + (uint64_t)n * width;
  return end < UINT32_MAX ? (uint32_t)end : UINT32_MAX;
}

static inline vkf_extent along(vkf_dim dim, const vkf_dims *cap) {
  return (vkf_extent){dim, cap->v[dim]};
}

static inline vkf_operand_shape vector(const char *name, vkf_dtype dtype, vkf_extent n) {
  return (vkf_operand_shape){.name = name, .dtype = dtype, .rank = 1, .extent = {n}};
}

static inline vkf_operand_shape matrix(const char *name, vkf_dtype dtype, vkf_extent n, vkf_extent m) {
  return (vkf_operand_shape){.name = name, .dtype = dtype, .rank = 2, .extent = {n, m}};
}

static inline vkf_operand_shape weight(vkf_operand_shape shape, uint32_t use) {
  shape.weight_use = use | VKF_WEIGHT_OPERAND;
  return shape;
}

static inline vkf_operand_shape stored(vkf_operand_shape shape) {
  shape.stored = true;
  return shape;
}

static inline vkf_operand_shape optional(vkf_operand_shape shape) {
  shape.optional = true;
  return shape;
}

static inline vkf_operand_shape loose(vkf_operand_shape shape) {
  shape.loose = true;
  return shape;
}

static inline vkf_operand_shape spans(vkf_extent seqs) {
  return matrix("spans", VKF_I32, seqs, fixed(VKF_SPAN_FIELDS));
}

static inline vkf_status positive(vkf_env *env, const char *node, const char *what, uint32_t value) {
  if (value > 0) return VKF_OK;
  return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s: expected a positive %s, found 0", node, what);
}

#endif
