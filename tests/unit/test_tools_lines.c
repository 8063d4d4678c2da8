/* Texts that come as lines: what is done with those that a model cannot take, when they are answered, and what is no
 * part of a text. Models: support/word_models.h, on the scalar path. */
#include <math.h>

#include "support/word_models.h"

typedef struct row {
  const char *command;
  int code;
  const char *out, *err;
} row;

#define BOM "\\357\\273\\277"

/* A byte-order mark before a text is no part of it, wherever the text comes from. */
static void test_marks(void **state) {
  (void)state;
  must_print("printf '" BOM "w5 w6\\nw7\\n' | $V tokenize -m $T/gpt2", "5 6\n7\n");
  must_print("$V tokenize -m $T/gpt2 \"$(printf '" BOM "w5')\" \"$(printf '" BOM "w6')\"", "5\n6\n");
  must_print("printf '" BOM "5 6\\n' | $V tokenize -m $T/gpt2 --decode", "w5 w6\n");
  must_print("printf '" BOM "w5 w6 w7\\n' | $V generate $T/gpt2 --max-new-tokens 2", " w125 w30\n");
  must_print("$V generate $T/gpt2 -p \"$(printf '" BOM "w5 w6 w7')\" --max-new-tokens 6 --stop \"$(printf '" BOM
             "w30 w30')\"",
             " w125 \n");
  must_print("$V classify $T/labels 'w5 w6' > $T/bare && printf '" BOM
             "w5 w6\\n' | $V classify $T/labels | cmp - $T/bare",
             "");
  must_print("$V embed $T/bert 'w5' > $T/bare && printf '" BOM "w5' | $V embed $T/bert | cmp - $T/bare", "");
  must_print("$V fill-mask $T/bert '[MASK]' > $T/bare && printf '" BOM "[MASK]' | $V fill-mask $T/bert | cmp - $T/bare",
             "");
  must_print("$V translate -m $T/marian 'w5 <eos>' > $T/bare && printf '" BOM
             "w5 <eos>\\n' | $V translate -m $T/marian | cmp - $T/bare",
             "");
}

/* ---- what a model cannot take ------------------------------------------------------------------------------------ */

/* Each command reads three lines, the second of which is not UTF-8. By default that line has its place in the output
 * and is named, the others are answered, and the exit code is 4. With `fail` only what comes before it is answered;
 * with `replace` it is a text like others. */
