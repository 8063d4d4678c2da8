/* Paths that are no model folders: the message says what was found there and what to do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "file/json.h"
#include "file/safetensors.h"
#include "model/model.h"

#define LFS "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"

static vkf_env env;
static char folder[64] = "/tmp/vkf-foreign-XXXXXX", path[128];

static void put(const char *name, const char *text) {
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_true(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void expect(vkf_status status, const char *words) {
  assert_int_not_equal(status, VKF_OK);
  if (!strstr(env.message, words)) fail_msg("expected '%s' in '%s'", words, env.message);
  vkf_env_clear(&env);
}

static void refused(const char *what, const char *words) {
  vkf_net *net = NULL;
  expect(vkf_model_net_open(&env, &(vkf_file_source){.folder = what}, &net), words);
  assert_null(net);
}

static void folders_of_others(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"adapter_config.json", "found a LoRA adapter of PEFT: merge it into its base model"},
      {"model.bin", "found a model of CTranslate2"},
      {"model.npz", "found a model of Marian"},
      {"tf_model.h5", "found weights of TensorFlow"},
      {"model.onnx", "found a model of ONNX"},
      {"tiny-q4.gguf", "found a GGUF file of llama.cpp"},
  };
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    put(rows[i][0], "{}");
    refused(folder, rows[i][1]);
    assert_int_equal(unlink(path), 0);
  }
  refused(folder, "expected a model folder, found a folder without config.json");
  refused("org/some-model", "\"hf download org/some-model --local-dir FOLDER\"");
  refused("./none",
          "./none: expected a model folder, found no file or folder of that name; `vkformer help models` says how to "
          "get one");
}

static void files_of_others(void **state) {
  (void)state;
  vkf_file_tensors *tensors = NULL;
  vkf_file_json *json = NULL;
  put("m.gguf", "GGUF\003");
  refused(path, "m.gguf: expected a model folder, found a GGUF file of llama.cpp");
  put("m.safetensors", LFS);
  refused(path, "found a pointer of git-LFS, not the file itself: fetch it by \"git lfs pull\"");
  expect(vkf_file_tensors_open(&env, path, &tensors), "expected a safetensors file, found a pointer of git-LFS");
  put("m.bin", "PK\003\004 and more");
  expect(vkf_file_tensors_open(&env, path, &tensors), "found a pickle of PyTorch or an archive: scripts/convert");
  put("m.gz", "\x1f\x8b and more");
  expect(vkf_file_tensors_open(&env, path, &tensors), "expected a safetensors file, found what gzip compressed");
  refused(path, "m.gz: expected a model folder, found what gzip compressed");
  put("plain", "some text");
  refused(path, "plain: expected a model folder, found a file");
  put("config.json", LFS);
  expect(vkf_file_json_read(&env, path, &json), "config.json: expected JSON, found a pointer of git-LFS");
  const char *const names[] = {"m.gguf", "m.safetensors", "m.bin", "m.gz", "plain", "config.json"};
  for (size_t i = 0; i < VKF_COUNT(names); i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    assert_int_equal(unlink(path), 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(folders_of_others), cmocka_unit_test(files_of_others)};
  vkf_env_init(&env, NULL);
  if (!mkdtemp(folder)) return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return rmdir(folder) == 0 ? failed : 1;
}
