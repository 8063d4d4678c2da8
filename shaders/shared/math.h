/* How far the functions of the shader library (lib/math.glsl) are from the true ones, and where they cut off. Read by
 * the kernels and by the derived bounds. */
#ifndef VKF_SHARED_MATH_H
#define VKF_SHARED_MATH_H

/* Largest |erf_f32(x) - erf(x)|. Measured at 12 million points of [-6, 6] against double: 8.2e-8 with fused
 * multiply-add, 9.1e-8 without. */
#define VKF_ERF_ABS 1.0e-7
/* Below this argument exp counts as zero (the smallest subnormal float is exp(-103.28)). */
#define VKF_EXP_MIN -104.0
/* Logistic functions clamp the argument of exp to this or a little more, so that it stays finite. */
#define VKF_EXP_MAX 80.0

#endif
