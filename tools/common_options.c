/* common_options: the options that several commands share. options.c reads them. */
#include "program.h"

static const tool_option device_options[] = {
    {"device", 'd', TOOL_TEXT, offsetof(tool_args, device), "D",
     "an index, a UUID, part of a device's or driver's name, or one\nof lavapipe, swiftshader, gpu, cpu, ref; default: "
     "$VKF_DEVICE,\nelse the best GPU, else a software driver"},
    {"deterministic", 0, TOOL_FLAG, offsetof(tool_args, deterministic), NULL,
     "compute the same bits on every device, including ref; slower"},
    {"batch-invariant", 0, TOOL_FLAG, offsetof(tool_args, batch_invariant), NULL,
     "compute the same bits in any batch on GPUs, too; software\ndrivers always do"},
    {"profile", 0, TOOL_MAYBE_OUTPUT, offsetof(tool_args, profile), "[=FILE]",
     "time every node that runs: print a table on standard error and,\nwith FILE, write a trace for chrome://tracing"},
};
const tool_option_group tool_device_options = TOOL_GROUP("Device", device_options);

static const tool_option driver_options[] = {
    {"icd", 0, TOOL_TEXTS, offsetof(tool_args, icd_files), "FILE", "load one more Vulkan driver manifest; repeatable"},
    {"limits", 0, TOOL_NAME, offsetof(tool_args, limits), "NAME|FILE",
     "pretend that the device is smaller: least, pi, mali, adreno,\nintel, m1, deck or a JSON file"},
    {"no-wide-vectors", 0, TOOL_FLAG, offsetof(tool_args, no_wide_vectors), NULL,
     "keep lavapipe's usual vector width on processors with AVX-512"},
};
const tool_option_group tool_driver_options = TOOL_GROUP("Drivers", driver_options);

static const tool_option common_options[] = {
    {"verbose", 'v', TOOL_FLAG, offsetof(tool_args, verbose), NULL, "say what is chosen and why; -vv says more"},
    {"help", 'h', TOOL_FLAG, offsetof(tool_args, help), NULL, "print this help"},
};
const tool_option_group tool_common_options = TOOL_GROUP("Common options", common_options);

static const tool_option model_options[] = {
    {"weights", 0, TOOL_TEXT, offsetof(tool_args, weights), "FORMAT",
     "store matrices and embeddings as f32, f16, bf16, int8 (one\nscale per row) or auto (default): f32 on software "
     "drivers,\nelsewhere as in the file"},
    {"activations", 0, TOOL_TEXT, offsetof(tool_args, activations), "FORMAT",
     "with --weights int8: the inputs of matrix products are f32\n(default) or q8 (8 bits, in blocks of 32 within a "
     "row)"},
    {"kv-cache", 0, TOOL_TEXT, offsetof(tool_args, kv_cache), "FORMAT",
     "store keys and values as f32, f16 or auto (default): f16 on\nGPUs if weights have 16 bits or fewer, else f32"},
    {"kv-cache-bytes", 0, TOOL_BYTES, offsetof(tool_args, kv_cache_bytes), "N",
     "most bytes for the keys and values of each worker. A text that\ndoes not fit waits; one that can never fit is "
     "skipped. Default:\nwhat the device has left"},
};
const tool_option_group tool_model_options = TOOL_GROUP("How the model is stored (sums are float32)", model_options);