static void test_invalid(void **state) {
  (void)state;
  static const struct {
    const char *command, *text;
    int lines; /* of output for each text */
  } rows[] = {{"translate -m $T/marian --max-new-tokens 2", "w5 <eos>", 1},
              {"generate $T/gpt2 --max-new-tokens 2", "w5", 1},
              {"generate $T/gpt2 --max-new-tokens 2 -b 2", "w5", 1},
              {"classify $T/labels", "w5", 1},
              {"classify $T/labels --json", "w5", 1},
              {"embed $T/bert", "w5", 1},
              {"tokenize -m $T/gpt2", "w5", 1}};
  char command[512], out[32];
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    snprintf(command, sizeof command,
             "printf '%s\\nw6\\377 w7\\n%s\\n' > $T/three; $V %s < $T/three > $T/o; c=$?; "
             "wc -l < $T/o; exit $c",
             rows[i].text, rows[i].text, rows[i].command);
    program_must(command, 4, "3\n",
                 "vkformer: line 2 was skipped: expected UTF-8, found the byte 0xff after 2 bytes\n"
                 "vkformer: skipped 1 of 3 lines\n");
    must_print("sed -n 1p $T/o > $T/o1; sed -n 3p $T/o | cmp - $T/o1", "");
    snprintf(command, sizeof command, "$V %s --invalid fail < $T/three > $T/o; c=$?; cmp $T/o $T/o1; exit $c",
             rows[i].command);
    program_must(command, 4, "", "vkformer: line 2: expected UTF-8, found the byte 0xff after 2 bytes\n");
    snprintf(command, sizeof command, "$V %s --invalid replace < $T/three > $T/o && wc -l < $T/o", rows[i].command);
    snprintf(out, sizeof out, "%d\n", 3 * rows[i].lines);
    must_print(command, out);
  }
  program_must("printf 'w5\\000w6\\n' | $V tokenize -m $T/gpt2", 4, "\n", "found a zero byte after 2 bytes");
  program_must("echo w5 | gzip -c | $V tokenize -m $T/gpt2", 4, "",
               "standard input: expected text, found what gzip compressed: put `gzip -dc |` before this command");
  program_must("printf '\\3757zXZ' > $T/xz && $V tokenize -m $T/gpt2 < $T/xz", 4, "",
               "standard input: expected text, found what xz compressed");
  program_must("printf 'w5\\n\\nw6\\n' | $V tokenize -m $T/gpt2", 0, "5\n\n6\n", "");
  program_must("printf 'w5\\n\\n' | $V embed $T/gpt2", 4, NULL, "line 2 was skipped: expected at least one token");
  program_must("$V embed $T/gpt2 w5 --invalid no", 2, "", "--invalid: expected skip, replace or fail, found 'no'");
  json_t *line = NULL;
  assert_int_equal(program_run("printf '\\377\\n' | $V classify $T/labels --json"), 4);
  line = json_loads(program_out, 0, NULL);
  assert_string_equal(json_string_value(json_object_get(line, "text")), "\xef\xbf\xbd");
  assert_non_null(strstr(json_string_value(json_object_get(line, "skipped")), "0xff"));
  assert_string_equal(json_string_value(json_object_get(line, "format")), "vkformer-classify/1");
  json_decref(line);
}

/* bert has 64 positions, roberta 62, two of them for [CLS] and [SEP]; gpt2 has 96. */
static void test_long(void **state) {
  (void)state;
  static const row rows[] = {
      {"echo \"$t\" | $V embed $T/bert", 4,
       "\"skipped\":\"expected at most 64 tokens, the model's positions, found 77\"",
       "line 1 was skipped: expected at most 64 tokens, the model's positions, found 77\n"
       "vkformer: skipped 1 of 1 line; see --long for those that are too long\n"},
      {"printf 'w5\\n%s\\nw6\\n' \"$t\" > $T/l; $V embed $T/bert --long fail < $T/l > $T/o; c=$?; wc -l < $T/o; exit "
       "$c",
       4, "1\n", "line 2: expected at most 64 tokens, the model's positions, found 77"},
      {"$V embed $T/bert \"$t\" --long truncate | sed 's/.*embedding//' > $T/cut; "
       "$V embed $T/bert \"$(echo $t | cut -d' ' -f 1-62)\" | sed 's/.*embedding//' | cmp - $T/cut",
       0, "", ""},
      /* cut after the second sentence */
      {"$V classify $T/words \"$t\" --long split > $T/cut; $V classify $T/words \"$(echo $t | cut -d' ' -f 1-50)\" > "
       "$T/parts; $V classify $T/words \"$(echo $t | cut -d' ' -f 51-75)\" >> $T/parts; cmp $T/cut $T/parts",
       0, "", ""},
      /* without sentences, cut after the last word that fits */
      {"t=$(echo $t | tr -d .); $V classify $T/words \"$t\" --long split > $T/cut; $V classify $T/words "
       "\"$(echo $t | cut -d' ' -f 1-60)\" > $T/parts; $V classify $T/words \"$(echo $t | cut -d' ' -f 61-75)\" >> "
       "$T/parts; cmp $T/cut $T/parts",
       0, "", ""},
      /* generated text follows the last words, so these are kept */
      {"t=\"$t $t\"; $V generate $T/gpt2 -p \"$t\" --long truncate --max-new-tokens 1 > $T/cut; test -s $T/cut && "
       "$V generate $T/gpt2 -p \"$(echo $t | cut -d' ' -f 55-150)\" --max-new-tokens 1 | cmp - $T/cut",
       0, "", ""},
      /* a folder with truncation_side left keeps the last words of any text */
      {"$V embed $T/left \"$t\" --long truncate | sed 's/.*embedding//' > $T/cut; "
       "$V embed $T/bert \"$(echo $t | cut -d' ' -f 14-75)\" | sed 's/.*embedding//' | cmp - $T/cut",
       0, "", ""},
      {"$V classify $T/left-words \"$t\" --long truncate > $T/cut; "
       "$V classify $T/words \"$(echo $t | cut -d' ' -f 16-75)\" | cmp - $T/cut",
       0, "", ""},
      {"$V embed $T/left \"$t\" --long split | sed 's/.*embedding//' > $T/cut; "
       "$V embed $T/bert \"$t\" --long split | sed 's/.*embedding//' | cmp - $T/cut",
       0, "", ""},
      {"$V generate $T/gpt2 -p \"$t\" --long split", 2, "", "--long: expected truncate, skip or fail, found split"},
      {"$V translate -m $T/marian \"$t\" --long no", 2, "", "--long: expected split, truncate, skip or fail"},
  };
  char command[1024];
  assert_int_equal(program_run("for m in left:bert left-words:words; do cp -r $T/${m#*:} $T/${m%:*}; "
                               "echo '{\"truncation_side\": \"left\"}' > $T/${m%:*}/tokenizer_config.json; done"),
                   0);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    snprintf(
        command, sizeof command,
        "t=$(for s in 1 2 3; do for i in $(seq 24); do printf 'w%%d ' $((s * 30 + i)); done; printf 'w9. '; done); "
        "%s",
        rows[i].command);
    program_must(command, rows[i].code, rows[i].out, rows[i].err);
  }
}

