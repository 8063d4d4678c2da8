"""Transformer inference on Vulkan compute shaders.

    import vkformer

    model = vkformer.Model("models/en-es")
    session = model.session()
    print(session.translate("The cat sat on the mat."))

One thread at a time uses a session; any number of sessions run a model, each in a thread of its own. Errors are
vkformer.Error, whose text says what was expected and what was found. Arrays are numpy arrays if numpy is installed,
else nested lists.
"""

import collections.abc
import contextlib
import ctypes
import json
import math
import operator
import os
import queue
import signal
import struct
import sys
import threading
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _library as c

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

__all__ = ["Device", "Error", "Model", "Score", "Session", "devices", "version"]

_lib = c.load()
_Texts = Union[str, Iterable[str]]
_Path = Union[str, os.PathLike]


class Error(Exception):
    """A call failed. `status` is a vkformer.Error.Status, the text a sentence."""

    Status = c.Status

    def __init__(self, status: int, message: str):
        super().__init__(message or _lib.vkf_status_name(status).decode())
        self.status = c.Status(status)

    def __reduce__(self) -> Any:  # else a pool of processes could not give it to its caller
        return type(self), (int(self.status), str(self))


class Device(NamedTuple):
    """A device to compute on; `index` or `alias` selects it."""

    index: int  # type: ignore[assignment]
    name: str
    driver: str
    alias: str
    memory_bytes: int


class Score(NamedTuple):
    """The log-probability of a target, `score`, and that of each of its tokens, the end included."""

    score: float
    ids: List[int]
    logprobs: List[float]


def version() -> str:
    """Returns the version of the library that was loaded."""
    return _lib.vkf_version().decode()


def _encoded(text: str, where: str = "") -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"{where}expected text (str), found {type(text).__name__}")
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ValueError(f"{where}expected text, found half of a pair of surrogates at index {error.start}") from None
    if b"\0" in data:
        raise ValueError(f"{where}expected text, found a zero byte in it")
    return data


def _each(name: str, values: Any, expected: str) -> List[Any]:
    """Returns the items of a list. Refuses tables and dicts, which would give the names of their columns."""
    try:
        found = None if isinstance(values, collections.abc.Mapping) or hasattr(values, "columns") else iter(values)
    except TypeError:
        found = None
    if found is None:
        raise TypeError(f"{name}: expected {expected}, found {type(values).__name__}")
    return list(found)


def _listed(texts: _Texts, name: str = "texts") -> List[str]:
    return [texts] if isinstance(texts, (str, bytes)) else _each(name, texts, "a text or a list of texts")


def _optional(text: Optional[str], where: str = "") -> Optional[bytes]:
    return None if text is None else _encoded(text, where)


def _named(kinds: Any, name: str, word: Any) -> Any:
    """Returns the member of an enum that `word` names."""
    if not isinstance(word, str) or word.upper() not in kinds.__members__:
        raise ValueError(f"{name}: expected {', '.join(kinds.__members__).lower()}, found {word!r}")
    return kinds[word.upper()]


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, found {type(value).__name__}") from None


def _size(name: str, value: Any) -> int:
    """Checks that a number fits into size_t. ctypes would take the last bits of another one."""
    number, most = _whole(name, value), ctypes.c_size_t(-1).value
    if not 0 <= number <= most:
        raise ValueError(f"{name}: expected 0 to {most}, found {number}")
    return number


def _text_list(texts: Sequence[str], name: str = "texts") -> ctypes.Array:
    word = name[:-1].replace("_", " ")
    return (ctypes.c_char_p * max(len(texts), 1))(*[_encoded(t, f"{word} {i}: ") for i, t in enumerate(texts, 1)])


def _listed_beside(name: str, values: Any, n: int) -> List[Any]:
    """Returns a list with one value for each of n texts."""
    found = _listed(values, name)
    if len(found) != n:
        raise ValueError(f"{name}: expected {n}, one for each text, found {len(found)}")
    return found


