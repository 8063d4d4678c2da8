/* matmul: out = act(scale x w^T + bias) + residual, or pairs of columns gated; x is rounded first if the weight is in
 * q8 (ref/q8.h). */
#include "ref/reproducible.h"
#include "ref/internal.h"
#include "ref/q8.h"

/* Returns whether all numbers are multiples of 1/2 up to `most`: then products are multiples of 1/4, and a sum below
 * 2^22 is exact in any order. */
static bool all_halves(const vkf_view *view, uint32_t rows, uint32_t width, float most) {
  for (uint32_t r = 0; r < rows; r++) {
    const float *row = vkf_ref_row(view, r);
    for (uint32_t i = 0; i < width; i++) {
      if (!(fabsf(row[i]) <= most) || floorf(2 * row[i]) != 2 * row[i]) return false;
    }
  }
  return true;
}

/* Four accumulators, so that the processor need not wait for each addition; double has 29 bits to spare. */
static double dot(const float *restrict x, const float *restrict w, uint32_t k) {
  double sum[4] = {0};
  uint32_t i = 0;
  for (; i + 4 <= k; i += 4) {
    sum[0] += (double)x[i] * w[i];
    sum[1] += (double)x[i + 1] * w[i + 1];
    sum[2] += (double)x[i + 2] * w[i + 2];
    sum[3] += (double)x[i + 3] * w[i + 3];
  }
  for (; i < k; i++) sum[0] += (double)x[i] * w[i];
  return sum[0] + sum[1] + (sum[2] + sum[3]);
}

/* What the bound of a sum of products depends on, with x as the kernel has it. */
typedef struct products {
  double magnitude; /* sum |x||w| */
  double path;      /* sum of |partial sum| after each step */
  double ends;      /* sum of |partial sum| at the end */
  double lost;      /* by rounding x to f16 */
} products;

/* Partial sum q of n takes `together` products from q * together on, then those that are n * together further on. A
 * step adds at_once of them. */
static void add_partial_sum(const float *x, const float *w, uint32_t k, const vkf_rounding *r, uint32_t q,
                            products *out) {
  const uint64_t n = VKF_MAX(r->n_partial, 1u), together = n > 1 ? VKF_MAX(r->together, 1u) : k;
  const uint32_t step = VKF_MAX(r->at_once, 1u);
  double sum = 0, magnitude = 0, path = 0;
  for (uint64_t from = q * together; from < k; from += n * together) {
    const uint64_t end = VKF_MIN(from + together, (uint64_t)k);
    uint32_t taken = 0;
    for (uint64_t i = from; i < end; i++) {
      const double product = (double)x[i] * w[i];
      sum += product;
      magnitude += fabs(product);
      if (++taken < step && i + 1 < end) continue;
      path += fabs(sum);
      taken = 0;
    }
  }
  if (step == 1 && q * together < k) path -= fabs((double)x[q * together] * w[q * together]); /* adding to 0 is exact */
  out->magnitude += magnitude;
  out->path += path;
  out->ends += fabs(sum);
}

/* x: k numbers as the kernel has them. */
static void add_products(const float *x, const float *w, uint32_t k, const vkf_rounding *r, products *out) {
  for (uint32_t q = 0; q < VKF_MAX(r->n_partial, 1u); q++) add_partial_sum(x, w, k, r, q, out);
}

/* Fills `rounded` with x in f16. Returns what a sum of products loses by that: the rounding, which is known, and all of
 * a product with a factor below the normal numbers of f16, which a device may take as 0. If rows have scales, the
 * factor from w is a whole number. */
static double lost_in_f16(const float *x, const float *w, uint32_t k, bool scaled_rows, float *rounded) {
  double off = 0, gone = 0;
  for (uint32_t i = 0; i < k; i++) {
    const bool normal = fabsf(x[i]) >= 0x1p-14f && (scaled_rows ? w[i] != 0 : fabsf(w[i]) >= 0x1p-14f);
    rounded[i] = normal ? vkf_ref_halved(x[i]) : x[i];
    off += ((double)rounded[i] - (double)x[i]) * w[i];
    if (!normal) gone += fabs((double)x[i] * w[i]);
  }
  return fabs(off) + gone;
}

static double largest_of(const float *row, uint32_t n) {
  double largest = 0;
  for (uint32_t i = 0; i < n; i++) largest = VKF_MAX(largest, fabs((double)row[i]));
  return largest;
}

