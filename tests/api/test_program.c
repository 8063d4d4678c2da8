/* The program from outside: what it prints, where, and how it exits. Each row is a shell command with its exit code, a
 * piece of standard output and a piece of standard error.
 *
 * In a command $V is the program, $M the shipped model, $G the golden folders, $B the build folder and $T a fresh
 * folder with damaged copies of a golden model. VKF_DEVICE names the driver under test.
 */
#include <math.h>

#include "support/program.h"
#include "support/range.h"

/* ---- damaged models and inputs ----------------------------------------------------------------------------------- */

static void write_arrays(vkf_context *context, const char *name, const vkf_array *arrays, size_t n) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", program_folder, name);
  program_ok(context, vkf_arrays_write(context, path, arrays, n));
}

static vkf_array *find_array(vkf_array *arrays, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++) {
    if (strcmp(arrays[i].name, name) == 0) return &arrays[i];
  }
  fail_msg("the golden model has no tensor %s", name);
  return NULL;
}

/* Writes copies of the golden encoder-decoder, each with one fault. */
static void make_models(vkf_context *context) {
  enum { MAX_ARRAYS = 128 };
  static vkf_array arrays[MAX_ARRAYS];
  vkf_result *model = NULL;
  char path[512];
  snprintf(path, sizeof path, "%s/tests/golden/transformer-postln-relu/model.safetensors", VKF_SOURCE_DIR);
  program_ok(context, vkf_arrays_read(context, path, &model));
  size_t n = vkf_result_count(model);
  assert_between(n, 2, MAX_ARRAYS - 1);
  for (size_t i = 0; i < n; i++) arrays[i] = *vkf_result_at(model, i);

  float number = 1;
  arrays[n] = (vkf_array){.name = "nobody.asks", .dtype = VKF_F32, .rank = 1, .shape = {1}, .data = &number};
  write_arrays(context, "extra/model.safetensors", arrays, n + 1);

  vkf_array *tensor = find_array(arrays, n, "core.decoder.layers.1.linear2.weight");
  size_t swap = tensor->shape[0];
  tensor->shape[0] = tensor->shape[1];
  tensor->shape[1] = swap;
  write_arrays(context, "shape/model.safetensors", arrays, n);
  tensor->shape[1] = tensor->shape[0];
  tensor->shape[0] = swap;

  float *bias = find_array(arrays, n, "core.decoder.layers.1.norm3.bias")->data;
  float kept = bias[0];
  bias[0] = NAN;
  write_arrays(context, "nan/model.safetensors", arrays, n);
  bias[0] = kept;

  *tensor = arrays[n - 1];
  write_arrays(context, "missing/model.safetensors", arrays, n - 1);
  vkf_result_destroy(&model);
}

static void make_inputs(vkf_context *context) {
  static int32_t ids[100], outside[4] = {5, 6, 7000, 8}, target[3] = {1, 9, 10};
  static float numbers[4];
  for (int i = 0; i < 100; i++) ids[i] = 3 + i % 50;
  vkf_array in[2] = {{.name = "input_ids", .dtype = VKF_I32, .rank = 2, .shape = {1, 4}, .data = ids},
                     {.name = "decoder_input_ids", .dtype = VKF_I32, .rank = 2, .shape = {1, 3}, .data = target}};
  write_arrays(context, "in.safetensors", in, 2);
  write_arrays(context, "no_target.safetensors", in, 1);
  write_arrays(context, "no_ids.safetensors", in + 1, 1);
  in[0].data = outside;
  write_arrays(context, "outside.safetensors", in, 2);
  in[0].data = ids;
  in[0].shape[1] = 100;
  write_arrays(context, "long.safetensors", in, 2);
  in[0].shape[1] = 4;
  in[0].rank = 1;
  in[0].shape[0] = 4;
  write_arrays(context, "rank.safetensors", in, 2);
  in[0] = (vkf_array){.name = "input_ids", .dtype = VKF_F32, .rank = 2, .shape = {1, 4}, .data = numbers};
  write_arrays(context, "floats.safetensors", in, 2);
}

static int prepare(void **state) {
  (void)state;
  vkf_context *context = NULL;
  setenv("B", VKF_BINARY_DIR, 1);
  setenv("M", VKF_SOURCE_DIR "/models/en-es", 1);
  if (program_setup(
          "for d in extra shape nan missing type truncated huge none; do "
          "mkdir $T/$d && cp $G/transformer-postln-relu/config.json $T/$d && chmod u+w $T/$d/*; done\n"
          "sed -i 's/\"transformer\"/\"perceptron\"/' $T/type/config.json\n"
          "cp $G/transformer-postln-relu/model.safetensors $T/type\n"
          "head -c 40000 $G/transformer-postln-relu/model.safetensors > $T/truncated/model.safetensors\n"
          "printf '\\377\\377\\377\\377\\377\\377\\377\\177{}' > $T/huge/model.safetensors\n"
          "mkdir $T/loader && for n in libvulkan.so libvulkan.so.1; do " /* a library, but no loader */
          "cp $(ldd $V | sed -n 's/.*libm[.]so.* => \\([^ ]*\\).*/\\1/p') $T/loader/$n || exit 1; done\n"
          "echo '{\"do_sample\": true, \"num_beams\": 2}' > $T/sample.json; echo '{\"nosuch_key\": 3}' > $T/key.json\n"
          "echo '[1]' > $T/array.json; echo '{\"num_beams\": 2' > $T/broken.json") != 0)
    return -1;
  program_ok(NULL, vkf_context_create(NULL, &context));
  make_models(context);
  make_inputs(context);
  vkf_context_destroy(&context);
  return 0;
}

/* ---- the rows ---------------------------------------------------------------------------------------------------- */

