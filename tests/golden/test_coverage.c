/* Compares translations that are ranked by score plus coverage penalty with every sequence over a vocabulary of 5.
 * Their scores come from the log-probabilities and cross-attentions of a forward pass and from a second implementation
 * of Wu et al. (2016), equation 14. */
#include <math.h>

#include "support/driver.h"
#include "support/word_models.h"

enum { V = 5, END = 1, LONGEST = 4, N_MAX = 128, N_BEST = 3 };

typedef struct sequence {
  int32_t ids[LONGEST]; /* the start token first */
  size_t n;
  double score;
} sequence;

static sequence all[N_MAX];
static size_t n_all;

static void add_all(sequence s) {
  s.n++;
  for (int32_t id = 0; id < V; id++) {
    s.ids[s.n - 1] = id;
    if (id != END && s.n < LONGEST) {
      add_all(s);
    } else {
      assert_true(n_all < N_MAX);
      all[n_all++] = s;
    }
  }
}

static int by_score(const void *left, const void *right) {
  const sequence *a = left, *b = right;
  return (a->score < b->score) - (a->score > b->score);
}

/* Scores all sequences. heads: LAYER:HEAD, or NULL for all heads of layer 1, the last. */
static void score_all(driver *d, vkf_model *model, const char *text, const char *heads, double penalty,
                      double length_penalty) {
  static int32_t sources[N_MAX * 8], targets[N_MAX * LONGEST];
  vkf_result *tokens = NULL, *pass = NULL;
  driver_ok(d, vkf_tokenizer_encode(vkf_model_tokenizer(model), text, NULL, &tokens));
  const vkf_array *ids = vkf_result_find(tokens, "ids");
  const size_t S = ids->shape[0];
  for (size_t i = 0; i < n_all; i++) {
    memcpy(sources + i * S, ids->data, S * sizeof *sources);
    memcpy(targets + i * LONGEST, all[i].ids, sizeof all[i].ids);
  }
  const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {n_all, S}, sources},
                              {"decoder_input_ids", VKF_I32, 2, {n_all, LONGEST}, targets}};
  driver_ok(d, vkf_session_run(session_of(model), inputs, 2, &(vkf_run_params){VKF_RUN_PARAMS_INIT, .attentions = true},
                               &pass));
  const float *logits = vkf_result_f32(pass, "logits", NULL);
  const float *weights = vkf_result_f32(pass, heads ? "cross_attentions.0" : "cross_attentions.1", NULL);
  for (size_t i = 0; i < n_all; i++) {
    double sum = 0, coverage = 0;
    for (size_t t = 0; t + 1 < all[i].n; t++) {
      const float *x = logits + (i * LONGEST + t) * V;
      double total = 0;
      for (size_t v = 0; v < V; v++) total += exp(x[v]);
      sum += x[all[i].ids[t + 1]] - log(total);
    }
    for (size_t s = 0; s < S; s++) {
      double looked = 0;
      for (size_t t = 0; t + 1 < all[i].n; t++) {
        const float *first = weights + (i * 2 * LONGEST + t) * S + s, *second = first + LONGEST * S;
        looked += heads ? *second : (*first + (double)*second) / 2;
      }
      coverage += log(fmin(looked, 1));
    }
    all[i].score = sum / pow((double)all[i].n - 1, length_penalty) + penalty * coverage;
  }
  qsort(all, n_all, sizeof *all, by_score);
  vkf_result_destroy(&tokens);
  vkf_result_destroy(&pass);
}

static void the_best_of_all(void **state) {
  (void)state;
  static const char *const texts[] = {"w2", "w3 w4", "w4 w2 w2 w3"}, *const heads[] = {NULL, "0:1"};
  static const double penalties[] = {0, 0.1, 0.4, 3}, length_penalties[] = {0, 1};
  driver d;
  vkf_model *model = NULL;
  size_t n_changed = 0;
  char path[512];
  driver_open(&d);
  snprintf(path, sizeof path, "%s/five", program_folder);
  driver_ok(&d, vkf_model_open(d.device, path, &model));
  n_all = 0;
  add_all((sequence){.n = 1});
  assert_int_equal(n_all, 1 + 4 + 4 * 4 * 5);
  for (size_t i = 0; i < 3 * 2 * 4 * 2; i++) {
    const double penalty = penalties[i / 6 % 4], length_penalty = length_penalties[i / 24];
    const char *text = texts[i % 3], *chosen = heads[i / 3 % 2];
    char config[256];
    vkf_result *result = NULL;
    sequence plain;
    snprintf(config, sizeof config,
             "{\"num_beams\": 96, \"num_return_sequences\": %d, \"early_stopping\": \"never\", \"max_length\": %d, "
             "\"length_penalty\": %g, \"coverage_penalty\": %g}",
             N_BEST, LONGEST, length_penalty, penalty);
    driver_ok(&d, vkf_session_translate(
                      session_of(model), &text, 1,
                      &(vkf_generate_params){VKF_GENERATE_PARAMS_INIT, .config_json = config, .align_heads = chosen},
                      &result));
    score_all(&d, model, text, chosen, 0, length_penalty);
    plain = all[0];
    score_all(&d, model, text, chosen, penalty, length_penalty);
    n_changed += memcmp(plain.ids, all[0].ids, all[0].n * sizeof *plain.ids) != 0;
    const vkf_array *ids = vkf_result_find(result, "sequences");
    const float *scores = vkf_result_f32(result, "sequences_scores", NULL);
    assert_true(ids->shape[0] == N_BEST && ids->shape[1] <= LONGEST);
    for (size_t row = 0; row < N_BEST; row++) {
      const int32_t *found = (const int32_t *)ids->data + row * ids->shape[1];
      if (fabs(scores[row] - all[row].score) > 1e-4 || memcmp(found, all[row].ids, all[row].n * sizeof *found))
        fail_msg("%s, penalty %g, heads %s, rank %zu: expected a score of %g, found %g, or other ids", text, penalty,
                 chosen ? chosen : "all", row, all[row].score, scores[row]);
    }
    assert_null(vkf_result_find(result, "alignments"));
    vkf_result_destroy(&result);
  }
  assert_true(n_changed > 5); /* the penalty changes something */
  close_model(&model);
  driver_close(&d);
}

static int make_model(void **state) {
  static const char *const named[] = {"0 <pad>", "1 <eos>"};
  (void)state;
  if (program_setup("echo '{\"model_type\": \"marian\", \"vocab_size\": 5, \"d_model\": 16, \"encoder_layers\": 1, "
                    "\"decoder_layers\": 2, \"encoder_attention_heads\": 2, \"decoder_attention_heads\": 2, "
                    "\"encoder_ffn_dim\": 16, \"decoder_ffn_dim\": 16, \"max_position_embeddings\": 16, "
                    "\"pad_token_id\": 0, \"eos_token_id\": 1, \"decoder_start_token_id\": 0, \"init_std\": 0.4}' > "
                    "$T/config.json && $V init $T/config.json -o $T/five --seed 5") != 0)
    return -1;
  write_tokenizer("five", V, named, 2, NULL, NULL);
  return 0;
}

PROGRAM_MAIN(make_model, cmocka_unit_test(the_best_of_all))
