/* bench: times whole models as a program that uses the library sees them: from a call to its end. */
#define _XOPEN_SOURCE 700
#include <ftw.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "bench_figures.h"
#include "lines.h"
#include "source.h"

enum { MIN_RUNS = 5, MAX_RUNS = 4096, VERIFIED_TOKENS = 128 };

/* ---- a folder with random weights -------------------------------------------------------------------------------- */

static size_t or_else(size_t given, size_t fallback) {
  return given ? given : fallback;
}

static json_t *encoder_config(const tool_args *a) {
  return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:s, s:b}", "model_type", "transformer", "architecture",
                   "encoder", "vocab_size", (int)or_else(a->vocab, 4096), "d_model", (int)or_else(a->d_model, 512),
                   "nhead", (int)or_else(a->heads, 8), "dim_feedforward", (int)or_else(a->d_ff, 2048), "num_layers",
                   (int)or_else(a->layers, 6), "activation", a->activation ? a->activation : "gelu", "norm_first",
                   a->norm && strcmp(a->norm, "pre") == 0);
}

static json_t *decoder_config(const tool_args *a) {
  return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:s, s:i, s:f, s:n}", "model_type", "llama", "vocab_size",
                   (int)or_else(a->vocab, 4096), "hidden_size", (int)or_else(a->d_model, 512), "num_attention_heads",
                   (int)or_else(a->heads, 8), "intermediate_size", (int)or_else(a->d_ff, 1408), "num_hidden_layers",
                   (int)or_else(a->layers, 8), "hidden_act", "silu", "max_position_embeddings", 1 << 16, "rms_norm_eps",
                   1e-5, "eos_token_id");
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *at) {
  (void)status;
  (void)type;
  (void)at;
  return remove(path);
}

/* Opens the model that the arguments ask for. Its files are no longer needed then. */
static int open_model(bench *b, json_t *config) {
  const char *parent = getenv("TMPDIR");
  char folder[512], path[640], model[640];
  if (b->args->model) {
    json_decref(config);
    return tool_session_open_model(&b->session, b->args->model);
  }
  snprintf(folder, sizeof folder, "%.480s/vkformer-bench-XXXXXX", parent && parent[0] ? parent : "/tmp");
  if (!mkdtemp(folder)) {
    json_decref(config);
    return tool_error("%s: cannot be created", folder);
  }
  snprintf(path, sizeof path, "%s/config.json", folder);
  snprintf(model, sizeof model, "%s/model", folder);
  int exit_code = tool_write_json(path, config);
  if (exit_code == TOOL_OK) {
    tool_progress(&b->session, "weights ...");
    vkf_status status = vkf_model_make_folder(b->session.context, path, model, NULL);
    exit_code =
        status == VKF_OK ? tool_session_open_model(&b->session, model) : tool_session_fail(&b->session, status, NULL);
    if (status == VKF_ERROR_FORMAT || status == VKF_ERROR_UNSUPPORTED)
      exit_code = TOOL_USAGE; /* it names the options */
  }
  nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
  return exit_code;
}

/* ---- one size ---------------------------------------------------------------------------------------------------- */

/* Makes a batch of random ids. */
static int batch_init(vkf_array *out, size_t n_sequences, size_t length, size_t vocab) {
  int32_t *ids = malloc(n_sequences * length * sizeof *ids);
  uint32_t random = 1;
  if (!ids) return tool_error("out of memory");
  for (size_t i = 0; i < n_sequences * length; i++) {
    random = random * 1664525u + 1013904223u; /* Numerical Recipes' generator: any ids do */
    ids[i] = (int32_t)((random >> 8) % vocab);
  }
  *out = (vkf_array){"input_ids", VKF_I32, 2, {n_sequences, length}, ids};
  return TOOL_OK;
}

/* The passes of a call: the last one is a step, all before it are the prompt. */
typedef struct passes {
  vkf_pass_info prompt, step;
  size_t n;
  double ratio;
} passes;

static void on_pass(void *user, const vkf_pass_info *pass) {
  passes *p = user;
  if (p->n++ > 0) {
    p->prompt.flops += p->step.flops;
    p->prompt.bytes += p->step.bytes;
  }
  p->step = *pass;
  p->ratio = pass->ratio <= p->ratio ? p->ratio : pass->ratio; /* NaN stays */
}