static void test_help(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$V --help", 0, "Commands:", ""},
      {"$V --version", 0, "vkformer ", ""},
      {"$V help run", 0, "Usage: vkformer run MODEL", ""},
      {"for c in $($V --help | sed -n '/^Commands/,/^$/s/^  \\([a-z-]*\\) .*/\\1/p'); do "
       "$V $c --help > $T/help || exit 1; for w in \"Usage: vkformer $c\" --verbose Example:; do "
       "grep -q -e \"$w\" $T/help || { echo \"$c: no $w\"; exit 1; }; done; echo $c; done",
       0, "translate\nrun\ngenerate\nfill-mask\nembed\nclassify\nattention\nlayers\nvalidate\ndevices\ninfo\n", ""},
  };
  PROGRAM_ROWS(rows);
}

static void test_usage(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$V", 2, "", "Usage: vkformer COMMAND"},
      {"$V trnslate", 2, "", "expected a command, found 'trnslate': did you mean 'translate'?\n"},
      {"$V --verison", 2, "", "did you mean '--version'?\n"},
      {"$V tour softmaxx", 2, "", "did you mean 'softmax'?\n"},
      {"$V vlaidate", 2, "", "did you mean 'validate'?\n"},
      {"$V help transalte", 2, "", "did you mean 'translate'?\n"},
      {"$V xyzzy", 2, "", "expected a command, found 'xyzzy'\n"},
      {"$V tokenize --device nosuch a", 2, "", "found '--device'\n"}, /* it opens no device */
      {"$V devices --device nosuch", 2, "", "found '--device'\n"},
      {"$V translate --nosuch", 2, "", "found '--nosuch'\n"},
      {"$V translate --modle x a", 2, "", "found '--modle': did you mean '--model'?\n"},
      {"$V translate --batchsize=4 a", 2, "", "did you mean '--batch-size'?\n"},
      {"$V translate --beam-size 4 a", 2, "", "did you mean '--num-beams'?\n"},
      {"$V generate --sampling_topk=4 a", 2, "", "did you mean '--top-k'?\n"},
      {"$V translate --batch 4 a", 2, "", "found '--batch', which begins --batch-size, --batch-invariant\n"},
      {"$V translate --batch-size 99999999999 a", 2, "",
       "--batch-size: expected a whole number of at most 2147483647, found '99999999999'"},
      {"$V bench matmul --m 1,99999999999", 2, "", "found '1,99999999999'"},
      {"$V help devices", 0, "Usage: vkformer devices", ""},
      {"$V help exit-codes", 0, "Exit codes\n", ""},
      {"for t in $($V --help | sed -n '/^Topics/{n;s/,//g;p}'); do $V help $t > $T/o || exit 1; wc -l < $T/o; done | "
       "grep -c '[0-9][0-9]*'",
       0, "4\n", ""},
      {"$V translate -x", 2, "", "found '-x'"},
      {"$V translate --model", 2, "", "--model: expected DIR"},
      {"$V translate --json=1 a", 2, "", "--json: expected no value"},
      {"$V translate --num-beams four a", 2, "", "--num-beams: expected a whole number of at least 1, found 'four'"},
      {"$V translate --batch-size 0 a", 2, "", "--batch-size: expected a whole number of at least 1, found '0'"},
      {"$V translate --length-penalty nan a", 2, "", "--length-penalty: expected a number, found 'nan'"},
      {"$V translate --early-stopping maybe a", 2, "", "expected true, false or never, found 'maybe'"},
      {"$V translate --bad-words-ids 5,x a", 2, "",
       "--bad-words-ids: expected lists of ids in brackets, separated by commas, found '5,x'"},
      {"$V run", 2, "", "expected MODEL, a model folder, found nothing"},
      {"$V run $M", 2, "", "found no --inputs"},
      {"$V run $M --inputs a", 2, "", "found no --outputs"},
      {"$V generate $M more --inputs a --outputs b", 2, "", "found prompts as well"},
      {"$V devices more", 2, "", "expected no arguments, found 'more'"},
      {"$V info", 2, "", "expected MODEL, a model folder, found nothing"},
      {"$V tokenize --decode five", 2, "", "expected a token id, found 'five'"},
  };
  PROGRAM_ROWS(rows);
}

static void test_devices(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$V devices", 0, "ref", ""},
      {"$V devices --json", 0, "\"subgroup_size\"", ""},
      {"$V devices --json | sed -n 2p", 0, "  \"format\": \"vkformer-devices/1\",\n", ""},
      {"$V translate --device nosuch a", 3, "", "nosuch"},
      {"$V translate --device 99 a", 3, "", "99"},
      {"$V devices --icd $T/nosuch.json", 4, "", "nosuch.json: cannot be opened"},
      {"$V info $G/marian --device ref --limits nosuch", 4, "",
       "expected least, pi, mali, adreno, intel, m1, deck or a file, found \"nosuch\""},
      {"$V devices --limits nosuch", 4, "",
       "expected least, pi, mali, adreno, intel, m1, deck or a file, found \"nosuch\""},
      {"env -u VKF_DEVICE VK_DRIVER_FILES=/none.json VK_ICD_FILENAMES=/none.json $V translate a", 3, "",
       "--device ref"},
      {"env -u VKF_DEVICE LD_LIBRARY_PATH=$T/loader $V translate a", 3, "", "--device ref"},
      {"LD_LIBRARY_PATH=$T/loader $V devices", 0, "ref", ""},
      {"LD_LIBRARY_PATH=$T/loader $V info $G/marian --device ref", 0, "marian", ""},
      {"env -u VKF_DEVICE LD_LIBRARY_PATH=$T/loader $V info $G/marian", 0, "scalar reference",
       "no Vulkan device was found: the figures are those of --device ref"},
      {"env -u VKF_DEVICE $V info $G/marian", 0, "marian", ""},
      {"$V info $G/marian -v", 0, "marian", "device: "},
      {"$V info $G/llama | grep -A1 'q by head'", 0, "k, v by head               [1,2,16,16]", ""},
      {"$V info $G/marian --weights int8 --kv-cache f16", 0, "int8 weights, f16 keys and values", ""},
      {"$V info $G/marian --weights f16", 0, "f16 weights, f32 keys and values", ""},
      {"$V info $G/marian --weights f16 --limits m1", 0, "f16 weights, f16 keys and values", ""},
      {"$V info $G/marian --weights f16 --limits m1 --deterministic", 0, "f16 weights, f32 keys and values", ""},
  };
  PROGRAM_ROWS(rows);
}

