// What the shaders of checks share (src/tune/checks.c): words in, and words out, which the host knows beforehand.
#include "shared/constants.h"
layout(local_size_x_id = VKF_C_WORKGROUP) in;
layout(constant_id = VKF_C_SUBGROUP_SIZE) const uint SUBGROUP_SIZE = 1;
layout(set = 0, binding = 0, std430) readonly buffer Given { GIVEN given[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Found { GIVEN found[]; };