class _Context:
    """Owns a vkf_context."""

    def __init__(self, icd_files: Union[_Path, Iterable[_Path]] = (), deterministic: bool = False):
        is_one = isinstance(icd_files, (str, bytes, os.PathLike))
        given: List[Any] = [icd_files] if is_one else _each("icd_files", icd_files, "a list of paths")
        files = [os.fsdecode(f) for f in given]
        params = c.ContextParams(
            icd_files=_text_list(files, "icd_files"), n_icd_files=len(files), deterministic=deterministic
        )
        self.handle = ctypes.c_void_p()
        status = _lib.vkf_context_create(ctypes.byref(params), ctypes.byref(self.handle))
        if status:
            raise Error(status, "")

    def check(self, status: int) -> None:
        if status and not self.handle:
            raise Error(status, "expected a model that is open, found one that was closed")
        if status:
            raise Error(status, _lib.vkf_context_message(self.handle).decode("utf-8", "replace"))

    def close(self) -> None:
        _lib.vkf_context_destroy(ctypes.byref(self.handle))


def devices(icd_files: Union[_Path, Iterable[_Path]] = ()) -> List[Device]:
    """Returns the devices to compute on. The last one is "ref", the scalar path, which needs no Vulkan."""
    n, found = ctypes.c_size_t(), []
    with contextlib.closing(_Context(icd_files)) as context:
        context.check(_lib.vkf_context_list_devices(context.handle, ctypes.byref(n)))
        for index in range(n.value):
            info = c.DeviceInfo()
            context.check(_lib.vkf_context_device_info(context.handle, index, ctypes.byref(info)))
            found.append(
                Device(index, info.name.decode(), info.driver.decode(), info.alias.decode(), info.memory_bytes)
            )
    return found


# ---- arrays ----------------------------------------------------------------------------------------------------------

# struct's letter and numpy's name of each type; bfloat16 is in neither.
_TYPES = {
    c.Dtype.F32: ("f", "float32"), c.Dtype.F16: ("e", "float16"), c.Dtype.I32: ("i", "int32"),
    c.Dtype.I64: ("q", "int64"), c.Dtype.I8: ("b", "int8"), c.Dtype.U8: ("B", "uint8"), c.Dtype.BOOL: ("?", "bool"),
    c.Dtype.F64: ("d", "float64"), c.Dtype.I16: ("h", "int16"),
}  # fmt: skip


def _nested(flat: Sequence[Any], shape: Sequence[int]) -> Any:
    if not shape:
        return flat[0]
    if len(shape) == 1:
        return list(flat)
    size = len(flat) // shape[0] if shape[0] else 0
    return [_nested(flat[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0])]


def _from_array(array: c.Array) -> Any:
    """Copies an array into one of numpy, or into nested lists."""
    letter, name = _TYPES[c.Dtype(array.dtype)]
    shape = list(array.shape[: array.rank])
    n = 1
    for extent in shape:
        n *= extent
    data = ctypes.string_at(array.data, n * struct.calcsize(letter)) if n else b""
    if numpy is not None:
        return numpy.frombuffer(data, dtype=name).reshape(shape).copy()
    return _nested(struct.unpack(f"{n}{letter}", data), shape)


def _shape_of(value: Any) -> List[int]:
    shape = []
    while isinstance(value, (list, tuple)):
        shape.append(len(value))
        value = value[0] if value else None
    return shape


def _flatten(value: Any, shape: Sequence[int], name: str) -> List[Any]:
    if not shape:
        return [value]
    if not isinstance(value, (list, tuple)) or len(value) != shape[0]:
        raise ValueError(f"{name}: expected nested lists of the same length, found other ones")
    return [x for row in value for x in _flatten(row, shape[1:], name)]


def _int32s(name: str, values: Sequence[int]) -> ctypes.Array:
    for value in values:
        if not -(2**31) <= value < 2**31:  # ctypes would take its last 32 bits
            raise ValueError(f"{name}: expected numbers of 32 bits, found {value}")
    return (ctypes.c_int32 * max(len(values), 1))(*values)


