// out = act(x w^T + bias) + residual by buffer references: a workgroup is one subgroup of LANES and computes TM rows, a
// lane one column of them. x is read at addresses that are the same for all lanes, which recent lavapipe turns into
// scalar loads folded into the multiply-add; w (VKF_W_DIRECT) 64 bits a lane and load. Operands: x, w, bias, residual, out.
// x lies in panels (TM divides 32), with X_ROWS in rows (K a multiple of 4, few rows). k ascending in steps of DEPTH and
// a rest, one accumulator an element.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#define PARAMS vkf_push_matmul
#define OUT 4
#define BY_ADDRESS
#include "lib/kernel.glsl"
#include "lib/epilogue.glsl"

// Inside a buffer, so the compiler freezes it: a macro, not a specialization constant.
#define DEPTH 16
#ifdef X_ROWS
#define MAX_TM 4
struct Slice { vec4 v[DEPTH / 4]; };
#else
#define MAX_TM 32
struct Slice { vec4 v[DEPTH * VKF_PANEL / 4]; };
#endif
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Slices { Slice slice[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Floats { float f[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Packs { WORDS_OF_64 pack[]; };
#define PACK (2 * PER_WORD) // k in a load

uvec2 advance(uvec2 address, uint bytes) {
  uint carry;
  const uint low = uaddCarry(address.x, bytes, carry);
  return uvec2(low, address.y + carry);
}

// x at row i of the tile and depth k of the slice; in the rest, from k of the whole row.
#ifdef X_ROWS
#define X(i, k) Slices(x[i]).slice[s].v[(k) / 4][(k) % 4]
#define X_REST(i, k) Floats(x[i]).f[k]
#else
#define X(i, k) Slices(x[0]).slice[s].v[((k) * VKF_PANEL + (i)) / 4][(i) % 4]
#define X_REST(i, k) Floats(x[0]).f[(k) * VKF_PANEL + (i)]
#endif

void main() {
  const uint M = dim[p.rows], lane = gl_LocalInvocationID.x, column = gl_WorkGroupID.y * LANES + lane;
  const uint row0 = gl_WorkGroupID.x * TM, slices = p.k / DEPTH;
  Packs w = Packs(at[1]);
  uint wi = gl_WorkGroupID.y * ((p.k + PACK - 1) / PACK) * LANES + lane, s = 0;
#ifdef X_ROWS
  uvec2 x[MAX_TM];
  [[unroll]] for (uint i = 0; i < TM; i++) x[i] = advance(at[0], min(row0 + i, M - 1) * p.k * 4);
#else
  const uvec2 x[1] = uvec2[1](advance(at[0], (row0 / VKF_PANEL * p.k * VKF_PANEL + row0 % VKF_PANEL) * 4));
#endif
  float sums[MAX_TM];
  [[unroll]] for (uint i = 0; i < TM; i++) sums[i] = 0.0;
  if (slices != 0) {
    do {
      [[unroll]] for (uint k = 0; k < DEPTH; k += PACK) {
        const WORDS_OF_64 words = w.pack[wi + k / PACK * LANES];
        [[unroll]] for (uint j = 0; j < PACK; j++) {
          const float b = unpack(words[j / PER_WORD], j % PER_WORD);
          [[unroll]] for (uint i = 0; i < TM; i++) sums[i] = mad(X(i, k + j), b, sums[i]);
        }
      }
      wi += DEPTH / PACK * LANES;
    } while (++s < slices);
  }
  for (uint k = slices * DEPTH; k < p.k; k++) {
    const WORDS_OF_64 words = w.pack[wi + (k - slices * DEPTH) / PACK * LANES];
    const float b = unpack(words[k / PER_WORD % 2], k % PER_WORD);
    [[unroll]] for (uint i = 0; i < TM; i++) sums[i] = mad(X_REST(i, k), b, sums[i]);
  }
  if (column >= p.n) return;
  const float bias = HAS_BIAS != 0 ? Floats(at[2]).f[column] : 0.0;
  [[unroll]] for (uint i = 0; i < TM; i++) {
    const uint row = row0 + i;
    if (row < M) finish_with(row, column, sums[i], bias, HAS_RESIDUAL != 0 ? Floats(at[3]).f[row * p.n + column] : 0.0);
  }
}