static const tool_option generation_options[] = {
    {"generation-config", 'g', TOOL_INPUT, offsetof(tool_args, generation_config), "FILE",
     "a JSON file with the keys of generation_config.json; the\noptions below override it"},
    {"num-beams", 0, TOOL_KEY_WHOLE, 0, "N", "number of beams; 1: greedy search"},
    {"max-new-tokens", 0, TOOL_KEY_WHOLE, 0, "N", "stop after N new tokens"},
    {"min-new-tokens", 0, TOOL_KEY_WHOLE, 0, "N", "do not end before N new tokens"},
    {"length-penalty", 0, TOOL_KEY_NUMBER, 0, "X", "a beam's score is its sum of log-probabilities / length^X"},
    {"early-stopping", 0, TOOL_KEY_RULE, 0, "RULE",
     "when a beam search ends. true: as soon as num-beams texts have\nended; false: when no beam can beat them at its "
     "present length;\nnever: when none can at its most favourable length"},
    {"patience", 0, TOOL_KEY_NUMBER, 0, "X",
     "end a beam search when num-beams * X texts have ended, whatever\nearly-stopping says; over 1: more texts are "
     "compared"},
    {"coverage-penalty", 0, TOOL_KEY_NUMBER, 0, "X",
     "translations: rank beams by score plus X times the summed\nlogarithms of the attention that each token of the "
     "text gets"},
    {"num-beam-groups", 0, TOOL_KEY_WHOLE, 0, "N",
     "split the beams into N groups; each avoids the tokens that\nearlier groups take"},
    {"diversity-penalty", 0, TOOL_KEY_NUMBER, 0, "X",
     "with --num-beam-groups: a token's score loses X for each beam\nof an earlier group that has taken it in the same "
     "step"},
    {"force-words-ids", 0, TOOL_KEY_LISTS, 0, "LISTS", "with beams: sequences that every text must contain: [5,6],[7]"},
    {"return-alternatives", 0, TOOL_KEY_TRUE, 0, NULL,
     "make the N texts of --num-return-sequences or --n-best begin\nwith the N most likely tokens, one each. Fewer if "
     "not so many\nmay begin"},
    {"min-alternative-expansion-prob", 0, TOOL_KEY_NUMBER, 0, "X",
     "with --return-alternatives: leave out those whose first token\nhas a probability below X, but not the first one; "
     "0 to 1"},
    {"repetition-penalty", 0, TOOL_KEY_NUMBER, 0, "X", "over 1: tokens that occurred before become less likely"},
    {"no-repeat-ngram-size", 0, TOOL_KEY_WHOLE, 0, "N", "never repeat a sequence of N tokens"},
    {"encoder-repetition-penalty", 0, TOOL_KEY_NUMBER, 0, "X", "over 1: tokens of the source become more likely"},
    {"encoder-no-repeat-ngram-size", 0, TOOL_KEY_WHOLE, 0, "N", "never copy a sequence of N tokens from the source"},
    {"suppress-tokens", 0, TOOL_KEY_IDS, 0, "IDS", "never generate these ids, separated by commas"},
    {"begin-suppress-tokens", 0, TOOL_KEY_IDS, 0, "IDS", "never begin with these ids, separated by commas"},
    {"bad-words-ids", 0, TOOL_KEY_LISTS, 0, "LISTS", "never generate these sequences: [5,6],[7]"},
    {"do-sample", 0, TOOL_KEY_TRUE, 0, NULL, "draw tokens at random; the options below say how"},
    {"temperature", 0, TOOL_KEY_DRAW, 0, "X", "divide the scores by X"},
    {"top-k", 0, TOOL_KEY_WHOLE, 0, "N", "keep only the N best tokens; 0: all; default 50"},
    {"top-p", 0, TOOL_KEY_DRAW, 0, "X", "keep only the best tokens whose probabilities add up to X"},
    {"min-p", 0, TOOL_KEY_DRAW, 0, "X", "keep only tokens that are at least X times as likely as the\nbest one"},
    {"top-h", 0, TOOL_KEY_DRAW, 0, "X",
     "keep only the best tokens that have at most X of the entropy\nof the best 100"},
    {"typical-p", 0, TOOL_KEY_DRAW, 0, "X",
     "keep only the most typical tokens, whose probabilities add up\nto X; typical: as likely as the entropy suggests"},
    {"epsilon-cutoff", 0, TOOL_KEY_DRAW, 0, "X", "keep only tokens with a probability of at least X"},
    {"eta-cutoff", 0, TOOL_KEY_DRAW, 0, "X", "the same, but X falls as the next token gets less certain"},
    {"seed", 0, TOOL_KEY_SEED, 0, "N", "the same seed and line give the same text; default 0"},
};
const tool_option_group tool_generation_options =
    TOOL_GROUP("Generation (over the keys of generation_config.json)", generation_options);
