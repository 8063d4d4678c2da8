"""The C interface of libvkformer for ctypes: enums, structs, functions.

It repeats include/vkformer/*.h; tests/python/layout.py makes the C compiler compare them.
"""

import ctypes
import ctypes.util
import enum
import os
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int32, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p


class Status(enum.IntEnum):
    """vkf_status."""

    OK = 0
    ERROR_ARGUMENT = 1
    ERROR_MEMORY = 2
    ERROR_DEVICE_MEMORY = 3
    ERROR_FILE = 4
    ERROR_FORMAT = 5
    ERROR_UNSUPPORTED = 6
    ERROR_NO_DEVICE = 7
    ERROR_DEVICE = 8
    ERROR_DEVICE_LOST = 9
    ERROR_NUMERIC = 10
    ERROR_STOPPED = 11


class LogLevel(enum.IntEnum):
    """vkf_log_level."""

    ERROR = 0
    WARNING = 1
    INFO = 2
    DEBUG = 3


class Dtype(enum.IntEnum):
    """vkf_dtype."""

    F32 = 0
    F16 = 1
    BF16 = 2
    I32 = 3
    I64 = 4
    I8 = 5
    U8 = 6
    BOOL = 7
    F64 = 8
    I16 = 9


class Storage(enum.IntEnum):
    """vkf_storage."""

    AUTO = 0
    F32 = 1
    F16 = 2
    BF16 = 3
    INT8 = 4
    Q8 = 5


class LongRule(enum.IntEnum):
    """vkf_long_rule."""

    REFUSE = 0
    TRUNCATE = 1
    SPLIT = 2


class AttentionKind(enum.IntEnum):
    """vkf_attention_kind."""

    ENCODER = 0
    DECODER = 1
    CROSS = 2


class Pooling(enum.IntEnum):
    """vkf_pooling."""

    FOLDER = 0
    MEAN = 1
    CLS = 2
    MAX = 3
    LAST = 4
    WEIGHTED_MEAN = 5
    MEAN_SQRT_LEN = 6


# Python's name, C's name, and the prefix of the enumerators in C.
ENUMS = (
    (Status, "vkf_status", "VKF_"),
    (LogLevel, "vkf_log_level", "VKF_LOG_"),
    (Dtype, "vkf_dtype", "VKF_"),
    (Storage, "vkf_storage", "VKF_STORAGE_"),
    (LongRule, "vkf_long_rule", "VKF_LONG_"),
    (Pooling, "vkf_pooling", "VKF_POOLING_"),
    (AttentionKind, "vkf_attention_kind", "VKF_ATTENTION_"),
)

MAX_RANK = 8
LogFn = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)
ProgressFn = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64)
StopFn = ctypes.CFUNCTYPE(c_int, c_void_p)
TokenFn = ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t, c_int32)
TextFn = ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t, POINTER(ctypes.c_char), c_size_t)


class _Sized(ctypes.Structure):
    """A struct that begins with its size."""

    def __init__(self, **values):
        super().__init__(size=ctypes.sizeof(type(self)), **values)


class ContextParams(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("log", LogFn),
        ("log_user", c_void_p),
        ("log_level", c_int),
        ("allocator", c_void_p),
        ("icd_files", POINTER(c_char_p)),
        ("n_icd_files", c_size_t),
        ("cache_folder", c_char_p),
        ("deterministic", c_bool),
        ("limits", c_char_p),
        ("batch_invariant", c_bool),
    ]


class DeviceInfo(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("kind", c_int),
        ("name", ctypes.c_char * 256),
        ("driver", ctypes.c_char * 256),
        ("alias", ctypes.c_char * 16),
        ("uuid", c_uint8 * 16),
        ("vendor_id", c_uint32),
        ("device_id", c_uint32),
        ("driver_version", c_uint32),
        ("api_version", c_uint32),
        ("driver_id", c_uint32),
        ("memory_bytes", c_uint64),
        ("max_storage_range_bytes", c_uint64),
        ("max_allocation_bytes", c_uint64),
        ("max_shared_bytes", c_uint32),
        ("max_invocations", c_uint32),
        ("max_storage_bindings", c_uint32),
        ("subgroup_size", c_uint32),
        ("timestamp_ns", c_float),
        ("has_float16", c_bool),
        ("has_storage16", c_bool),
        ("has_int64", c_bool),
        ("has_buffer_address", c_bool),
        ("has_subgroup_shuffle", c_bool),
        ("has_subgroup_arithmetic", c_bool),
        ("has_cooperative_matrix", c_bool),
    ]


