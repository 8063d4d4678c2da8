/* What the kernels promise of the functions that they compute themselves: absolute errors over all arguments, beside
 * the roundings that docs/numerics.md counts. Read by the bounds of the scalar path; the shaders' library must keep
 * them.
 */
#ifndef VKF_OP_MATH_BOUNDS_H
#define VKF_OP_MATH_BOUNDS_H

/* erf(x) as computed in float32, against erf of its float32 argument. */
#define VKF_ERF_ABS 2e-7
/* tanh and the logistic function by exp of an argument that is clamped at 10 or later: 1/(1+exp(20)) is 2.1e-9. */
#define VKF_CLAMP_ABS 4.2e-9

#endif
