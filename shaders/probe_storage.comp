// Checks members of storage buffers that are smaller than a word, of type GIVEN, PER_WORD in each word. Each is read
// and written on its own, in the opposite order.
//
// module probe_storage16: GIVEN=uint16_t PER_WORD=2
// module probe_storage8: GIVEN=uint8_t PER_WORD=4
#version 440
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#include "lib/probe.glsl"

void main() {
  const uint first = gl_GlobalInvocationID.x * PER_WORD;
  for (uint i = 0; i < PER_WORD; i++) found[first + i] = GIVEN(uint(given[first + PER_WORD - 1 - i]));
}
