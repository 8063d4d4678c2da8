/* Pads never change bits: every golden folder of texts, with pads up to PADS on each side, in the forward pass and in
 * generation, in the default mode and in the reproducible one. Nothing here has a tolerance.
 *
 * Each folder runs the numbers of pads around whole blocks of keys and a share of the others. The next folder and the
 * other mode run the numbers beside these, so many folders run each number up to PADS. On a Vulkan driver every second
 * folder runs in each mode; SwiftShader runs what lavapipe leaves out. VKF_PADS=all runs all of them on each
 * (scripts/accept), and op.pads runs every number on each kernel.
 *
 * Pads behind a sentence never move it. Pads before it move its positions in a forward pass if positions count them
 * (vkf_model_position_ids), as in transformers; then only pads behind it are tried. generate counts positions by the
 * mask, so it may have pads before the prompt with any model. */
#include "engine/opened.h"
#include "model/internal.h"
#include "support/golden.h"
#include "support/sessions.h"

enum { LENGTH = 9, T = 5, PADS = 33, WIDE = LENGTH + PADS, NEW = 7, TOP = 3, SHARE = 5 };

typedef struct side {
  driver d; /* of the mode, for all folders: kernels are compiled once */
  vkf_model *model;
  const vkf_net_info *info;
  uint32_t n;                /* tokens of the sentence: LENGTH, or what the model's positions leave beside PADS */
  bool is_pair, may_precede; /* pads may stand before the source, or before the tokens of the only stack */
  bool target_may_precede;
} side;

static bool pads_move(const vkf_model_stack *stack) {
  return stack->positions != VKF_POSITION_NONE && stack->position_ids == VKF_POSITION_IDS_ALL;
}

static void open_mode(side *s, int deterministic) {
  const vkf_context_params params = {VKF_CONTEXT_PARAMS_INIT, .deterministic = deterministic, .batch_invariant = 1};
  memset(s, 0, sizeof *s);
  assert_int_equal(vkf_context_create(&params, &s->d.context), VKF_OK);
  driver_ok(&s->d, vkf_device_open(s->d.context, NULL, &s->d.device));
}

static void open_folder(side *s, const char *folder) {
  char path[GOLDEN_PATH];
  driver_ok(&s->d, vkf_model_open(s->d.device, golden_path(path, folder, "."), &s->model));
  s->info = vkf_model_net_info(s->model->net);
  s->n = s->info->max_positions ? VKF_MIN((uint32_t)LENGTH, s->info->max_positions - PADS) : LENGTH;
  s->is_pair = s->info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  const bool is_decoder = s->info->architecture == VKF_ARCHITECTURE_DECODER;
  s->may_precede = !pads_move(is_decoder ? &s->model->net->decoder : &s->model->net->encoder);
  s->target_may_precede = s->is_pair && !pads_move(&s->model->net->decoder);
}

static unsigned turn; /* of a folder and a mode */

static bool runs_all(void) {
  const char *asked = getenv("VKF_PADS");
  return asked && !strcmp(asked, "all");
}

/* Returns whether a folder runs in this mode on this driver. */
static bool takes_mode(unsigned folder, int deterministic) {
  const char *device = getenv("VKF_DEVICE");
  const bool is_ref = device && !strcmp(device, "ref"), is_lavapipe = device && !strcmp(device, "lavapipe");
  return runs_all() || is_ref || (folder + (unsigned)deterministic + is_lavapipe) % 2 == 0;
}

/* Returns whether this number of pads is run now. */
static bool takes(uint32_t n) {
  const bool is_border = n == 0 || n == 1 || n == 16 || n == PADS;
  return is_border || n % SHARE == turn % SHARE || runs_all();
}

/* ---- sentences --------------------------------------------------------------------------------------------------- */

/* Returns any id but the pad, because some models count no position for it. */
static int32_t id_at(const side *s, uint32_t stream, uint32_t i) {
  const uint32_t vocab = stream == 2 ? s->info->target_vocab : VKF_MAX(s->info->vocab, s->info->target_vocab);
  int32_t id = (int32_t)(vkf_rng_u64(17, stream, i) % VKF_MIN(vocab, s->info->vocab ? s->info->vocab : vocab));
  return id == s->info->pad_id ? (id ? id - 1 : 1) : id;
}

