/* Activations, and the functions that they are made of. Read by C and GLSL; the includer defines mul, mad, quotient and
 * exp_of for its mode (lib/math.glsl: the device's own or reproducible.h's; the scalar path's reproducible mode:
 * reproducible.h's).
 *
 * No built-in tanh or erf: drivers differ too much. Functions have one return, at their end: SwiftShader's compiler
 * makes branches of any other.
 */
#ifndef VKF_SHARED_FUNCTIONS_H
#define VKF_SHARED_FUNCTIONS_H

#include "shared/constants.h"
#include "shared/math.h"
#include "shared/types.h"

/* exp of a difference from a maximum: exactly 0 far below it, NaN for NaN. */
VKF_FN float exp_below(float x) {
  return is_nan(x) ? x : x < VKF_EXP_MIN ? 0.0f : exp_of(x);
}

/* Two polynomials (interpolation at Chebyshev nodes): x + x P(x^2) on [0,1), Q(x - 2.5) on [1,4); 1 beyond. Absolute
 * error at 12 million points of [-6, 6] against double: 8.2e-8 with fused multiply-add, 9.1e-8 without (VKF_ERF_ABS).
 */
VKF_FN float erf_f32(float x) {
  const float t = x < 0.0f ? -x : x, s = mul(x, x), u = t - 2.5f;
  float y;
  if (t < 1.0f) {
    y = 7.87587487e-05f;
    y = mad(y, s, -0.00080168643f);
    y = mad(y, s, 0.00518908724f);
    y = mad(y, s, -0.0268542115f);
    y = mad(y, s, 0.112835944f);
    y = mad(y, s, -0.37612626f);
    y = mad(y, s, 0.128379166f);
    y = mad(y, x, x);
  } else {
    y = 8.83796645e-07f;
    y = mad(y, u, 4.87990064e-07f);
    y = mad(y, u, -1.56674851e-05f);
    y = mad(y, u, 1.78376249e-05f);
    y = mad(y, u, 8.09334233e-05f);
    y = mad(y, u, -0.000270835997f);
    y = mad(y, u, 0.00025899912f);
    y = mad(y, u, 0.000560654385f);
    y = mad(y, u, -0.00279777893f);
    y = mad(y, u, 0.00610891636f);
    y = mad(y, u, -0.00862251408f);
    y = mad(y, u, 0.00835182425f);
    y = mad(y, u, -0.00544570247f);
    y = mad(y, u, 0.00217818026f);
    y = mad(y, u, 0.999593019f);
    y = (x < 0.0f ? -1.0f : 1.0f) * (t < 4.0f ? y : 1.0f);
  }
  return y;
}

/* x times the logistic function of z; x / infinity if z is minus infinity. The clamp is a little higher than the bounds
 * assume, because of the error of exp. */
VKF_FN float times_logistic(float x, float z) {
  const float clamped = z < -VKF_EXP_MAX - 1.0f ? VKF_EXP_MAX + 1.0f : -z;
  return quotient(x, 1.0f + (is_nan(z) ? z : z < -3.402823466e38f ? -z : exp_of(clamped)));
}

/* x + x P(x^2) below VKF_TANH_SMALL (interpolation at Chebyshev nodes; VKF_TANH_FIT), where the difference in
 * tanh |x| = (1 - e)/(1 + e) with e = exp(-2|x|) would cancel. exp cannot overflow. NaN takes the second branch. */
VKF_FN float tanh_f32(float x) {
  const float t = x < 0.0f ? -x : x, s = mul(x, x);
  float y;
  if (t < VKF_TANH_SMALL) {
    y = -0.00694294181f;
    y = mad(y, s, 0.0214706827f);
    y = mad(y, s, -0.0539334677f);
    y = mad(y, s, 0.133332253f);
    y = mad(y, s, -0.333333313f);
    y = mad(mul(y, s), x, x);
  } else {
    const float e = exp_below(-2.0f * t);
    y = quotient(1.0f - e, 1.0f + e);
    y = x < 0.0f ? -y : y;
  }
  return y;
}

/* max(x, 0), and NaN for NaN. NaN is tested by its bits, because NVIDIA's compiler turns a comparison into a maximum,
 * which drops NaN. */
VKF_FN float relu(float x) {
  return is_nan(x) ? x : x < 0.0f ? 0.0f : x;
}

/* GELU (Hendrycks and Gimpel 2016): x Phi(x) with erf, or its approximation
 * x/2 (1 + tanh(w)), w = sqrt(2/pi) (x + 0.044715 x^3), which is x times the logistic function of 2w. Swish:
 * Ramachandran et al. 2017. Quick GELU: x sigma(1.702 x). Squared ReLU: So et al. 2021. */
VKF_FN float activate(VKF_UINT kind, float x) {
  VKF_STEP y = x;
  if (kind == VKF_A_RELU) y = relu(x);
  if (kind == VKF_A_GELU) y = mul(mul(0.5f, x), 1.0f + erf_f32(mul(x, 0.707106781f)));
  if (kind == VKF_A_GELU_TANH) y = times_logistic(x, mul(1.59576912f, x + mul(mul(mul(0.044715f, x), x), x)));
  if (kind == VKF_A_SWISH) y = times_logistic(x, x);
  if (kind == VKF_A_TANH) y = tanh_f32(x);
  if (kind == VKF_A_SIGMOID) y = times_logistic(1.0f, x);
  if (kind == VKF_A_QUICK_GELU) y = times_logistic(x, mul(1.702f, x));
  if (kind == VKF_A_RELU2) y = mul(relu(x), relu(x));
  return y;
}

#endif