def _plain(value: Any) -> Any:
    """Turns arrays and numbers of numpy, also those in lists, into nested lists of Python's numbers."""
    if isinstance(value, (list, tuple, range)):
        return [_plain(x) for x in value]
    if isinstance(value, dict) and any(isinstance(key, tuple) for key in value):  # transformers' sequence_bias
        return [[_plain(key), _plain(x)] for key, x in value.items()]
    return value.tolist() if hasattr(value, "tolist") else value


def _config(generation: Dict[str, Any]) -> Optional[bytes]:
    """Returns config_json. None is no value, as in a GenerationConfig of transformers; null of JSON is the default."""
    members = []
    for key, value in generation.items():
        if value is None:
            continue
        try:
            members.append(json.dumps({key: _plain(value)}, allow_nan=False)[1:-1])
        except TypeError:
            raise TypeError(f"{key}: expected numbers, texts, booleans or lists of them, found {value!r:.80}") from None
        except ValueError:
            raise ValueError(f"{key}: expected finite numbers, found {value!r:.80}") from None
    return ("{" + ", ".join(members) + "}").encode() if members else None


def _floats(value: Any) -> Optional[memoryview]:
    """Returns the numbers of an array of floats, else None. By lists they take a tenth of a second for each image."""
    try:
        if numpy is not None and hasattr(value, "__array__"):  # so have torch's; some of them raise here
            array = numpy.asarray(value)
            with numpy.errstate(over="ignore"):
                value = array.astype("float32") if array.dtype.kind == "f" else None
        view = memoryview(value)
    except Exception:
        return None
    return view if view.format == "f" else None


def _to_array(name: str, value: Any) -> Tuple[c.Array, Any]:
    """Returns the array, and an object that keeps its data alive."""
    view = _floats(value)
    value = _plain(value) if view is None else value
    shape = _shape_of(value) if view is None else list(view.shape or ())
    if len(shape) > c.MAX_RANK:
        raise ValueError(f"{name}: expected at most {c.MAX_RANK} dimensions, found {len(shape)}")
    flat = _flatten(value, shape, name) if view is None else []
    whole = view is None and all(isinstance(x, int) for x in flat)
    data: Any = None
    try:
        if view is not None:
            data = ctypes.create_string_buffer(view.tobytes(), max(view.nbytes, 1))
        else:
            data = _int32s(name, flat) if whole else (ctypes.c_float * max(len(flat), 1))(*flat)
    except TypeError:
        odd = next(x for x in flat if not isinstance(x, (int, float)))
        raise TypeError(f"{name}: expected numbers, found {type(odd).__name__}") from None
    array = c.Array(name.encode(), c.Dtype.I32 if whole else c.Dtype.F32, len(shape))
    array.shape[: len(shape)] = shape
    array.data = ctypes.cast(data, ctypes.c_void_p)
    return array, data


class _Result:
    """Owns a vkf_result."""

    def __init__(self) -> None:
        self.handle = ctypes.c_void_p()
        self._arrays: Optional[Dict[str, Any]] = None

    def __enter__(self) -> "_Result":
        return self

    def __exit__(self, *_: Any) -> None:
        _lib.vkf_result_destroy(ctypes.byref(self.handle))

    def text(self, index: int) -> str:
        return _lib.vkf_result_text(self.handle, index).decode("utf-8", "replace")

    def texts(self) -> List[str]:
        return [self.text(i) for i in range(_lib.vkf_result_text_count(self.handle))]

    def arrays(self) -> Dict[str, Any]:
        if self._arrays is None:
            self._arrays = {}
            for i in range(_lib.vkf_result_count(self.handle)):
                array = _lib.vkf_result_at(self.handle, i).contents
                self._arrays[array.name.decode()] = _from_array(array)
        return self._arrays


