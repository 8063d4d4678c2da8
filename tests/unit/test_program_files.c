/* The files that the program reads and writes: a pipe in a model folder does not hang it, an output is written through
 * a pipe, link or device at its path, and its JSON is valid whatever the numbers and names are. The rows are as in
 * test_program.c; a command that hangs is killed after 60 seconds and has the exit code 124. */
#include "support/documented.h"

static int prepare(void **state) {
  (void)state;
  setenv("VKF_DEVICE", "ref", 1); /* files are the same on every device */
  setenv("M", VKF_SOURCE_DIR "/models/en-es", 1);
  setenv("I", VKF_SOURCE_DIR "/tests/images", 1);
  setenv("P", "timeout 60 " VKF_BINARY_DIR "/vkformer", 1);
  return program_setup(
      "cd $T && mkfifo pipe pipe.json pipe.comp pipe.png pipe.safetensors\n"
      /* with FOLDER NAME GOLDEN: copies a golden folder and makes NAME a pipe */
      "with() { mkdir -p $1/$2 && rmdir $1/$2 && cp $G/$3/*.json $G/$3/model.safetensors $1 && rm -f $1/$2 && "
      "mkfifo $1/$2; }\n"
      "with f.gen generation_config.json llama && with f.config config.json llama && "
      "with f.weights model.safetensors llama && with f.modules modules.json bert-model-pooled && "
      "with f.pool 1_Pooling/config.json bert-model-pooled && "
      "with f.index model.safetensors.index.json llama && rm f.index/model.safetensors &&\n"
      "cp $M/tokenizer.json f.gen && with f.words tokenizer.json llama && with f.names tokenizer_config.json llama && "
      "with f.image preprocessor_config.json vit && "
      "cp -r $G/vit f.vit && echo '{\"image_processor_type\": \"ViTImageProcessor\", \"size\": {\"height\": 32, "
      "\"width\": 32}}' > f.vit/preprocessor_config.json "
      "&&\n"
      "sed 's/\"vocab_size\": [0-9]*/\"vocab_size\": 8192/' $G/bert-model-pooled/config.json > texts.json && "
      "$V init texts.json -o f.texts && cp $M/tokenizer.json f.texts && "
      "echo '{\"x\": [[1e38, 2]], \"w\": [[1e38, 1], [0, 1], [-1e38, 0]]}' > far.json && "
      "echo '{\"x\": [[1, 2]], \"w\": [[1, 1], [0, 1]]}' > near.json");
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

#define NOBODY "expected bytes from a pipe, found no process that writes to it"

static void test_pipes_in_folders(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$P generate $T/f.gen --prompt a", 4, "", "f.gen/generation_config.json: " NOBODY},
      {"$P generate $T/f.config --prompt a", 4, "", "f.config/config.json: " NOBODY},
      {"$P info $T/f.weights", 4, "", "f.weights/model.safetensors: " NOBODY},
      {"$P info $T/f.index", 4, "", "f.index/model.safetensors.index.json: " NOBODY},
      {"$P embed $T/f.modules a", 4, "", "f.modules/modules.json: " NOBODY},
      {"$P embed $T/f.pool a", 4, "", "f.pool/1_Pooling/config.json: " NOBODY},
      {"$P tokenize -m $T/f.words a", 4, "", "f.words/tokenizer.json: " NOBODY},
      {"$P tokenize -m $T/f.names a", 4, "", "f.names/tokenizer_config.json: " NOBODY},
      {"$P classify $T/f.image $T/pipe.png", 4, "", "f.image/preprocessor_config.json: " NOBODY},
  };
  PROGRAM_ROWS(rows);
}

