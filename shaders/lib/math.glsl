// Arithmetic that every kernel does in the same way: mul, mad, quotient and the functions, on one number or on four. A
// kernel never writes *, / or a built-in function for what it stores, because each module is compiled twice
// (cmake/shaders.cmake): once for speed, and with REPRODUCIBLE for the reproducible mode, whose bits are the same on
// every device.
#include "shared/reproducible.h"

#ifdef REPRODUCIBLE
float mul(float a, float b) { return vkf_reproducible_mul(a, b); }
float mad(float a, float b, float c) { return vkf_reproducible_mad(a, b, c); }
float quotient(float a, float b) { return vkf_reproducible_div(a, b); }
float flushed(float x) { return vkf_reproducible_flush(x); }
float exp_of(float x) { return vkf_reproducible_exp(x); }
float log_of(float x) { return vkf_reproducible_log_any(x); }
float inversesqrt_of(float x) { return vkf_reproducible_div(1.0, vkf_reproducible_root(x)); }
// The larger of a, a number, and b; a where b is NaN, which max() leaves open.
float larger(float a, float b) { return !is_nan(b) && b > a ? b : a; }
vec4 mul(vec4 a, vec4 b) { return vec4(mul(a.x, b.x), mul(a.y, b.y), mul(a.z, b.z), mul(a.w, b.w)); }
vec4 mad(vec4 a, vec4 b, vec4 c) {
  return vec4(mad(a.x, b.x, c.x), mad(a.y, b.y, c.y), mad(a.z, b.z, c.z), mad(a.w, b.w, c.w));
}
#else
float mul(float a, float b) {
  precise float y = a * b;
  return y;
}
// All sums use this multiply-add, so that every variant rounds alike on a device.
float mad(float a, float b, float c) { return fma(a, b, c); }
float quotient(float a, float b) {
  precise float y = a / b;
  return y;
}
float flushed(float x) { return x; }
float exp_of(float x) { return exp(x); }
// Drivers differ in what log and inversesqrt make of NaN.
float log_of(float x) { return is_nan(x) ? x : log(x); }
float inversesqrt_of(float x) { return is_nan(x) ? x : inversesqrt(x); }
float larger(float a, float b) { return max(a, b); }
vec4 mul(vec4 a, vec4 b) {
  precise vec4 y = a * b;
  return y;
}
vec4 mad(vec4 a, vec4 b, vec4 c) { return fma(a, b, c); }
#endif

vec4 mul(vec4 a, float b) { return mul(a, vec4(b)); }
vec4 mad(float a, vec4 b, vec4 c) { return mad(vec4(a), b, c); }

#include "shared/functions.h"
