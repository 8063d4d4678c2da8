/* kernels: the variants of an op, which of them fit a problem on a device, and which one is taken. */
#include "program.h"

typedef struct listing {
  json_t *rows;
  int json;
  bool has_rows;
} listing;

static void on_kernel(void *user, const vkf_kernel_info *kernel) {
  listing *l = user;
  if (l->json) {
    json_array_append_new(
        l->rows, json_pack("{s:s, s:s, s:b, s:s?, s:s, s:i, s:i, s:b, s:s?}", "op", kernel->op, "name", kernel->name,
                           "fits", kernel->reason == NULL, "reason", kernel->reason, "order", kernel->order,
                           "workgroup", (int)kernel->workgroup, "shared_bytes", (int)kernel->shared_bytes, "picked",
                           kernel->picked, "why", kernel->why));
    return;
  }
  if (!l->has_rows) printf("  %-34s %-9s %5s %6s\n", "kernel", "order", "group", "shared");
  l->has_rows = true;
  printf("%s %-34s %-9s %5u %6u  %s%s\n", kernel->picked ? "*" : " ", kernel->name, kernel->order, kernel->workgroup,
         kernel->shared_bytes, kernel->reason ? "does not fit: " : "fits", kernel->reason ? kernel->reason : "");
  if (kernel->picked && kernel->why) printf("    taken: %s\n", kernel->why);
}

static int run_kernels(const tool_args *args) {
  tool_session session;
  listing l = {.rows = json_array(), .json = args->json};
  int exit_code = tool_session_open(&session, args, args->device ? args->device : "", NULL);
  if (exit_code == TOOL_OK) {
    vkf_status status = vkf_device_list_kernels(session.device, args->operands[0], on_kernel, &l);
    if (status != VKF_OK)
      exit_code = tool_session_fail(&session, status, NULL);
    else if (l.json)
      exit_code = tool_print_json(json_incref(l.rows));
  }
  json_decref(l.rows);
  tool_session_close(&session);
  return exit_code;
}

static const tool_option options[] = {
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL, "print JSON"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_kernels = {
    .name = "kernels",
    .summary = "List the kernel variants of a problem and say which fit and why",
    .usage = "PROBLEM [OPTION]...",
    .text =
        "PROBLEM is matmul:M,N,K, attention:QUERIES,KEYS,HEADS,WIDTH, norm:ROWS,WIDTH,\n"
        "log_softmax:ROWS,WIDTH or top_k:ROWS,WIDTH,K. The variant marked * is the one that runs take.",
    .examples = "  vkformer kernels matmul:77,512,512 --device lavapipe\n",
    .groups = {&group, &tool_common_options},
    .min_operands = 1,
    .max_operands = 1,
    .operand = "one problem",
    .run = run_kernels,
};