class Array(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_int),
        ("rank", c_size_t),
        ("shape", c_size_t * MAX_RANK),
        ("data", c_void_p),
    ]


class ModelParams(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("weights", c_int),
        ("kv_cache", c_int),
        ("on_progress", ProgressFn),
        ("user", c_void_p),
        ("weights_of", c_void_p),
    ]


class ModelInfo(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("family", c_char_p),
        ("architecture", c_int),
        ("d_model", c_uint32),
        ("n_heads", c_uint32),
        ("d_ff", c_uint32),
        ("vocab", c_uint32),
        ("encoder_layers", c_uint32),
        ("decoder_layers", c_uint32),
        ("max_positions", c_uint32),
        ("n_parameters", c_uint64),
        ("file_bytes", c_uint64),
        ("device_bytes", c_uint64),
        ("weights", c_int),
        ("kv_cache", c_int),
        ("has_tokenizer", c_bool),
        ("can_generate", c_bool),
        ("n_unused", c_size_t),
        ("image", c_uint32 * 3),
        ("n_labels", c_uint64),
    ]


class AttentionInfo(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("n_heads", c_uint32),
        ("n_kv_heads", c_uint32),
        ("key_width", c_uint32),
        ("value_width", c_uint32),
        ("scale", c_float),
        ("causal", c_bool),
        ("has_bias", c_bool),
        ("window", c_uint32),
    ]


class RunParams(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("hidden_states", c_bool),
        ("attentions", c_bool),
        ("allow_not_finite", c_bool),
        ("layer_logits", c_bool),
        ("projections", c_bool),
    ]


class SessionParams(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("n_slots", c_uint32),
        ("slot_tokens", c_uint32),
        ("source_tokens", c_uint32),
        ("kv_cache_bytes", c_uint64),
        ("should_stop", StopFn),
        ("user", c_void_p),
    ]


class GenerateParams(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("config_json", c_char_p),
        ("on_token", TokenFn),
        ("user", c_void_p),
        ("first_line", c_uint64),
        ("lines", POINTER(c_uint64)),
        ("scores", c_bool),
        ("top_logprobs", c_uint32),
        ("long_texts", c_int),
        ("skip_refused", c_bool),
        ("source_language", c_char_p),
        ("target_language", c_char_p),
        ("batch_size", c_size_t),
        ("target_prefixes", POINTER(c_char_p)),
        ("shortlist", c_void_p),
        ("alignments", c_bool),
        ("force_words", POINTER(c_char_p)),
        ("n_force_words", c_size_t),
        ("on_beams", c_void_p),
        ("align_heads", c_char_p),
        ("replace_unknowns", c_bool),
    ]


class GenerateTextParams(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("config_json", c_char_p),
        ("stops", POINTER(c_char_p)),
        ("n_stops", c_size_t),
        ("on_text", TextFn),
        ("user", c_void_p),
        ("batch_size", c_size_t),
        ("lines", POINTER(c_uint64)),
        ("scores", c_bool),
        ("top_logprobs", c_uint32),
        ("long_texts", c_int),
        ("skip_refused", c_bool),
        ("source_language", c_char_p),
        ("target_language", c_char_p),
    ]


class EmbeddingParams(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("pooling", c_int),
        ("normalize", c_bool),
        ("similarity", c_bool),
        ("long_texts", c_int),
        ("ignore_folder_limit", c_bool),
        ("skip_refused", c_bool),
    ]


class ClassifyParams(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("top_k", c_size_t),
        ("long_texts", c_int),
        ("skip_refused", c_bool),
        ("text_pairs", POINTER(c_char_p)),
        ("candidate_labels", POINTER(c_char_p)),
        ("n_candidate_labels", c_size_t),
        ("hypothesis_template", c_char_p),
        ("multi_label", c_bool),
    ]


class EncodeParams(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("no_special_tokens", c_bool),
        ("source_language", c_char_p),
        ("target_language", c_char_p),
        ("text_pair", c_char_p),
    ]


class DecodeParams(_Sized):
    _fields_ = [("size", c_size_t), ("keep_special_tokens", c_bool)]


