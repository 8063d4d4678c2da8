/* matmul: out = act(scale x w^T + bias) + residual, where x is rounded first if the weight is in q8 (ref/q8.h). */
#include "ref/reproducible.h"
#include "ref/internal.h"
#include "ref/q8.h"

/* Multiples of 1/2 up to `most`: their products are multiples of 1/4, so a sum below 2^22 is exact in any order. */
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

/* What the bound of a sum of products depends on, x as the kernel has it. */
typedef struct products {
  double magnitude; /* sum |x||w| */
  double path;      /* sum of |partial sum| behind each step */
  double ends;      /* sum of |partial sum| in the end */
  double lost;      /* by rounding x to f16 */
  double largest;   /* of |w|, which is no smaller than the scale of its row; 0 without scales of rows */
} products;

/* Partial sum q of n takes `together` products from q * together on, then those n * together further on. A step adds
 * at_once of them. */
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
 * a product where a factor is below the normal numbers of f16, which a device may take as 0. Where rows have scales the
 * factor is a whole number. */
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

/* The error of act's argument, scale x dot + bias, without what underflows. */
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

/* |computed - exact| of act(sum) + residual, sum = scale x dot + bias; bias: |bias|. */
static double element_bound(const vkf_call *call, bool halves, double sum, double dot, double bias, const products *of,
                            double result, bool residual) {
  const vkf_matmul_params *p = &call->params->matmul;
  const vkf_rounding *r = call->rounding;
  bool exact = halves && of->magnitude + bias < 0x1p22 && p->scale == 0;
  double tiny = (p->k + 2) * (1 + fabs((double)p->scale)) * (1 + of->largest) * r->tiny;
  double error = exact ? 0 : sum_error(call, dot, bias, of) + tiny;
  double bound = vkf_ref_activate_bound(p->activation, sum, error, r);
  if (residual && !(exact && bound == 0 && floor(4 * result) == 4 * result && fabs(result) < 0x1p22))
    bound += r->u * (fabs(result) + bound) + r->tiny;
  return bound;
}

static float reproducible_element(const vkf_call *call, const float *x, uint32_t n, const float *residual) {
  const vkf_matmul_params *p = &call->params->matmul;
  const float *bias = call->in[VKF_MATMUL_BIAS].data;
  float y = mul(reproducible_dot(x, vkf_ref_row(&call->in[VKF_MATMUL_W], n), p->k),
                p->scale == 0 ? 1 : vkf_reproducible_flush(p->scale));
  if (bias) y += bias[n];
  y = activate(p->activation, y);
  return residual ? y + residual[n] : y;
}

/* A call as its columns share it. */
typedef struct product {
  const vkf_call *call;
  const vkf_view *x; /* as the kernel has it */
  bool halves;       /* see all_halves() */
  float *rounded;    /* [threads][k]: a row of x in f16, or NULL */
} product;

static void compute_element(const product *of, float *rounded, uint32_t m, uint32_t n, double largest) {
  const vkf_call *call = of->call;
  const vkf_matmul_params *p = &call->params->matmul;
  const float *bias = call->in[VKF_MATMUL_BIAS].data, *x = vkf_ref_row(of->x, m);
  const float *w = vkf_ref_row(&call->in[VKF_MATMUL_W], n);
  const vkf_view *residual = &call->in[VKF_MATMUL_RESIDUAL], *out = &call->out[0];
  const double scale = p->scale == 0 ? 1 : (double)p->scale;
  const double all = dot(x, w, p->k), sum = scale * all + (bias ? (double)bias[n] : 0);
  double result = vkf_ref_activate(p->activation, sum), bound = 0;
  if (residual->data) result += (double)vkf_ref_row(residual, m)[n];
  if (vkf_ref_wants_bounds(call)) {
    const double of_bias = bias ? fabs((double)bias[n]) : 0;
    products terms = {.largest = largest};
    if (rounded) terms.lost = lost_in_f16(x, w, p->k, call->rounding->scaled_rows, rounded);
    add_products(rounded ? rounded : x, w, p->k, call->rounding, &terms);
    bound = element_bound(call, of->halves, sum, all, of_bias, &terms, result, residual->data != NULL);
    double last = VKF_MIN(fabs(scale), 1) * (largest > 0 ? VKF_MIN(largest / 127, 1) : 1); /* factors of the sum */
    bound = vkf_ref_unless_overflow((fabs(scale) * terms.magnitude + of_bias) / last, bound);
  }
  vkf_ref_store(call, 0, m * out->stride[0] + n, result, bound);
}

/* A part is a column: a row of w is read once, the rows of x stay in the cache. */
static void compute_column(void *user, uint32_t thread, size_t part) {
  const product *of = user;
  const vkf_call *call = of->call;
  const vkf_matmul_params *p = &call->params->matmul;
  const vkf_view *residual = &call->in[VKF_MATMUL_RESIDUAL];
  const uint32_t n = (uint32_t)part, rows = call->dims->v[p->rows];
  const bool scaled = vkf_ref_wants_bounds(call) && call->rounding->scaled_rows;
  const double largest = scaled ? largest_of(vkf_ref_row(&call->in[VKF_MATMUL_W], n), p->k) : 0;
  for (uint32_t m = 0; m < rows; m++) {
    if (call->reproducible)
      vkf_ref_store_same(
          call, 0, m * call->out[0].stride[0] + n,
          reproducible_element(call, vkf_ref_row(of->x, m), n, residual->data ? vkf_ref_row(residual, m) : NULL));
    else
      compute_element(of, of->rounded ? of->rounded + (size_t)thread * p->k : NULL, m, n, largest);
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
  vkf_parallel(p->n, threads, compute_column, &of);
done:
  vkf_env_free(env, in_q8.data);
  vkf_env_free(env, of.rounded);
  return st;
}