/* The vector of a line that is split is the mean of its parts' vectors, weighted by their tokens. */
static void test_joined(void **state) {
  (void)state;
  enum { N_TOKENS = 40 };
  static const char make[] =
      "a=$(for i in $(seq 38); do printf 'w%d ' $((i + 5)); done); b=$(for i in $(seq 38); do printf 'w%d ' $((i + "
      "50)); "
      "done); $V embed $T/bert \"${a}w9. $b\" --long split; $V embed $T/bert \"${a}w9.\"; $V embed $T/bert \"$b\"";
  json_t *whole = line_of(make, 0), *first = line_of(make, 1), *second = line_of(make, 2);
  const json_t *w = json_object_get(whole, "embedding"), *a = json_object_get(first, "embedding"),
               *b = json_object_get(second, "embedding");
  assert_int_equal(json_array_size(w), json_array_size(a));
  for (size_t i = 0; i < json_array_size(w); i++) {
    double wanted =
        (41 * json_number_value(json_array_get(a, i)) + N_TOKENS * json_number_value(json_array_get(b, i))) /
        (41 + N_TOKENS);
    if (fabs(json_number_value(json_array_get(w, i)) - wanted) > 1e-9) fail_msg("[%zu]: expected %.12g", i, wanted);
  }
  json_decref(whole);
  json_decref(first);
  json_decref(second);
  /* A skipped line is a row of NaN, so that every line has a row. */
  program_must(
      "printf 'w5\\n\\377\\n' | $V embed $T/bert -o $T/v.npy; c=$?; test $(tail -c 256 $T/v.npy | od -An -tf4 -v | "
      "tr -s ' ' '\\n' | grep -c nan) = 64 || exit 9; exit $c",
      4, "", "line 2 was skipped");
}

/* ---- when a line is answered ------------------------------------------------------------------------------------- */

