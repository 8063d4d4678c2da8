// The beginning of every kernel: sizes of this run, push constants, the constants of its variant.
// The including file defines PARAMS, a struct of shared/params.h, and OUT, the index of its (first) output operand.
#extension GL_EXT_control_flow_attributes : require
#include "shared/constants.h"
#include "shared/params.h"
#include "shared/step.h"

layout(local_size_x_id = VKF_C_WORKGROUP) in;
layout(constant_id = VKF_C_BM) const uint BM = 1;
layout(constant_id = VKF_C_BN) const uint BN = 1;
layout(constant_id = VKF_C_BK) const uint BK = 1;
layout(constant_id = VKF_C_TN) const uint TN = 1;
// SwiftShader unrolls loops before it knows specialization constants. Kernels that must be fast there have these as
// macros.
#ifndef SUBGROUP_SIZE
layout(constant_id = VKF_C_SUBGROUP_SIZE) const uint SUBGROUP_SIZE = 1;
#endif
#ifndef TM
layout(constant_id = VKF_C_TM) const uint TM = 1;
#endif

layout(set = 0, binding = 0, std430) readonly buffer Step { uint dim[]; };
layout(push_constant, std430) uniform Push {
  uvec2 at[VKF_PUSH_OPERANDS];
  PARAMS p;
};
// Which columns of a row an invocation has. gl_NumWorkGroups.y workgroups share a row (in family columns; else it is
// one).
#define FIRST_COLUMN (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x)
#define COLUMN_STEP (gl_NumWorkGroups.y * gl_WorkGroupSize.x)

// Operand o has binding o + 1.
#define BINDING(o) set = 0, binding = (o) + 1, std430

#include "lib/math.glsl"