def _scores(arrays: Dict[str, Any], n: int, n_texts: int) -> List[Optional[float]]:
    """Returns the score of each of n translations; None: its text was split or skipped."""
    rows: Dict[int, List[float]] = {}
    for text, score in zip(arrays["texts"], arrays["sequences_scores"]):
        rows.setdefault(int(text), []).append(float(score))
    each = n // n_texts
    return [rows[i // each][i % each] if len(rows.get(i // each, ())) == each else None for i in range(n)]


def _grouped(result: _Result, found: List[Any], n: int) -> Sequence[Any]:
    """Groups what was found for n texts: one for each, or a list for each, without the sequences that are absent."""
    each = len(found) // n
    if each == 1:
        return found
    arrays = result.arrays()
    scores = arrays.get("sequences_scores", ())
    texts = arrays.get("texts", [row // each for row in range(len(scores))])
    absent = {(int(texts[row]), row % each) for row, score in enumerate(scores) if score == -math.inf}
    return [[found[i * each + r] for r in range(each) if r == 0 or (i, r) not in absent] for i in range(n)]


class _Opened:
    """Closes its handles when it is deleted. It cannot be copied: a copy would close those of the original."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled: open a model in each process, "
            "a session in each thread"
        )

    def __repr__(self) -> str:
        state = "" if getattr(self, "_handle", None) else ", closed"
        return f"<vkformer.{type(self).__name__} of {getattr(self, '_name', 'nothing')}{state}>"


class _CtrlC:
    """Notes Ctrl-C during a session's call, stops the call and raises KeyboardInterrupt at its end. stop() of the
    session stops the call, too.

    Python would raise it where a callback begins, before any `try` there, and ctypes would lose it. What handlers of
    other signals raise there is kept and raised, too.
    """

    came = raises = False
    asked = False  # by stop(), since the call began

    def __init__(self) -> None:
        self._runs = threading.Lock()
        self._kept: Optional[BaseException] = None

    def stops(self) -> bool:
        """Returns whether the call that runs is to stop."""
        return self.came or self.asked

    @contextlib.contextmanager
    def during(self) -> Iterator[None]:
        """Wraps a call. Does nothing for a second one beside it or in its callback, which the library refuses."""
        if not self._runs.acquire(blocking=False):
            yield
            return
        self.asked = False
        is_main = threading.current_thread() is threading.main_thread()
        hook, handler = sys.unraisablehook, signal.getsignal(signal.SIGINT)
        is_taken = is_main and handler is signal.default_int_handler

        def keep(what: Any) -> None:
            if "ctypes callback" in (what.err_msg or ""):
                self._kept, self.came = what.exc_value, True
            else:
                hook(what)

        if is_main:
            sys.unraisablehook = keep
        if is_taken:
            signal.signal(signal.SIGINT, self._note)
        try:
            yield
        finally:
            if is_taken:
                signal.signal(signal.SIGINT, handler)
            if is_main:
                sys.unraisablehook = hook
            came, kept = self.came, self._kept
            self.came, self._kept = False, None
            self._runs.release()
        if came:
            raise kept or KeyboardInterrupt

    def _note(self, *_: Any) -> None:
        if self.raises:
            raise KeyboardInterrupt
        self.came = True


# ---- models and sessions ---------------------------------------------------------------------------------------------


class Model(_Opened):
    """An open model folder on a device.

    device: as `vkformer --device` takes it ("ref", "lavapipe", "gpu", an index, a part of a name), or one of devices();
    None: the best one.
    weights: "auto", "f32", "f16", "bf16", "int8" or "q8"; kv_cache: "auto", "f32" or "f16".
    """

    def __init__(
        self,
        folder: _Path,
        device: Union[str, int, Device, None] = None,
        weights: str = "auto",
        kv_cache: str = "auto",
        icd_files: Union[_Path, Iterable[_Path]] = (),
        deterministic: bool = False,
    ):
        self._name = repr(os.fsdecode(folder))
        self._context = _Context(icd_files, deterministic)
        self._device, self._handle = ctypes.c_void_p(), ctypes.c_void_p()
        self._sessions: List[ctypes.c_void_p] = []  # handles, as Python may finalize a model before its sessions
        path = _encoded(os.fsdecode(folder), "folder: ")
        if isinstance(device, Device):
            device = device.index
        if device is not None and not isinstance(device, str):
            device = str(_size("device", device))
        params = c.ModelParams(
            weights=_named(c.Storage, "weights", weights), kv_cache=_named(c.Storage, "kv_cache", kv_cache)
        )
        self._context.check(
            _lib.vkf_device_open(self._context.handle, _optional(device, "device: "), ctypes.byref(self._device))
        )
        self._context.check(
            _lib.vkf_model_open_with(self._device, path, ctypes.byref(params), ctypes.byref(self._handle))
        )

    def session(self) -> "Session":
        """Makes a session of this model."""
        return Session(self)

    @property
    def info(self) -> Dict[str, Any]:
        """The facts of vkf_model_info, by their names there."""
        info = c.ModelInfo()
        self._context.check(_lib.vkf_model_get_info(self._handle, ctypes.byref(info)))
        facts = {name: getattr(info, name) for name, *_ in c.ModelInfo._fields_ if name != "size"}
        facts["family"] = facts["family"].decode()
        facts["image"] = list(facts["image"])
        for name in ("weights", "kv_cache"):
            facts[name] = c.Storage(facts[name]).name.lower()
        return facts

    def attention(self, kind: str = "encoder", layer: int = 0) -> Dict[str, Any]:
        """How a layer computes attention weights: the facts of vkf_attention_info, by their names there.

        kind: "encoder", "decoder" or "cross". layer: counted from 0.
        """
        info = c.AttentionInfo()
        self._context.check(
            _lib.vkf_model_get_attention(
                self._handle, _named(c.AttentionKind, "kind", kind), _size("layer", layer), ctypes.byref(info)
            )
        )
        return {name: getattr(info, name) for name, *_ in c.AttentionInfo._fields_ if name != "size"}

    @property
    def device(self) -> str:
        """The name of the device."""
        found = _lib.vkf_device_get_info(self._device)
        self._context.check(c.Status.OK if found else c.Status.ERROR_ARGUMENT)
        return found.contents.name.decode()

    def close(self) -> None:
        """Closes the model and its sessions. A second call does nothing."""
        if not hasattr(self, "_sessions"):
            return
        for session in list(self._sessions):
            _lib.vkf_session_destroy(ctypes.byref(session))
        _lib.vkf_model_close(ctypes.byref(self._handle))
        _lib.vkf_device_close(ctypes.byref(self._device))
        self._context.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class Session(_Opened):
    """Runs a model in one thread.

    Keys of generation_config.json are keyword arguments: session.translate(text, num_beams=4, max_new_tokens=50).
    None: as if the key were not given.
    """

    def __init__(self, model: Model):
        self._model = model  # which outlives the session
        self._name = model._name
        self._handle = ctypes.c_void_p()
        self._ctrl_c = ctrl_c = _CtrlC()
        self._should_stop = c.StopFn(lambda _: ctrl_c.stops())  # kept: the session calls it
        params = c.SessionParams(should_stop=self._should_stop)
        model._context.check(
            _lib.vkf_session_create(model._handle, ctypes.byref(params), ctypes.byref(self._handle))
        )
        model._sessions.append(self._handle)

    def _check(self, status: int) -> None:
        if status and not self._handle:
            raise Error(status, "expected a session that is open, found one that was closed")
        if status:
            raise Error(status, _lib.vkf_session_message(self._handle).decode("utf-8", "replace"))

    def _call(self, function: Any, *arguments: Any) -> None:
        with self._ctrl_c.during():
            status = function(self._handle, *arguments)
        self._check(status)

    def stop(self) -> None:
        """Stops the call that another thread runs in this session.

        That call raises an Error with the status Error.Status.ERROR_STOPPED, and the session can be used again. If no
        call runs, nothing happens. An asyncio program calls it when a task that awaits asyncio.to_thread() is
        cancelled.
        """
        self._ctrl_c.asked = True

    def close(self) -> None:
        """Frees the session's memory. A second call does nothing."""
        if getattr(self, "_handle", None):
            _lib.vkf_session_destroy(ctypes.byref(self._handle))
            if not self._handle:  # else a callback of this session called close()
                self._model._sessions.remove(self._handle)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def translate(
        self,
        texts: _Texts,
        source_language: Optional[str] = None,
        target_language: Optional[str] = None,
        long_texts: str = "refuse",
        target_prefixes: Union[str, Iterable[Optional[str]], None] = None,
        force_words: _Texts = (),
        replace_unknowns: bool = False,
        skip_refused: bool = False,
        scores: bool = False,
        **generation: Any,
    ) -> Any:
        """Returns the translation of a text, or a list of them for a list of texts.

        With num_return_sequences each text has a list of translations, as from pipelines of transformers: the best
        first, or with do_sample in the order in which they are drawn. It is shorter if the options allow fewer.
        long_texts: "refuse", "truncate" or "split" a text that has more tokens than the model has positions.
        target_prefixes: how the translation of each text must begin (None: with anything); prefix_bias_beta makes this
        a preference. force_words: words that every translation must have; needs beams. replace_unknowns: replaces an
        unknown token by the word of the text that it attends to most. skip_refused: a text that is refused, also an
        empty one, has the translation "", and the others are translated. scores: each translation is a pair of text and
        score; the score is None if the text was split or skipped.
        """
        many, words = _listed(texts), _listed(force_words, "force_words")
        if not many:
            return []
        params = c.GenerateParams(
            config_json=_config(generation),
            long_texts=_named(c.LongRule, "long_texts", long_texts),
            source_language=_optional(source_language, "source_language: "),
            target_language=_optional(target_language, "target_language: "),
            force_words=_text_list(words, "force_words"),
            n_force_words=len(words),
            replace_unknowns=replace_unknowns,
            skip_refused=skip_refused,
            scores=scores,
        )
        if target_prefixes is not None:
            begins = _listed_beside("target_prefixes", target_prefixes, len(many))
            params.target_prefixes = (ctypes.c_char_p * len(many))(
                *[_optional(begin, f"target prefix {i}: ") for i, begin in enumerate(begins, 1)]
            )
        with _Result() as result:
            self._call(
                _lib.vkf_session_translate, _text_list(many), len(many), ctypes.byref(params),
                ctypes.byref(result.handle),
            )
            found: List[Any] = result.texts()
            if scores:
                found = list(zip(found, _scores(result.arrays(), len(found), len(many))))
            grouped = _grouped(result, found, len(many))
        return grouped[0] if isinstance(texts, str) else grouped

    def score(self, sources: _Texts, targets: _Texts, **generation: Any) -> Any:
        """Returns how probable the model finds a translation: a Score, or a list of them for a list of texts."""
        many = _listed(sources, "sources")
        given = _text_list(_listed_beside("targets", targets, len(many)), "targets")
        if not many:
            return []
        with _Result() as result:
            self._call(
                _lib.vkf_session_score, _text_list(many, "sources"), given, len(many), _config(generation),
                ctypes.byref(result.handle),
            )
            arrays = result.arrays()
        found = []
        for score, ids, logprobs in zip(arrays["scores"], arrays["ids"], arrays["logprobs"]):
            own = [int(i) for i in ids if i >= 0]
            found.append(Score(float(score), own, [float(x) for x in logprobs[: len(own)]]))
        return found[0] if isinstance(sources, str) else found

    def _generate(self, prompts: List[str], on_text: Any, stops: _Texts, generation: Dict[str, Any]) -> Sequence[Any]:
        failure: List[BaseException] = []
        ends = _listed(stops, "stops")
        ctrl_c = self._ctrl_c

        def call(_: Any, prompt: int, text: Any, n_bytes: int) -> int:
            if ctrl_c.stops():
                return 1
            try:
                ctrl_c.raises = True
                return 1 if on_text(prompt, ctypes.string_at(text, n_bytes).decode("utf-8", "replace")) else 0
            except BaseException as error:  # it must not cross C
                failure.append(error)
                return 1
            finally:
                ctrl_c.raises = False

        params = c.GenerateTextParams(
            config_json=_config(generation),
            stops=_text_list(ends, "stops"),
            n_stops=len(ends),
            on_text=c.TextFn(call) if on_text else c.TextFn(),
        )
        with _Result() as result:
            with ctrl_c.during():
                status = _lib.vkf_session_generate_text(
                    self._handle, _text_list(prompts, "prompts"), len(prompts), ctypes.byref(params),
                    ctypes.byref(result.handle),
                )
            if failure:
                raise failure[0]
            if status != c.Status.ERROR_STOPPED or ctrl_c.asked:
                self._check(status)
            return _grouped(result, result.texts(), len(prompts))

    def generate(self, prompts: _Texts, stops: _Texts = (), on_text: Any = None, **generation: Any) -> Any:
        """Returns the text that follows a prompt, or a list for a list of prompts (an encoder-decoder answers them).

        stops: the text ends before this one, or the first of these. on_text(prompt, piece) is called as texts grow,
        with the index of the prompt, but not with beams or several sequences; if it returns something true, the call
        stops. With num_return_sequences each prompt has a list of texts, fewer if the options allow no more.
        """
        many = _listed(prompts, "prompts")
        if not many:
            return []
        found = self._generate(many, on_text, stops, generation)
        return found[0] if isinstance(prompts, str) else found

    def stream(self, prompt: str, stops: _Texts = (), **generation: Any) -> Iterator[str]:
        """Yields pieces of the text that follows a prompt, as they come. Leaving the loop early stops the generation.

        Beams, or several sequences, have no pieces: whole texts come at the end.
        """
        pieces: "queue.Queue[Any]" = queue.Queue()
        stopped = threading.Event()
        n_pieces = 0

        def on_text(_: int, piece: str) -> bool:
            nonlocal n_pieces
            n_pieces += 1
            pieces.put(piece)
            return stopped.is_set()

        def work() -> None:
            try:
                found = self._generate([prompt], on_text, stops, generation)[0]
                if not n_pieces:
                    for text in [found] if isinstance(found, str) else found:
                        pieces.put(text)
                pieces.put(None)
            except BaseException as error:
                pieces.put(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while True:
                piece = pieces.get()
                if piece is None:
                    return
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            stopped.set()
            if not sys.is_finalizing():  # else the thread no longer runs
                self._ctrl_c.came = thread.is_alive()
                thread.join()
                self._ctrl_c.came = False

    def embed(self, texts: _Texts, pooling: str = "folder", normalize: bool = False) -> Any:
        """Returns the vector of a text, or the vectors [n][width] of a list. pooling: folder, mean, cls, max, last,
        weighted_mean or mean_sqrt_len."""
        many = _listed(texts)
        if not many:
            return []
        params = c.EmbeddingParams(pooling=_named(c.Pooling, "pooling", pooling), normalize=normalize)
        with _Result() as result:
            self._call(
                _lib.vkf_session_embed, _text_list(many), len(many), ctypes.byref(params), ctypes.byref(result.handle)
            )
            found = result.arrays()["embeddings"]
        return found[0] if isinstance(texts, str) else found

    def classify(
        self,
        texts: _Texts,
        top_k: Optional[int] = 0,
        text_pairs: Optional[_Texts] = None,
        candidate_labels: Optional[_Texts] = None,
        hypothesis_template: Optional[str] = None,
        multi_label: bool = False,
    ) -> Any:
        """Returns labels and scores of a text, best first, or a list of them. top_k: how many labels; 0 or None: all.

        text_pairs: the second text of each pair, for models of pairs (a premise and a hypothesis).
        candidate_labels: names to choose among, with a model of natural language inference. It judges
        hypothesis_template with the name in place of {} (None: "This example is {}."). multi_label: any number of
        names may fit.
        A model that labels words gives (word, label, score) for each word of all texts; a discriminator (ELECTRA) the
        same for each token, with the probability that it was replaced.
        """
        many = _listed(texts)
        params = c.ClassifyParams(top_k=0 if top_k is None else _size("top_k", top_k))
        if text_pairs is not None:
            params.text_pairs = _text_list(_listed_beside("text_pairs", text_pairs, len(many)), "text_pairs")
        if not many:
            return []
        if candidate_labels is not None:
            names = _listed(candidate_labels, "candidate_labels")
            params.candidate_labels, params.n_candidate_labels = _text_list(names, "candidate_labels"), len(names)
            params.hypothesis_template = _optional(hypothesis_template, "hypothesis_template: ")
            params.multi_label = multi_label
        with _Result() as result:
            self._call(
                _lib.vkf_session_classify, _text_list(many), len(many), ctypes.byref(params),
                ctypes.byref(result.handle),
            )
            arrays, names = result.arrays(), result.texts()
        if "texts" in arrays:
            n = len(arrays["texts"])
            words = zip(arrays["labels"], arrays["scores"])
            return [(names[i], names[n + int(label)], float(score)) for i, (label, score) in enumerate(words)]
        found = [
            [(names[int(label)], float(score)) for label, score in zip(labels, scores)]
            for labels, scores in zip(arrays["labels"], arrays["scores"])
        ]
        return found[0] if isinstance(texts, str) else found

    def run(
        self, *, hidden_states: bool = False, attentions: bool = False, projections: bool = False, **inputs: Any
    ) -> Dict[str, Any]:
        """A forward pass on arrays (input_ids=[[...]], attention_mask=..., decoder_input_ids=..., pixel_values=...).

        They are arrays of numpy or torch, or nested lists; None: as if it were not given. It takes what a tokenizer of
        transformers returns: run(**tokenizer(texts, padding=True), decoder_input_ids=...).
        The outputs have the names and shapes that transformers gives them. projections: also the queries, keys and
        values of each attention, side by side, and the bias of its scores if it has one: "projections.N" of a model
        with one stack, else "encoder_projections.N", "decoder_projections.N", "cross_queries.N",
        "cross_keys_values.N"; "encoder_position_bias", "decoder_position_bias" (with ".N" if each layer has its own;
        "position_bias" of an encoder alone). Model.attention() says how the attention weights are made of them.
        """
        made = [_to_array(name, value) for name, value in inputs.items() if value is not None]
        arrays = (c.Array * max(len(made), 1))(*[array for array, _ in made])
        params = c.RunParams(hidden_states=hidden_states, attentions=attentions, projections=projections)
        with _Result() as result:
            self._call(
                _lib.vkf_session_run, arrays, len(made), ctypes.byref(params), ctypes.byref(result.handle)
            )
            return result.arrays()

    def encode(self, text: str, special_tokens: bool = True) -> List[int]:
        """Returns the ids of a text."""
        params = c.EncodeParams(no_special_tokens=not special_tokens)
        with _Result() as result:
            tokenizer = _lib.vkf_session_tokenizer(self._handle)
            self._check(
                _lib.vkf_tokenizer_encode(tokenizer, _encoded(text), ctypes.byref(params), ctypes.byref(result.handle))
            )
            return [int(i) for i in result.arrays()["ids"]]

    def decode(self, ids: Iterable[int], special_tokens: bool = False) -> str:
        """Returns the text of ids."""
        params = c.DecodeParams(keep_special_tokens=special_tokens)
        found = _each("ids", ids, "a list of ids")
        given = _int32s("ids", [_whole("ids", i) for i in found])
        with _Result() as result:
            tokenizer = _lib.vkf_session_tokenizer(self._handle)
            self._check(
                _lib.vkf_tokenizer_decode(
                    tokenizer, given, len(found), ctypes.byref(params), ctypes.byref(result.handle)
                )
            )
            return result.text(0)
