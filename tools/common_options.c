/* common_options: the options that several commands share. options.c reads them. */
#include "program.h"

static const tool_option device_options[] = {
    {"device", 'd', TOOL_TEXT, offsetof(tool_args, device), "D",
     "an index, a UUID, part of a device's or driver's name,\nor one of lavapipe, swiftshader, gpu, cpu, ref"},
    {"deterministic", 0, TOOL_FLAG, offsetof(tool_args, deterministic), NULL,
     "the same bits on every device, ref included; slower"},
    {"batch-invariant", 0, TOOL_FLAG, offsetof(tool_args, batch_invariant), NULL,
     "the same bits in any batch on a GPU, too, as on software drivers"},
    {"profile", 0, TOOL_MAYBE_OUTPUT, offsetof(tool_args, profile), "[=FILE]",
     "time every node of what runs: a table on standard error,\nand a trace for chrome://tracing in FILE"},
};
const tool_option_group tool_device_options = TOOL_GROUP("Device", device_options);

static const tool_option driver_options[] = {
    {"icd", 0, TOOL_TEXTS, offsetof(tool_args, icd_files), "FILE", "one more Vulkan driver manifest; repeatable"},
    {"limits", 0, TOOL_NAME, offsetof(tool_args, limits), "NAME|FILE",
     "pretend that the device is smaller: least, pi, mali, adreno,\nintel, m1, deck or a JSON file"},
    {"no-wide-vectors", 0, TOOL_FLAG, offsetof(tool_args, no_wide_vectors), NULL,
     "keep lavapipe's usual vector width on processors with AVX-512"},
};
const tool_option_group tool_driver_options = TOOL_GROUP("Drivers", driver_options);

static const tool_option common_options[] = {
    {"verbose", 'v', TOOL_FLAG, offsetof(tool_args, verbose), NULL, "say what is chosen and why; -vv says more"},
    {"help", 'h', TOOL_FLAG, offsetof(tool_args, help), NULL, "this text"},
};
const tool_option_group tool_common_options = TOOL_GROUP("Common options", common_options);

static const tool_option model_options[] = {
    {"weights", 0, TOOL_TEXT, offsetof(tool_args, weights), "FORMAT",
     "matrices and embeddings as f32, f16, bf16, int8 (a scale\na row) or auto (default): f32 on software drivers,\n"
     "elsewhere as in the file"},
    {"activations", 0, TOOL_TEXT, offsetof(tool_args, activations), "FORMAT",
     "with --weights int8: what enters matrix products, as f32\n(default) or q8 (8 bits in blocks of 32 of a row)"},
    {"kv-cache", 0, TOOL_TEXT, offsetof(tool_args, kv_cache), "FORMAT",
     "keys and values as f32, f16 or auto (default): f16 on GPUs if\nweights have 16 bits or fewer, else f32"},
    {"kv-cache-bytes", 0, TOOL_BYTES, offsetof(tool_args, kv_cache_bytes), "N",
     "bytes that each worker's keys and values may take; what does\nnot fit waits, what never fits is skipped. "
     "Default: what the\ndevice has left"},
};
const tool_option_group tool_model_options = TOOL_GROUP("How the model is stored (sums are float32)", model_options);

static const tool_option generation_options[] = {
    {"generation-config", 'g', TOOL_INPUT, offsetof(tool_args, generation_config), "FILE",
     "JSON, keys as in generation_config.json;\nthe options below override it"},
    {"num-beams", 0, TOOL_KEY_WHOLE, 0, "N", "beams; 1 is greedy"},
    {"max-new-tokens", 0, TOOL_KEY_WHOLE, 0, "N", "stop after N tokens"},
    {"min-new-tokens", 0, TOOL_KEY_WHOLE, 0, "N", "do not end before N tokens"},
    {"length-penalty", 0, TOOL_KEY_NUMBER, 0, "X", "a beam's score is its sum / length^X"},
    {"early-stopping", 0, TOOL_KEY_RULE, 0, "RULE", "when beams end: true, false or never"},
    {"patience", 0, TOOL_KEY_NUMBER, 0, "X",
     "beams end when num-beams * X texts have ended, whatever\nearly-stopping says; over 1: more are compared"},
    {"coverage-penalty", 0, TOOL_KEY_NUMBER, 0, "X",
     "translations: what is not looked at in the text lowers a\nbeam's score, X times its logarithm"},
    {"num-beam-groups", 0, TOOL_KEY_WHOLE, 0, "N", "parts of the beams; each avoids what those before it take"},
    {"diversity-penalty", 0, TOOL_KEY_NUMBER, 0, "X",
     "with --num-beam-groups: what a token loses for each beam of an\nearlier group that has just taken it"},
    {"force-words-ids", 0, TOOL_KEY_LISTS, 0, "LISTS", "sequences that appear in each text, with beams: [5,6],[7]"},
    {"return-alternatives", 0, TOOL_KEY_TRUE, 0, NULL,
     "the N texts of --num-return-sequences or --n-best begin with\nthe N most likely tokens, one with each"},
    {"repetition-penalty", 0, TOOL_KEY_NUMBER, 0, "X", "over 1: tokens that occurred before become less likely"},
    {"no-repeat-ngram-size", 0, TOOL_KEY_WHOLE, 0, "N", "never repeat N tokens in a row"},
    {"encoder-repetition-penalty", 0, TOOL_KEY_NUMBER, 0, "X", "over 1: tokens of the source become more likely"},
    {"encoder-no-repeat-ngram-size", 0, TOOL_KEY_WHOLE, 0, "N", "never N tokens in a row that the source has"},
    {"suppress-tokens", 0, TOOL_KEY_IDS, 0, "IDS", "ids that never occur, separated by commas"},
    {"begin-suppress-tokens", 0, TOOL_KEY_IDS, 0, "IDS", "ids that are not the first one"},
    {"bad-words-ids", 0, TOOL_KEY_LISTS, 0, "LISTS", "sequences that never occur: [5,6],[7]"},
    {"do-sample", 0, TOOL_KEY_TRUE, 0, NULL, "draw tokens at random; the options below say how"},
    {"temperature", 0, TOOL_KEY_DRAW, 0, "X", "divides the scores"},
    {"top-k", 0, TOOL_KEY_WHOLE, 0, "N", "only the N best tokens; 0: all; default 50"},
    {"top-p", 0, TOOL_KEY_DRAW, 0, "X", "only the best tokens whose probabilities add up to X"},
    {"min-p", 0, TOOL_KEY_DRAW, 0, "X", "only tokens with X times the best one's probability"},
    {"top-h", 0, TOOL_KEY_DRAW, 0, "X", "only the best tokens that have X of the entropy of the best 100"},
    {"typical-p", 0, TOOL_KEY_DRAW, 0, "X",
     "only tokens whose probabilities add up to X, the most typical\nfirst: as likely as the entropy says"},
    {"epsilon-cutoff", 0, TOOL_KEY_DRAW, 0, "X", "only tokens with a probability of at least X"},
    {"eta-cutoff", 0, TOOL_KEY_DRAW, 0, "X", "the same with a lower X where the next token is less certain"},
    {"seed", 0, TOOL_KEY_SEED, 0, "N", "the same seed and line give the same text; default 0"},
};
const tool_option_group tool_generation_options =
    TOOL_GROUP("Generation (over the keys of generation_config.json)", generation_options);