static void test_pipes_as_options(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$P generate $G/llama -i $T/pipe.safetensors -o $T/o", 4, "", "pipe.safetensors: " NOBODY},
      {"$P generate $G/llama --prompt a -g $T/pipe.json", 4, "", "pipe.json: " NOBODY},
      {"$P run $G/llama -i $T/pipe.safetensors -o $T/o", 4, "", "pipe.safetensors: " NOBODY},
      {"$P run $T/f.vit --image $T/pipe.png -o $T/o", 4, "", "pipe.png: " NOBODY},
      {"$P op matmul -i $T/pipe.json -o $T/o", 4, "", "pipe.json: " NOBODY},
      {"$P op matmul -i $T/pipe.safetensors -o $T/o", 4, "", "pipe.safetensors: " NOBODY},
      {"$P tour --file $T/pipe.json", 4, "", "pipe.json: " NOBODY},
      {"$P init $T/pipe.json -o $T/made", 4, "", "pipe.json: " NOBODY},
      {"$P validate --merge $T/pipe.json --json=$T/o", 4, "", "pipe.json: " NOBODY},
      {"mkdir $T/node && mkfifo $T/node/node.json && $P validate --replay $T/node", 4, "", "node.json: " NOBODY},
      {"$P bench --merge $T/pipe.json --html $T/o", 4, "", "pipe.json: " NOBODY},
      {"$P bench matmul:5,12,16 --variant matmul-naive-m1n1 --no-roofs --shader $T/pipe.comp", 4, NULL,
       "pipe.comp: expected a file, found something else"},
      {"$P devices --icd $T/pipe.json", 4, "", "pipe.json: expected a file, found a pipe: "},
      {"VK_DRIVER_FILES=/nowhere:$T/pipe.json $P devices", 4, "", "pipe.json: expected a file, found a pipe: "},
      {"unset VK_DRIVER_FILES; VK_ICD_FILENAMES=$T/pipe.json $P devices", 4, "", "VK_ICD_FILENAMES: "},
      {"VK_DRIVER_FILES=$T/pipe.json $P doctor | grep -c '^fault .*pipe.json: expected'", 0, "2\n", ""},
      {"test -e $T/o", 1, "", ""},
  };
  PROGRAM_ROWS(rows);
  static const program_row written[] = {
      /* a pipe that a process writes to is read */
      {"cat $T/near.json > $T/pipe.json & sleep 0.2; $P op matmul -i $T/pipe.json -o $T/sum.json && cat $T/sum.json", 0,
       "3.0", ""},
  };
  PROGRAM_ROWS(written);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Writes through a pipe, links, descriptors and a device; a file keeps its mode. `what` is the command, with %s for the
 * path; what it writes must contain `piece`. */
static void check_output(const char *what, const char *piece) {
  char command[1024], script[2048];
  struct {
    const char *path, *before, *after;
  } ways[] = {
      {"$T/w/pipe", "mkfifo $T/w/pipe; cat $T/w/pipe > $T/w/got &", "wait; test -p $T/w/pipe"},
      {"$T/w/link", "echo old > $T/w/got; chmod 600 $T/w/got; ln -s got $T/w/link;",
       "test -L $T/w/link && test $(stat -c %a $T/w/got) = 600"},
      {"$T/w/dangling", "ln -s got $T/w/dangling;", "test -L $T/w/dangling"},
      {"/dev/fd/7", "exec 7> $T/w/got; echo before >&7;",
       "echo after >&7; grep -q before $T/w/got && grep -q after "
       "$T/w/got"},
      {"/dev/stdout", "", "true"},
      {"-", "", "true"},
      {"./-", "cd $T/w;", "mv ./- got"},
  };
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    snprintf(command, sizeof command, what, ways[i].path);
    const int to_stdout = strcmp(ways[i].path, "-") == 0 || strcmp(ways[i].path, "/dev/stdout") == 0;
    snprintf(script, sizeof script,
             "rm -rf $T/w; mkdir $T/w; %s %s %s || exit 1; %s || exit 2; grep -aq \"%s\" $T/w/got || exit 3; ls $T/w | "
             "grep -v 'pipe\\|link\\|dangling\\|got' && exit 4; exit 0",
             ways[i].before, command, to_stdout ? "> $T/w/got" : "> /dev/null", ways[i].after, piece);
    program_must(script, 0, "", NULL);
  }
  snprintf(command, sizeof command, what, "/dev/full");
  snprintf(script, sizeof script, "%s > /dev/null; code=$?; test -c /dev/full || exit 9; exit $code", command);
  program_must(script, 4, "", "/dev/full: cannot be written: ");
}

static void test_outputs(void **state) {
  (void)state;
  check_output("$P op matmul -i $T/near.json -o %s", "out");
  check_output("$P run $T/f.vit --image $I/rgb.png -o %s", "logits");
  check_output("$P embed $T/f.texts a b -o %s", "'shape': (2, ");
}

static void test_validations(void **state) {
  (void)state;
  assert_int_equal(program_run("$P validate --device ref --quick --json=$T/v.json"), 0);
  check_output("$P validate --merge $T/v.json --json=%s", "devices");
  check_output("$P validate --merge $T/v.json --report %s", "<html");
  static const program_row rows[] = {
      {"mkdir $T/l; ( ulimit -f 1; $P validate --merge $T/v.json --json=$T/l/big > /dev/null ); code=$?; ls $T/l; exit "
       "$code",
       4, "", "l/big: cannot be written: "},
      {"( ulimit -f 1; $P validate --merge $T/v.json --report $T/l/big > /dev/null ); code=$?; ls $T/l; exit $code", 4,
       "", "l/big: cannot be written: "},
  };
  PROGRAM_ROWS(rows);
}

