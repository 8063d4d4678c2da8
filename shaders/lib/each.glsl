// EACH_8(n, F): F(0), F(1), ... F(n - 1), for n up to 8, a specialization constant; EACH_4 likewise. F may use its
// argument as an index of an array of registers; where it needs another EACH, it calls a function. A loop, which
// compilers unroll. In modules of WRITTEN_OUT (cmake/shaders.cmake) only literals index, because Mesa's v3dv puts every
// array that a loop indexes into memory before it unrolls the loop. SwiftShader takes seconds for such a tile of matmul
// or attention: it compiles what n leaves out, too.
#ifdef WRITTEN_OUT
#define EACH_4(n, F)   \
  if ((n) > 0) {F(0);} \
  if ((n) > 1) {F(1);} \
  if ((n) > 2) {F(2);} \
  if ((n) > 3) {F(3);}
#define EACH_8(n, F)   \
  EACH_4(n, F)         \
  if ((n) > 4) {F(4);} \
  if ((n) > 5) {F(5);} \
  if ((n) > 6) {F(6);} \
  if ((n) > 7) {F(7);}
#else
#define EACH_8(n, F) [[unroll]] for (uint each = 0; each < (n); each++) {F(each);}
#define EACH_4(n, F) EACH_8(n, F)
#endif