static void test_models(void **state) {
  (void)state;
  program_must("$V info $G/marian --weights int8 --activations q8", 0,
               driver_is_gpu() ? "q8 weights, f16 keys and values" : "q8 weights, f32 keys and values", "");
  static const program_row rows[] = {
      {"$V info $T/nosuch", 4, "", "nosuch"},
      {"$V info $G/marian --weights int4", 2, "", "--weights: expected auto, f32, f16, bf16 or int8, found 'int4'"},
      {"$V info $G/marian --weights int8 --activations int8", 2, "", "--activations: expected f32 or q8, found 'int8'"},
      {"$V info $G/marian --activations q8", 2, "", "--activations q8: expected --weights int8, found --weights auto"},
      {"$V info $G/marian --kv-cache int8x", 2, "", "--kv-cache: expected "},
      {"$V info $T/nosuch", 4, "", "nosuch: expected a model folder, found no file or folder of that name"},
      {"cd $T && $V info models/en-es", 0, "models/en-es\n", ""}, /* the shipped model */
      {"cd $T && mkdir -p models/en-es && $V info models/en-es", 4, "", "found a folder without config.json"},
      {"mkdir $T/noconfig; $V info $T/noconfig", 4, "",
       "noconfig: expected a model folder, found a folder without config.json"},
      {"echo '{\"input_ids\": [[1, 2], [3]]}' > $T/uneven.json; $V run $G/marian -i $T/uneven.json -o $T/o.json", 4, "",
       "input_ids: expected whole numbers of 32 bits or nested lists of them, equally long, found [3]\n"},
      {"echo '{\"input_ids\": [[1, 2.5]]}' > $T/uneven.json; $V run $G/marian -i $T/uneven.json -o $T/o.json", 4, "",
       "equally long, found 2.5\n"},
      {"test -e $T/o.json", 1, "", ""},
      {"$V generate $G/marian -p a --num-beams 0", 2, "",
       "--num-beams: expected a whole number of at least 1, found '0'"},
      {"$V evaluate $T/one", 2, "", "files with a text a line, found "},
      {"$V help nosuch", 2, "",
       "expected a command, or a topic (models, generation, exit-codes, environment), found 'nosuch'"},
      {"$V info $G/marian --weights q8", 2, "", "expected auto, f32, f16, bf16 or int8, found 'q8'"},
      {"$V info $G/marian --kv-cache int8", 4, "", "expected auto, f32 or f16, found"},
      {"$V run $G/marian --weights int8 --deterministic --inputs $T/in.safetensors --outputs $T/o", 4, "",
       "reproducible mode"},
      {"$V info $T/none", 4, "", "model.safetensors"},
      {"$V info $T/type", 4, "", "perceptron"},
      {"$V info $T/truncated", 4, "", "model.safetensors"},
      {"$V info $T/huge", 4, "", "model.safetensors"},
      {"$V info $T/missing", 4, "", "core.decoder.layers.1.linear2.weight"},
      {"$V info $T/shape", 4, "", "core.decoder.layers.1.linear2.weight"},
      {"$V info $T/extra", 0, "unused tensor   nobody.asks", ""},
      {"$V run $T/extra --inputs $T/in.safetensors --outputs $T/o", 0, "", "1 tensor is not used: nobody.asks"},
      {"$V info $M", 0, "7,585,600", ""},
      {"$V info $M --batch-size 32 --length 100", 0, "[32,4,100,64]", ""},
      {"$V info $M --json", 0, "\"n_parameters\": 7585600", ""},
      {"$V info $M --plan", 0, "encoder.0", ""},
      {"$V info $M --plan --batch-size 2", 0, "a step of generation, 2 rows of 1 token after 15\n", ""},
  };
  PROGRAM_ROWS(rows);
}

static void test_run_and_generate(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$V run $G/transformer-postln-relu -i $T/in.safetensors -o $T/o --output-hidden-states --output-attentions", 0,
       "", ""},
      {"grep -c cross_attentions.1 $T/o && grep -c encoder_hidden_states.0 $T/o && rm $T/o", 0, NULL, ""},
      {"$V generate $G/transformer-postln-relu -i $T/in.safetensors -o $T/o --num-beams 2 --max-new-tokens 5", 0, "",
       ""},
      {"grep -c sequences_scores $T/o && rm $T/o", 0, NULL, ""},
      {"$V run $G/transformer-postln-relu -i $T/nosuch.safetensors -o $T/o", 4, "", "nosuch.safetensors"},
      {"$V run $G/transformer-postln-relu -i $T/no_ids.safetensors -o $T/o", 4, "", "input_ids"},
      {"$V run $G/transformer-postln-relu -i $T/no_target.safetensors -o $T/o", 4, "", "decoder_input_ids"},
      {"$V run $G/transformer-postln-relu -i $T/outside.safetensors -o $T/o", 4, "", "7000"},
      {"$V generate $G/transformer-postln-relu -i $T/outside.safetensors -o $T/o", 4, "", "7000"},
      {"$V run $G/transformer-postln-relu -i $T/rank.safetensors -o $T/o", 4, "", "input_ids"},
      {"$V run $G/transformer-postln-relu -i $T/floats.safetensors -o $T/o", 4, "", "input_ids"},
      {"$V run $G/marian -i $T/long.safetensors -o $T/o", 4, "", "64"},
      {"$V run $T/nan -i $T/in.safetensors -o $T/notthere", 1, "", "expected finite numbers, found "},
      {"test -e $T/notthere", 1, "", ""},
      {"$V run $T/nan -i $T/in.safetensors -o $T/there --allow-not-finite && test -s $T/there", 0, "", ""},
      {"$V generate $T/nan -i $T/in.safetensors -o $T/o --max-new-tokens 3", 1, "", "finite"},
      {"$V generate $G/marian -i $T/in.safetensors -o $T/o -g $T/sample.json", 4, "", "do_sample"},
      {"$V generate $G/marian -i $T/in.safetensors -o $T/o -g $T/key.json", 4, "", "nosuch_key"},
      {"$V generate $G/marian -i $T/in.safetensors -o $T/o -g $T/array.json", 4, "",
       "array.json: expected a JSON object"},
      {"$V generate $G/marian -i $T/in.safetensors -o $T/o -g $T/broken.json", 4, "",
       "broken.json: expected JSON, found at line 2"},
      {"$V generate $G/marian -i $T/in.safetensors -o $T/o -g $T/nosuch.json", 4, "", "nosuch.json"},
      {"$V generate $G/marian -i $T/in.safetensors -o $T/o --num-beams 0", 2, "",
       "--num-beams: expected a whole number of at least 1"},
      {"test -e $T/o", 1, "", ""},
      {"$V run $G/transformer-postln-relu -i $T/in.safetensors -o $T/nosuch/o", 4, "", "nosuch/o"},
  };
  PROGRAM_ROWS(rows);
}

