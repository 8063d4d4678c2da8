/* Runs one forward pass over each golden folder and compares every tensor that PyTorch returned, by name, shape and
 * value.
 *
 * Values may differ by golden_tolerance() of the tensor's largest magnitude. Positions that the mask takes out must
 * only be finite. */
#include "support/golden.h"

#include <math.h>
#include "support/sessions.h"

/* Which rows of a tensor are real: axis `axis` is a position, kept where mask [shape[0]][shape[axis]] is not 0. */
typedef struct positions {
  size_t axis;           /* 0: all are real */
  const vkf_array *mask; /* NULL: all are real */
} positions;

/* Attentions are [B,H,query,key]: the axis is that of queries. Masked keys have weight 0, which is compared. */
static positions find_positions(const vkf_array *output, const vkf_result *expected) {
  bool two = vkf_result_find(expected, "decoder_input_ids") != NULL;
  bool target = !strncmp(output->name, "decoder_", 8) || !strncmp(output->name, "cross_", 6) ||
                (two && !strcmp(output->name, "logits"));
  const vkf_array *mask = vkf_result_find(expected, target ? "decoder_attention_mask" : "attention_mask");
  const bool is_span = !strcmp(output->name, "start_logits") || !strcmp(output->name, "end_logits"); /* [B,S] */
  const bool is_flat = output->rank == 2 && !strcmp(output->name, "logits"); /* [B,S], else a row a sequence */
  positions p = {output->rank == 4 ? 2 : output->rank == 3 || is_span || is_flat ? 1 : 0, mask};
  if (!p.axis || !mask || mask->shape[1] != output->shape[p.axis]) p.mask = NULL;
  return p;
}

static bool is_real(const positions *p, const vkf_array *a, size_t element) {
  if (!p->mask) return true;
  size_t inner = 1, outer = 1;
  for (size_t i = p->axis + 1; i < a->rank; i++) inner *= a->shape[i];
  for (size_t i = 1; i < a->rank; i++) outer *= a->shape[i];
  size_t position = element / inner % a->shape[p->axis];
  return ((const int32_t *)p->mask->data)[element / outer * p->mask->shape[1] + position] != 0;
}

static void compare(const char *folder, const vkf_array *want, const vkf_array *got, const vkf_result *expected) {
  if (!got) fail_msg("%s: the run has no %s", folder, want->name);
  assert_int_equal(got->dtype, VKF_F32);
  assert_int_equal(want->dtype, VKF_F32);
  assert_int_equal(got->rank, want->rank);
  size_t n = 1;
  for (size_t i = 0; i < want->rank; n *= want->shape[i++])
    if (got->shape[i] != want->shape[i])
      fail_msg("%s: %s: extent %zu: expected %zu, found %zu", folder, want->name, i, want->shape[i], got->shape[i]);
  const float *w = want->data, *g = got->data;
  positions p = find_positions(want, expected);
  double largest = 0;
  const double tolerance = golden_tolerance(folder);
  size_t n_real = 0;
  for (size_t i = 0; i < n; i++) {
    if (!is_real(&p, want, i)) continue;
    n_real++;
    largest = fmax(largest, fabs((double)w[i]));
  }
  assert_true(n_real > 0 && largest > 0);
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(g[i])) fail_msg("%s: %s: element %zu is %g", folder, want->name, i, g[i]);
    if (is_real(&p, want, i) && !(fabs((double)g[i] - w[i]) <= tolerance * largest))
      fail_msg("%s: %s: element %zu: expected %.9g, found %.9g, tolerance %.3g", folder, want->name, i, w[i], g[i],
               tolerance * largest);
  }
}

/* "generated_greedy" [B,length]: the prompt input_ids and what follows it. */
static void compare_greedy(driver *d, const char *folder, vkf_model *model, const vkf_array *want,
                           const vkf_array *prompt) {
  vkf_result *found = NULL;
  char config[96];
  assert_non_null(prompt);
  snprintf(config, sizeof config, "{\"num_beams\": 1, \"eos_token_id\": null, \"max_new_tokens\": %zu}",
           want->shape[1] - prompt->shape[1]);
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = config};
  driver_ok(d, vkf_session_generate(session_of(model), prompt, 1, &params, &found));
  golden_expect_ids(folder, vkf_result_find(found, "sequences"), want->data, want->shape[0], want->shape[1]);
  vkf_result_destroy(&found);
}

static void visit(driver *d, const char *folder) {
  vkf_model *model = NULL;
  vkf_result *expected = NULL, *found = NULL;
  vkf_array inputs[GOLDEN_MAX_INPUTS];
  const vkf_run_params params = {VKF_RUN_PARAMS_INIT, .hidden_states = 1, .attentions = 1};
  golden_open(d, folder, &model, &expected);
  size_t n_inputs = golden_inputs(expected, inputs), n_compared = 0;
  driver_ok(d, vkf_session_run(session_of(model), inputs, n_inputs, &params, &found));
  for (size_t i = 0; i < vkf_result_count(expected); i++) {
    const vkf_array *want = vkf_result_at(expected, i);
    if (!golden_is_output(want->name)) continue;
    if (!strcmp(want->name, "generated_greedy"))
      compare_greedy(d, folder, model, want, vkf_result_find(expected, "input_ids"));
    else
      compare(folder, want, vkf_result_find(found, want->name), expected);
    n_compared++;
  }
  assert_true(n_inputs > 0 && n_compared > 0);
  vkf_result_destroy(&found);
  vkf_result_destroy(&expected);
  close_model(&model);
}

static void test_every_expected_tensor(void **state) {
  golden_each(*state, visit);
}

DRIVER_MAIN(DRIVER_TEST(test_every_expected_tensor))
