/* worker: see worker.h.
 *
 * A request is a line "PROBLEM KERNEL[,KERNEL] SECONDS GIVE-UP-NS"; the answer is a line "done KERNEL NS MIN-NS
 * RATIO FLOPS BYTES" or "wrong KERNEL RATIO" for each and a line "end", or a line "failed SENTENCE". The child prints
 * "ready" when it is ready for the first request.
 */
#define _POSIX_C_SOURCE 200809L

#include "worker.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <vkformer/lab.h>

/* ---- the child --------------------------------------------------------------------------------------------------- */

static void on_row(void *user, const vkf_bench_row *row) {
  (void)user;
  if (row->ratio <= 1 && row->n_runs)
    printf("done %s %.17g %.17g %.17g %.17g %.17g\n", row->variant, row->median_ns, row->min_ns, row->ratio, row->flops,
           row->bytes);
  else
    printf("wrong %s %.17g\n", row->variant, row->ratio);
}

int tool_worker_serve(tool_session *session) {
  char line[2048], problem[128], kernels[1800];
  vkf_bench_params params = {VKF_BENCH_PARAMS_INIT, .variant = kernels};
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    if (sscanf(line, "%127s %1799s %lf %lf", problem, kernels, &params.seconds, &params.give_up_ns) != 4)
      return tool_error("tune --worker: expected PROBLEM KERNEL SECONDS GIVE-UP-NS, found %s", line);
    vkf_status status = vkf_device_bench(session->device, problem, &params, on_row, NULL);
    if (status == VKF_OK)
      printf("end\n");
    else
      printf("failed %s\n", vkf_context_message(session->context));
    fflush(stdout);
  }
  return TOOL_OK;
}

/* ---- the parent -------------------------------------------------------------------------------------------------- */

static int start(tool_worker *w) {
  const tool_child_params params = {.words = {"tune", "--worker", "--device", w->device}, .is_without_cache = true};
  w->n_line = 0;
  if (tool_child_start(&w->child, w->args, &params)) return TOOL_OK;
  return tool_error("a process that measures cannot be started: %s", strerror(errno));
}

/* Reads a line of the child, until `deadline`. */
static tool_outcome read_line(tool_worker *w, double deadline, char *line, size_t size) {
  for (;;) {
    char *newline = memchr(w->line, '\n', w->n_line);
    if (newline) {
      size_t n = (size_t)(newline - w->line);
      snprintf(line, size, "%.*s", (int)n, w->line);
      w->n_line -= n + 1;
      memmove(w->line, newline + 1, w->n_line);
      return TOOL_MEASURE_DONE;
    }
    if (w->n_line == sizeof w->line) return TOOL_MEASURE_DIED; /* our child prints no line that long */
    const ssize_t n = tool_child_read(&w->child, deadline, w->line + w->n_line, sizeof w->line - w->n_line);
    if (n < 0) return TOOL_MEASURE_HUNG;
    if (n == 0) return TOOL_MEASURE_DIED;
    w->n_line += (size_t)n;
  }
}

/* The limits of child and parent can differ: with --limits an open device pretends to be a smaller one. */
static bool is_same_device(const vkf_device_info *a, const vkf_device_info *b) {
  return memcmp(a->uuid, b->uuid, sizeof a->uuid) == 0 && a->driver_id == b->driver_id &&
         a->driver_version == b->driver_version && strcmp(a->name, b->name) == 0 && strcmp(a->driver, b->driver) == 0;
}

int tool_worker_init(tool_worker *w, tool_session *session, const tool_args *args) {
  const vkf_device_info *own = vkf_device_get_info(session->device);
  size_t n = 0;
  *w = (tool_worker){.args = args};
  signal(SIGPIPE, SIG_IGN); /* reading finds out that a child died */
  vkf_status status = vkf_context_list_devices(session->context, &n);
  for (size_t i = 0; i < n && status == VKF_OK; i++) {
    vkf_device_info info = {VKF_DEVICE_INFO_INIT};
    status = vkf_context_device_info(session->context, i, &info);
    if (status == VKF_OK && is_same_device(&info, own)) snprintf(w->device, sizeof w->device, "%zu", i);
  }
  if (status != VKF_OK) return tool_session_fail(session, status, NULL);
  return w->device[0] ? TOOL_OK : tool_error("%s is not among the devices that are listed", own->name);
}