/* A line is answered before the next one comes. */
static void test_slow_pipe(void **state) {
  (void)state;
  static const char *const commands[] = {
      "translate -m $T/marian --max-new-tokens 2", "classify $T/labels", "fill-mask $T/bert -k 1",
      "generate $T/gpt2 --max-new-tokens 1 -b 4",  "embed $T/bert",      "tokenize -m $T/gpt2"};
  char command[1024];
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
    snprintf(command, sizeof command,
             "rm -f $T/to; mkfifo $T/to && { $V %s < $T/to > $T/o 2> $T/e & exec 5> $T/to; echo 'w5 [MASK]' >&5; "
             "for i in $(seq 300); do test -s $T/o && break; sleep 0.1; done; "
             "test -s $T/o || { echo 'no answer'; cat $T/e; }; exec 5>&-; wait; }",
             commands[i]);
    must_print(command, "");
  }
}

/* Lines that are at hand share batches. The profile shows how many: the runs of the encoder's first block. */
static void test_batches(void **state) {
  (void)state;
  program_must(
      "for i in $(seq 8); do echo 'w5 <eos>'; done > $T/eight; $V translate -m $T/marian -b 8 --num-beams 1 "
      "--max-new-tokens 2 --profile < $T/eight 2>&1 > $T/o | awk '/^encoder.0 /{print $2}'",
      0, "1\n", NULL);
  program_must(
      "cat $T/eight | $V translate -m $T/marian -b 4 --num-beams 1 --max-new-tokens 2 --profile 2>&1 "
      "> $T/o | awk '/^encoder.0 /{print $2}'",
      0, "2\n", NULL);
  /* If somebody may be watching, generated text is shown as it grows, one prompt at a time: two steps for each. */
#define STEPS " 2>&1 | awk '/^decoder.0 /{print $2}'; "
  program_must(
      "g() { $V generate $T/gpt2 --min-new-tokens 2 --max-new-tokens 2 --workers 1 --profile; }; "
      "sed 's/ <eos>//' $T/eight > $T/plain; cat $T/plain | g" STEPS "g < $T/plain" STEPS "(g < $T/plain > $T/o)" STEPS
      "(cat $T/plain | g > /dev/null)" STEPS,
      0, "16\n2\n2\n2\n", NULL);
}

/* ---- tokenize ---------------------------------------------------------------------------------------------------- */

static void test_tokenize(void **state) {
  (void)state;
  must_print("printf 'w5 w6\\n\\nw7\\n' | $V tokenize -m $T/gpt2 | $V tokenize -m $T/gpt2 --decode", "w5 w6\n\nw7\n");
  must_print("$V tokenize -m $T/gpt2 --decode '5 6' 7", "w5 w6 w7\n");
  must_print("echo '5, 6' | $V tokenize -m $T/gpt2 --decode --json",
             "{\"format\":\"vkformer-tokenize/1\",\"text\":\"w5 w6\",\"ids\":[5,6]}\n");
  must_print("$V tokenize -m $T/gpt2 --json w5",
             "{\"format\":\"vkformer-tokenize/1\",\"text\":\"w5\",\"ids\":[5],\"pieces\":[\"w5\"]}\n");
  program_must("echo '5 x' | $V tokenize -m $T/gpt2 --decode", 4, "", "line 1: expected token ids, found 'x'");
  program_must("$V tokenize -m $T/gpt2 --decode 5x", 2, "", "expected a token id, found '5x'");
}

/* ---- what is no text --------------------------------------------------------------------------------------------- */

static void test_names_of_files(void **state) {
  (void)state;
  static const char *const commands[] = {"translate -m $T/marian $T/f", "generate $T/gpt2 -p $T/f",
                                         "classify $T/labels $T/f",     "embed $T/bert $T/f",
                                         "fill-mask $T/bert $T/f",      "tokenize -m $T/gpt2 $T/f"};
  char command[256];
  must_print("echo w5 > $T/f", "");
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
    snprintf(command, sizeof command, "$V %s", commands[i]);
    program_must(command, 2, "", "/f: its lines are read with < ");
  }
  program_must("$V translate $T/marian w5", 2, "", "/marian: name a model with --model, or before the texts");
}

