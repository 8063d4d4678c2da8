#include "tune/problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vkop/vkop.h"

#define MAX_NUMBER (1ul << 24)

static vkf_params matmul(const uint32_t *n) {
  return (vkf_params){.matmul = {.rows = VKF_DIM_R, .n = n[1], .k = n[2]}};
}

static vkf_params attention(const uint32_t *n) {
  return (vkf_params){.attention = {.seqs = VKF_DIM_R,
                                    .queries = VKF_DIM_T,
                                    .keys = VKF_DIM_S,
                                    .past = VKF_DIM_ZERO,
                                    .shared = VKF_DIM_ONE,
                                    .n_heads = n[2],
                                    .n_kv_heads = n[2],
                                    .key_width = n[3],
                                    .value_width = n[3],
                                    .scale = (float)(1 / sqrt((double)n[3]))}};
}

static vkf_params norm(const uint32_t *n) {
  return (vkf_params){.norm = {.rows = VKF_DIM_R, .width = n[1], .kind = VKF_NORM_LAYER, .eps = 1e-5f}};
}
static vkf_params log_softmax(const uint32_t *n) {
  return (vkf_params){.log_softmax = {VKF_DIM_R, n[1]}};
}
static vkf_params top_k(const uint32_t *n) {
  return (vkf_params){.top_k = {VKF_DIM_R, n[1], n[2]}};
}

static const struct {
  vkf_op op;
  uint32_t n_numbers;
  const char *form;
  bool has_format;
  vkf_params (*params)(const uint32_t *numbers);
  uint32_t inputs; /* optional inputs that are present */
} forms[] = {
    {VKF_OP_MATMUL, 3, "matmul:M,N,K[,FORMAT]", true, matmul, 1u << VKF_MATMUL_BIAS},
    {VKF_OP_ATTENTION, 4, "attention:QUERIES,KEYS,HEADS,WIDTH[,FORMAT]", true, attention, 0},
    {VKF_OP_NORM, 2, "norm:ROWS,WIDTH", false, norm, 1u << VKF_NORM_WEIGHT | 1u << VKF_NORM_BIAS},
    {VKF_OP_LOG_SOFTMAX, 2, "log_softmax:ROWS,WIDTH", false, log_softmax, 0},
    {VKF_OP_TOP_K, 3, "top_k:ROWS,WIDTH,K", false, top_k, 0},
};

uint32_t vkf_tune_problem_numbers(const char *text, uint32_t numbers[VKF_PROBLEM_NUMBERS], vkf_format *format) {
  uint32_t n = 0;
  for (;;) {
    char *end = NULL;
    const vkf_format found = vkf_format_find(text);
    if (n && format && found < VKF_FORMAT_COUNT) {
      *format = found;
      return n;
    }
    if (n == VKF_PROBLEM_NUMBERS || *text < '1' || *text > '9') return 0;
    unsigned long value = strtoul(text, &end, 10);
    if (value > MAX_NUMBER) return 0;
    numbers[n++] = (uint32_t)value;
    if (!*end) return n;
    if (*end != ',') return 0;
    text = end + 1;
  }
}

static vkf_status bad_problem(vkf_env *env, const char *text) {
  vkf_text list;
  vkf_status st;
  vkf_text_init(&list, env);
  for (size_t i = 0; i < VKF_COUNT(forms); i++) vkf_text_printf(&list, "%s%s", i ? ", " : "", forms[i].form);
  st = vkf_env_fail(env, VKF_ERROR_ARGUMENT, "expected a problem of the form %s, with numbers from 1 to %lu, found %s",
                    list.data ? list.data : "", MAX_NUMBER, text ? text : "NULL");
  vkf_text_finish(&list);
  return st;
}

vkf_status vkf_tune_problem_parse(vkf_env *env, const char *text, vkf_case *out) {
  for (size_t i = 0; text && i < VKF_COUNT(forms); i++) {
    uint32_t n[VKF_PROBLEM_NUMBERS];
    size_t name = strlen(vkf_op_name(forms[i].op));
    if (strncmp(text, vkf_op_name(forms[i].op), name) || text[name] != ':') continue;
    vkf_format format = VKF_FORMAT_F32;
    if (vkf_tune_problem_numbers(text + name + 1, n, forms[i].has_format ? &format : NULL) != forms[i].n_numbers) break;
    vkf_sizes sizes = {.B = 1, .S = 1, .R = n[0], .T = 1, .out = 1};
    if (forms[i].op == VKF_OP_ATTENTION) sizes = (vkf_sizes){.B = 1, .S = n[1], .R = 1, .T = n[0], .out = 1};
    *out = (vkf_case){.name = text,
                      .op = forms[i].op,
                      .params = forms[i].params(n),
                      .sizes = sizes,
                      .inputs = forms[i].inputs,
                      .format = format,
                      .seed = 1};
    return VKF_OK;
  }
  return bad_problem(env, text);
}

void vkf_tune_problem_of(const vkf_case *c, const vkf_caps *caps, vkf_tune_mode mode, const vkf_tuned *tuned,
                         const vkf_variant *variant, vkf_problem *out) {
  const vkf_dims dims = vkf_dims_make(&c->sizes);
  const vkf_node node = {.op = c->op, .params = c->params};
  vkf_vkop_node_problem(NULL, &node, &dims, out); /* the ops of `forms` need no plan */
  out->order = vkf_kern_order(caps, mode.batch_invariant || mode.reproducible);
  out->reproducible = mode.reproducible;
  if (c->op == VKF_OP_MATMUL)
    out->packing = vkf_kern_weight_packing(caps, tuned, out->matmul.n, out->matmul.k, c->format, variant);
  else
    out->packing.format = c->format;
}

bool vkf_tune_problem_has_form(vkf_op op) {
  for (size_t i = 0; i < VKF_COUNT(forms); i++)
    if (forms[i].op == op) return true;
  return false;
}

bool vkf_tune_problem_text(const vkf_problem *p, char *text, size_t size) {
  const char *op = vkf_op_name(p->op), *comma = p->packing.format ? "," : "",
             *format = p->packing.format ? vkf_format_get(p->packing.format)->name : "";
  switch (p->op) {
    case VKF_OP_MATMUL:
      snprintf(text, size, "%s:%u,%u,%u%s%s", op, p->matmul.m, p->matmul.n, p->matmul.k, comma, format);
      return true;
    case VKF_OP_ATTENTION:
      snprintf(text, size, "%s:%u,%u,%u,%u%s%s", op, p->attention.queries, p->attention.keys,
               p->attention.heads * p->attention.batch, p->attention.key_width, comma, format);
      return p->attention.key_width == p->attention.value_width;
    case VKF_OP_NORM:
      snprintf(text, size, "%s:%u,%u", op, p->rows.rows, p->rows.width);
      return p->norm.width == p->norm.whole_width; /* norms of parts of a row have no form */
    case VKF_OP_LOG_SOFTMAX:
      snprintf(text, size, "%s:%u,%u", op, p->rows.rows, p->rows.width);
      return true;
    case VKF_OP_TOP_K:
      snprintf(text, size, "%s:%u,%u,%u", op, p->top_k.rows, p->top_k.width, p->top_k.k);
      return true;
    default:
      return false;
  }
}