static void test_translate(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$V translate \"The animal didn't cross the street because it was too tired.\"", 0,
       "El animal no cruz\xc3\xb3 la calle porque estaba demasiado cansado.\n", ""},
      {"$V translate --model $M --num-beams 4 --json \"The animal didn't cross the street because it was too tired.\"",
       0, "\"ids\":[489,4518,318,4022,305,328,2771,1963,677,1148,2361,16,1],\"score\":-0.16", ""},
      {"$V translate --num-beams 1 --json \"The animal didn't cross the street because it was too tired.\"", 0,
       "\"ids\":[489,4518,318,1156,87,5569,328,2771,1963,677,1148,2361,16,1],\"score\":-0.2755", ""},
      {"$V translate --num-beams 1 -v 'The animal did not cross the street because it was too tired.' 2>&1 | "
       "grep -c 'decoder.0: .* recorded 1, submitted [0-9][0-9]'",
       0, "1\n", ""},
      /* with one row no grid changes; with beams (below) some do, and on Mesa 26, whose tiles have few rows, all */
      {"$V translate --num-beams 1 -v 'I am here.' 2>&1 | grep -c 'decode .*(0 indirect)'", 0, "5\n", ""},
      /* two kinds of devices share the lines; the output has the order of the lines */
      {"for i in 1 2 3 4 5 6 7 8; do echo \"We have $i old books.\"; done > $T/eight; for d in ref $VKF_DEVICE,ref; do "
       "$V translate --num-beams 1 --batch-size 1 --device $d < $T/eight > $T/on-$d || exit 1; done; "
       "cmp $T/on-ref $T/on-$VKF_DEVICE,ref && wc -l < $T/on-ref",
       0, "8\n", ""},
      {"n=6; $V kernels matmul:4,256,256 | grep -q '^ *\\* .*matmul-uniform' && n=12; "
       "$V translate --num-beams 4 -v 'I am here.' 2>&1 | grep -c \"decoder.0: 12 dispatches ($n indirect)\"",
       0, "1\n", ""},
      {"$V translate --num-beams 1 --json --bad-words-ids '[328,2771],[1963]' 'The animal did not cross the street "
       "because it was too tired.'",
       0, "\"ids\":[489,4518,318,1156,480,328,7687,422,462,4626,283,1834,863,16,1]", ""},
      {"echo '{\"bad_words_ids\": [[328, 2771], [1963]], \"num_beams\": 4}' > $T/words.json; $V translate -g "
       "$T/words.json --num-beams 1 --json 'The animal did not cross the street because it was too tired.'",
       0, "\"ids\":[489,4518,318,1156,480,328,7687,422,462,4626,283,1834,863,16,1]", ""},
      {"$V translate --force-words carretera 'The animal did not cross the street because it was too tired.'", 0,
       "El animal no cruz\xc3\xb3 la carretera porque estaba demasiado cansado.\n", ""},
      {"$V translate --coverage-penalty 5 'The animal did not cross the street because it was too tired.'", 0,
       "El animal no cruf\xc3\xb3 la calle porque estaba demasiado cansado.\n", ""},
      {"$V translate --alignment hard --align-heads all 'It was too tired.'", 0, " ||| 1-0 2-1 3-2 4-3 5-4\n", ""},
      {"$V translate --alignment hard --align-heads 2:0,9:3 a", 4, "",
       "align_heads: expected layers 0 to 2 and heads 0 to 3, found 9:3"},
      {"$V translate --align-heads '2:0;3' a", 2, "", "--align-heads: expected LAYER:HEAD,..., all or auto:FILE"},
      {"printf 'Tom is in Madrid.\\nAnna: Tom, Mary.\\n' > $T/sample; $V translate --alignment hard --align-heads "
       "auto:$T/sample Tom.",
       0, "Tom. ||| 0-0 ", "tokens that are in a text and in its translation"},
      {"$V translate --align-heads auto:$T/nosuch a", 4, "", "nosuch"},
      {"$V translate --coverage-penalty -1 a", 2, "",
       "--coverage-penalty: expected a number of at least 0, found '-1'"},
      {"echo '{\"coverage_penalty\": -1}' > $T/less.json; $V translate -g $T/less.json a", 4, "",
       "\"coverage_penalty\": expected a number of at least 0, found -1"},
      {"$V translate --coverage-penalty 1 --return-alternatives a", 4, "",
       "\"coverage_penalty\" with \"return_alternatives\" is not supported"},
      /* the first tokens after the best one have probabilities below 0.03, but one: 0.13 */
      {"A='--num-beams 1 --return-alternatives --n-best 5'; $V translate $A 'I am here.' 'Yes.' > $T/all; $V translate "
       "$A --min-alternative-expansion-prob 0.1 'I am here.' 'Yes.' | tee $T/few | cut -d' ' -f1; grep -vxFf $T/all "
       "$T/few; $V translate $A --min-alternative-expansion-prob 0.1 --json Yes. | grep -o '\"translation\"' | wc -l",
       0, "0\n1\n1\n2\n", ""},
      {"$V translate --return-alternatives --min-alternative-expansion-prob 2 a", 2, "",
       "--min-alternative-expansion-prob: expected a number from 0 to 1, found '2'"},
      {"echo '{\"min_alternative_expansion_prob\": -0.5}' > $T/less.json; $V translate -g $T/less.json a", 4, "",
       "\"min_alternative_expansion_prob\": expected a number from 0 to 1, found -0.5"},
      {"$V translate --min-alternative-expansion-prob 0.5 a > $T/o", 0, "",
       "--min-alternative-expansion-prob has no effect without --return-alternatives\n"},
      {"$V translate --num-beams 2 --force-words ' ' a", 2, "", "--force-words: expected words, found none"},
      {"$V translate --num-beams 4 --num-beam-groups 4 --diversity-penalty 1 --n-best 4 'We like it.' | sort -u | wc "
       "-l",
       0, "4\n", ""},
      {"$V translate --num-beams 2 --n-best 5 a", 2, "",
       "--n-best: expected at most 2, the number of beams (--num-beams)"},
      {"$V translate --num-beams 2 --min-new-tokens 5 --max-new-tokens 2 ''", 0, "\n",
       "no effect beyond --max-new-tokens"},
      {"printf 'I am here.\n\n' | $V translate --n-best 1 | sed 's/F0.*//'", 0, "0 ||| Estoy aqu\xc3\xad. ||| \n\n",
       ""},
      {"$V translate --n-best 1 --json 'I am here.' | grep -c '\"translations\":\\[{\"translation\":\"Estoy'", 0, "1\n",
       ""},
      {"$V translate --num-beams 1 --patience 2 ''", 0, "\n", "--patience has no effect without beams (--num-beams)"},
      {"$V translate --align-heads all ''", 0, "\n", "--align-heads has no effect without --alignment, --rep"},
      {"$V translate -g $T/key.json a", 4, "", "nosuch_key"},
      {"$V translate ''", 0, "\n", ""},
      {"$V translate --json ''", 0,
       "{\"format\":\"vkformer-translate/1\",\"source\":\"\",\"translation\":\"\",\"ids\":[],\"score\":null}\n", ""},
      {"printf '' | $V translate", 0, "", ""},
      {"printf 'I am here.\\n\\nThe cat sat on the mat because it was tired.\\r\\nWe like it.' > $T/lines; for b in 1 "
       "2 32; do "
       "$V translate -b $b < $T/lines > $T/b$b || exit 1; done; cmp $T/b1 $T/b2 && cmp $T/b1 $T/b32 && "
       "wc -l < $T/b1 && sed -n 2p $T/b1 | wc -c && sed -n 3p $T/b1",
       0, "4\n1\nEl gato se sent\xc3\xb3 en la mata porque estaba cansado.\n", ""},
      {"for i in 1 2; do cat $T/lines; echo; done > $T/more; for d in ref $VKF_DEVICE,ref all; do "
       "$V translate --deterministic --num-beams 1 -b 2 --device $d < $T/more > $T/d || exit 1; "
       "test -e $T/d1 || cp $T/d $T/d1; cmp $T/d $T/d1 || exit 1; done; wc -l < $T/d",
       0, "8\n", ""},
      {"$V translate --device $VKF_DEVICE,nosuch a", 3, "", "nosuch"},
      {"$V translate --workers 0 a", 2, "", "--workers: expected a whole number of at least 1, found '0'"},
      {"$V translate --workers 65 a", 2, "", "--workers: expected at most 64, found 65"},
      {"$V translate --workers 2 --profile a", 2, "", "--profile: expected one worker"},
      {"$V translate --driver-threads -1 a", 2, "", "--driver-threads: expected a whole number from 0 to 999"},
      {"printf '\\377\\376I\\000\\n\\000' | $V translate", 4, NULL,
       "line 1 was skipped: expected UTF-8, found UTF-16: `iconv -f UTF-16 -t UTF-8` converts a file\n"},
      {"printf 'I am here.\\n\\377\\nWe like it.\\n' | $V translate > $T/one; s=$?; wc -l < $T/one; exit $s", 4, "3\n",
       "line 2 was skipped: expected UTF-8, found the byte 0xff after 0 bytes\nvkformer: skipped 1 of 3 lines\n"},
      {"printf 'I am here.\\nWe\\000like it.\\n' | $V translate --invalid fail", 4, "Estoy aqu\xc3\xad.\n",
       "line 2: expected text, found a zero byte after 2 bytes"},
      {"$V translate --model $T/nosuch a", 4, "", "nosuch"},
      {"$V translate --model $G/marian a", 4, "", "tokenizer"},
      {"$V embed $M a", 4, "", "expected a model with one stack of layers, found an encoder-decoder"},
      {"$V generate $M --prompt a --stop ''", 2, "", "--stop: expected a text, found an empty one"},
      {"$V translate a > /dev/full", 4, "", "standard output: cannot be written: "},
      {"$V translate \"$(yes word | head -n 400 | tr '\\n' ' ')\"", 4, "\n",
       "at most 128 tokens, the model's positions, found 402\nvkformer: skipped 1 of 1 text; see --long for those that "
       "are too long"},
      {"$V tokenize 'The cat sat on the mat because it was tired.'", 0,
       "382 1351 1873 402 303 1058 1790 416 391 1809 16 1\n", ""},
      {"mkdir $T/words && cp $M/tokenizer.json $T/words && $V tokenize -m $T/words 'The cat sat on the mat.'", 0,
       "382 1351 1873 402 303 1058 16 1\n", ""},
      {"$V tokenize -m $T/nosuch a", 4, "", "this needs a tokenizer: "},
      {"$V tokenize --decode 489 2217 342 3969 1", 0, "El gato se sent\xc3\xb3\n", ""},
  };
  PROGRAM_ROWS(rows);
}

