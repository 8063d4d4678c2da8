/* How far the functions of the shader library (lib/math.glsl) are from the true ones, and where they cut off. Read by
 * the kernels and by the derived bounds. */
#ifndef VKF_SHARED_MATH_H
#define VKF_SHARED_MATH_H

/* Largest |erf_f32(x) - erf(x)|. Measured at 12 million points of [-6, 6] against double: 8.2e-8 with fused
 * multiply-add, 9.1e-8 without. */
#define VKF_ERF_ABS 1.0e-7
/* tanh is x + x P(x^2) below VKF_TANH_SMALL. Exact arithmetic with these coefficients is off by VKF_TANH_FIT of tanh
 * (measured at 4.2 million points: 4.48e-9); x^2 |P(x^2)| is at most VKF_TANH_TERM. */
#define VKF_TANH_SMALL 0.5f
#define VKF_TANH_FIT 5.0e-9
#define VKF_TANH_TERM 0.0759
/* Below this argument exp counts as zero (the smallest subnormal float is exp(-103.28)). */
#define VKF_EXP_MIN -104.0
/* Logistic functions clamp the argument of exp to this or a little more, so that it stays finite. */
#define VKF_EXP_MAX 80.0

#endif
