/* bench: what the files of the command share: the kinds of measurements, and rows of results.
 *
 * Each kind measures something and adds rows; bench_rows.c prints them and keeps them as JSON. Invariant: a row over
 * its bound is never timed, and makes the exit code TOOL_WRONG.
 */
#ifndef VKFORMER_TOOLS_BENCH_H
#define VKFORMER_TOOLS_BENCH_H

#include <vkformer/lab.h>

#include "bench_figures.h"
#include "program.h"

typedef struct bench {
  const tool_args *args;
  tool_session session;
  json_t *rows;
  json_t *refused;   /* tiles that no kernel can have, and why */
  json_t *merged;    /* the documents of --merge */
  bool is_check;     /* measure nothing; only check the problems and the names of kernels */
  bool has_begun;    /* bench_begin() was called */
  bool wrong;        /* a row was over its bound */
  char problem[160]; /* of the rows that were printed last */
  char repeat[256];  /* the operands that repeat the current rows, before the options */
  bench_peaks peaks; /* of this device in this run */
  uint32_t *shader;  /* of --shader */
  size_t n_shader_words;
} bench;

/* The one list of kinds, in the order of the help, and whether each has kernels to choose among. A kind returns TOOL_OK
 * or, after a message, TOOL_FAILED; TOOL_USAGE if `is_check`. */
/* clang-format off */
#define BENCH_KINDS(X) \
  X(peak, false) X(matmul, true) X(softmax, true) X(attention, true) X(norm, true) X(top_k, true) X(ffn, true) \
  X(encoder, false) X(decoder, false) X(translate, false) X(overhead, false)
/* clang-format on */
#define X(name, has_kernels) int bench_##name(bench *b);
BENCH_KINDS(X)
#undef X

/* Measures a problem, written as for `vkformer kernels`. */
int bench_problem(bench *b, const char *problem);

/* Measures the roofs that shares refer to and prints the device. Call it before the first row, when nothing can be
 * refused any more; later calls do nothing. */
int bench_begin(bench *b);
/* Reads the SPIR-V of --shader, or compiles its GLSL with glslangValidator or glslang. */
int bench_read_shader(bench *b);
/* Prints a row and keeps it. more: further members of the JSON row, consumed; NULL: none. */
void bench_add(bench *b, const vkf_bench_row *row, json_t *more);
/* Reports a tile that no kernel can have, and keeps it. */
void bench_refuse(bench *b, const vkf_bench_row *row);
/* Returns the whole run as JSON: device, driver, version, commit, roofs, rows. */
json_t *bench_document(const bench *b);

/* Returns the sizes of an option, or `fallback` if it was not given. */
tool_sizes bench_sizes(const tool_sizes *given, size_t fallback);

#endif
