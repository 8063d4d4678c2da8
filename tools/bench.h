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
  bool is_check;     /* problems are not measured: is each one, and are there kernels by the names that are given? */
  bool has_begun;    /* bench_begin() was here */
  bool wrong;        /* a row was over its bound */
  char problem[160]; /* of the rows that were printed last */
  char repeat[256];  /* what has to be asked for to repeat the rows of now, before the options */
  bench_peaks peaks; /* of this device in this run */
  uint32_t *shader;  /* of --shader */
  size_t n_shader_words;
} bench;

/* The one list of kinds, in the order of the help, and whether they have kernels to choose among. A kind returns
 * TOOL_OK or, after a message, TOOL_FAILED; TOOL_USAGE if `is_check`. */
/* clang-format off */
#define BENCH_KINDS(X) \
  X(peak, false) X(matmul, true) X(softmax, true) X(attention, true) X(norm, true) X(top_k, true) X(ffn, true) \
  X(encoder, false) X(decoder, false) X(translate, false) X(overhead, false)
/* clang-format on */
#define X(name, has_kernels) int bench_##name(bench *b);
BENCH_KINDS(X)
#undef X

/* A problem as `vkformer kernels` spells it. */
int bench_problem(bench *b, const char *problem);

/* Before the first row, when nothing can be refused any more: measures the roofs that shares are shares of and prints
 * what is timed on. Does nothing the next time. */
int bench_begin(bench *b);
/* SPIR-V of --shader: read, or compiled from GLSL by glslangValidator or glslang. */
int bench_read_shader(bench *b);
/* Prints a row and keeps it; more (NULL: nothing; taken): further members of the JSON row. */
void bench_add(bench *b, const vkf_bench_row *row, json_t *more);
/* Tells of a tile that no kernel can have, and keeps it. */
void bench_refuse(bench *b, const vkf_bench_row *row);
/* The whole run: device, driver, version, commit, roofs, rows. */
json_t *bench_document(const bench *b);

/* The sizes of an option, or this one. */
tool_sizes bench_sizes(const tool_sizes *given, size_t fallback);

#endif
