// Attention of many queries by cooperative matrices (after FlashAttention 2, Dao 2023). A workgroup takes BM rows: the
// queries of all heads that share a head of keys and values. Each of its subgroups has TM of these rows, which are one
// row of matrices. The workgroup goes through the keys in tiles of BN. Head widths are multiples of MATRIX_K and
// MATRIX_N. Operands: as in lib/attention.glsl; behind the spans a word that becomes 1 if some number cannot be stored
// as f16.
// k and v are in f16, and q and the weights are rounded to f16. Scores, maxima and all sums are float32. Weights are in
// [0, 1]. In the matrices they and their sum are multiplied by VKF_HALF_WEIGHT, so that weights above 2^-29 are normal
// numbers of f16. Keys and values that the mask does not have are zeros in shared memory.
//
// module attention_coopmat_f16: FORMAT_F16, needs COOPMAT
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define PARAMS vkf_push_attention
#define OUT 6
#include "lib/kernel.glsl"
#include "lib/store.glsl"
#define KEYS_AND_VALUES_ELSEWHERE
#include "lib/attention.glsl"
#include "lib/keys_values.glsl"
#include "lib/halves.glsl"
#include "lib/trim.glsl"
layout(constant_id = VKF_C_ATTENTION_MATRIX_M) const uint MATRIX_M = 16;
layout(constant_id = VKF_C_ATTENTION_MATRIX_N) const uint MATRIX_N = 16;
layout(constant_id = VKF_C_ATTENTION_MATRIX_K) const uint MATRIX_K = 16;
layout(BINDING(VKF_ATTENTION_WIDE)) buffer Wide { uint is_wide[]; };

// Lengths in uvec4 (8 numbers of 16 bits, 4 of 32) of rows of q and keys, of values, of scores, of weights. Each has
// one uvec4 more than it needs, so that neighbouring rows are in different banks.
const uint KEY_STRIDE = KEY_WIDTH / 8 + 1, VALUE_STRIDE = VALUE_WIDTH / 8 + 1;
const uint SCORE_STRIDE = BN / 4 + 1, WEIGHT_STRIDE = BN / 8 + 1;
const uint VALUES = BN * KEY_STRIDE, STAGED = VALUES + BN * VALUE_STRIDE;
shared uvec4 staged[STAGED > BM * KEY_STRIDE ? STAGED : BM * KEY_STRIDE]; // q first; then keys and values
shared uvec4 scores[BM * SCORE_STRIDE]; // then the factors of the sums of a row; finally results
shared uvec4 weights[BM * WEIGHT_STRIDE];

const uint KEY_STEPS = KEY_WIDTH / MATRIX_K, KEY_PIECES = BN / MATRIX_N, VALUE_PIECES = VALUE_WIDTH / MATRIX_N;
const uint LANES = SUBGROUP_SIZE / MATRIX_M; // that share a row
const uint PART = BN / LANES;                // keys of a lane
coopmat<float16_t, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA> q[KEY_STEPS];
coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator> sums[VALUE_PIECES];

#ifdef FORMAT_F16
uvec2 odd = uvec2(0); // bits 15 and 31: a number that is infinite or NaN
uvec4 eight(uvec2 a, uvec2 b) {
  odd |= (a & 0x7c007c00u) + 0x04000400u | (b & 0x7c007c00u) + 0x04000400u;
  return uvec4(a, b);
}
bool is_odd() { return ((odd.x | odd.y) & 0x80008000u) != 0; }
#else
uvec4 eight(vec4 a, vec4 b) { return uvec4(halves(a), halves(b)); }
bool is_odd() { return false; }
#endif