/* Verifies the first tokens of the first sequence, and counts the flops of the whole batch. */
static int verify(bench *b, const vkf_array *all, const vkf_generate_params *generate, passes *out) {
  vkf_verify_params params = {VKF_VERIFY_PARAMS_INIT, .generate = generate};
  vkf_generate_params few = {VKF_GENERATE_PARAMS_INIT, .config_json = "{\"max_new_tokens\": 2}"};
  const size_t length = all->shape[1] < VERIFIED_TOKENS ? all->shape[1] : VERIFIED_TOKENS;
  const vkf_array small = {all->name, all->dtype, 2, {1, length}, all->data};
  passes verified = {0};
  *out = (passes){0};
  if (generate) params.generate = &few;
  tool_progress(&b->session, "verifying ...");
  vkf_status status = vkf_model_verify(b->session.model, &small, 1, &params, on_pass, &verified);
  params.cost_only = 1;
  if (status == VKF_OK) status = vkf_model_verify(b->session.model, all, 1, &params, on_pass, out);
  out->ratio = verified.ratio;
  if (out->n == 1) out->prompt = out->step;
  return status == VKF_OK ? TOOL_OK : tool_session_fail(&b->session, status, "verifying");
}

/* Times between tokens. */
typedef struct watch {
  double last;
  double *prompt_ns, *step_ns; /* [MAX_RUNS] */
  uint32_t n_prompts, n_steps;
  bool began;
} watch;

static int on_token(void *user, size_t row, int32_t token) {
  watch *w = user;
  (void)token;
  if (row != 0) return 0;
  double now = tool_seconds(), ns = (now - w->last) * 1e9;
  if (!w->began && w->n_prompts < MAX_RUNS) w->prompt_ns[w->n_prompts++] = ns;
  if (w->began && w->n_steps < MAX_RUNS) w->step_ns[w->n_steps++] = ns;
  w->began = true;
  w->last = now;
  return 0;
}

/* Makes one call and puts its times into *w. */
static vkf_status call(bench *b, const vkf_array *all, const vkf_generate_params *generate, watch *w) {
  vkf_result *result = NULL;
  vkf_status status;
  w->last = tool_seconds();
  w->began = false;
  if (generate) {
    status = vkf_session_generate(b->session.run, all, 1, generate, &result);
  } else {
    status = vkf_session_run(b->session.run, all, 1, NULL, &result);
    if (w->n_prompts < MAX_RUNS) w->prompt_ns[w->n_prompts++] = (tool_seconds() - w->last) * 1e9;
  }
  vkf_result_destroy(&result);
  return status;
}

/* Calls until the time is over; calls in its first fifth warm up and do not count. */
static int time_calls(bench *b, const vkf_array *all, const vkf_generate_params *generate, watch *w) {
  double seconds = b->args->seconds > 0 ? b->args->seconds : 2, begin = tool_seconds();
  vkf_status status = VKF_OK;
  do status = call(b, all, generate, w);
  while (status == VKF_OK && tool_seconds() - begin < seconds / 5);
  w->n_prompts = w->n_steps = 0;
  for (begin = tool_seconds();
       status == VKF_OK && w->n_prompts < MAX_RUNS && (w->n_prompts < MIN_RUNS || tool_seconds() - begin < seconds);)
    status = call(b, all, generate, w);
  return status == VKF_OK ? TOOL_OK : tool_session_fail(&b->session, status, NULL);
}

/* Writes a row's variant: what was timed, and how numbers are stored if that is not float32. */
static const char *stored_name(bench *b, const char *name, char *text, size_t size) {
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  vkf_model_get_info(b->session.model, &info);
  const bool is_f32 = info.weights == VKF_STORAGE_F32, is_f32_cache = info.kv_cache == VKF_STORAGE_F32;
  snprintf(text, size, "%s%s%s%s%s", name, is_f32 ? "" : ", weights ", is_f32 ? "" : vkf_storage_name(info.weights),
           is_f32_cache ? "" : ", cache ", is_f32_cache ? "" : vkf_storage_name(info.kv_cache));
  return text;
}

