/* Families of ops without sums over a row: embeddings, gates, edits, moves of rows. A workgroup has a row or a part of
 * one. */
#include "kern/family.h"

/* Each invocation does a column in each turn. */
static uint64_t row_turns(const vkf_variant *v, const vkf_problem *p) {
  return vkf_turns_by(p->rows.width, vkf_kern_workgroup(v));
}

const vkf_family vkf_family_row = {
    .name = "row", .device = VKF_FOR_ANY, .place = 1, .reason = "a workgroup a row", .loop_turns = row_turns};

#define UNIFORM_LOADS(name_)                                  \
  .name = name_, .device = VKF_FOR_UNIFORM_LOADS, .place = 0, \
  .reason = "this lavapipe loads vectors from addresses that all lanes share"

/* Columns of an invocation. A workgroup with a whole row would wait for memory in each turn. */
enum { COLUMNS_EACH = 4 };
#define COLUMNS(name_) \
  .name = name_, .device = VKF_FOR_GPU, .place = 0, .grid = columns_grid, .reason = "a GPU: a row among workgroups"

/* Edits and appends have their width in rows.width, too. */
static void columns_grid(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]) {
  (void)stage;
  g[1] = VKF_CEIL_DIV(p->rows.width, COLUMNS_EACH * vkf_kern_workgroup(v));
}

static uint64_t columns_turns(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  (void)p;
  return vkf_turns_by(COLUMNS_EACH, 1);
}

const vkf_family vkf_family_columns = {COLUMNS("columns"), .loop_turns = columns_turns};

static uint64_t edit_turns(const vkf_variant *v, const vkf_problem *p) {
  return 2 * vkf_turns_by(p->logit_edit.row_edits, VKF_EDITS_AT_ONCE) +
         vkf_turns_by(p->logit_edit.width, vkf_kern_workgroup(v));
}

const vkf_family vkf_family_logit_edit = {
    .name = "row", .device = VKF_FOR_ANY, .place = 1, .reason = "a workgroup a row", .loop_turns = edit_turns};

static uint64_t edit_columns_turns(const vkf_variant *v, const vkf_problem *p) {
  return 2 * vkf_turns_by(p->logit_edit.row_edits, VKF_EDITS_AT_ONCE) + columns_turns(v, p);
}

const vkf_family vkf_family_logit_edit_columns = {COLUMNS("columns"), .loop_turns = edit_columns_turns};

/* Keys, values and queries have a loop each and share the width; each loop may end in a partial turn. */
static uint64_t append_turns(const vkf_variant *v, const vkf_problem *p) {
  return vkf_turns_by(p->append.width, VKF_MAX(v->vec, 1) * vkf_kern_workgroup(v)) + 4;
}

static const char *fit_moved(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why, size_t size) {
  (void)v;
  (void)caps;
  if (p->append.turns) VKF_KERN_REFUSE("moves keys as they are, and these are turned by their positions");
  return NULL;
}

static const char *fit_turned(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why,
                              size_t size) {
  (void)v;
  (void)caps;
  if (!p->append.turns) VKF_KERN_REFUSE("turns keys by their positions, and these have none");
  return NULL;
}

const vkf_family vkf_family_append = {.name = "row",
                                      .device = VKF_FOR_ANY,
                                      .place = 1,
                                      .reason = "a workgroup a row",
                                      .fit = fit_moved,
                                      .loop_turns = append_turns};

const vkf_family vkf_family_append_turned = {.name = "turned",
                                             .device = VKF_FOR_ANY,
                                             .place = 1,
                                             .reason = "a workgroup a row, keys and queries turned on their way",
                                             .fit = fit_turned,
                                             .loop_turns = append_turns};

static uint64_t append_columns_turns(const vkf_variant *v, const vkf_problem *p) {
  return 3 * (columns_turns(v, p) + 1);
}

const vkf_family vkf_family_append_columns = {COLUMNS("columns"), .fit = fit_moved, .loop_turns = append_columns_turns};
const vkf_family vkf_family_append_turned_columns = {COLUMNS("turned-columns"), .fit = fit_turned,
                                                     .loop_turns = append_columns_turns};

static const char *fit_pairs(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why, size_t size) {
  if (fit_moved(v, p, caps, why, size)) return why;
  if (p->append.multiple_of % v->vec)
    VKF_KERN_REFUSE("widths and first columns are multiples of %u, here they are not", v->vec);
  return NULL;
}

/* A lane has two columns of a key, and of a value, in a turn. */
static const char *fit_append_moved(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why,
                                    size_t size) {
  const uint32_t step = 2 * v->subgroup;
  if (fit_moved(v, p, caps, why, size)) return why;
  if (p->append.key_width % step || p->append.value_width % step)
    VKF_KERN_REFUSE("widths of keys and values are multiples of %u, here they are %u and %u", step, p->append.key_width,
                    p->append.value_width);
  return NULL;
}

/* A turn does a head, which has at least 2 * subgroup columns. */
static uint64_t append_moved_turns(const vkf_variant *v, const vkf_problem *p) {
  return vkf_turns_by(p->append.width, 2 * v->subgroup) + 2;
}

const vkf_family vkf_family_append_moved = {UNIFORM_LOADS("moved"), .fit = fit_append_moved,
                                            .loop_turns = append_moved_turns};

/* A lane has two columns of each half of a head, and of a value. */
static const char *fit_append_uniform(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why,
                                      size_t size) {
  const uint32_t step = 2 * v->subgroup, half = p->append.half_width;
  if (fit_turned(v, p, caps, why, size)) return why;
  if (half == 0) VKF_KERN_REFUSE("turns heads whole, half against half, and these are turned otherwise");
  if (half % step || p->append.value_width % step)
    VKF_KERN_REFUSE("halves of keys, and values, are multiples of %u, here they are %u and %u", step, half,
                    p->append.value_width);
  if (2 * half > VKF_MAX_HEAD_WIDTH)
    VKF_KERN_REFUSE("heads are at most %u wide, here they are %u", VKF_MAX_HEAD_WIDTH, 2 * half);
  return NULL;
}

/* A turn does a head: of queries, or of keys with their values. */
static uint64_t append_uniform_turns(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  return vkf_turns_by(p->append.width, 2 * p->append.half_width) + 2;
}

const vkf_family vkf_family_append_uniform = {UNIFORM_LOADS("uniform"), .fit = fit_append_uniform,
                                              .loop_turns = append_uniform_turns};

const vkf_family vkf_family_pairs = {.name = "pairs",
                                     .device = VKF_FOR_UNIFORM_LOADS,
                                     .place = 0,
                                     .reason = "this lavapipe gathers and scatters 64 bits as fast as 32",
                                     .fit = fit_pairs,
                                     .loop_turns = append_turns};