static void test_kernels_and_bench(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$V kernels matmul:77,512,512", 0, "  * 1  matmul-", ""},
      {"$V kernels matmul:77,512,512 --json", 0, "\"picked\": true", ""},
      {"$V kernels norm:8,64 -v --device 0 >$T/k", 0, "", "chosen by its index or UUID, 0"},
      {"$V kernels norm:8,64 --json | sed -n 2p", 0, "  \"format\": \"vkformer-kernels/1\",\n", ""},
      {"$V kernels", 0, "top_k:4,8000,8", ""},
      /* a GPU uses the order class fast, but not in the reproducible mode */
      {"echo '{\"is_cpu\": false}' > $T/gpu.json; $V kernels --limits $T/gpu.json matmul:16,64,4096 | "
       "grep -c '^  [*].* fast '",
       0, "1\n", ""},
      {"$V kernels --deterministic --limits $T/gpu.json matmul:16,64,4096 | grep -c '^  [*].* ascending '", 0, "1\n",
       ""},
      {"$V kernels --compile norm:8,64", 0, "  * norm-", ""},
      {"$V kernels --compile attention:1,16,2,64,f16 --json | grep -c '\"picked\": true'", 0, "1\n", ""},
      {"$V kernels --compile norm:8,64 --deterministic --no-checks >$T/k", 0, "", "NOT CHECKED, as asked for"},
      {"$V kernels --compile attention:1,16,2,64,int4", 2, "", "attention:QUERIES,KEYS,HEADS,WIDTH[,FORMAT]"},
      {"$V kernels --problem norm:8,64 --device ref", 4, "", "no kernels"},
      {"$V tune --level nosuch", 2, "", "quick or full"},
      {"$V tune nosuch", 4, "", "nosuch"},
      {"$V kernels nosuch:1,2", 2, "", "nosuch"},
      {"$V bench norm:8,64 --no-roofs --seconds 0.01", 0, "norm-", ""},
      {"$V bench norm:8 --no-roofs --seconds 0.01", 2, NULL, "norm:8"},
      {"$V bench peak overhead --no-roofs --seconds 0.01 | grep -c 'copy\\|fma\\|submit and fence'", 0, "4\n", ""},
      {"$V bench softmax --m 2 --n 24 --no-roofs --seconds 0.01", 0, "log_softmax-", ""},
      {"$V bench attention --m 3 --n 5 --k 8 --heads 2 --filter vec4 --no-roofs --seconds 0.01", 0, "attention-", ""},
      {"$V bench ffn --m 3 --d-model 16 --d-ff 24 --filter naive --no-roofs --seconds 0.01", 0, "matmul-naive", ""},
      {"$V bench ffn:3,16", 2, NULL, "expected a problem of the form ffn:M,D,F"},
      {"$V bench ffn:-1,2,3", 2, NULL, "expected a problem of the form ffn:M,D,F, with numbers from 1 to 16777216"},
      {"$V bench matmul:5,12,16 --variant matmul-naive-m1n1 --cold --no-roofs --seconds 0.01 --json | grep "
       "'command\\|commit'",
       0, "\"command\": \"vkformer bench matmul:5,12,16 --variant matmul-naive-m1n1 --cold --no-roofs --seconds 0.01\"",
       ""},
      /* with roofs each row has its share, from 0 to 1, and the roof that it is of, or null */
      {"$V bench matmul:64,64,64 --filter naive --seconds 0.02 --json > $T/roofs.json && grep -c "
       "'\"\\(gflops\\|gbytes\\|cached_gbytes\\)\": [0-9.]*[1-9]' $T/roofs.json && sed -n "
       "'s/.*\"\\(min\\|median\\|p90\\)"
       "_us\": \\([0-9.]*\\).*/\\2/p' $T/roofs.json | sort -nc && grep -c '\"peak_share\": "
       "\\(0[.][0-9]*[1-9]\\|1.0\\|null\\)' "
       "$T/roofs.json && grep -c '\"roof\": \\(\"multiply-adds\"\\|\"caches\"\\|null\\)' $T/roofs.json",
       0, "5\n1\n1\n", ""},
      {"$V bench matmul:64,64,64 --filter naive --seconds 0.02", 0, "GB/s of caches", ""},
      {"$V bench norm --m 1,3 --n 8,16 --no-roofs --seconds 0.01 | grep -c ^norm:", 0, "4\n", ""},
      {"$V bench norm --m 1,x", 2, "", "separated by commas, found '1,x'"},
      {"$V bench nosuch", 2, NULL, "expected one of peak, matmul, "},
      {"$V bench peak overhead --filter naive", 2, NULL, "--filter: expected an op or a problem such as "},
      {"$V bench encoder --layers 2 --d-model 16 --heads 2 --d-ff 24 --vocab 8 --length 3,5 --no-roofs --seconds 0.01 "
       "| grep -c "
       "tokens/s",
       0, "2\n", ""},
      {"$V bench decoder --layers 2 --d-model 16 --heads 2 --d-ff 24 --vocab 20 --batch 2 --length 9 --tokens 2 "
       "--no-roofs --seconds 0.01 --json | grep -c 'err\\|\"ratio\": 0.[0-9]*[1-9]\\|tokens_per_s\": [1-9]'",
       0, "4\n", ""},
      {"echo 'I am here.' | $V bench translate --stdin --no-roofs --seconds 0.01", 0, "sentences/s", NULL},
      {"$V bench decoder --layers 1 --d-model 16 --heads 2 --d-ff 24 --vocab 8 --length 9 --tokens 2 --weights int8 "
       "--kv-cache f16 --no-roofs --seconds 0.01 --json | grep -A22 'step, weights int8, cache f16' | grep run_bytes",
       0, "run_bytes", ""},
      {"$V bench matmul --m 3 --n 8 --k 16 --weights auto --filter naive --no-roofs --seconds 0.01", 0,
       "matmul:3,8,16\n", ""},
      {"$V bench matmul --m 3 --n 8 --k 16 --weights bf16 --filter naive --no-roofs --seconds 0.01", 0,
       "matmul:3,8,16,bf16", ""},
      {"$V bench encoder --norm side", 2, NULL, "--norm: expected post or pre"},
      {"$V bench encoder --d-model 15 --heads 2", 2, NULL, "config.json"},
      {"ls -d ${TMPDIR:-/tmp}/vkformer-bench-* 2>/dev/null", 2, "", ""}, /* temporary folders are removed */
      {"$V translate 'I am here.' --profile=$T/trace.json", 0, NULL, "decoder.2"},
      {"grep -c '\"ph\": \"X\"' $T/trace.json | grep -v '^0'", 0, NULL, ""},
      {"$V translate 'I am here.' --profile=$T/nosuch/trace.json", 4, NULL, "nosuch/trace.json: cannot be written"},
  };
  PROGRAM_ROWS(rows);
}