/* ---- --input ----------------------------------------------------------------------------------------------------- */

/* The lines of a file, also of a compressed one, give what those of standard input give. */
static void test_input(void **state) {
  (void)state;
  static const char *const commands[] = {"classify $T/labels", "embed $T/bert", "fill-mask $T/bert -k 1",
                                         "tokenize -m $T/gpt2"};
  char command[512];
  must_print("printf '\\357\\273\\277w5 [MASK]\\nw6 w7 [MASK]' > $T/in && gzip -c $T/in > $T/in.gz", "");
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
    snprintf(command, sizeof command,
             "$V %s < $T/in > $T/one && test $(wc -l < $T/one) = 2 && for f in in in.gz; do $V %s -i $T/$f < /dev/null "
             "| cmp - $T/one || exit 1; done",
             commands[i], commands[i]);
    must_print(command, "");
    snprintf(command, sizeof command, "$V %s -i $T/in w5", commands[i]);
    program_must(command, 2, "", "expected texts or --input, found both");
    snprintf(command, sizeof command, "$V %s -i $T/none", commands[i]);
    program_must(command, 4, "", "none: ");
  }
  must_print("echo 5 6 > $T/ids; $V tokenize -m $T/gpt2 --decode -i $T/ids", "w5 w6\n");
  program_must("$V tokenize -m $T/gpt2 --decode -i $T/ids 5", 2, "", "expected ids or --input, found both");
  program_must("cp $T/in $T/same; $V embed $T/bert -i $T/same -o $T/same; c=$?; cmp $T/in $T/same; exit $c", 2, "",
               "expected another file than the input");
}

/* ---- fill-mask --------------------------------------------------------------------------------------------------- */

/* While one mask is filled, the other stays, and columns are counted as a terminal shows them. */
static void test_masks(void **state) {
  (void)state;
  program_must("$V fill-mask $T/bert 'w5 [MASK] w6 [MASK]' -k 1 --json | sed 's/.*\"text\"://'", 0, NULL, "");
  char one[32], two[32];
  if (sscanf(program_out, "\"w5 %31s w6 [MASK]\"}\n\"w5 [MASK] w6 %31s", one, two) != 2 || one[0] != 'w' ||
      two[0] != 'w')
    fail_msg("found %s", program_out);
  /* three characters of two columns and three bytes each, then a space to column 16 and one between */
  must_print(
      "cp -r $T/bert $T/wide && sed -i 's/\"w7\"/\"\346\227\245\346\234\254\350\252\236\"/' $T/wide/tokenizer.json && "
      "$V fill-mask $T/wide 'w5 [MASK]' -k 100 | grep -c '^[0-9.]*  \346\227\245\346\234\254\350\252\236 \\{11\\}w5 '",
      "1\n");
}

/* The output has the same bytes, in the order of the lines, whichever worker has a batch and whatever its size, also
 * with lines that are blank or skipped. Each line draws random numbers of its own. */
static void test_workers(void **state) {
  (void)state;
  program_must(
      "printf 'w5 <eos>\\n\\nw5 w6 w7 <eos>\\n\\377\\nw9 <eos>\\nw5 w6 w7 w8 w9 <eos>\\nw5 <eos>\\n' > $T/some; "
      "for s in '' --do-sample; do for o in '--workers 1 -b 32' '--workers 2 -b 1' '--workers 3 -b 2' "
      "'--driver-threads 1 -b 3'; do $V translate -m $T/marian --max-new-tokens 4 --num-beams 1 --json $s $o "
      "< $T/some > $T/o; test $? = 4 || exit 1; test -e $T/first$s || cp $T/o $T/first$s; cmp $T/o $T/first$s || "
      "exit 1; done; done; wc -l < $T/o; sed -n 1p $T/first--do-sample > $T/a; sed -n 7p $T/first--do-sample | "
      "cmp -s - $T/a",
      1, "7\n", "skipped 1 of 7 lines");
}