static void add_row(bench *b, const char *problem, const char *name, const vkf_pass_info *pass, double ratio,
                    double *ns, uint32_t n, size_t n_tokens) {
  char variant[96];
  vkf_session_info held = {VKF_SESSION_INFO_INIT};
  vkf_session_get_info(b->session.run, &held);
  vkf_bench_row row = {.problem = problem,
                       .variant = stored_name(b, name, variant, sizeof variant),
                       .clock = VKF_CLOCK_CALL,
                       .flops = pass->flops,
                       .bytes = pass->bytes,
                       .ratio = ratio,
                       .n_runs = n};
  bench_summarize(&row, ns);
  bench_add(b, &row,
            n ? json_pack("{s:o, s:I}", "tokens_per_s", tool_json_real((double)n_tokens * 1e9 / row.median_ns),
                          "run_bytes", (json_int_t)held.run_bytes)
              : NULL);
}

static int time_size(bench *b, const char *kind, size_t n_sequences, size_t length,
                     const vkf_generate_params *generate) {
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  vkf_array all;
  passes p;
  watch w = {.prompt_ns = calloc(MAX_RUNS, sizeof(double)), .step_ns = calloc(MAX_RUNS, sizeof(double))};
  char problem[160];
  vkf_model_get_info(b->session.model, &info);
  snprintf(b->repeat, sizeof b->repeat, "%s --batch %zu --length %zu", kind, n_sequences, length);
  snprintf(problem, sizeof problem, "%s %s layers %u d_model %u heads %u d_ff %u vocab %u batch %zu length %zu", kind,
           info.family, info.encoder_layers + info.decoder_layers, info.d_model, info.n_heads, info.d_ff, info.vocab,
           n_sequences, length);
  int exit_code =
      w.prompt_ns && w.step_ns ? batch_init(&all, n_sequences, length, info.vocab) : tool_error("out of memory");
  if (exit_code != TOOL_OK) goto done;
  vkf_generate_params watched = {VKF_GENERATE_PARAMS_INIT, .on_token = on_token, .user = &w};
  if (generate) watched.config_json = generate->config_json;
  exit_code = verify(b, &all, generate, &p);
  tool_progress(&b->session, "%s ...", problem);
  if (exit_code == TOOL_OK && p.ratio <= 1) exit_code = time_calls(b, &all, generate ? &watched : NULL, &w);
  if (exit_code == TOOL_OK) {
    add_row(b, problem, generate ? "prompt" : "whole", &p.prompt, p.ratio, w.prompt_ns, w.n_prompts,
            n_sequences * length);
    if (generate) add_row(b, problem, "step", &p.step, p.ratio, w.step_ns, w.n_steps, n_sequences);
  }
  free(all.data);
done:
  free(w.prompt_ns);
  free(w.step_ns);
  return exit_code;
}

static int bench_model(bench *b, const char *kind, json_t *config, const vkf_generate_params *generate) {
  const tool_sizes batches = bench_sizes(&b->args->batches, 1), lengths = bench_sizes(&b->args->lengths, 128);
  int exit_code = open_model(b, config);
  if (exit_code == TOOL_OK) exit_code = bench_begin(b);
  for (size_t i = 0; i < batches.n; i++)
    for (size_t j = 0; j < lengths.n && exit_code == TOOL_OK; j++)
      exit_code = time_size(b, kind, batches.at[i], lengths.at[j], generate);
  vkf_model_close(&b->session.model);
  return exit_code;
}

int bench_encoder(bench *b) {
  return bench_model(b, "encoder", encoder_config(b->args), NULL);
}

/* ---- translate --------------------------------------------------------------------------------------------------- */

static int add_line(void *user, const tool_line *line, const vkf_result *result) {
  (void)result;
  return tool_is_blank(line->text) ? TOOL_OK : tool_text_list_add(user, line->text);
}