/* Bounds the error of act's argument, scale x dot + bias, without underflow. */
static double sum_error(const vkf_call *call, double dot, double bias, const products *of) {
  const vkf_matmul_params *p = &call->params->matmul;
  const vkf_rounding *r = call->rounding;
  const double scale = p->scale == 0 ? 1 : fabs((double)p->scale), behind = (p->scale == 0 ? 2 : 3) + r->scaled_rows;
  const double lost = scale * of->lost, magnitude = scale * of->magnitude + bias + lost, u = r->u;
  const double any_order = lost + vkf_ref_gamma(vkf_ref_depth(r, p->k) + behind, u) * magnitude;
  const uint32_t n = VKF_MAX(r->n_partial, 1u), step = VKF_MAX(r->at_once, 1u);
  const double steps = VKF_CEIL_DIV(VKF_ROUND_UP(VKF_CEIL_DIV(p->k, n), VKF_MAX(r->together, 1u)), step);
  const bool rounds_within = step > 1 && !r->exact_steps;
  const double each = vkf_ref_gamma(rounds_within ? step : 1, u);
  const double products_of = rounds_within ? vkf_ref_gamma(step + 1, u) : u;
  if (steps * each >= 1) return any_order;
  const double own = p->k * 0x1p-52 * (of->magnitude + of->lost); /* of the sums in double here */
  const double path = of->path + n * steps * of->lost;
  const double parts = (products_of * of->magnitude + each * path) / (1 - steps * each) + own;
  const double running = scale * (parts + of->lost + vkf_ref_gamma(n - 1, u) * (of->ends + of->lost + parts));
  const double in_steps = running + vkf_ref_gamma(behind, u) * (scale * fabs(dot) + running + bias);
  return in_steps < any_order ? in_steps : any_order; /* this one, too, where a sum is NaN */
}

/* Returns scale x dot + bias for row n of w. */
static float reproducible_sum(const vkf_call *call, const float *x, uint32_t n) {
  const vkf_matmul_params *p = &call->params->matmul;
  const float *bias = call->in[VKF_MATMUL_BIAS].data;
  const float y = mul(reproducible_dot(x, vkf_ref_row(&call->in[VKF_MATMUL_W], n), p->k),
                      p->scale == 0 ? 1 : vkf_reproducible_flush(p->scale));
  return bias ? y + bias[n] : y;
}

/* Returns an element in column n of the result; residual: NULL, or the element that is added. */
static float reproducible_element(const vkf_call *call, const float *x, uint32_t n, const float *residual) {
  const vkf_matmul_params *p = &call->params->matmul;
  if (p->is_gated)
    return mul(activate(p->activation, reproducible_sum(call, x, 2 * n)), reproducible_sum(call, x, 2 * n + 1));
  const float y = activate(p->activation, reproducible_sum(call, x, n));
  return residual ? y + *residual : y;
}

/* What the columns of a call share. */
typedef struct product {
  const vkf_call *call;
  const vkf_view *x; /* as the kernel has it */
  bool halves;       /* see all_halves() */
  float *rounded;    /* [threads][k]: a row of x in f16, or NULL */
} product;

/* A row of w, as every row of x reads it. */
typedef struct column {
  const float *w;
  double bias;
  double largest; /* of |w|, which is no smaller than the scale of its row; 0 without scales of rows */
} column;

static column column_of(const vkf_call *call, uint32_t n) {
  const float *bias = call->in[VKF_MATMUL_BIAS].data;
  column c = {.w = vkf_ref_row(&call->in[VKF_MATMUL_W], n), .bias = bias ? (double)bias[n] : 0};
  if (vkf_ref_wants_bounds(call) && call->rounding->scaled_rows) c.largest = largest_of(c.w, call->params->matmul.k);
  return c;
}

/* scale x dot + bias. The other fields are set if bounds are wanted. */
typedef struct argument {
  double value;
  double error;     /* |computed - value| at most */
  double magnitude; /* the largest intermediate result */
  bool exact;       /* value is computed exactly */
} argument;

static argument argument_of(const product *of, float *rounded, const float *x, const column *c) {
  const vkf_call *call = of->call;
  const vkf_matmul_params *p = &call->params->matmul;
  const vkf_rounding *r = call->rounding;
  const double scale = p->scale == 0 ? 1 : (double)p->scale, all = dot(x, c->w, p->k), bias = fabs(c->bias);
  argument a = {.value = scale * all + c->bias};
  if (!vkf_ref_wants_bounds(call)) return a;
  products terms = {0};
  if (rounded) terms.lost = lost_in_f16(x, c->w, p->k, r->scaled_rows, rounded);
  add_products(rounded ? rounded : x, c->w, p->k, r, &terms);
  a.exact = of->halves && terms.magnitude + bias < 0x1p22 && p->scale == 0;
  const double tiny = (p->k + 2) * (1 + fabs((double)p->scale)) * (1 + c->largest) * r->tiny;
  a.error = a.exact ? 0 : sum_error(call, all, bias, &terms) + tiny;
  const double last = VKF_MIN(fabs(scale), 1) * (c->largest > 0 ? VKF_MIN(c->largest / 127, 1) : 1); /* later factors */
  a.magnitude = (fabs(scale) * terms.magnitude + bias) / last;
  return a;
}

