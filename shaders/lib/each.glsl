// EACH_8(n, F) is F(0), F(1), ... F(n - 1), for a specialization constant n of up to 8; EACH_4 and EACH_32 likewise. F
// may use its argument as the index of an array in registers. If F needs another EACH, it calls a function that has it.
// EACH is a loop, which compilers unroll. In modules of WRITTEN_OUT (cmake/shaders.cmake) it has no loop and only
// literal arguments, because Mesa's v3dv puts every array that a loop indexes into memory before it unrolls the loop.
// SwiftShader takes seconds to compile such a tile of matmul or attention, because it compiles what n leaves out, too.
#ifdef WRITTEN_OUT
#define FOUR_FROM(i, n, F)       \
  if ((n) > i) {F(i);}           \
  if ((n) > i + 1) {F((i + 1));} \
  if ((n) > i + 2) {F((i + 2));} \
  if ((n) > i + 3) {F((i + 3));}
#define EIGHT_FROM(i, n, F) FOUR_FROM(i, n, F) FOUR_FROM(i + 4, n, F)
#define EACH_4(n, F) FOUR_FROM(0, n, F)
#define EACH_8(n, F) EIGHT_FROM(0, n, F)
#define EACH_32(n, F) EIGHT_FROM(0, n, F) EIGHT_FROM(8, n, F) EIGHT_FROM(16, n, F) EIGHT_FROM(24, n, F)
#else
#define EACH_32(n, F) [[unroll]] for (uint each = 0; each < (n); each++) {F(each);}
#define EACH_8(n, F) EACH_32(n, F)
#define EACH_4(n, F) EACH_32(n, F)
#endif