/* Writes `length` ids of a stream after `before` pads, in a row of `width`. */
static void place(const side *s, uint32_t stream, uint32_t before, uint32_t length, uint32_t width, int32_t *ids,
                  int32_t *mask) {
  for (uint32_t i = 0; i < width; i++) {
    const bool own = i >= before && i < before + length;
    mask[i] = own;
    ids[i] = own ? id_at(s, stream, i - before) : s->info->pad_id >= 0 ? s->info->pad_id : 0;
  }
}

static vkf_array ints(const char *name, uint32_t rows, uint32_t width, int32_t *data) {
  return (vkf_array){.name = name, .dtype = VKF_I32, .rank = 2, .shape = {rows, width}, .data = data};
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

/* Where the sentence's own elements begin in an output of the padded run: its row, its queries and its keys. */
typedef struct place_of {
  size_t row, query, key;
} place_of;

static const char *what;       /* of what is compared */
static size_t n_compared;      /* numbers */
static const char *folder_now; /* for messages */

static void expect_same(const char *name, const float *found, const float *expected, size_t n) {
  n_compared += n;
  for (size_t i = 0; i < n; i++)
    if (memcmp(&found[i], &expected[i], sizeof *found))
      fail_msg("%s, %s, %s: element %zu is %.9g, expected %.9g, bit for bit", folder_now, what, name, i, found[i],
               expected[i]);
}

static void expect_zeros(const char *name, const float *found, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (found[i] != 0) fail_msg("%s, %s, %s: a pad has %.9g, expected 0", folder_now, what, name, found[i]);
}

/* Compares the sentence's own numbers, and checks for zeros at its pads. */
static void expect_own(const vkf_array *found, const vkf_array *alone, place_of at) {
  const float *f = found->data, *a = alone->data;
  const size_t *n = found->shape, *m = alone->shape;
  assert_int_equal(found->rank, alone->rank);
  if (found->rank == 2) { /* a row a sequence */
    expect_same(alone->name, f + at.row * n[1], a, n[1]);
  } else if (found->rank == 3) {
    const float *row = f + at.row * n[1] * n[2], *own = row + at.query * n[2], *behind = own + m[1] * m[2];
    expect_zeros(alone->name, row, at.query * n[2]);
    expect_same(alone->name, own, a, m[1] * m[2]);
    expect_zeros(alone->name, behind, (n[1] - at.query - m[1]) * n[2]);
  } else {
    for (size_t i = 0; i < n[1] * n[2]; i++) {
      const size_t h = i / n[2], q = i % n[2] - at.query; /* of a pad before the sentence a huge number */
      const float *row = f + (at.row * n[1] * n[2] + i) * n[3], *own = row + at.key;
      const size_t keys = q < m[2] ? m[3] : 0;
      expect_zeros(alone->name, row, at.key);
      expect_same(alone->name, own, a + (h * m[2] + (keys ? q : 0)) * m[3], keys);
      expect_zeros(alone->name, own + keys, n[3] - at.key - keys);
    }
  }
}

/* Compares the outputs. Those of the first token only if that is the sentence's. */
static void expect_outputs(const side *s, const vkf_result *found, const vkf_result *alone, size_t row, size_t source,
                           size_t target) {
  for (size_t i = 0; i < vkf_result_count(alone); i++) {
    const vkf_array *a = vkf_result_at(alone, i), *f = vkf_result_find(found, a->name);
    assert_non_null(f);
    const bool of_target = s->is_pair && strncmp(a->name, "encoder_", 8) != 0;
    const bool is_cross = strncmp(a->name, "cross_", 6) == 0;
    if (a->rank == 2 && source > 0) continue;
    expect_own(f, a, (place_of){row, of_target ? target : source, is_cross || !of_target ? source : target});
  }
}

/* ---- the forward pass -------------------------------------------------------------------------------------------- */

typedef struct padded {
  uint32_t rows, width, target_width;
  int32_t ids[2 * WIDE], mask[2 * WIDE], target[2 * WIDE], target_mask[2 * WIDE];
} padded;

static vkf_result *forward(side *s, padded *p, bool has_masks) {
  vkf_result *result = NULL;
  vkf_array inputs[4];
  size_t n = 0;
  inputs[n++] = ints("input_ids", p->rows, p->width, p->ids);
  if (has_masks) inputs[n++] = ints("attention_mask", p->rows, p->width, p->mask);
  if (s->is_pair) inputs[n++] = ints("decoder_input_ids", p->rows, p->target_width, p->target);
  if (s->is_pair && has_masks) inputs[n++] = ints("decoder_attention_mask", p->rows, p->target_width, p->target_mask);
  const vkf_run_params params = {VKF_RUN_PARAMS_INIT, .hidden_states = 1, .attentions = 1};
  driver_ok(&s->d, vkf_session_run(session_of(s->model), inputs, n, &params, &result));
  return result;
}

static void fill(const side *s, padded *p, uint32_t row, uint32_t before, uint32_t target_before) {
  place(s, 1, before, s->n, p->width, p->ids + row * p->width, p->mask + row * p->width);
  place(s, 2, target_before, T, p->target_width, p->target + row * p->target_width,
        p->target_mask + row * p->target_width);
}

/* Puts n pads behind the sentence in row 0, and before it in row 1 if that changes no position. */
static void test_forward(side *s) {
  padded p = {.rows = 1, .width = s->n, .target_width = T};
  fill(s, &p, 0, 0, 0);
  vkf_result *alone = forward(s, &p, false);
  for (uint32_t n = 0; n <= PADS; n++) {
    char text[64];
    if (!takes(n)) continue;
    p.rows = 2;
    p.width = s->n + n;
    p.target_width = T + n;
    const uint32_t before = s->may_precede ? n : 0, target_before = s->target_may_precede ? n : 0;
    fill(s, &p, 0, 0, 0);
    fill(s, &p, 1, before, target_before);
    vkf_result *found = forward(s, &p, true);
    what = text;
    snprintf(text, sizeof text, "run with %u pads behind", (unsigned)n);
    expect_outputs(s, found, alone, 0, 0, 0);
    snprintf(text, sizeof text, "run with %u pads before", (unsigned)n);
    expect_outputs(s, found, alone, 1, before, target_before);
    vkf_result_destroy(&found);
  }
  vkf_result_destroy(&alone);
}

/* ---- generation -------------------------------------------------------------------------------------------------- */

static vkf_result *generate(side *s, uint32_t rows, uint32_t width, int32_t *ids, int32_t *mask, bool beams) {
  char config[128];
  vkf_result *result = NULL;
  const vkf_array inputs[] = {ints("input_ids", rows, width, ids), ints("attention_mask", rows, width, mask)};
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = config, .top_logprobs = beams ? 0 : TOP};
  snprintf(config, sizeof config, "{\"max_new_tokens\": %d, \"num_beams\": %d, \"num_return_sequences\": %d}", NEW,
           beams ? 3 : 1, beams ? 2 : 1);
  driver_ok(&s->d, vkf_session_generate(session_of(s->model), inputs, mask ? 2 : 1, &params, &result));
  return result;
}