/* Parses one line of an answer; false: it was the last. */
static bool parse_answer(const char *line, tool_measure *kernels, size_t n) {
  char name[128] = "";
  tool_measure m = {.outcome = TOOL_MEASURE_DONE};
  if (strcmp(line, "end") == 0) return false; /* a kernel without a line is none of this device's */
  if (sscanf(line, "done %127s %lf %lf %lf %lf %lf", name, &m.ns, &m.min_ns, &m.ratio, &m.flops, &m.bytes) != 6)
    m.outcome = TOOL_MEASURE_WRONG;
  if (m.outcome == TOOL_MEASURE_WRONG && sscanf(line, "wrong %127s %lf", name, &m.ratio) != 2) {
    const char *sentence = strncmp(line, "failed ", 7) == 0 ? line + 7 : line;
    for (size_t i = 0; i < n; i++) snprintf(kernels[i].message, sizeof kernels[i].message, "%.255s", sentence);
    return false;
  }
  for (size_t i = 0; i < n; i++) {
    if (strcmp(kernels[i].kernel, name) != 0) continue;
    m.kernel = kernels[i].kernel;
    kernels[i] = m;
  }
  return true;
}

/* Sends one request and reads the answer. Returns how that ended. */
static tool_outcome ask(tool_worker *w, const char *problem, tool_measure *kernels, size_t n, tool_patience patience,
                        double deadline) {
  char request[2048], line[1024];
  size_t size = (size_t)snprintf(request, sizeof request, "%s ", problem);
  for (size_t i = 0; i < n && size < sizeof request; i++)
    size += (size_t)snprintf(request + size, sizeof request - size, "%s%s", i ? "," : "", kernels[i].kernel);
  if (size < sizeof request)
    size +=
        (size_t)snprintf(request + size, sizeof request - size, " %.6f %.0f\n", patience.seconds, patience.give_up_ns);
  if (size >= sizeof request) return TOOL_MEASURE_FAILED;
  if (write(w->child.to, request, size) != (ssize_t)size) return TOOL_MEASURE_DIED;
  for (;;) {
    tool_outcome outcome = read_line(w, deadline, line, sizeof line);
    if (outcome != TOOL_MEASURE_DONE) return outcome;
    if (!parse_answer(line, kernels, n)) return TOOL_MEASURE_DONE;
  }
}

int tool_worker_measure(tool_worker *w, const char *problem, tool_measure *kernels, size_t n, tool_patience patience) {
  char line[1024];
  const double deadline = tool_seconds() + patience.limit;
  tool_outcome outcome = TOOL_MEASURE_DONE;
  for (size_t i = 0; i < n; i++)
    kernels[i] = (tool_measure){.kernel = kernels[i].kernel, .outcome = TOOL_MEASURE_FAILED};
  if (w->child.pid <= 0) {
    if (start(w) != TOOL_OK) return TOOL_FAILED;
    outcome = read_line(w, deadline, line, sizeof line);
    if (outcome == TOOL_MEASURE_DIED) {
      (void)tool_child_end(&w->child, true);
      return tool_error("the process that measures ended before it was ready");
    }
  }
  if (outcome == TOOL_MEASURE_DONE) outcome = ask(w, problem, kernels, n, patience, deadline);
  if (outcome == TOOL_MEASURE_DONE) return TOOL_OK;
  (void)tool_child_end(&w->child, true);
  for (size_t i = 0; i < n; i++) kernels[i].outcome = outcome;
  return TOOL_OK;
}

void tool_worker_finish(tool_worker *w) {
  (void)tool_child_end(&w->child, false);
}