/* The same for the other commands, with texts for several batches, and on two devices. */
static void test_workers_of_commands(void **state) {
  (void)state;
  static const char *const commands[] = {
      "embed $T/bert",
      "embed $T/bert --similarity",
      "classify $T/labels --json",
      "classify $T/words",
      "fill-mask $T/bert -k 2",
      "generate $T/gpt2 --max-new-tokens 3 --json -b 2",
      "generate $T/gpt2 --max-new-tokens 3 --do-sample --seed 3 --num-return-sequences 2"};
  char command[1024];
  must_print("for i in $(seq 36); do echo w5 $(seq -f 'w%g' 10 $((10 + i * 7 % 11))) '[MASK]'; done > $T/many", "");
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    snprintf(command, sizeof command,
             "$V %s --workers 1 < $T/many > $T/one && test -s $T/one && for o in '' '--workers 2' "
             "'--workers 3 --driver-threads 1' '--device ref,ref' '--device ref,ref --workers 2'; do "
             "$V %s $o < $T/many | cmp - $T/one || exit 1; done",
             commands[i], commands[i]);
    must_print(command, "");
  }
  must_print(
      "$V embed $T/bert --workers 1 -o $T/one.npy < $T/many && $V embed $T/bert --workers 3 -o $T/o.npy < "
      "$T/many && cmp $T/one.npy $T/o.npy",
      "");
  must_print(
      "printf '{\"size\": 32}' > $T/vit/preprocessor_config.json; $V classify $T/vit --workers 1 $I/*.png > $T/one; "
      "for o in '--workers 2' '--workers 3'; do "
      "$V classify $T/vit $o $I/*.png | cmp - $T/one; done; test $(wc -l < $T/one) -gt 2",
      "");
}

/* An image that cannot be read ends the work: results before it are printed, whichever worker reached it first. */
static void test_workers_end(void **state) {
  (void)state;
  program_must(
      "P=$I/rgb.png; N=$T/no$(printf '%0150d' 0).png; for w in 1 2 4; do $V classify $T/vit --workers $w "
      "$P $P $P $N $P > $T/o 2> $T/e; test $? = 4 && grep -q no000 $T/e && wc -l < $T/o; done",
      0, "3\n3\n3\n", NULL);
}

static void test_devices(void **state) {
  (void)state;
  program_must("$V embed $T/bert --device ref,nowhere w5", 3, "", "nowhere");
  program_must("$V embed $T/bert --device ref, w5", 2, "", "--device: expected a device between commas, found 'ref,'");
  program_must("$V embed $T/bert --device ref,ref --profile w5", 2, "", "--profile: expected one device");
  program_must("$V embed $T/bert --workers 65 w5", 2, "", "--workers: expected at most 64, found 65");
  program_must("$V embed $T/bert --device ref,ref --workers 2 -v w5 > $T/o", 0, "", "vkformer: at most 4 workers\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_marks),       cmocka_unit_test(test_workers),  cmocka_unit_test(test_invalid),
      cmocka_unit_test(test_long),        cmocka_unit_test(test_joined),   cmocka_unit_test(test_slow_pipe),
      cmocka_unit_test(test_batches),     cmocka_unit_test(test_tokenize), cmocka_unit_test(test_names_of_files),
      cmocka_unit_test(test_input),       cmocka_unit_test(test_masks),    cmocka_unit_test(test_workers_of_commands),
      cmocka_unit_test(test_workers_end), cmocka_unit_test(test_devices)};
  setenv("VKF_DEVICE", "ref", 1); /* lines are the same on every device */
  return cmocka_run_group_tests(tests, word_models, program_teardown);
}