/* Compares row `row` of what a batch generated with a run of its own: ids, log-probabilities, scores. */
static void expect_generated(const vkf_result *found, const vkf_result *alone, size_t row) {
  static const char *const names[] = {"logprobs", "top_logprobs", "sequences_scores"};
  size_t n_found = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const vkf_array *f = vkf_result_find(found, names[i]), *a = vkf_result_find(alone, names[i]);
    if (!a) continue;
    size_t own = a->shape[0], all = f->shape[0]; /* numbers: more steps in the batch are zeros here */
    for (size_t k = 1; k < a->rank; k++) {
      own *= a->shape[k];
      all *= f->shape[k];
    }
    expect_same(names[i], (const float *)f->data + row * (all / f->shape[0]) * a->shape[0], a->data, own);
    n_found++;
  }
  assert_true(n_found > 0);
}

static void expect_tokens(const vkf_result *found, const vkf_result *alone, size_t row, size_t moved) {
  const vkf_array *f = vkf_result_find(found, "sequences"), *a = vkf_result_find(alone, "sequences");
  assert_true(f && a && f->shape[1] >= a->shape[1] + moved);
  for (size_t r = 0; r < a->shape[0]; r++)
    for (size_t i = 0; i < a->shape[1]; i++)
      assert_int_equal(((const int32_t *)f->data)[(row * a->shape[0] + r) * f->shape[1] + moved + i],
                       ((const int32_t *)a->data)[r * a->shape[1] + i]);
}

