// Arithmetic that every kernel does in the same way. No built-in sin, cos, pow or tanh: drivers differ too much.
// Functions have one return, at their end: SwiftShader's compiler makes branches of any other.
#include "shared/math.h"

// The one multiply-add of all sums, so that every variant rounds alike on a device.
float mad(float a, float b, float c) { return fma(a, b, c); }

// By bits: a compiler may assume that a comparison never sees NaN.
bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

// exp of a difference to a maximum: exactly 0 far below it, NaN for NaN.
float exp_below(float x) { return is_nan(x) ? x : x < VKF_EXP_MIN ? 0.0 : exp(x); }

// Drivers differ in what log and inversesqrt make of NaN.
float log_of(float x) { return is_nan(x) ? x : log(x); }
float inversesqrt_of(float x) { return is_nan(x) ? x : inversesqrt(x); }

// Two polynomials (interpolation at Chebyshev nodes): x + x P(x^2) on [0,1), Q(x - 2.5) on [1,4); 1 beyond. Absolute error
// at 12 million points of [-6, 6] against double: 8.2e-8 with fused multiply-add, 9.1e-8 without (VKF_ERF_ABS).
float erf_f32(float x) {
  const float t = abs(x), s = x * x, u = t - 2.5;
  float y;
  if (t < 1.0) {
    y = 7.87587487e-05;
    y = mad(y, s, -0.00080168643);
    y = mad(y, s, 0.00518908724);
    y = mad(y, s, -0.0268542115);
    y = mad(y, s, 0.112835944);
    y = mad(y, s, -0.37612626);
    y = mad(y, s, 0.128379166);
    y = mad(y, x, x);
  } else {
    y = 8.83796645e-07;
    y = mad(y, u, 4.87990064e-07);
    y = mad(y, u, -1.56674851e-05);
    y = mad(y, u, 1.78376249e-05);
    y = mad(y, u, 8.09334233e-05);
    y = mad(y, u, -0.000270835997);
    y = mad(y, u, 0.00025899912);
    y = mad(y, u, 0.000560654385);
    y = mad(y, u, -0.00279777893);
    y = mad(y, u, 0.00610891636);
    y = mad(y, u, -0.00862251408);
    y = mad(y, u, 0.00835182425);
    y = mad(y, u, -0.00544570247);
    y = mad(y, u, 0.00217818026);
    y = mad(y, u, 0.999593019);
    y = (x < 0.0 ? -1.0 : 1.0) * (t < 4.0 ? y : 1.0);
  }
  return y;
}

// x times the logistic function of z. The clamp lies a little higher than the bounds count on, for the error of exp.
float times_logistic(float x, float z) {
  precise float y = x / (1.0 + exp(min(-z, VKF_EXP_MAX + 1.0)));
  return y;
}

// tanh |x| = (1 - e)/(1 + e) with e = exp(-2|x|), which cannot overflow.
float tanh_f32(float x) {
  const float e = exp_below(-2.0 * abs(x));
  precise float y = (1.0 - e) / (1.0 + e);
  return x < 0.0 ? -y : y;
}

// ReLU by a test that lets NaN pass. GELU (Hendrycks and Gimpel 2016): x Phi(x) with erf, or its approximation
// x/2 (1 + tanh(w)), w = sqrt(2/pi) (x + 0.044715 x^3), which is x times the logistic function of 2w. Swish:
// Ramachandran et al. 2017. Quick GELU: x sigma(1.702 x). Squared ReLU: So et al. 2021.
float activate(uint kind, float x) {
  precise float y = x;
  if (kind == VKF_A_RELU) y = x < 0.0 ? 0.0 : x;
  if (kind == VKF_A_GELU) y = 0.5 * x * (1.0 + erf_f32(x * 0.707106781));
  if (kind == VKF_A_GELU_TANH) y = times_logistic(x, 1.59576912 * (x + 0.044715 * x * x * x));
  if (kind == VKF_A_SWISH) y = times_logistic(x, x);
  if (kind == VKF_A_TANH) y = tanh_f32(x);
  if (kind == VKF_A_SIGMOID) y = times_logistic(1.0, x);
  if (kind == VKF_A_QUICK_GELU) y = times_logistic(x, 1.702 * x);
  if (kind == VKF_A_RELU2) y = x < 0.0 ? 0.0 : x * x;
  return y;
}