static void test_profiles(void **state) {
  (void)state;
  check_output("$P translate 'I am here.' --profile=%s", "traceEvents");
}

/* With "-" only the file goes to standard output. An empty name is refused. */
static void test_names(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$P validate --device ref --quick --json=- 2> $T/table | head -c 1 && grep passed $T/table > /dev/null", 0, "{",
       ""},
      {"$P op matmul -i $T/near.json -o ''", 2, "", "--outputs: expected a name, found ''"},
      {"$P init $T/texts.json -o ''", 2, "", "--output: expected a name, found ''"},
      /* refused before anything is translated */
      {"$P translate a --profile=$T/nosuch/trace.json", 4, "", "nosuch/trace.json: cannot be written: No such file"},
      {"$P translate a --profile=", 2, "", "--profile: expected a name, found ''"},
      {"$P run $T/f.vit --image '' -o $T/o", 2, "", "--image: expected a name, found ''"},
      {"$P translate a -m ''", 2, "", "--model: expected a name, found ''"},
  };
  PROGRAM_ROWS(rows);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Numbers that JSON does not have, and names that are not UTF-8. */
static void test_json(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"echo '{\"x\": [[0.1, 2]], \"w\": [[1, 0]]}' > $T/tenth.json && $P op matmul -i $T/tenth.json -o "
       "$T/tenth.out.json "
       "&& tr -d ' \\n' < $T/tenth.out.json",
       0, "\"out\":[[0.100000001]]}", ""},
      {"$P op matmul -i $T/far.json -o $T/far.out.json --allow-not-finite && tr -d ' \\n' < $T/far.out.json", 0,
       "{\"format\":\"vkformer-arrays/1\",\"out\":[[null,2.0,null]]}", ""},
      {"n=$(printf '%b' 'a\\0377b') && cp -r $G/llama $T/$n && $P info $T/$n --json | grep folder", 0,
       "/a\xef\xbf\xbd"
       "b\",",
       ""},
      {"n=$(printf '%b' '\\0303') && cp -r $G/llama $T/$n && $P info $T/$n --json | grep folder", 0, "/\xef\xbf\xbd\",",
       ""},
      {"printf '{\"x\": [[1]], \"x\": [[2]]}' > $T/twice.json && $P op matmul -i $T/twice.json -o $T/o", 4, "",
       "twice.json: expected JSON, found at line 1, column 16: duplicate object key"},
  };
  PROGRAM_ROWS(rows);
}

/* Every document has a format, and its keys are in docs/json.md. */
static void test_documented_keys(void **state) {
  (void)state;
  static const char *const commands[] = {
      "$P info $M --json --plan",
      "$P devices -v --json",
      "$P validate --device ref --quick --json",
      "$P tokenize --json 'A sentence.'",
      "$P translate --json 'I am here.'",
      "$P translate --json \"$(printf 'a\\377')\" || test $? = 4",
      "$P generate $G/llama -i $T/llama.json -o $T/llama.out.json --max-new-tokens 2 && cat $T/llama.out.json",
      "$P generate $T/f.gpt2 --prompt 'I am here.' --max-new-tokens 2 --json --top-logprobs 2",
      "$P embed $T/f.texts a",
      "$P embed $T/f.texts --similarity a b",
      "$P classify $T/f.vit $I/rgb.png --json",
  };
  program_must(
      "echo '{\"input_ids\": [[5, 6]]}' > $T/llama.json && "
      "sed 's/\"vocab_size\": [0-9]*/\"vocab_size\": 8192/' $G/gpt2/config.json > $T/gpt2.json && "
      "$V init $T/gpt2.json -o $T/f.gpt2 && cp $M/tokenizer.json $T/f.gpt2",
      0, "", NULL);
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
    program_must(commands[i], 0, NULL, NULL);
    program_must_be_documented();
  }
}