void stage_queries(uint r0, uint n_rows) {
  for (uint e = gl_LocalInvocationID.x; e < BM * (KEY_WIDTH / 8); e += gl_WorkGroupSize.x) {
    const uint row = e / (KEY_WIDTH / 8), d8 = e % (KEY_WIDTH / 8);
    const Place me = row_place(min(r0 + row, n_rows - 1));
    const uint i = at[0].x + row_of(me) * p.q_stride + p.q_column + me.head * KEY_WIDTH + 8 * d8;
    vec4 x[2];
    [[unroll]] for (uint c = 0; c < 8; c++) x[c / 4][c % 4] = q_data[i + c];
    staged[row * KEY_STRIDE + d8] = uvec4(halves(x[0]), halves(x[1]));
  }
}

void stage_keys_and_values(Place first, uint s0, uint end) {
  const uint eights = KEY_WIDTH / 8 + VALUE_WIDTH / 8; // of a key and its value
  for (uint e = gl_LocalInvocationID.x; e < BN * eights; e += gl_WorkGroupSize.x) {
    const uint s = s0 + e / eights, d8 = e % eights;
    const bool is_value = d8 >= KEY_WIDTH / 8;
    const uint to = is_value ? VALUES + e / eights * VALUE_STRIDE + d8 - KEY_WIDTH / 8 : e / eights * KEY_STRIDE + d8;
    uvec4 words = uvec4(0);
    if (s < end && (HAS_MASK == 0 || mask[mask_at(first, s)] != 0)) {
      const uint row = key_row(first, s);
      if (is_value) {
        const uint i = FIRST(2) + row * (VALUE_WIDTH / 4) + 2 * (d8 - KEY_WIDTH / 8);
        words = eight(v4[i], v4[i + 1]);
      } else {
        const uint i = FIRST(1) + row * (KEY_WIDTH / 4) + 2 * d8;
        words = eight(k4[i], k4[i + 1]);
      }
    }
    staged[to] = words;
  }
}

// Stores q k^T of this subgroup's rows and the tile's keys in shared memory.
void find_scores(uint row0) {
  coopmat<float16_t, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB> b;
  [[unroll]] for (uint n = 0; n < KEY_PIECES; n++) {
    coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator> score =
        coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>(0.0);
    [[unroll]] for (uint d = 0; d < KEY_STEPS; d++) {
      coopMatLoad(b, staged, n * MATRIX_N * KEY_STRIDE + d * (MATRIX_K / 8), KEY_STRIDE,
                  gl_CooperativeMatrixLayoutColumnMajor);
      score = coopMatMulAdd(q[d], b, score);
    }
    coopMatStore(score, scores, row0 * SCORE_STRIDE + n * (MATRIX_N / 4), SCORE_STRIDE,
                 gl_CooperativeMatrixLayoutRowMajor);
  }
}

