/* evaluate: prints BLEU and chrF of translations, as sacreBLEU writes them. */

#include "commands.h"
#include "source.h"

enum { DEFAULT_SAMPLES = 1000, DEFAULT_SEED = 12345 };

/* ---- what is printed --------------------------------------------------------------------------------------------- */

typedef struct report {
  const tool_args *args;
  const vkf_result *result;
  size_t n_references, n_samples, seed;
} report;

static const double *values(const report *r, const char *prefix, const char *name) {
  char full[64];
  snprintf(full, sizeof full, "%s%s", prefix, name);
  return vkf_result_f64(r->result, full, NULL);
}

static void signature(const report *r, const char *rest, char *out, size_t size) {
  char samples[64] = "";
  if (r->n_samples) snprintf(samples, sizeof samples, "bs:%zu|seed:%zu|", r->n_samples, r->seed);
  snprintf(out, size, "nrefs:%zu|%scase:mixed|%s|version:2.0.0", r->n_references, samples, rest);
}

static void score_text(const double *score, const double *interval, char *out, size_t size) {
  if (interval)
    snprintf(out, size, "%.2f (\xce\xbc = %.2f \xc2\xb1 %.2f)", *score, interval[0], interval[1]);
  else
    snprintf(out, size, "%.2f", *score);
}

static json_t *metric_json(const char *name, const char *sign, const double *score, const double *interval,
                           const double *p) {
  json_t *json = json_pack("{s:s, s:f, s:s}", "name", name, "score", *score, "signature", sign);
  if (interval) json_object_set_new(json, "confidence_mean", json_real(interval[0]));
  if (interval) json_object_set_new(json, "confidence_var", json_real(interval[1]));
  if (p) json_object_set_new(json, "p", json_real(*p));
  return json;
}

/* Prints both metrics of one system. */
static json_t *print_system(const report *r, const char *prefix, bool has_p) {
  char bleu_sign[160], chrf_sign[160], text[96];
  const double *bleu = values(r, prefix, "bleu"), *bleu_interval = values(r, prefix, "bleu_interval"),
               *chrf = values(r, prefix, "chrf"), *chrf_interval = values(r, prefix, "chrf_interval"),
               *precisions = values(r, prefix, "bleu_precisions"), *lengths = values(r, prefix, "bleu_lengths"),
               *bleu_p = has_p ? values(r, "", "bleu_p") : NULL, *chrf_p = has_p ? values(r, "", "chrf_p") : NULL;
  signature(r, "eff:no|tok:13a|smooth:exp", bleu_sign, sizeof bleu_sign);
  signature(r, "eff:yes|nc:6|nw:0|space:no", chrf_sign, sizeof chrf_sign);
  if (r->args->json)
    return json_pack("[o, o]", metric_json("BLEU", bleu_sign, bleu, bleu_interval, bleu_p),
                     metric_json("chrF2", chrf_sign, chrf, chrf_interval, chrf_p));
  score_text(bleu, bleu_interval, text, sizeof text);
  printf("BLEU|%s = %s %.1f/%.1f/%.1f/%.1f (BP = %.3f ratio = %.3f hyp_len = %.0f ref_len = %.0f)", bleu_sign, text,
         precisions[0], precisions[1], precisions[2], precisions[3], *values(r, prefix, "bleu_penalty"),
         lengths[1] > 0 ? lengths[0] / lengths[1] : 0, lengths[0], lengths[1]);
  if (bleu_p) printf(" (p = %.4f)", *bleu_p);
  score_text(chrf, chrf_interval, text, sizeof text);
  printf("\nchrF2|%s = %s", chrf_sign, text);
  if (chrf_p) printf(" (p = %.4f)", *chrf_p);
  putchar('\n');
  return NULL;
}

static int print_report(const report *r) {
  json_t *json = r->args->json ? json_pack("{s:s}", "format", "vkformer-evaluate/1") : NULL;
  if (r->args->baseline) {
    if (!json) printf("baseline %s\n", r->args->baseline);
    json_object_set_new(json, "baseline", print_system(r, "baseline_", false));
    if (!json) printf("system %s\n", r->args->operands[0]);
  }
  json_object_set_new(json, "system", print_system(r, "", r->args->baseline != NULL));
  return r->args->json ? tool_print_json(json) : tool_flush();
}

static int run_evaluate(const tool_args *args) {
  tool_text_list hypotheses = {0}, references = {0}, baseline = {0};
  tool_session session = {0};
  vkf_result *result = NULL;
  report r = {.args = args, .n_references = args->n_operands - 1, .seed = args->seed ? args->seed : DEFAULT_SEED};
  r.n_samples = args->samples ? args->samples : args->baseline ? DEFAULT_SAMPLES : 0;
  int exit_code = tool_text_list_read(&hypotheses, args->operands[0], 0);
  for (size_t i = 1; i < args->n_operands && exit_code == TOOL_OK; i++)
    exit_code = tool_text_list_read(&references, args->operands[i], hypotheses.n);
  if (exit_code == TOOL_OK && args->baseline) exit_code = tool_text_list_read(&baseline, args->baseline, hypotheses.n);
  if (exit_code == TOOL_OK && r.seed > UINT32_MAX)
    exit_code = tool_usage_error("evaluate", "--seed: expected at most %u, found %zu", UINT32_MAX, r.seed);
  if (exit_code == TOOL_OK) {
    const vkf_evaluate_params params = {VKF_EVALUATE_PARAMS_INIT, .n_samples = r.n_samples, .seed = (uint32_t)r.seed,
                                        .baseline = (const char *const *)baseline.at};
    vkf_status status = vkf_context_create(NULL, &session.context);
    if (status == VKF_OK)
      status = vkf_evaluate(session.context, (const char *const *)hypotheses.at, hypotheses.n,
                            (const char *const *)references.at, r.n_references, &params, &result);
    if (status != VKF_OK) exit_code = tool_session_fail(&session, status, NULL);
  }
  r.result = result;
  if (exit_code == TOOL_OK) exit_code = print_report(&r);
  vkf_result_destroy(&result);
  vkf_context_destroy(&session.context);
  tool_text_list_finish(&hypotheses);
  tool_text_list_finish(&references);
  tool_text_list_finish(&baseline);
  return exit_code;
}

static const tool_option options[] = {
    {"samples", 0, TOOL_SIZE, offsetof(tool_args, samples), "N",
     "draw N samples of the lines (bootstrap), and print the interval\nthat has 95 % of their scores"},
    {"baseline", 0, TOOL_INPUT, offsetof(tool_args, baseline), "FILE",
     "translations of another system: also print p, how probable so\nlarge a difference is by chance (paired "
     "bootstrap, 1000 samples)"},
    {"seed", 0, TOOL_SIZE, offsetof(tool_args, seed), "N", "seed of the samples; default 12345, as in sacreBLEU"},
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL, "print JSON"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_evaluate = {
    .name = "evaluate",
    .summary = "Compare translations with references: BLEU and chrF",
    .usage = "HYPOTHESES REFERENCES... [OPTION]...",
    .text =
        "Each file has one text per line; several files of references give each line several references. The scores,\n"
        "the signatures, the samples and the test are those of sacreBLEU 2.",
    .examples =
        "  vkformer evaluate spanish.txt reference.txt --samples 1000\n"
        "  vkformer evaluate new.txt reference.txt --baseline old.txt\n",
    .groups = {&group, &tool_common_options},
    .min_operands = 2,
    .max_operands = (size_t)-1,
    .operand = "HYPOTHESES and REFERENCES, files with a text a line",
    .run = run_evaluate,
    .computes_nothing = true,
};