/* Returns act(argument) + residual (NULL: none). Sets *bound if bounds are wanted. */
static double added(const vkf_call *call, const argument *a, const float *residual, double *bound) {
  const vkf_activation activation = call->params->matmul.activation;
  const vkf_rounding *r = call->rounding;
  const double result = vkf_ref_activate(activation, a->value) + (residual ? (double)*residual : 0);
  if (!vkf_ref_wants_bounds(call)) return result;
  *bound = vkf_ref_activate_bound(activation, a->value, a->error, r);
  if (residual && !(a->exact && *bound == 0 && floor(4 * result) == 4 * result && fabs(result) < 0x1p22))
    *bound += r->u * (fabs(result) + *bound) + r->tiny;
  *bound = vkf_ref_unless_overflow(a->magnitude, *bound);
  return result;
}

/* Returns act(gate) * up. Sets *bound if bounds are wanted. */
static double gated(const vkf_call *call, const argument *gate, const argument *up, double *bound) {
  const vkf_activation activation = call->params->matmul.activation;
  const vkf_rounding *r = call->rounding;
  const double act = vkf_ref_activate(activation, gate->value), result = act * up->value;
  if (!vkf_ref_wants_bounds(call)) return result;
  const double act_error = vkf_ref_activate_bound(activation, gate->value, gate->error, r);
  *bound = fabs(act) * up->error + act_error * (fabs(up->value) + up->error);
  *bound += r->u * (fabs(result) + *bound) + r->tiny;
  const double largest = VKF_MAX(VKF_MAX(gate->magnitude, up->magnitude), fabs(result) + *bound);
  *bound = vkf_ref_unless_overflow(largest, *bound);
  return result;
}

/* Computes column `part` of the result: its rows of w are read once, the rows of x stay in the cache. */
static void compute_column(void *user, uint32_t thread, size_t part) {
  const product *of = user;
  const vkf_call *call = of->call;
  const vkf_matmul_params *p = &call->params->matmul;
  const vkf_view *residuals = &call->in[VKF_MATMUL_RESIDUAL];
  const uint32_t n = (uint32_t)part, rows = call->dims->v[p->rows];
  const column first = column_of(call, p->is_gated ? 2 * n : n),
               second = p->is_gated ? column_of(call, 2 * n + 1) : first;
  float *rounded = of->rounded ? of->rounded + (size_t)thread * p->k : NULL;
  for (uint32_t m = 0; m < rows; m++) {
    const float *x = vkf_ref_row(of->x, m), *residual = residuals->data ? vkf_ref_row(residuals, m) + n : NULL;
    const size_t to = m * call->out[0].stride[0] + n;
    double result, bound = 0;
    if (call->reproducible) {
      vkf_ref_store_same(call, 0, to, reproducible_element(call, x, n, residual));
      continue;
    }
    const argument a = argument_of(of, rounded, x, &first);
    if (p->is_gated) {
      const argument up = argument_of(of, rounded, x, &second);
      result = gated(call, &a, &up, &bound);
    } else {
      result = added(call, &a, residual, &bound);
    }
    vkf_ref_store(call, 0, to, result, bound);
  }
}

/* Bounds take many times as long as results, and the caller waits for them, so several cores compute large ones. */
static uint32_t threads_for(const vkf_call *call, uint32_t rows) {
  const vkf_matmul_params *p = &call->params->matmul;
  const bool is_large = (uint64_t)rows * p->n * p->k >= 1u << 24;
  return is_large && vkf_ref_wants_bounds(call) ? VKF_MIN(vkf_cores(), (uint32_t)VKF_MAX_THREADS) : 1;
}

vkf_status vkf_ref_matmul(vkf_env *env, const vkf_call *call) {
  const vkf_matmul_params *p = &call->params->matmul;
  const vkf_view *w = &call->in[VKF_MATMUL_W], *x = &call->in[VKF_MATMUL_X];
  const float *bias = call->in[VKF_MATMUL_BIAS].data;
  const uint32_t rows = call->dims->v[p->rows], threads = threads_for(call, rows);
  const bool wants_bounds = vkf_ref_wants_bounds(call), x_f16 = wants_bounds && call->rounding->x_f16;
  product of = {.call = call, .x = x};
  vkf_view in_q8 = {0};
  vkf_status st = VKF_OK;
  if (x_f16) {
    of.rounded = vkf_env_alloc(env, (size_t)threads * VKF_MAX(p->k, 1u), sizeof *of.rounded);
    if (!of.rounded) VKF_TRY(VKF_ERROR_MEMORY);
  }
  if (vkf_format_get(w->format)->q8) {
    VKF_TRY(vkf_ref_q8_rows(env, x, rows, p->k, &in_q8));
    of.x = &in_q8;
  }
  of.halves = wants_bounds && all_halves(of.x, rows, p->k, x_f16 ? 0x1p10f : 0x1p20f) &&
              all_halves(w, p->n, p->k, 0x1p20f) &&
              (!bias || all_halves(&(vkf_view){.data = (void *)bias}, 1, p->n, 0x1p20f));
  vkf_parallel(vkf_matmul_width(p), threads, compute_column, &of);
done:
  vkf_env_free(env, in_q8.data);
  vkf_env_free(env, of.rounded);
  return st;
}
