/* Takes any bytes as the config.json of a folder with fixed weights: a model that opens can build its plans.
 *
 * The input is tried beside the weights of the tiny model, and beside those of the golden marian folder.
 */
#include "fuzz.h"

#include "model/model.h"

static char marian_folder[300];

static void prepare(void) {
  static tiny_tensors tensors;
  vkf_context *context = NULL;
  char path[512];
  if (marian_folder[0]) return;
  FUZZ_CHECK(vkf_context_create(NULL, &context) == VKF_OK);
  tiny_tensors_init(&tensors);
  FUZZ_CHECK(tiny_put_tensors(context, fuzz_folder(), &tensors) == VKF_OK);
  vkf_context_destroy(&context);
  snprintf(marian_folder, sizeof marian_folder, "%s/marian", fuzz_folder());
  FUZZ_CHECK(mkdir(marian_folder, 0700) == 0);
  snprintf(path, sizeof path, "%s/model.safetensors", marian_folder);
  FUZZ_CHECK(symlink(VKF_SOURCE_DIR "/tests/golden/marian/model.safetensors", path) == 0);
}

static void build(vkf_env *env, const vkf_net *net, vkf_stage stage) {
  vkf_plan *plan = NULL;
  const vkf_plan_request request = {
      .stage = stage, .capacity = {.B = 1, .S = 1, .R = 1, .T = 1, .out = 1}, .last_hidden_state = true, .mask = true};
  FUZZ_CHECK(fuzz_check_status(env, vkf_model_plan_build(net, env, &request, &plan)) == VKF_OK);
  vkf_model_plan_destroy(&plan);
}

static void open_folder(const char *folder, const uint8_t *data, size_t size) {
  vkf_env env;
  vkf_net *net = NULL;
  vkf_env_init(&env, NULL);
  FUZZ_CHECK(tiny_put(folder, "config.json", data, size));
  if (fuzz_check_status(&env, vkf_model_net_open(&env, &(vkf_file_source){.folder = folder}, &net)) == VKF_OK) {
    vkf_architecture architecture = vkf_model_net_info(net)->architecture;
    if (architecture != VKF_ARCHITECTURE_DECODER) build(&env, net, VKF_STAGE_ENCODE);
    if (architecture != VKF_ARCHITECTURE_ENCODER) build(&env, net, VKF_STAGE_DECODE);
  } else {
    FUZZ_CHECK(net == NULL);
  }
  vkf_model_net_close(&net);
  fuzz_end(&env);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  prepare();
  open_folder(fuzz_folder(), data, size);
  open_folder(marian_folder, data, size);
  return 0;
}
