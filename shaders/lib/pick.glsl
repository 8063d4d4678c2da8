// Loads a vector from memory without a gather, for drivers that load only once what all lanes ask for. PICK sets `word`
// to this lane's word of SUBGROUP_SIZE neighbouring ones: all lanes load all of them, and each picks its own by its
// number. That number is a constant, so LLVM merges the loads and choices into one vector load. `four` is the f-th
// group of four words, of type FOUR. Words are loaded by fours because each instruction makes the driver's work at
// every start longer.
#define PICK(word, FOUR, four) \
  [[unroll]] for (uint f = 0; f < SUBGROUP_SIZE / 4; f++) { \
    const FOUR words_of_f = four; \
    word = f == 0 ? words_of_f.x : mix(word, words_of_f.x, gl_SubgroupInvocationID == 4 * f); \
    word = mix(word, words_of_f.y, gl_SubgroupInvocationID == 4 * f + 1); \
    word = mix(word, words_of_f.z, gl_SubgroupInvocationID == 4 * f + 2); \
    word = mix(word, words_of_f.w, gl_SubgroupInvocationID == 4 * f + 3); \
  }

// The same for two float32 that are side by side.
#define PICK2(pair, four) \
  [[unroll]] for (uint f = 0; f < SUBGROUP_SIZE / 2; f++) { \
    const vec4 pairs_of_f = four; \
    pair = f == 0 ? pairs_of_f.xy : mix(pair, pairs_of_f.xy, bvec2(gl_SubgroupInvocationID == 2 * f)); \
    pair = mix(pair, pairs_of_f.zw, bvec2(gl_SubgroupInvocationID == 2 * f + 1)); \
  }

// The same for four float32 that are side by side.
#define PICK4(quad, four) \
  [[unroll]] for (uint f = 0; f < SUBGROUP_SIZE; f++) { \
    const vec4 quad_of_f = four; \
    quad = f == 0 ? quad_of_f : mix(quad, quad_of_f, bvec4(gl_SubgroupInvocationID == f)); \
  }