/* Tiles that are set by specialization constants, and kernels from files instead of the built-in ones. */
static void test_bench_tiles(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$V bench matmul:33,40,24 --variant matmul-shared-64x64x16-m4n4 --tile bm=32,bn=16,bk=8 --no-roofs --seconds "
       "0.01",
       0, "matmul-shared-32x16x8-m4n4", ""},
      {"$V bench matmul:33,40,24 --variant matmul-shared-64x64x16-m4n4 --no-roofs --tile bm=30", 4, NULL,
       "tm divides bm"},
      {"$V bench matmul:33,40,24 --variant matmul-shared-64x64x16-m4n4 --no-roofs --tile tm=16", 4, NULL,
       "tm is at most 8"},
      {"$V bench matmul:33,40,24 --variant matmul-shared-64x64x16-m4n4 --no-roofs --tile bm=1024,bn=1024", 4, NULL,
       "invocations"},
      {"$V bench matmul:33,40,24 --variant matmul-naive-m1n1 --no-roofs --tile bm=32", 4, NULL, "tile compiled in"},
      {"$V bench matmul:33,40,24 --no-roofs --tile side=3", 4, NULL, "expected a tile such as"},
      {"cp " VKF_SPIRV_DIR "/matmul_naive.spv $T/right.spv && $V bench matmul:5,12,16 --variant matmul-naive-m1n1 "
       "--shader $T/right.spv --no-roofs --seconds 0.01 | grep -c '^matmul-.*e-'",
       0, "2\n", ""},
      {"sed 's/k = 0; k < whole/k = VKF_K_AT_ONCE; k < whole/' " VKF_SOURCE_DIR
       "/shaders/matmul_naive.comp > $T/wrong.comp && ! cmp -s "
       "$T/wrong.comp " VKF_SOURCE_DIR "/shaders/matmul_naive.comp && $V bench matmul:5,12,16 --variant "
       "matmul-naive-m1n1 --shader $T/wrong.comp --no-roofs --seconds 0.01",
       1, "matmul-own-m1n1                          WRONG: err/bound", ""},
      {"$V bench matmul:5,12,16 --variant matmul-naive-m1n1 --shader $T/wrong.comp --no-roofs --seconds 0.01", 1,
       "  element [", ""},
      {"$V bench matmul:5,12,16 --variant matmul-naive-m1n1 --shader $T/wrong.comp --no-roofs --seconds 0.01 --json | "
       "sed -n '/\"worst\"/,/}/p' | grep -c '\"\\(output\": \"out\"\\|expected\": [-0-9]\\|found\": [-0-9]\\|bound\": "
       "[0-9]\\)'",
       0, "4\n", ""},
      {"$V bench matmul:5,12,16 --no-roofs --shader $T/right.spv", 2, "", "--shader: expected --variant NAME as well"},
      {"$V bench matmul:5,12,16 --no-roofs --variant matmul --shader $T/right.spv", 2, "",
       "--variant: expected the name of one kernel, whose place"},
      {"$V bench matmul:5,12,16 --variant matmul-naive-m1n1 --shader $T/key.json", 2, NULL, "ends in .comp or .spv"},
      {"echo nothing > $T/no.spv; $V bench matmul:5,12,16 --variant matmul-naive-m1n1 --shader $T/no.spv", 4, NULL,
       "expected SPIR-V"},
      {"$V bench norm --sweep --n 32 --no-roofs --seconds 0.01 --json > $T/rows.json && $V bench --merge $T/rows.json "
       "--merge "
       "$T/rows.json --html $T/page.html && grep -c 'norm:128,32' $T/page.html",
       0, "1\n", ""},
      {"$V bench --merge $T/no.spv --html $T/other.html; code=$?; test -e $T/other.html || exit $code", 4, NULL,
       "no.spv"},
  };
  PROGRAM_ROWS(rows);
}

