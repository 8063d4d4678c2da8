"""The Python package gives what the program prints, byte for byte. usage: test_vkformer.py SOURCE PROGRAM

VKFORMER_LIBRARY names the shared library, VKF_DEVICE the device.
"""

import array
import concurrent.futures
import contextlib
import copy
import gc
import json
import os
import pathlib
import pickle
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
import unittest
import unittest.mock

source, program = sys.argv[1:3]
sys.path.insert(0, os.path.join(source, "python"))
import vkformer  # noqa: E402

EN_ES = os.path.join(source, "models/en-es")
GOLDEN = os.path.join(source, "tests/golden")
SENTENCES = ["The animal didn't cross the street because it was too tired.", "I am here.", "We like it."]
folder = tempfile.mkdtemp()


def printed(*arguments):
    return subprocess.run([program, *arguments], check=True, capture_output=True).stdout.decode()


def python(text, **environment):
    environment = {**os.environ, "PYTHONPATH": os.path.join(source, "python"), **environment}
    return subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, timeout=60)


def json_lines(*arguments):
    return [json.loads(line) for line in printed(*arguments).splitlines()]


def word_model(name, n, specials):
    """Copies a golden model and adds a tokenizer, in which id N is the word wN. Returns the folder."""
    to = os.path.join(folder, name)
    shutil.copytree(os.path.join(GOLDEN, name), to, dirs_exist_ok=True)
    vocab = {specials.get(i, f"w{i}"): i for i in range(n)}
    added = [{"id": i, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, word in specials.items()]
    tokenizer = {"version": "1.0", "added_tokens": added, "normalizer": None, "decoder": None, "post_processor": None,
                 "pre_tokenizer": {"type": "WhitespaceSplit"},
                 "model": {"type": "WordLevel", "vocab": vocab, "unk_token": list(specials.values())[0]}}
    with open(os.path.join(to, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(tokenizer, file)
    return to


class Table:
    """Iterates over the names of its columns, as a table of pandas does."""

    columns = ["en"]

    def __iter__(self):
        return iter(self.columns)


def listed(value):
    return value.tolist() if hasattr(value, "tolist") else value


class TestTranslate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = vkformer.Model(EN_ES)
        cls.session = cls.model.session()

    def test_texts(self):
        expected = printed("translate", "--num-beams", "1", *SENTENCES).splitlines()
        self.assertEqual(self.session.translate(SENTENCES, num_beams=1), expected)
        self.assertEqual(self.session.translate(SENTENCES[0], num_beams=1), expected[0])
        self.assertEqual(self.session.translate(SENTENCES[1]), "Estoy aqu\u00ed.")

    def test_several_texts_of_each(self):
        expected = [[best["translation"] for best in line["translations"]]
                    for line in json_lines("translate", "--n-best", "2", "--num-beams", "2", "--json", *SENTENCES)]
        options = {"num_beams": 2, "num_return_sequences": 2}
        self.assertEqual(self.session.translate(SENTENCES, **options), expected)
        self.assertEqual(self.session.translate(SENTENCES[0], **options), expected[0])

    def test_fewer_texts_than_asked_for(self):
        """Alternatives that are absent are left out, as from the program, and so are beams that found no sequence."""
        flags = ["--num-beams", "1", "--n-best", "4", "--return-alternatives", "--min-alternative-expansion-prob", "0.1"]
        expected = [[(best["translation"], best["score"]) for best in line["translations"]]
                    for line in json_lines("translate", "--json", *flags, *SENTENCES, "Yes.")]
        self.assertEqual({len(best) for best in expected}, {1, 2})
        options = {"num_beams": 1, "num_return_sequences": 4, "return_alternatives": True,
                   "min_alternative_expansion_prob": 0.1}
        found = self.session.translate([*SENTENCES, "Yes."], scores=True, **options)
        self.assertEqual([[text for text, _ in best] for best in found], [[text for text, _ in best] for best in expected])
        for best, wanted in zip(found, expected):
            for (_, score), (_, other) in zip(best, wanted):
                self.assertAlmostEqual(score, other, 6)
        self.assertEqual(self.session.translate("Yes.", **options), [text for text, _ in expected[-1]])
        self.assertEqual(len(self.session.translate("Yes.", num_beams=3, num_return_sequences=3, max_new_tokens=1,
                                                    force_words=["S"])), 1)

    def test_no_texts(self):
        for call in (self.session.translate, self.session.generate, self.session.embed, self.session.classify):
            self.assertEqual(call([]), [])
        self.assertEqual(self.session.score([], []), [])

    def test_beginnings(self):
        """The beginning of a translation is forced, preferred, or given only for some texts."""
        file = os.path.join(folder, "beginnings.txt")
        with open(file, "w", encoding="utf-8") as lines:
            lines.write("I am here.\tYo\nWe like it.\t\n")
        texts, begins = ["I am here.", "We like it."], ["Yo", None]
        for options in ({}, {"prefix_bias_beta": 0.2}, {"num_beams": 1}):
            flags = [word for key, value in options.items() for word in ("--" + key.replace("_", "-"), str(value))]
            expected = printed("translate", "--force-decode", "-i", file, *flags).splitlines()
            self.assertEqual(self.session.translate(texts, target_prefixes=begins, **options), expected)
        self.assertTrue(self.session.translate(texts[0], target_prefixes="Yo").startswith("Yo "))
        with self.assertRaisesRegex(ValueError, "target_prefixes: expected 2, one for each text, found 1"):
            self.session.translate(texts, target_prefixes=["Yo"])

    def test_words(self):
        self.assertIn("gato", self.session.translate("I am here.", force_words="gato"))
        self.assertEqual(self.session.translate("I am here.", force_words=["gato"]),
                         printed("translate", "--force-words", "gato", "I am here.").rstrip("\n"))

    def test_unknown_tokens(self):
        """Unknown tokens, which the search is made to take, become words of the text."""
        plain = self.session.translate(SENTENCES, num_beams=4, force_words_ids=[[2]])
        found = self.session.translate(SENTENCES, num_beams=4, force_words_ids=[[2]], replace_unknowns=True)
        options = ["--num-beams", "4", "--force-words-ids", "[2]", *SENTENCES]
        self.assertEqual(plain, printed("translate", *options).splitlines())
        self.assertEqual(found, printed("translate", "--replace-unknowns", *options).splitlines())
        self.assertNotEqual(found, plain)

    def test_texts_that_are_refused(self):
        """Refused texts do not stop the others; they and texts that are split have no score."""
        long = "We like it. " * 40
        found = self.session.translate(["I am here.", "", long, long], num_beams=1, long_texts="split",
                                       skip_refused=True, scores=True)
        line = json_lines("translate", "--num-beams", "1", "--json", "I am here.")[0]
        self.assertEqual(found[0], (line["translation"], found[0][1]))
        self.assertAlmostEqual(found[0][1], line["score"], 6)
        self.assertEqual([score for _, score in found[1:]], [None] * 3)
        self.assertEqual(found[1][0], "")
        self.assertEqual(found[2], found[3])

    def test_scores(self):
        """Scores of several translations of each text, and log-probabilities of given translations."""
        lines = json_lines("translate", "--n-best", "2", "--num-beams", "2", "--json", *SENTENCES)
        with unittest.mock.patch.object(vkformer, "_from_array", wraps=vkformer._from_array) as converted:
            found = self.session.translate(SENTENCES, scores=True, num_beams=2, num_return_sequences=2)
        names = [call.args[0].name for call in converted.call_args_list]
        self.assertEqual(sorted(set(names)), sorted(names))  # each array once
        for best, line in zip(found, lines):
            self.assertEqual([text for text, _ in best], [one["translation"] for one in line["translations"]])
            for (_, score), one in zip(best, line["translations"]):
                self.assertAlmostEqual(score, one["score"], 6)
        files = [os.path.join(folder, name) for name in ("sources.txt", "targets.txt")]
        targets = ["No.", "Estoy aqu\u00ed.", "Nos gusta."]
        for name, texts in zip(files, (SENTENCES, targets)):
            with open(name, "w", encoding="utf-8") as file:
                file.write("\n".join(texts) + "\n")
        for one, line in zip(self.session.score(SENTENCES, targets), json_lines("score", *files, "--json")):
            self.assertEqual(one.ids, [token["id"] for token in line["tokens"]])
            self.assertAlmostEqual(one.score, line["score"], 6)
            self.assertAlmostEqual(sum(one.logprobs), one.score, 4)
            self.assertEqual(len(one.logprobs), len(one.ids))
        self.assertAlmostEqual(self.session.score(SENTENCES[1], targets[1]).score,
                               self.session.score([SENTENCES[1]], [targets[1]])[0].score)
        with self.assertRaisesRegex(ValueError, "targets: expected 2, one for each text, found 1"):
            self.session.score(SENTENCES[:2], targets[:1])

    def test_facts(self):
        info = self.model.info
        expected = json.loads(printed("info", EN_ES, "--json"))
        self.assertEqual(info["family"], "marian")
        for name in ("d_model", "n_heads", "vocab", "n_parameters", "file_bytes", "device_bytes", "weights",
                     "has_tokenizer", "can_generate", "max_positions"):
            self.assertEqual(info[name], expected[name], name)
        self.assertEqual(info["image"], [0, 0, 0])
        self.assertIn(vkformer.version(), printed("--version"))
        self.assertEqual(vkformer.devices()[-1].alias, "ref")
        self.assertEqual(self.model.device, vkformer.devices()[-1].name)

    def test_tokens(self):
        ids = self.session.encode(SENTENCES[0])
        self.assertEqual(" ".join(map(str, ids)) + "\n", printed("tokenize", SENTENCES[0]))
        self.assertEqual(self.session.decode(ids) + "\n", printed("tokenize", "--decode", " ".join(map(str, ids))))
        self.assertEqual(self.session.encode(SENTENCES[0], special_tokens=False), ids[:-1])
        self.assertEqual(self.session.decode(i for i in ids), self.session.decode(ids))

    def test_errors(self):
        with self.assertRaises(vkformer.Error) as caught:
            self.session.translate(["a", ""])
        self.assertEqual(caught.exception.status, vkformer.Error.Status.ERROR_ARGUMENT)
        self.assertIn("text 2: expected at least one word", str(caught.exception))
        with self.assertRaisesRegex(vkformer.Error, "nosuch"):
            vkformer.Model("/nosuch")
        with self.assertRaisesRegex(vkformer.Error, "nosuch"):
            vkformer.Model(EN_ES, device="nosuch")
        with self.assertRaisesRegex(vkformer.Error, "nosuch_key"):
            self.session.translate("a", nosuch_key=1)
        with self.assertRaisesRegex(ValueError, "weights: expected auto, f32, .*, found 'f17'"):
            vkformer.Model(EN_ES, weights="f17")
        with self.assertRaisesRegex(ValueError, "zero byte"):
            self.session.translate("a\0b")
        for found, texts in (("text 1: expected text .str., found bytes", b"Hi."),
                             ("text 2: expected text .str., found NoneType", ["Hi.", None]),
                             ("texts: expected a text or a list of texts, found NoneType", None),
                             ("texts: expected a text or a list of texts, found dict", {"en": ["Hi."]}),
                             ("texts: expected a text or a list of texts, found Table", Table())):
            with self.assertRaisesRegex(TypeError, found):
                self.session.translate(texts)
        with self.assertRaisesRegex(TypeError, "stops: expected a text or a list of texts, found NoneType"):
            self.session.generate("Hi.", stops=None)
        with self.assertRaisesRegex(TypeError, "target 2: expected text .str., found float"):
            self.session.score(SENTENCES[:2], ["No.", float("nan")])
        for text in ("a\0b", "\ud800"):
            with self.assertRaisesRegex(ValueError, "text 2: expected text, found "):
                self.session.translate(["Hi.", text])
        with self.assertRaisesRegex(ValueError, "target prefix 2: expected text, found half of a pair .* at index 3"):
            self.session.translate(SENTENCES[:2], target_prefixes=[None, "Yo \ud800"])
        with self.assertRaisesRegex(ValueError, "ids: expected numbers of 32 bits, found 4294967301"):
            self.session.decode([2**32 + 5])
        with self.assertRaisesRegex(ValueError, "input_ids: expected numbers of 32 bits, found -2147483649"):
            self.session.run(input_ids=[[5, -(2**31) - 1]], decoder_input_ids=[[0]])
        with self.assertRaises(vkformer.Error):
            self.session.embed("a")
        for error, found, call in (
                (ValueError, "weights: expected auto, .*, found None", lambda: vkformer.Model(EN_ES, weights=None)),
                (TypeError, "device: expected a whole number, found float", lambda: vkformer.Model(EN_ES, device=0.5)),
                (ValueError, "layer: expected 0 to .*, found -1", lambda: self.model.attention("encoder", -1)),
                (ValueError, "layer: expected 0 to .*, found 18", lambda: self.model.attention("encoder", 2**64 + 1)),
                (TypeError, "layer: expected a whole number, found str", lambda: self.model.attention(layer="1")),
                (ValueError, "top_k: expected 0 to .*, found -1", lambda: self.session.classify("a", top_k=-1)),
                (TypeError, "ids: expected a list of ids, found int", lambda: self.session.decode(5)),
                (TypeError, "ids: expected a whole number, found list", lambda: self.session.decode([[5]]))):
            with self.assertRaisesRegex(error, found):
                call()

    def test_library(self):
        """The error for a missing library names it and gives the system's reason."""
        done = python("import vkformer", VKFORMER_LIBRARY="/nosuch.so")
        self.assertIn(b"expected the shared library libvkformer, found none (/nosuch.so: ", done.stderr)

    def test_paths(self):
        self.assertEqual(vkformer.Model(pathlib.Path(EN_ES)).info["family"], "marian")
        self.assertEqual(vkformer.Model(os.fsencode(EN_ES)).info["family"], "marian")
        with self.assertRaisesRegex(vkformer.Error, "/nosuch.json"):
            vkformer.devices(icd_files=[pathlib.Path("/nosuch.json")])
        for file in ("/nosuch.json", pathlib.Path("/nosuch.json"), (file for file in ["/nosuch.json"])):
            with self.assertRaisesRegex(vkformer.Error, "/nosuch.json"):
                vkformer.devices(file)

    def test_devices(self):
        """A device is chosen by an entry of devices(), its index or its alias."""
        last = vkformer.devices()[-1]
        for device in (last, last.index, str(last.index), last.alias):
            with vkformer.Model(EN_ES, device=device) as model:
                self.assertEqual(model.device, last.name)

    def test_lifetimes(self):
        session = vkformer.Model(EN_ES).session()  # keeps its model open
        gc.collect()
        self.assertEqual(session.translate("I am here.", num_beams=1), "Estoy aqu\u00ed.")
        model = session._model
        model.close()
        model.close()
        for use in (lambda: session.translate("a"), lambda: session.encode("a")):
            with self.assertRaisesRegex(vkformer.Error, "a session that is open, found one that was closed"):
                use()
        for use in (model.session, model.attention, lambda: model.info, lambda: model.device):
            with self.assertRaisesRegex(vkformer.Error, "a model that is open, found one that was closed"):
                use()

    def test_cycle(self):
        """Python finalizes the objects of a cycle in any order. MALLOC_PERTURB_ overwrites what is freed."""
        text = f"import vkformer; cycle = [vkformer.Model({EN_ES!r}).session()]; cycle.append(cycle)"
        done = python(f"{text}; del cycle; import gc; gc.collect()", MALLOC_PERTURB_="165")
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_repr(self):
        with vkformer.Model(EN_ES) as model, model.session() as session:
            name = repr(EN_ES)
            self.assertEqual((repr(model), repr(session)),
                             (f"<vkformer.Model of {name}>", f"<vkformer.Session of {name}>"))
        self.assertEqual((repr(model), repr(session)),
                         (f"<vkformer.Model of {name}, closed>", f"<vkformer.Session of {name}, closed>"))

    def test_copies(self):
        """Models and sessions cannot be copied, because a copy that is deleted would close the original.

        Errors can be copied and pickled, because the processes of a pool send them.
        """
        for what in (self.model, self.session):
            for of in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, f"a {type(what).__name__} cannot be copied or pickled"):
                    of(what)
        self.assertEqual(self.session.translate("I am here.", num_beams=1), "Estoy aqu\u00ed.")
        for of in (copy.copy, lambda error: pickle.loads(pickle.dumps(error))):
            error = of(vkformer.Error(vkformer.Error.Status.ERROR_FILE, "no such file"))
            self.assertEqual((error.status, str(error)), (vkformer.Error.Status.ERROR_FILE, "no such file"))

    def test_ctrl_c(self):
        """Ctrl-C ends any call at once that would take minutes, and the session can be used again."""
        specials = {0: "[PAD]", 1: "[UNK]", 2: "[CLS]", 3: "[SEP]"}
        bert = word_model("bert", 120, specials)
        labels = word_model("bert-sequence-classification", 120, specials)
        words = 200000 * ["w5 w6 w7 w8 w9 w10"]
        for folder_, texts, call in (
                (EN_ES, 5000 * [SENTENCES[1]], "translate(texts)"),
                (EN_ES, 5000 * [SENTENCES[1]], "generate(texts, num_beams=4)"),
                (EN_ES, 5000 * [SENTENCES[1]], "generate(texts, num_beams=1, on_text=lambda prompt, piece: None)"),
                (EN_ES, [SENTENCES[1]],
                 "generate(texts, num_beams=1, on_text=lambda prompt, piece: time.sleep(300))"),
                (EN_ES, [SENTENCES[1]],
                 "generate(texts, num_beams=1, on_text=lambda prompt, piece: other.translate(5000 * texts))"),
                (EN_ES, 1, "run(input_ids=40 * [100 * [5]], decoder_input_ids=40 * [100 * [5]])"),
                (bert, words, "embed(texts)"), (labels, words, "classify(texts)")):
            texts = f"{len(texts)} * {texts[:1]!r}" if texts != 1 else "None"
            after = "translate('I am here.')" if folder_ == EN_ES else call.replace("texts", "'w5'") + " is not None"
            done = python("import os, signal, threading, time, vkformer\n"
                          f"model, texts = vkformer.Model({folder_!r}), {texts}\n"
                          "session, other = model.session(), model.session()\n"
                          "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
                          "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
                          f"try:\n    session.{call}\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
                          f"print(session.{after})")
            self.assertEqual(done.stderr, b"", call)
            self.assertEqual(done.stdout.decode().split("\n")[:2],
                             ["interrupted", "Estoy aqu\u00ed." if folder_ == EN_ES else "True"], call)

    def test_calls_that_are_refused_leave_ctrl_c(self):
        """A refused call, in a callback of its session or beside its stream, leaves the handler of Ctrl-C as it was."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        n_refused = 0

        def again(*_):
            nonlocal n_refused
            with self.assertRaisesRegex(vkformer.Error, "inside a callback of the same session"):
                self.session.translate("I am here.")
            n_refused += 1

        try:
            self.session.generate("I am here.", num_beams=1, on_text=again)
            self.assertGreater(n_refused, 0)
            self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
            for _ in self.session.stream("I am here.", num_beams=1):
                with contextlib.suppress(vkformer.Error):
                    self.session.translate("I am here.")
            self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        finally:
            signal.signal(signal.SIGINT, before)

    def test_other_signals(self):
        """An exception of a signal handler during a call ends the call, which raises it."""
        done = python("import signal, vkformer\n"
                      "def late(*_):\n    raise TimeoutError('late')\n"
                      "signal.signal(signal.SIGALRM, late)\n"
                      f"session = vkformer.Model({EN_ES!r}).session()\n"
                      "signal.setitimer(signal.ITIMER_REAL, 0.5)\n"
                      f"try:\n    session.translate(5000 * {[SENTENCES[1]]!r})\n"
                      "except TimeoutError as error:\n    print(error)\n"
                      "print(session.translate('I am here.'))")
        self.assertEqual((done.stdout.decode(), done.stderr), ("late\nEstoy aqu\u00ed.\n", b""))

    def test_stop(self):
        """stop() ends the call of another thread, before or after its first piece of text; the next call runs."""
        texts, begun, long = 500 * [SENTENCES[1]], threading.Event(), {"min_new_tokens": 400, "max_new_tokens": 400}

        def stream():
            for _ in session.stream(SENTENCES[1], num_beams=1, **long):
                begun.set()

        with self.model.session() as session:
            session.stop()  # no call runs, so it changes nothing
            for call, waits in (
                    (lambda: session.translate(texts), False), (lambda: session.generate(texts, num_beams=4), False),
                    (lambda: session.generate(SENTENCES[1], num_beams=1, on_text=lambda *_: begun.set(), **long), True),
                    (stream, True)):
                with self.subTest(), concurrent.futures.ThreadPoolExecutor(1) as pool:
                    begun.clear()
                    running = pool.submit(call)
                    self.assertTrue(begun.wait(60) if waits else True)
                    while not running.done():  # a stop before the call begins has no effect
                        session.stop()
                        time.sleep(0.01)
                    error = running.exception()
                    self.assertIsInstance(error, vkformer.Error)
                    self.assertEqual(error.status, vkformer.Error.Status.ERROR_STOPPED)
                    self.assertEqual(session.translate("I am here."), "Estoy aqu\u00ed.")

    def test_threads(self):
        found = {}

        def work(i):
            with self.model.session() as session:
                found[i] = session.translate(SENTENCES[i], num_beams=1)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([found[i] for i in range(3)], self.session.translate(SENTENCES, num_beams=1))

    def test_run(self):
        ids = self.session.encode("I am here.")
        out = self.session.run(input_ids=[ids], decoder_input_ids=[[0]], attentions=True)
        file = os.path.join(folder, "run.json")
        printed("run", EN_ES, "--text", "I am here.", "--output-attentions", "-o", file)
        with open(file, encoding="utf-8") as text:
            expected = json.load(text)
        expected.pop("format")
        self.assertEqual(sorted(out), sorted(expected))
        for name, value in expected.items():
            self.assertEqual(rounded(listed(out[name])), rounded(value), name)
        with self.assertRaisesRegex(ValueError, "same length"):
            self.session.run(input_ids=[[1, 2], [3]])

    def test_arrays(self):
        """Arrays and numbers with tolist() are accepted like lists and numbers, in any nesting."""

        class Number:  # like a number of numpy, which may not be installed
            def __init__(self, value):
                self.value = value

            def tolist(self):
                return self.value

        ids = self.session.encode("I am here.")
        expected = listed(self.session.run(input_ids=[ids], decoder_input_ids=[[0]])["logits"])
        for given in (array.array("q", ids), [Number(i) for i in ids], (Number(ids[0]), *ids[1:])):
            found = self.session.run(input_ids=[given], decoder_input_ids=[[Number(0)]])["logits"]
            self.assertEqual(listed(found), expected)
        given = {"input_ids": [range(5, 9)], "attention_mask": None, "decoder_input_ids": [[0]]}
        expected = self.session.run(input_ids=[[5, 6, 7, 8]], decoder_input_ids=[[0]])["logits"]
        self.assertEqual(listed(self.session.run(**given)["logits"]), listed(expected))
        for odd, found in (([[None]], "NoneType"), ("abc", "str"), ([[1, "2"]], "str"), ({1, 2}, "set")):
            with self.assertRaisesRegex(TypeError, f"input_ids: expected numbers, found {found}"):
                self.session.run(input_ids=odd, decoder_input_ids=[[0]])
        with self.assertRaisesRegex(TypeError, "positional"):
            self.session.run({"input_ids": [ids], "decoder_input_ids": [[0]]})
        one = self.session.translate("I am here.", num_beams=Number(1), suppress_tokens=array.array("q", ids[:1]))
        self.assertEqual(one, self.session.translate("I am here.", num_beams=1, suppress_tokens=ids[:1]))

    def test_images(self):
        """Floats are read from a buffer, because a list of them takes eight times the bytes."""
        model = vkformer.Model(os.path.join(GOLDEN, "vit"))
        n = 3 * 32 * 32
        flat = [(i % 97) / 97 - 0.5 for i in range(n)]
        nested = [[[flat[32 * (32 * c + y) : 32 * (32 * c + y + 1)] for y in range(32)] for c in range(3)]]
        expected = {name: listed(value) for name, value in model.session().run(pixel_values=nested).items()}
        view = memoryview(array.array("f", flat)).cast("B").cast("f", [1, 3, 32, 32])
        given = [view]
        with contextlib.suppress(ImportError):
            import numpy

            images = numpy.array(nested)
            given += [images, numpy.asfortranarray(images), images.astype("float32")[:, :, ::-1][:, :, ::-1]]
        for value in given:
            found = model.session().run(pixel_values=value)
            self.assertEqual({name: listed(value) for name, value in found.items()}, expected)
        many = array.array("f", bytes(4 << 20))
        tracemalloc.start()
        vkformer._to_array("pixel_values", many)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        self.assertLess(most, 3 * (4 << 20))

    def test_options(self):
        """Options may have the forms that transformers accepts; the error for a wrong value names the option."""
        self.assertEqual(self.session.translate("I am here.", suppress_tokens=range(750, 760)),
                         self.session.translate("I am here.", suppress_tokens=list(range(750, 760))))
        first = self.session.score("I am here.", "Estoy aqu\u00ed.").ids[0]
        biased = self.session.translate("I am here.", sequence_bias={(first,): -50.0})
        self.assertEqual(biased, self.session.translate("I am here.", sequence_bias=[[[first], -50.0]]))
        self.assertNotEqual(biased, self.session.translate("I am here."))
        every = dict.fromkeys(("decoder_start_token_id", "eos_token_id", "max_length", "num_beams", "no_such_key"))
        self.assertEqual(self.session.translate(SENTENCES, **every), self.session.translate(SENTENCES))
        self.assertEqual(self.session.score("I am here.", "Yo.", **every), self.session.score("I am here.", "Yo."))
        for error, found, options in (
                (TypeError, "suppress_tokens: expected numbers, .* lists of them, found .5.", {"suppress_tokens": {5}}),
                (ValueError, "temperature: expected finite numbers, found nan", {"temperature": float("nan")})):
            with self.assertRaisesRegex(error, found):
                self.session.translate("I am here.", num_beams=1, **options)

    def test_projections(self):
        """The queries, keys, values and biases are those that the program writes, byte for byte."""
        inputs = {"input_ids": [[5, 6, 7, 8, 9]], "decoder_input_ids": [[0, 5, 6]]}
        given, file = os.path.join(folder, "in.json"), os.path.join(folder, "run.safetensors")
        with open(given, "w", encoding="utf-8") as text:
            json.dump(inputs, text)
        for name in ("t5", "marian"):
            model = vkformer.Model(os.path.join(GOLDEN, name))
            out = model.session().run(attentions=True, projections=True, **inputs)
            printed("run", os.path.join(GOLDEN, name), "-i", given, "--output-attentions", "--output-projections",
                    "-o", file)
            expected = tensors(file)
            self.assertEqual(sorted(out), sorted(expected))
            self.assertIn("cross_keys_values.1", out)
            self.assertEqual("encoder_position_bias" in out, name == "t5")
            for key, (shape, data) in expected.items():
                self.assertEqual((shape_of(listed(out[key])), floats(listed(out[key]))), (shape, data), key)
            rule, bias = model.attention("decoder", 1), name == "t5"
            self.assertEqual((rule["causal"], rule["has_bias"], rule["window"]), (True, bias, 0))
            self.assertEqual(rule["n_heads"], model.info["n_heads"])
            self.assertFalse(model.attention("cross")["causal"])
            with self.assertRaisesRegex(vkformer.Error, "found layer 9"):
                model.attention("encoder", 9)
            with self.assertRaisesRegex(ValueError, "kind: expected encoder, decoder, cross, found 'self'"):
                model.attention("self")


def tensors(path):
    """Returns the shape and bytes of each tensor of a safetensors file."""
    with open(path, "rb") as file:
        data = file.read()
    n = struct.unpack("<Q", data[:8])[0]
    header = {key: value for key, value in json.loads(data[8 : 8 + n]).items() if key != "__metadata__"}
    begin = {key: 8 + n + value["data_offsets"][0] for key, value in header.items()}
    end = {key: 8 + n + value["data_offsets"][1] for key, value in header.items()}
    return {key: (value["shape"], data[begin[key] : end[key]]) for key, value in header.items()}


def shape_of(value):
    return [len(value)] + shape_of(value[0]) if isinstance(value, list) else []


def floats(value):
    return b"".join(map(floats, value)) if isinstance(value, list) else struct.pack("<f", value)


def rounded(value):
    return [rounded(v) for v in value] if isinstance(value, list) else float("%.9g" % value)


class TestGenerate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = word_model("gpt2", 160, {0: "<unk>", 158: "<eos>"})
        cls.session = vkformer.Model(cls.folder).session()

    def test_texts(self):
        prompts = ["w5 w6 w7", "w9"]
        expected = [line["text"] for line in json_lines("generate", self.folder, "--json", "--max-new-tokens", "8",
                                                        "-p", prompts[0], "-p", prompts[1])]
        self.assertEqual(self.session.generate(prompts, max_new_tokens=8), expected)
        self.assertEqual(self.session.generate(prompts[0], max_new_tokens=8), expected[0])
        options = {"max_new_tokens": 4, "num_beams": 2, "num_return_sequences": 2}
        several = [self.session.generate(prompt, **options) for prompt in prompts]
        self.assertEqual([len(texts) for texts in several], [2, 2])
        self.assertEqual(self.session.generate(prompts, **options), several)

    def test_stopped_at_once(self):
        self.assertEqual(len(self.session.generate(["w5 w6 w7", "w9"], on_text=lambda *_: True, max_new_tokens=8)), 2)
        self.assertIsInstance(self.session.generate("w9", on_text=lambda *_: True, max_new_tokens=8), str)

    def test_stream(self):
        whole = printed("generate", self.folder, "--max-new-tokens", "8", "-p", "w5 w6 w7")
        pieces = list(self.session.stream("w5 w6 w7", max_new_tokens=8))
        self.assertGreater(len(pieces), 3)
        self.assertEqual("".join(pieces) + "\n", whole)
        cut = printed("generate", self.folder, "--max-new-tokens", "8", "-p", "w5 w6 w7", "--stop", "w30")
        self.assertEqual("".join(self.session.stream("w5 w6 w7", stops=["w30"], max_new_tokens=8)) + "\n", cut)
        one = "".join(self.session.stream("w5 w6 w7", stops=" w3", max_new_tokens=8))
        self.assertEqual(one, "".join(self.session.stream("w5 w6 w7", stops=[" w3"], max_new_tokens=8)))
        self.assertNotEqual(one, "")
        self.assertEqual("".join(self.session.stream("w5 w6 w7", max_new_tokens=8)), "".join(pieces))
        with self.assertRaisesRegex(vkformer.Error, "nosuch_key"):
            list(self.session.stream("w5", nosuch_key=1))

    def test_stream_of_beams(self):
        options = {"num_beams": 2, "num_return_sequences": 2, "max_new_tokens": 4}
        expected = self.session.generate("w5 w6 w7", **options)
        self.assertEqual(len(expected), 2)
        self.assertEqual(list(self.session.stream("w5 w6 w7", **options)), expected)
        options = {"num_return_sequences": 4, "return_alternatives": True, "min_alternative_expansion_prob": 1}
        expected = [self.session.generate("w5 w6 w7", num_beams=1)]
        self.assertEqual(self.session.generate(["w5 w6 w7"], **options), [expected])
        self.assertEqual(list(self.session.stream("w5 w6 w7", **options)), expected)

    def test_stream_left_early(self):
        """Leaving the loop ends the generation, and the session can be used again."""
        calls, left = [], threading.Event()
        generate = self.session._generate

        def counted(prompts, on_text, *rest):
            def call(prompt, piece):
                calls.append(piece)
                if len(calls) == 2:
                    left.wait(10)
                return on_text(prompt, piece)

            return generate(prompts, call, *rest)

        self.session._generate = counted
        stream = self.session.stream("w5 w6 w7", max_new_tokens=50)
        next(stream)
        threading.Timer(0.2, left.set).start()
        stream.close()
        del self.session._generate
        self.assertIn(len(calls), (1, 2))
        self.assertGreater(len(list(self.session.stream("w5 w6 w7", max_new_tokens=8))), 3)

    def test_stream_at_the_end(self):
        """A program may end before it has read a stream to its end."""
        done = python(f"import vkformer\nsession = vkformer.Model({self.folder!r}).session()\n"
                      "stream = session.stream('w5 w6 w7', max_new_tokens=60)\nprint(len(next(stream)) > 0)")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"True\n", b""))

    def test_callback(self):
        pieces = []
        self.session.generate("w5 w6 w7", max_new_tokens=8, on_text=lambda prompt, piece: pieces.append((prompt, piece)))
        self.assertEqual("".join(piece for _, piece in pieces), self.session.generate("w5 w6 w7", max_new_tokens=8))
        self.assertEqual({prompt for prompt, _ in pieces}, {0})

        def fail(prompt, piece):
            raise RuntimeError("from the callback")

        with self.assertRaisesRegex(RuntimeError, "from the callback"):
            self.session.generate("w5", on_text=fail)


class TestEncoders(unittest.TestCase):
    specials = {0: "[PAD]", 1: "[UNK]", 2: "[CLS]", 3: "[SEP]", 4: "[MASK]"}

    def test_embed(self):
        model = word_model("bert", 120, self.specials)
        session = vkformer.Model(model).session()
        for pooling in ("mean", "cls", "max", "last", "weighted_mean", "mean_sqrt_len"):
            expected = [line["embedding"] for line in json_lines("embed", model, "--pooling", pooling,
                                                                 "w5 w6", "w7")]
            found = listed(session.embed(["w5 w6", "w7"], pooling=pooling))
            self.assertEqual([[float("%.9g" % x) for x in row] for row in found],
                             [[float("%.9g" % x) for x in row] for row in expected])
        one = listed(session.embed("w5 w6", normalize=True))
        self.assertAlmostEqual(sum(x * x for x in one), 1, 6)

    def test_classify(self):
        model = word_model("bert-sequence-classification", 120, self.specials)
        session = vkformer.Model(model).session()
        expected = [[(label["label"], label["score"]) for label in line["labels"]]
                    for line in json_lines("classify", model, "--json", "w5 w6", "w7")]
        found = session.classify(["w5 w6", "w7"])
        self.assertEqual([[name for name, _ in row] for row in found], [[name for name, _ in row] for row in expected])
        for row, other in zip(found, expected):
            for (_, a), (_, b) in zip(row, other):
                self.assertAlmostEqual(a, b, 9)
        self.assertEqual(len(session.classify("w5", top_k=1)), 1)
        self.assertEqual(session.classify("w5", top_k=None), session.classify("w5"))
        pairs = [[(label["label"], label["score"]) for label in line["labels"]]
                 for line in json_lines("classify", model, "--json", "--pairs", "w5\tw6", "w7\tw5 w6")]
        found = session.classify(["w5", "w7"], text_pairs=["w6", "w5 w6"])
        for row, other in zip(found, pairs):
            for (_, a), (_, b) in zip(row, other):
                self.assertAlmostEqual(a, b, 9)
        self.assertNotEqual(found[0], session.classify("w5"))
        with self.assertRaisesRegex(ValueError, "expected 2, one for each text, found 1"):
            session.classify(["w5", "w7"], text_pairs="w6")

    def test_classify_candidates(self):
        model = word_model("bert-sequence-classification", 120, self.specials)
        with open(os.path.join(model, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        config["id2label"] = {str(i): "entailment" if i == 1 else "no" for i in range(len(config["id2label"]))}
        with open(os.path.join(model, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        session = vkformer.Model(model).session()
        self.assertEqual([name for name, _ in session.classify("w7 w8", candidate_labels="w6")], ["w6"])
        names = session.classify("w7 w8", candidate_labels=(name for name in ["w6", "w9"]))
        self.assertEqual(sorted(name for name, _ in names), ["w6", "w9"])
        for multi in (False, True):
            line, = json_lines("classify", model, "--json", "--candidate-labels", "w6, w9", "--hypothesis-template",
                               "w5 {}", *["--multi-label"] * multi, "w7 w8")
            found = session.classify(
                "w7 w8", candidate_labels=["w6", "w9"], hypothesis_template="w5 {}", multi_label=multi)
            self.assertEqual([name for name, _ in found], [label["label"] for label in line["labels"]])
            for (_, a), label in zip(found, line["labels"]):
                self.assertAlmostEqual(a, label["score"], 9)


if __name__ == "__main__":
    try:
        result = unittest.main(argv=sys.argv[:1], exit=False).result
    finally:
        shutil.rmtree(folder)
    sys.exit(not result.wasSuccessful())
