/* tile: gives a row of the table another tile, if its kernel takes tiles as specialization constants. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kern/family.h"
#include "shared/constants.h"

#define REFUSE(...)                   \
  do {                                \
    snprintf(why, size, __VA_ARGS__); \
    return false;                     \
  } while (0)

/* Changes the tile of *v by a text such as "bm=96,tm=8". */
static bool parse(const char *text, vkf_variant *v, char *why, size_t size) {
  const struct {
    const char *name;
    uint32_t *at;
  } fields[] = {{"bm", &v->tile.gemm.bm},
                {"bn", &v->tile.gemm.bn},
                {"bk", &v->tile.gemm.bk},
                {"tm", &v->tile.gemm.tm},
                {"tn", &v->tile.gemm.tn}};
  for (const char *at = text; *at;) {
    size_t i = 0;
    char *end = NULL;
    while (i < VKF_COUNT(fields) && (strncmp(at, fields[i].name, 2) || at[2] != '=')) i++;
    unsigned long value = i < VKF_COUNT(fields) ? strtoul(at + 3, &end, 10) : 0;
    if (value < 1 || value > 1024 || (*end && *end != ','))
      REFUSE("expected a tile such as bm=64,bn=64,bk=16,tm=4,tn=4 with numbers from 1 to 1024, found %s", text);
    *fields[i].at = (uint32_t)value;
    at = *end ? end + 1 : end;
  }
  return true;
}

bool vkf_kern_tiles(const vkf_variant *v) {
  return v->family->tile != VKF_TILE_FIXED && !v->fixed_tile;
}

/* Kernels without matrices load slices by fours, at most VKF_SHARED_MAX_LOADS of them per invocation. */
static bool loads_slices(const vkf_variant *v, char *why, size_t size) {
  const uint32_t rows = VKF_MAX(v->tile.gemm.bm, v->tile.gemm.bn);
  if (v->tile.gemm.bk % 4) REFUSE("bk is a multiple of 4 in %s kernels, found %u", v->family->name, v->tile.gemm.bk);
  const uint32_t loads = VKF_CEIL_DIV(rows * v->tile.gemm.bk / 4, vkf_kern_workgroup(v));
  if (loads > VKF_SHARED_MAX_LOADS)
    REFUSE("an invocation of %s kernels loads at most %u vectors of a slice, here it would be %u", v->family->name,
           VKF_SHARED_MAX_LOADS, loads);
  return true;
}

static bool has_whole_matrices(const vkf_variant *v, char *why, size_t size) {
  if (v->tile.gemm.tm % v->matrix.m || v->tile.gemm.tn % v->matrix.n || v->tile.gemm.bk % v->matrix.k)
    REFUSE("tm, tn and bk are multiples of %u, %u and %u, the sizes of a matrix, found %u, %u and %u", v->matrix.m,
           v->matrix.n, v->matrix.k, v->tile.gemm.tm, v->tile.gemm.tn, v->tile.gemm.bk);
  if (v->family->shared_bytes && v->tile.gemm.bk % (2 * v->matrix.k))
    REFUSE("bk is a multiple of %u in %s kernels, two matrices side by side, found %u", 2 * v->matrix.k,
           v->family->name, v->tile.gemm.bk);
  if (v->family->shared_bytes && vkf_kern_workgroup(v) % (v->tile.gemm.bk / 8))
    REFUSE("a workgroup of %s kernels, here of %u, loads whole rows of bk by eights, found %u", v->family->name,
           vkf_kern_workgroup(v), v->tile.gemm.bk);
  return true;
}

bool vkf_kern_tile(const vkf_variant *base, const char *text, vkf_variant *out, char *why, size_t size) {
  const vkf_family *f = base->family;
  *out = *base;
  if (!vkf_kern_tiles(base)) REFUSE("the kernels of %s %s have their tile compiled in", vkf_op_name(base->op), f->name);
  if (!parse(text, out, why, size)) return false;
  if (out->tile.gemm.tm > f->max_tile)
    REFUSE("tm is at most %u in %s kernels, found %u", f->max_tile, f->name, out->tile.gemm.tm);
  if (f->tile == VKF_TILE_ROWS) {
    if (out->tile.gemm.bn != base->tile.gemm.bn || out->tile.gemm.bk != base->tile.gemm.bk ||
        out->tile.gemm.tn != base->tile.gemm.tn)
      REFUSE("of the tile of %s kernels tm alone is free (bm is the same)", f->name);
    if (out->tile.gemm.bm != base->tile.gemm.bm && out->tile.gemm.bm != out->tile.gemm.tm)
      REFUSE("bm is tm in %s kernels, found bm %u and tm %u", f->name, out->tile.gemm.bm, out->tile.gemm.tm);
    out->tile.gemm.bm = out->tile.gemm.tm;
    return true;
  }
  if (out->tile.gemm.tn > f->max_tile)
    REFUSE("tn is at most %u in %s kernels, found %u", f->max_tile, f->name, out->tile.gemm.tn);
  if (out->tile.gemm.bm % out->tile.gemm.tm || out->tile.gemm.bn % out->tile.gemm.tn)
    REFUSE("tm divides bm and tn divides bn, found tm %u of %u and tn %u of %u", out->tile.gemm.tm, out->tile.gemm.bm,
           out->tile.gemm.tn, out->tile.gemm.bn);
  return f->tile == VKF_TILE_MATRIX ? has_whole_matrices(out, why, size) : loads_slices(out, why, size);
}