static void test_examples(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"for x in $B/example_translate $B/example_translate_cxx; do test -x $x || { echo \"$x is not built\" >&2; "
       "continue; }; "
       "$x $M 'I am here.' > $T/x || exit 1; $V translate 'I am here.' > $T/v; cmp $T/x $T/v || exit "
       "1; done; "
       "test -x $B/example_translate",
       0, "", NULL},
      {"$B/example_translate $T/nosuch a", 1, "", "nosuch"},
      {"$B/example_translate", 2, "", "usage"},
  };
  PROGRAM_ROWS(rows);
}

/* A folder that is made from a configuration is a model like others. */
static void test_init(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$V init $G/llama/config.json -o $T/made --seed 3", 0, "", ""},
      {"cmp $G/llama/config.json $T/made/config.json && $V info $T/made", 0, "112,960", ""},
      {"$V run $T/made -i $T/no_target.safetensors -o $T/made.out", 0, "", ""},
      {"$V validate $T/made", 0, ": passed", ""},
      {"$V init $G/llama/config.json -o $T/made", 4, "", "expected a new or empty folder, found files in it"},
      {"mkdir $T/bare && $V init $G/llama/config.json -o $T/bare/ --dtype bfloat16 && $V info $T/bare", 0, "112,960",
       ""},
      {"mkdir $T/here && cd $T/here && $V init $G/llama/config.json -o . && ls -A", 0,
       "config.json\nmodel.safetensors\n", ""},
      {"mkdir $T/elsewhere && ln -s elsewhere $T/elsewhen && $V init $G/llama/config.json -o $T/elsewhen && ls "
       "$T/elsewhere | wc -l",
       0, "2\n", ""},
      {"$V translate --device 1000 a", 3, "", "no device matches \"1000\""},
      {"$V init $G/llama/config.json", 2, "", "expected --output DIR"},
      {"$V init $G/llama/config.json -o $T/short --dtype bf16 && cmp $T/short/model.safetensors "
       "$T/bare/model.safetensors",
       0, "", ""},
      {"$V init $G/llama/config.json -o $T/other --dtype int8", 2, "", "found 'int8'"},
      {"$V init $G/llama -o $T/other", 4, "", "expected a file, found a folder"},
      {"$V init", 2, "", "expected CONFIG.json"},
  };
  PROGRAM_ROWS(rows);
}