#define MARK "expected JSON, found a byte-order mark of UTF-8 before it: save the file without one"
static void test_byte_order_marks(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"mark() { printf '\\357\\273\\277'; cat $1; }; mark $T/near.json > $T/mark.json && mkdir $T/m.config $T/m.words "
       "$T/m.names && for f in config words names; do cp $M/*.json $M/model.safetensors $T/m.$f || exit 1; done && "
       "mark $M/config.json > $T/m.config/config.json && mark $M/tokenizer.json > $T/m.words/tokenizer.json && "
       "echo '{}' > $T/empty && mark $T/empty > $T/m.names/tokenizer_config.json",
       0, "", ""},
      {"$P op matmul -i $T/mark.json -o $T/o.json", 4, "", "mark.json: " MARK},
      {"$P info $T/m.config", 4, "", "m.config/config.json: " MARK},
      {"gzip -c $T/near.json > $T/packed.json && $P op matmul -i $T/packed.json -o $T/o.json", 4, "",
       "packed.json: expected JSON, found what gzip compressed: decompress it by gzip -dc < FILE"},
      {"$P tokenize -m $T/m.words a", 4, "", "m.words/tokenizer.json: " MARK},
      {"$P tokenize -m $T/m.names a", 4, "", "m.names/tokenizer_config.json: " MARK},
  };
  PROGRAM_ROWS(rows);
}

/* Every command that takes arrays reads and writes them as JSON. JSON in a file of another name is refused, and the
 * message says that it is JSON. */
static void test_arrays_as_json(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"echo '{\"input_ids\": [[382, 16, 1]], \"decoder_input_ids\": [[0]]}' > $T/ids.json && cp $T/ids.json "
       "$T/ids.txt",
       0, "", ""},
      {"$P run $M -i $T/ids.json -o $T/run.json && sed -n 2p $T/run.json && grep -c '\"logits\": \\[' $T/run.json", 0,
       "  \"format\": \"vkformer-arrays/1\",\n1\n", ""},
      {"$P generate $M -i $T/ids.json -o $T/seq.json --max-new-tokens 2 && grep -c '\"sequences\": \\[' $T/seq.json", 0,
       "1\n", ""},
      /* one command reads what another one wrote */
      {"echo '{\"x\": [[1, 2]]}' > $T/x.json && $P op softmax -i $T/x.json -o "
       "$T/s.json && sed 's/\"out\"/\"x\"/' $T/s.json > $T/s2.json && $P op softmax -i $T/s2.json -o $T/s3.json",
       0, "", NULL},
      {"$P run $M -i $T/ids.txt -o $T/o", 4, "",
       "ids.txt: expected a safetensors file, found JSON; the commands that take arrays as JSON know it by a name that "
       "ends in .json"},
      {"printf '{}' > $T/short && $P run $M -i $T/short -o $T/o", 4, "",
       "short: expected a safetensors file, found JSON"},
      {"echo '{\"input_ids\": [[4294967301]], \"decoder_input_ids\": [[0]]}' > $T/far_ids.json && $P run $M -i "
       "$T/far_ids.json -o $T/o",
       4, "", "input_ids: expected whole numbers of 32 bits"},
      {"$P info $M --json | sed -n 2p", 0, "  \"format\": \"vkformer-info/1\",\n", ""},
  };
  PROGRAM_ROWS(rows);
}

/* `run --text` takes the ids that `tokenize` prints. After an encoder, the target is the start id. */
static void test_run_on_texts(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"ids=$($P tokenize 'A sentence.' | tr ' ' ,) && echo \"{\\\"input_ids\\\": [[$ids]], \\\"decoder_input_ids\\\": "
       "[[0]]}\" > $T/t.json && $P run $M -i $T/t.json -o $T/a --output-attentions && $P run $M --text 'A sentence.' "
       "-o "
       "$T/b --output-attentions && cmp $T/a $T/b && grep -c cross_attentions.2 $T/b",
       0, "1\n", ""},
      {"$P run $T/f.texts --text 'a b' --output-attentions -o $T/c && grep -c attentions.0 $T/c", 0, "1\n", ""},
      {"cp -r $M $T/f.nostart && sed -i /decoder_start/d $T/f.nostart/*config.json && $P run $T/f.nostart --text a -o "
       "$T/o",
       4, "", "--text: expected decoder_start_token_id in config.json, found none"},
      {"$P run $M --text a --text b -o $T/o", 2, "", "--text: expected one text, found 2"},
      {"$P run $M --text a -i $T/t.json -o $T/o", 2, "", "expected one of --inputs, --text and --image"},
      {"$P run $G/llama --text a -o $T/o", 4, "", "tokenizer"},
  };
  PROGRAM_ROWS(rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pipes_in_folders),
      cmocka_unit_test(test_pipes_as_options),
      cmocka_unit_test(test_outputs),
      cmocka_unit_test(test_validations),
      cmocka_unit_test(test_profiles),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_json),
      cmocka_unit_test(test_documented_keys),
      cmocka_unit_test(test_byte_order_marks),
      cmocka_unit_test(test_arrays_as_json),
      cmocka_unit_test(test_run_on_texts),
  };
  return cmocka_run_group_tests(tests, prepare, program_teardown);
}