STRUCTS = (
    (ContextParams, "vkf_context_params"),
    (DeviceInfo, "vkf_device_info"),
    (Array, "vkf_array"),
    (ModelParams, "vkf_model_params"),
    (ModelInfo, "vkf_model_info"),
    (AttentionInfo, "vkf_attention_info"),
    (RunParams, "vkf_run_params"),
    (SessionParams, "vkf_session_params"),
    (GenerateParams, "vkf_generate_params"),
    (GenerateTextParams, "vkf_generate_text_params"),
    (EmbeddingParams, "vkf_embedding_params"),
    (ClassifyParams, "vkf_classify_params"),
    (EncodeParams, "vkf_encode_params"),
    (DecodeParams, "vkf_decode_params"),
)

_P = c_void_p
_TEXTS = POINTER(c_char_p)
# name: its result and its arguments. Handles are c_void_p; a Status is an int.
FUNCTIONS = {
    "vkf_version": (c_char_p, []),
    "vkf_status_name": (c_char_p, [c_int]),
    "vkf_context_create": (c_int, [POINTER(ContextParams), POINTER(_P)]),
    "vkf_context_destroy": (None, [POINTER(_P)]),
    "vkf_context_message": (c_char_p, [_P]),
    "vkf_context_list_devices": (c_int, [_P, POINTER(c_size_t)]),
    "vkf_context_device_info": (c_int, [_P, c_size_t, POINTER(DeviceInfo)]),
    "vkf_device_open": (c_int, [_P, c_char_p, POINTER(_P)]),
    "vkf_device_close": (None, [POINTER(_P)]),
    "vkf_device_get_info": (POINTER(DeviceInfo), [_P]),
    "vkf_model_open_with": (c_int, [_P, c_char_p, POINTER(ModelParams), POINTER(_P)]),
    "vkf_model_close": (None, [POINTER(_P)]),
    "vkf_model_get_info": (c_int, [_P, POINTER(ModelInfo)]),
    "vkf_model_get_attention": (c_int, [_P, c_int, c_size_t, POINTER(AttentionInfo)]),
    "vkf_session_create": (c_int, [_P, _P, POINTER(_P)]),
    "vkf_session_destroy": (None, [POINTER(_P)]),
    "vkf_session_message": (c_char_p, [_P]),
    "vkf_session_tokenizer": (_P, [_P]),
    "vkf_session_run": (c_int, [_P, POINTER(Array), c_size_t, POINTER(RunParams), POINTER(_P)]),
    "vkf_session_translate": (c_int, [_P, _TEXTS, c_size_t, POINTER(GenerateParams), POINTER(_P)]),
    "vkf_session_score": (c_int, [_P, _TEXTS, _TEXTS, c_size_t, c_char_p, POINTER(_P)]),
    "vkf_session_generate_text": (c_int, [_P, _TEXTS, c_size_t, POINTER(GenerateTextParams), POINTER(_P)]),
    "vkf_session_embed": (c_int, [_P, _TEXTS, c_size_t, POINTER(EmbeddingParams), POINTER(_P)]),
    "vkf_session_classify": (c_int, [_P, _TEXTS, c_size_t, POINTER(ClassifyParams), POINTER(_P)]),
    "vkf_tokenizer_encode": (c_int, [_P, c_char_p, POINTER(EncodeParams), POINTER(_P)]),
    "vkf_tokenizer_decode": (c_int, [_P, POINTER(c_int32), c_size_t, POINTER(DecodeParams), POINTER(_P)]),
    "vkf_result_count": (c_size_t, [_P]),
    "vkf_result_at": (POINTER(Array), [_P, c_size_t]),
    "vkf_result_text": (c_char_p, [_P, c_size_t]),
    "vkf_result_text_count": (c_size_t, [_P]),
    "vkf_result_destroy": (None, [POINTER(_P)]),
}


def load() -> ctypes.CDLL:
    """Opens libvkformer: VKFORMER_LIBRARY, else the one in this package, else the system's."""
    here = os.path.dirname(os.path.abspath(__file__))
    named = os.environ.get("VKFORMER_LIBRARY")
    tried = [named] if named else [os.path.join(here, "libvkformer.so"), "libvkformer.so.0.1", "libvkformer.so"]
    why = []
    for name in tried:
        try:
            library = ctypes.CDLL(name)
        except OSError as error:
            why.append(str(error))
            continue
        for function, (result, arguments) in FUNCTIONS.items():
            getattr(library, function).restype = result
            getattr(library, function).argtypes = arguments
        return library
    raise OSError(
        f"expected the shared library libvkformer, found none ({'; '.join(why)}): build it with "
        "-DBUILD_SHARED_LIBS=ON and install it, or name it in the environment variable VKFORMER_LIBRARY"
    )