/* Reads the sources of golden.jsonl, the sentences that come with the shipped model. */
static int golden_texts(const char *folder, tool_text_list *t) {
  char path[4200];
  size_t size = 0;
  snprintf(path, sizeof path, "%s/golden.jsonl", folder);
  char *lines = tool_read_file(path, &size);
  int exit_code = TOOL_OK;
  if (!lines) return tool_error("expected sentences in the model's folder; --stdin takes them from standard input");
  for (char *line = strtok(lines, "\n"); line && exit_code == TOOL_OK; line = strtok(NULL, "\n")) {
    json_t *row = json_loads(line, 0, NULL);
    const char *source = json_string_value(json_object_get(row, "source"));
    if (source) exit_code = tool_text_list_add(t, source);
    json_decref(row);
  }
  free(lines);
  return exit_code;
}

/* Times the translation of all texts. If `ratio` is over its bound, the row is added without times. */
static int time_translate(bench *b, const tool_text_list *t, double ratio) {
  static const char greedy[] = "{\"num_beams\": 1}";
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = greedy};
  double seconds = b->args->seconds > 0 ? b->args->seconds : 2, begin = tool_seconds();
  double *ns = calloc(MAX_RUNS, sizeof *ns);
  vkf_status status = ns ? VKF_OK : VKF_ERROR_MEMORY;
  char problem[160], variant[96];
  vkf_bench_row row = {.variant = stored_name(b, "greedy, batches of 32", variant, sizeof variant),
                       .clock = VKF_CLOCK_CALL,
                       .ratio = ratio};
  snprintf(problem, sizeof problem, "translate sentences %zu", t->n);
  snprintf(b->repeat, sizeof b->repeat, "translate");
  row.problem = problem;
  const bool is_right = ratio <= 1;
  for (bool warm = false; is_right && status == VKF_OK && row.n_runs < MAX_RUNS;) {
    vkf_result *result = NULL;
    const double start = tool_seconds();
    status = vkf_session_translate(b->session.run, (const char *const *)t->at, t->n, &params, &result);
    vkf_result_destroy(&result);
    double now = tool_seconds();
    if (warm) ns[row.n_runs++] = (now - start) * 1e9;
    if (!warm) begin = now;
    warm = true;
    if (row.n_runs >= MIN_RUNS && now - begin > seconds) break;
  }
  if (status != VKF_OK) {
    free(ns);
    return tool_session_fail(&b->session, status, "translate");
  }
  bench_summarize(&row, ns);
  free(ns);
  bench_add(
      b, &row,
      row.n_runs ? json_pack("{s:o}", "sentences_per_s", tool_json_real((double)t->n * 1e9 / row.median_ns)) : NULL);
  return TOOL_OK;
}

int bench_translate(bench *b) {
  char folder[4096];
  tool_text_list t = {0};
  double worst = 0;
  tool_lines lines = {.session = &b->session, .args = b->args, .window = 1, .print = add_line, .user = &t};
  int exit_code = tool_find_model(b->args, folder, sizeof folder);
  if (exit_code == TOOL_OK) exit_code = b->args->stdin_ ? tool_lines_run(&lines) : golden_texts(folder, &t);
  if (exit_code == TOOL_OK && t.n == 0) exit_code = tool_error("expected at least one sentence, found none");
  if (exit_code == TOOL_OK) exit_code = tool_session_open_model(&b->session, folder);
  if (exit_code == TOOL_OK) exit_code = bench_begin(b);
  if (exit_code == TOOL_OK) {
    tool_progress(&b->session, "verifying ...");
    vkf_status status = vkf_device_validate(b->session.device,
                                            &(vkf_validate_params){VKF_VALIDATE_PARAMS_INIT, .model = b->session.model},
                                            NULL, NULL, &worst);
    if (status != VKF_OK) exit_code = tool_session_fail(&b->session, status, "verifying");
  }
  if (exit_code == TOOL_OK) exit_code = time_translate(b, &t, worst);
  tool_text_list_finish(&t);
  vkf_model_close(&b->session.model);
  return exit_code;
}

int bench_decoder(bench *b) {
  char config[64];
  snprintf(config, sizeof config, "{\"max_new_tokens\": %zu}", or_else(b->args->top, 32) + 1);
  const vkf_generate_params generate = {VKF_GENERATE_PARAMS_INIT, .config_json = config};
  return bench_model(b, "decoder", decoder_config(b->args), &generate);
}