static void test_validate(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$V validate $G/transformer-lm-postln --json=$T/v.json", 0, ": passed", ""},
      {"grep -c '\"scope\": \"block\"' $T/v.json && grep -c '\"passed\": true' $T/v.json", 0, NULL, ""},
      {"$V validate $T/nosuch", 4, "", "nosuch"},
      {"$V validate --quick --json=$T/q.json", 0, ": passed", ""},
      {"for f in f32 f16 bf16 int8; do grep -c \"\\\"format\\\": \\\"$f\\\"\" $T/q.json || exit 1; done", 0, NULL, ""},
      {"$V validate --device ref --quick --json > $T/s.json && sed -n 2p $T/s.json && $V validate --merge $T/s.json "
       "--json | sed -n 2p",
       0, "  \"format\": \"vkformer-validation/1\",\n  \"format\": \"vkformer-validation/1\",\n", ""},
      /* the reproducible mode's digest since 22 November 2026: if it changes, say why in docs/numerics.md ("Pads") */
      {"grep -c '\"digest\": \"4afe65eb659daa03\"' $T/q.json", 0, "1\n", ""},
      {"$V validate $G/transformer-lm-postln --device ref --weights int8 --activations q8 --json=$T/w.json && grep -c "
       "'\"digest\": \"[0-9a-f]\\{16\\}\"' $T/w.json",
       0, ": passed", ""},
      {"$V validate --device ref --quick --json=$T/r.json --report $T/r.html", 0, ": passed", ""},
      {"$V validate --merge $T/q.json $T/r.json --report $T/both.html --json=$T/both.json", 0, ": passed", ""},
      {"grep -c '\"passed\": true' $T/both.json && ! grep -q 'http[s]*://[^w]\\|src=' $T/both.html", 0, "2\n", ""},
      {"sed 's/\"passed\": true/\"passed\": false/' $T/r.json > $T/f.json && $V validate --merge $T/q.json $T/f.json "
       "--report $T/f.html",
       1, ": FAILED", ""},
      {"sed 's/\"digest\": \"..../\"digest\": \"zzzz/' $T/r.json > $T/d.json && $V validate --merge $T/q.json "
       "$T/d.json "
       "--report $T/d.html",
       1, ": passed", "expected one digest"},
      {"$V validate --merge $T/q.json $G/marian/config.json --report $T/n.html", 4, NULL, "validate --json wrote"},
      {"mkdir $T/m.html; $V validate --merge $T/q.json --report $T/m.html; test ! -e $T/m.html.part", 0, NULL,
       "m.html: cannot be written"},
      {"$V validate --merge $T/q.json", 2, "", "--report FILE"},
      {"$V validate a b", 2, "", "at most one model folder"},
      {"cd $T && $V validate $G/marian --bisect && ! ls -d bisect*", 0, "every node is within its bound", NULL},
      {"mkdir $T/there-$VKF_DEVICE && $V validate $G/marian --bisect -o $T/there", 4, "", "is there already"},
      {"$V validate --bisect", 2, "", "--bisect: expected a model folder"},
      {"$V validate $G/marian --bisect --json=$T/b.json", 2, "", "--bisect: expected no --quick"},
      {"$V validate --replay $T/nosuch", 4, "", "nosuch/node.json: cannot be opened"},
  };
  PROGRAM_ROWS(rows);
#ifdef VKF_WRONG_EXP
  /* A shell can run the command that is printed, whatever the names in it. */
  static const program_row quoted[] = {
      {"mkdir \"$T/it's\" && echo '{}' > \"$T/it's/a b.json\" && cd $T && LD_PRELOAD=" VKF_WRONG_EXP
       " $V validate $G/marian --bisect -o \"it's/\\$(found)\" --icd \"it's/a b.json\" > bisect.txt",
       1, "", NULL},
      {"cd $T && vkformer() { $V \"$@\"; } && eval \"$(sed -n 's/^    //p' bisect.txt)\"", 0, ", within its bound\n",
       NULL},
      {"cd $T && grep -F \"$(sed -n 's/^    //p' bisect.txt)\" \"it's\"/*/README.txt", 0, "--icd 'it'", ""},
  };
  PROGRAM_ROWS(quoted);
#endif
}

PROGRAM_MAIN(prepare, cmocka_unit_test(test_help), cmocka_unit_test(test_usage), cmocka_unit_test(test_devices),
             cmocka_unit_test(test_models), cmocka_unit_test(test_run_and_generate), cmocka_unit_test(test_translate),
             cmocka_unit_test(test_kernels_and_bench), cmocka_unit_test(test_bench_tiles),
             cmocka_unit_test(test_examples), cmocka_unit_test(test_validate), cmocka_unit_test(test_init))