// sums = sums x factors + weights x values.
void add_values(uint row0) {
  coopmat<float16_t, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA> a;
  coopmat<float16_t, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB> b;
  coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator> factors;
  coopMatLoad(factors, scores, row0 * SCORE_STRIDE, SCORE_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
  [[unroll]] for (uint n = 0; n < VALUE_PIECES; n++) sums[n] = sums[n] * factors;
  [[unroll]] for (uint k = 0; k < BN; k += MATRIX_K) {
    coopMatLoad(a, weights, row0 * WEIGHT_STRIDE + k / 8, WEIGHT_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    [[unroll]] for (uint n = 0; n < VALUE_PIECES; n++) {
      coopMatLoad(b, staged, VALUES + k * VALUE_STRIDE + n * (MATRIX_N / 8), VALUE_STRIDE,
                  gl_CooperativeMatrixLayoutRowMajor);
      sums[n] = coopMatMulAdd(a, b, sums[n]);
    }
  }
}

void main() {
  // The last rows begin first, because they see the most keys of a causal mask.
  const uint r0 = (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * BM;
  const Place first = row_place(r0);
  const uint n_rows = first.span.queries * GROUP;
  if (r0 >= n_rows) return;
  const uint row0 = gl_SubgroupID * TM, row = row0 + gl_SubgroupInvocationID / LANES,
             part = gl_SubgroupInvocationID % LANES;
  const Place me = row_place(min(r0 + row, n_rows - 1));
  uint from = keys_from(first, first.t), end = keys_until(first, (min(r0 + BM, n_rows) - 1) / GROUP);
  if (HAS_MASK != 0) trim(first, from, end);
  stage_queries(r0, n_rows);
  barrier();
  [[unroll]] for (uint d = 0; d < KEY_STEPS; d++)
    coopMatLoad(q[d], staged, row0 * KEY_STRIDE + d * (MATRIX_K / 8), KEY_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
  [[unroll]] for (uint n = 0; n < VALUE_PIECES; n++)
    sums[n] = coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>(0.0);
  float top = LOWEST, total = 0.0; // total: of this lane's keys
  for (uint s0 = from; s0 < end; s0 += BN) {
    barrier(); // what was staged has been used
    stage_keys_and_values(first, s0, end);
    barrier();
    find_scores(row0);
    subgroupBarrier();
    vec4 x[PART / 4];
    float risen = LOWEST;
    [[unroll]] for (uint j = 0; j < PART / 4; j++) {
      const vec4 products = uintBitsToFloat(scores[row * SCORE_STRIDE + part * (PART / 4) + j]);
      [[unroll]] for (uint c = 0; c < 4; c++) {
        const uint s = s0 + part * PART + 4 * j + c;
        x[j][c] = UNSEEN;
        if (sees(me, s)) x[j][c] = scaled(me, s, products[c]);
        risen = larger(risen, x[j][c]);
      }
    }
    [[unroll]] for (uint n = 1; n < LANES; n *= 2) risen = larger(risen, subgroupShuffleXor(risen, n));
    risen = larger(top, risen);
    const float factor = risen == top ? 1.0 : exp_below(top - risen);
    top = risen;
    total = mul(total, factor);
    [[unroll]] for (uint j = 0; j < PART / 8; j++) {
      vec4 w[2];
      [[unroll]] for (uint c = 0; c < 8; c++) {
        const float a = x[2 * j + c / 4][c % 4];
        w[c / 4][c % 4] = is_key(a) ? mul(exp_below(a - risen), VKF_HALF_WEIGHT) : 0.0;
      }
      [[unroll]] for (uint h = 0; h < 2; h++) {
        w[h] = nearest_halves(w[h]);
        total += (w[h].x + w[h].y) + (w[h].z + w[h].w);
      }
      weights[row * WEIGHT_STRIDE + part * (PART / 8) + j] = uvec4(packed_halves(w[0]), packed_halves(w[1]));
    }
    subgroupBarrier(); // the scores have been read
    [[unroll]] for (uint j = 0; j < MATRIX_N / 4 / LANES; j++)
      scores[row * SCORE_STRIDE + part * (MATRIX_N / 4 / LANES) + j] = floatBitsToUint(vec4(factor));
    subgroupBarrier();
    add_values(row0);
  }
  [[unroll]] for (uint n = 1; n < LANES; n *= 2) total += subgroupShuffleXor(total, n);
  const float all = total == 0.0 ? 1.0 : total; // 0: no key, and the sums are 0
  [[unroll]] for (uint n = 0; n < VALUE_PIECES; n++) {
    subgroupBarrier();
    coopMatStore(sums[n], scores, row0 * SCORE_STRIDE, SCORE_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
    subgroupBarrier();
    [[unroll]] for (uint j = 0; j < MATRIX_N / 4 / LANES; j++) {
      const uint c4 = part * (MATRIX_N / 4 / LANES) + j;
      const vec4 four = uintBitsToFloat(scores[row * SCORE_STRIDE + c4]);
      if (r0 + row < n_rows)
        store4(row_of(me), me.head * VALUE_WIDTH + n * MATRIX_N + 4 * c4, HEADS * VALUE_WIDTH,
               vec4(quotient(four.x, all), quotient(four.y, all), quotient(four.z, all), quotient(four.w, all)));
    }
  }
  if (is_beyond_halves() || is_odd()) is_wide[0] = 1;
}
