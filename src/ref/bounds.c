/* bounds: the parts of the references and of their bounds (docs/numerics.md). */
#include "ref/internal.h"

#include "shared/math.h"

double vkf_ref_gamma(double n, double u) {
  return n * u < 1 ? n * u / (1 - n * u) : INFINITY;
}

double vkf_ref_depth(const vkf_rounding *r, uint64_t n) {
  uint64_t p = VKF_MAX(r->n_partial, 1u);
  uint64_t chain = VKF_ROUND_UP(VKF_CEIL_DIV(n, p), VKF_MAX(r->together, 1u)) + p - 1;
  return (double)VKF_MIN(n, chain);
}

/* One ulp of a result is at most 2 u of it. */
double vkf_ref_exp_error(const vkf_rounding *r, double x) {
  return 2 * r->u * (r->exp_ulp_base + r->exp_ulp_slope * fabs(x));
}

double vkf_ref_div_error(const vkf_rounding *r) {
  return 2 * r->u * r->div_ulp;
}

vkf_status vkf_ref_check_index(vkf_env *env, const vkf_call *call, const char *what, size_t row, int32_t index,
                               uint32_t n) {
  if (index >= 0 && (uint32_t)index < n) return VKF_OK;
  return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "node %s: %s %d of row %zu, expected 0 to %u", call->name, what, index,
                      row, n - 1);
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

static double logistic(double x) {
  return 1 / (1 + exp(-x));
}

/* Hendrycks and Gimpel 2016, Gaussian error linear units: x Phi(x), and its approximation by tanh; Ramachandran et al.
 * 2017, Searching for activation functions: x sigma(x); So et al. 2021, Primer: the square of ReLU. */
double vkf_ref_activate(vkf_activation act, double x) {
  switch (act) {
    case VKF_ACT_RELU:
      return x < 0 ? 0 : x; /* NaN stays */
    case VKF_ACT_GELU:
      return x * 0.5 * erfc(-x * 0.70710678118654752440);
    case VKF_ACT_GELU_TANH:
      return x * logistic(2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x));
    case VKF_ACT_SWISH:
      return x * logistic(x);
    case VKF_ACT_TANH:
      return tanh(x);
    case VKF_ACT_SIGMOID:
      return logistic(x);
    case VKF_ACT_QUICK_GELU:
      return x * logistic(1.702 * x);
    case VKF_ACT_RELU2:
      return x < 0 ? 0 : x * x;
    default:
      return x;
  }
}

/* Returns the largest slope of an activation, rounded up; not for RELU2, which has none. */
static double lipschitz(vkf_activation act) {
  switch (act) {
    case VKF_ACT_GELU:
    case VKF_ACT_GELU_TANH:
      return 1.13;
    case VKF_ACT_SWISH:
    case VKF_ACT_QUICK_GELU:
      return 1.1;
    case VKF_ACT_SIGMOID:
      return 0.25;
    default:
      return 1;
  }
}

/* Bounds the error of 1 / (1 + exp(-x)), computed with a clamped argument. */
static double logistic_bound(double x, const vkf_rounding *r) {
  return logistic(x) * (logistic(-x) * vkf_ref_exp_error(r, x) + r->u + vkf_ref_div_error(r)) + exp(-VKF_EXP_MAX);
}

/* Bounds the error of the gate g in x g(x), computed at the exact x. */
static double gate_bound(vkf_activation act, double x, const vkf_rounding *r) {
  const double u = r->u;
  switch (act) {
    case VKF_ACT_GELU: /* (1 + erf(x / sqrt 2)) / 2: argument 2 roundings, |z erf'(z)| <= 0.4840; the sum one of <= 2 */
      return 0.5 * (VKF_ERF_ABS + 2 * u * 0.484) + u;
    case VKF_ACT_GELU_TANH: /* sigma(w): |w sigma'(w)| <= 0.224; argument 8 roundings */
      return logistic_bound(2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x), r) + 0.224 * vkf_ref_gamma(8, u);
    case VKF_ACT_SWISH:
      return logistic_bound(x, r);
    case VKF_ACT_QUICK_GELU: /* argument 2 roundings */
      return logistic_bound(1.702 * x, r) + 0.224 * vkf_ref_gamma(2, u);
    default:
      return 0;
  }
}

/* x + x P(x^2): the sum is one rounding; x P(x^2) is at most VKF_TANH_TERM of it, and 12 roundings. */
static double small_tanh_bound(double x, double error, const vkf_rounding *r) {
  const double own = VKF_TANH_FIT + r->u + VKF_TANH_TERM * vkf_ref_gamma(12, r->u);
  return error + own * (fabs(tanh(x)) + error) * (1 + 1e-6) + 4 * r->tiny;
}

/* (1 - e)/(1 + e), e = exp(-2|x|) with its own error; three roundings after it. */
static double large_tanh_bound(double x, double error, const vkf_rounding *r) {
  double e = exp(-2 * VKF_MAX(fabs(x) - error, 0)), slope = 2 / ((1 + e) * (1 + e));
  double own = e * vkf_ref_exp_error(r, 2 * (fabs(x) + error));
  return error +
         (slope * own + (vkf_ref_gamma(2, r->u) + vkf_ref_div_error(r)) * (fabs(tanh(x)) + error + own)) * (1 + 1e-4) +
         4 * r->tiny;
}

/* A computed x may be on either side of VKF_TANH_SMALL. */
static double tanh_bound(double x, double error, const vkf_rounding *r) {
  double below = fabs(x) - error < VKF_TANH_SMALL ? small_tanh_bound(x, error, r) : 0;
  double above = fabs(x) + error >= VKF_TANH_SMALL ? large_tanh_bound(x, error, r) : 0;
  return VKF_MAX(below, above);
}

/* Bounds the error of the square of an x that is off by `error`; below 0 the result is 0. */
static double relu2_bound(double x, double error, const vkf_rounding *r) {
  double low = VKF_MAX(x, 0), high = x + error > 0 ? x + error : 0;
  return (high - low) * (high + low) + r->u * high * high + r->tiny;
}

double vkf_ref_activate_error(vkf_activation act, double x, double error) {
  double low = VKF_MAX(x, 0), high = x + error > 0 ? x + error : 0;
  return act == VKF_ACT_RELU2 ? (high - low) * (high + low) : lipschitz(act) * error;
}

double vkf_ref_activate_bound(vkf_activation act, double x, double error, const vkf_rounding *r) {
  double through = lipschitz(act) * error;
  if (act == VKF_ACT_NONE || act == VKF_ACT_RELU) return through;
  if (act == VKF_ACT_TANH) return tanh_bound(x, error, r);
  if (act == VKF_ACT_SIGMOID) return through + logistic_bound(x, r) + 4 * r->tiny;
  if (act == VKF_ACT_RELU2) return relu2_bound(x, error, r);
  double y = fabs(vkf_ref_activate(act, x)) + through;
  return through + (fabs(x) + error) * gate_bound(act, x, r) * (1 + 4 * r->u) + vkf_ref_gamma(2, r->u) * y +
         4 * r->tiny;
}