/* Puts n pads before the prompt; with an encoder behind the source and, if they may be there, before it. */
static void test_numbers(side *s, bool beams) {
  int32_t ids[2 * WIDE], mask[2 * WIDE];
  char text[64];
  what = text;
  place(s, 1, 0, s->n, s->n, ids, mask);
  vkf_result *alone = generate(s, 1, s->n, ids, NULL, beams);
  for (uint32_t n = 0; n <= PADS; n++) {
    if (!takes(n)) continue;
    const uint32_t width = s->n + n, rows = s->is_pair ? 2 : 1, moved = s->is_pair ? 0 : n;
    place(s, 1, s->is_pair ? 0 : n, s->n, width, ids, mask);
    place(s, 1, s->may_precede ? n : 0, s->n, width, ids + width, mask + width);
    vkf_result *found = generate(s, rows, width, ids, mask, beams);
    for (uint32_t r = 0; r < rows; r++) {
      snprintf(text, sizeof text, "generate %s, %u pads, row %u", beams ? "by beams" : "greedily", (unsigned)n,
               (unsigned)r);
      expect_tokens(found, alone, r, moved);
      expect_generated(found, alone, r);
    }
    vkf_result_destroy(&found);
  }
  vkf_result_destroy(&alone);
}

/* Runs prompts of LENGTH to WIDE tokens in one batch, each with its own number of pads before it. */
static void test_lengths(side *s) {
  static int32_t ids[(PADS + 1) * WIDE], mask[(PADS + 1) * WIDE], own[WIDE], own_mask[WIDE];
  char text[64];
  what = text;
  for (uint32_t r = 0; r <= PADS; r++) place(s, 3 + r, r, WIDE - r, WIDE, ids + r * WIDE, mask + r * WIDE);
  vkf_result *found = generate(s, PADS + 1, WIDE, ids, mask, false);
  for (uint32_t r = 0; r <= PADS; r++) {
    if (!takes(r)) continue;
    snprintf(text, sizeof text, "a batch of prompts, that with %u pads", (unsigned)r);
    place(s, 3 + r, 0, WIDE - r, WIDE - r, own, own_mask);
    vkf_result *alone = generate(s, 1, WIDE - r, own, NULL, false);
    expect_tokens(found, alone, r, r);
    expect_generated(found, alone, r);
    vkf_result_destroy(&alone);
  }
  vkf_result_destroy(&found);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static side modes[2]; /* the default one, the reproducible one */

static void visit(driver *d, const char *folder) {
  static unsigned n_folders;
  (void)d;
  folder_now = folder;
  n_folders++;
  for (int deterministic = 0; deterministic < 2; deterministic++) {
    side *s = &modes[deterministic];
    turn++;
    if (!takes_mode(n_folders, deterministic)) continue;
    open_folder(s, folder);
    n_compared = 0;
    if (s->info->image[0] == 0) {
      test_forward(s);
      if (s->info->has_head && s->info->architecture != VKF_ARCHITECTURE_ENCODER) {
        test_numbers(s, false);
        test_numbers(s, true);
        if (!s->is_pair) test_lengths(s);
      }
      assert_true(n_compared > 0);
    }
    close_model(&s->model);
  }
}

static void test_every_folder(void **state) {
  (void)state;
  for (int deterministic = 0; deterministic < 2; deterministic++) open_mode(&modes[deterministic], deterministic);
  golden_each(NULL, visit);
  for (int deterministic = 0; deterministic < 2; deterministic++) driver_close(&modes[deterministic].d);
}

DRIVER_MAIN(cmocka_unit_test(test_every_folder))
