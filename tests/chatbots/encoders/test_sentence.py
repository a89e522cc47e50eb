"""Sentence encoders, their caches and components; the store of rows; likeness of texts by their words."""

import math
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from chatbots.encoders import cache, sentence
from chatbots.encoders import word_vectors as subject
from chatbots.encoders.cache import TextStore, arrays_cached, cache_folder_set
from chatbots.encoders.emotion import vader_details, vader_scores
from chatbots.encoders.sentence import (
    PCA,
    PCA_FILE,
    EncoderError,
    LocalSentenceEncoder,
    encoder_folder,
    encoder_get,
    sentence_encoder,
)
from chatbots.encoders.word_vectors import (
    CLITICS,
    TextWords,
    extrema_vector,
    greedy_matching,
    unit_rows,
    word_similarity,
    word_vectors,
)
from chatbots.identity import Identity

# --- sentence vectors ---


def test_vectors_equal_mean_pooling_done_by_hand() -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    texts = ["A dog runs through the park.", "hi", "", "¿Qué? 😀", "word " * 400]
    folder = encoder_folder()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    tokenizer.backend_tokenizer.no_padding()
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    expected = []
    with torch.inference_mode():
        for text in texts:
            tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=256)
            mean = model(**tokens).last_hidden_state[0].mean(dim=0)
            expected.append((mean / mean.norm()).numpy())
    result = sentence_encoder().encode(texts)
    assert result.dtype == np.float32
    assert result.shape == (5, 384)
    np.testing.assert_allclose(result, np.stack(expected), atol=1e-5)


def test_equal_texts_are_encoded_once_and_order_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = sentence_encoder()
    encoder.load()
    encoded_texts: list[str] = []
    real = encoder._model.encode
    monkeypatch.setattr(encoder._model, "encode", lambda texts, **kw: encoded_texts.extend(texts) or real(texts, **kw))
    vectors = encoder.encode(["b", "a longer one", "b", "a longer one", "b"])
    assert sorted(encoded_texts) == ["a longer one", "b"]
    np.testing.assert_array_equal(vectors[0], vectors[2])
    assert vectors[0] @ vectors[1] < 0.9


def test_a_vector_depends_on_its_text_alone() -> None:
    texts = [" ".join(["word"] * n) for n in (1, 3, 7, 12, 40)] + ["Hi!", "How are you?", ""]
    texts += [f"one of many {number}" for number in range(40)]
    together = sentence_encoder().encode(texts)
    alone = np.concatenate([sentence_encoder().encode([text]) for text in texts])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(sentence_encoder().encode(texts[::-1]), together[::-1])


def test_threads_may_encode_at_the_same_time() -> None:
    texts = [f"sentence number {i} of this test" for i in range(40)]
    expected = sentence_encoder().encode(texts)
    results: dict[int, np.ndarray] = {}
    threads = [
        threading.Thread(target=lambda i=i: results.update({i: sentence_encoder().encode(texts[i::4])}))
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(4):
        np.testing.assert_allclose(results[i], expected[i::4], atol=1e-5)


def test_a_local_folder_takes_the_defaults_place(tmp_path: Path) -> None:
    folder = tmp_path / "my-encoder"
    shutil.copytree(encoder_folder(), folder)
    encoder = encoder_get(str(folder))
    assert encoder is encoder_get(f"{folder}/")
    assert encoder.unavailable_reason() is None
    assert encoder.identity.key != sentence_encoder().identity.key
    assert encoder.identity.params["model"] == "my-encoder"
    np.testing.assert_allclose(encoder.encode(["hello"]), sentence_encoder().encode(["hello"]), atol=1e-6)


def test_a_changed_default_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "model"
    shutil.copytree(encoder_folder(), folder)
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01")
    monkeypatch.setattr(sentence, "_locate", lambda source: sentence._Located(folder))
    with pytest.raises(EncoderError, match="SHA-256"):
        LocalSentenceEncoder().load()


def test_a_missing_encoder_says_what_would_help(tmp_path: Path) -> None:
    reason = encoder_get("nobody/no-such-model").unavailable_reason()
    assert "hf download nobody/no-such-model" in reason
    assert "config.json" in str(encoder_get(str(tmp_path)).unavailable_reason())
    assert "not a valid hub id" in str(encoder_get("./no/such/folder/here").unavailable_reason())
    with pytest.raises(EncoderError, match="no-such-model"):
        encoder_get("nobody/no-such-model").encode(["hi"])


# --- word vectors ---


def cosine(a: str, b: str) -> float:
    u, v = word_vectors().lookup(a), word_vectors().lookup(b)
    return float(u @ v / np.linalg.norm(u) / np.linalg.norm(v))


def test_near_words_have_near_vectors() -> None:
    assert cosine("dog", "cat") > cosine("dog", "banana") + 0.2
    assert cosine("train", "bus") > cosine("train", "happy") + 0.1
    assert cosine("n't", "not") > 0.3, "words of several tokens are averaged without padding"


def test_lookup_knows_words_only() -> None:
    words = word_vectors()
    np.testing.assert_array_equal(words.lookup("Dog"), words.lookup("dog"))
    np.testing.assert_array_equal(words.lookup("n’t"), words.lookup("n't"))
    assert all(clitic in words for clitic in CLITICS)
    for unknown in ("!", "", " ", "##ing", "[PAD]", "zzxqv", "😀", "dog cat", "2004"):
        assert words.lookup(unknown) is None
    assert words.vectors(["dog", "!"])[1] is None
    assert words.matrix(["dog", "!", "Cat"]).shape == (2, 256)
    assert words.matrix([]).shape == (0, 256)
    assert len(words) > 15_000


# --- cache ---

IDENTITY = Identity("test_arrays", "1", {"x": 1})


def test_arrays_are_made_once(tmp_path: Path) -> None:
    cache_folder_set(tmp_path)
    made = arrays_cached(IDENTITY, lambda: {"a": np.arange(3), "words": np.array(["ü", "b"])})
    again = arrays_cached(IDENTITY, lambda: pytest.fail("made again"))
    np.testing.assert_array_equal(made["a"], again["a"])
    assert again["words"].tolist() == ["ü", "b"]
    other = arrays_cached(Identity("test_arrays", "2", {"x": 1}), lambda: {"a": np.zeros(1)})
    assert other["a"].tolist() == [0.0]


def test_a_broken_file_is_made_again(tmp_path: Path) -> None:
    cache_folder_set(tmp_path)
    arrays_cached(IDENTITY, lambda: {"a": np.arange(3)})
    (file,) = (tmp_path / "test_arrays").glob("*.npz")
    file.write_bytes(file.read_bytes()[:40])
    assert arrays_cached(IDENTITY, lambda: {"a": np.arange(4)})["a"].tolist() == [0, 1, 2, 3]
    assert arrays_cached(IDENTITY, lambda: pytest.fail("made again"))["a"].tolist() == [0, 1, 2, 3]


def test_a_folder_that_cannot_be_written_costs_no_result(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache_folder_set(tmp_path / "file")
    assert arrays_cached(IDENTITY, lambda: {"a": np.arange(2)})["a"].tolist() == [0, 1]


def _make_in_process(folder: str, barrier: object, queue: object) -> None:
    cache.cache_folder_set(folder)
    n_made = 0

    def make() -> dict[str, np.ndarray]:
        nonlocal n_made
        n_made += 1
        time.sleep(0.5)  # long enough for the other process to come by
        return {"a": np.arange(50_000)}

    barrier.wait(30)  # type: ignore[attr-defined]
    total = int(arrays_cached(IDENTITY, make)["a"].sum())
    queue.put((total, n_made))  # type: ignore[attr-defined]


def test_of_two_processes_one_makes_the_arrays(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(2), context.Queue()
    processes = [context.Process(target=_make_in_process, args=(str(tmp_path), barrier, queue)) for _ in range(2)]
    for process in processes:
        process.start()
    results = [queue.get(timeout=600) for _ in processes]
    for process in processes:
        process.join()
    assert [total for total, _ in results] == [sum(range(50_000))] * 2
    assert sum(n_made for _, n_made in results) == 1
    assert len(list((tmp_path / "test_arrays").glob("*.npz"))) == 1
    assert not list((tmp_path / "test_arrays").glob("*.part"))


# --- sentiment ---


def test_a_curly_apostrophe_negates_too() -> None:
    curly, straight = vader_scores(["I don’t like it", "I don't like it"])
    assert curly == straight < 0


def test_proportions_sum_to_one_for_words() -> None:
    texts = ["I love this terrible table", ""]
    rows = vader_details(texts)
    assert rows.shape == (2, 4)
    np.testing.assert_array_equal(rows[:, 0], vader_scores(texts))
    assert rows[0, 1:].sum() == pytest.approx(1.0, abs=0.002)
    assert rows[1].tolist() == [0.0, 0.0, 0.0, 0.0]


def test_pca_against_a_singular_value_decomposition():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 6)) @ np.diag([5, 3, 1, 0.5, 0.1, 0.01]) + 7
    result = PCA.fit(x, 0.95)
    _, s, vt = np.linalg.svd(x - x.mean(0), full_matrices=False)
    shares = np.cumsum(s**2) / (s**2).sum()
    n = int((shares < 0.95).sum()) + 1
    assert result.components.shape == (n, 6)
    assert result.variance == pytest.approx(shares[n - 1])
    assert shares[n - 2] < 0.95 <= result.variance
    np.testing.assert_allclose(np.abs(np.sum(result.components * vt[:n], axis=1)), 1, atol=1e-5)
    np.testing.assert_allclose(result(x).mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(result(x).var(0), s[:n] ** 2 / 200, rtol=1e-4)


def test_a_large_corpus_is_reduced_part_by_part(monkeypatch):
    x = np.random.default_rng(3).normal(size=(50, 5)).astype(np.float32)
    whole = PCA.fit(x, 0.9)
    monkeypatch.setattr(sentence, "PCA_CHUNK_ROWS", 7)
    parts = PCA.fit(x, 0.9)
    np.testing.assert_allclose(parts.components, whole.components, atol=1e-5)
    np.testing.assert_allclose(parts(x), whole(x), atol=1e-5)
    assert parts(x[:0]).shape == (0, len(whole.components))


def test_pca_can_keep_everything_and_refuses_nothing_to_tell_apart():
    x = np.random.default_rng(1).normal(size=(30, 4))
    assert PCA.fit(x, 1.0).components.shape == (4, 4)
    with pytest.raises(ValueError, match="no component can be fitted"):
        PCA.fit(np.ones((3, 4)), 0.95)


def test_the_file_gives_the_same_map_and_a_damaged_one_is_refused(tmp_path):
    x = np.random.default_rng(2).normal(size=(30, 4)).astype(np.float32)
    fitted = PCA.fit(x, 0.7)
    fitted.write(tmp_path)
    text = PCA.read(tmp_path)
    np.testing.assert_array_equal(text(x), fitted(x))
    assert text.variance == fitted.variance
    path = tmp_path / PCA_FILE
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ValueError, match="cannot be read"):
        PCA.read(tmp_path)
    path.unlink()
    with pytest.raises(ValueError, match="cannot be read"):
        PCA.read(tmp_path)


ROWS = {
    "one": np.array([0.1, 2.0], np.float32),
    "two": np.array([3.0, 1 / 3], np.float32),
    "\ud800": np.array([5.0, 6.0], np.float32),
}


@pytest.fixture
def store(tmp_path: Path) -> TextStore:
    return TextStore(tmp_path / "deep" / "texts.sqlite3")


def test_rows_come_back_to_the_bit_by_encoder_and_text(store: TextStore) -> None:
    store.put("a", ROWS)
    result = TextStore(store.path).get("a", [*ROWS, "three"])
    assert result.keys() == ROWS.keys()
    for text, row in ROWS.items():
        assert result[text].dtype == np.float32
        np.testing.assert_array_equal(result[text], row)
    assert store.get("b", list(ROWS)) == {}
    many = [f"text {i}" for i in range(2_000)]
    store.put("a", {text: np.full(3, i, np.float32) for i, text in enumerate(many)})
    result = store.get("a", many)
    assert [int(result[text][0]) for text in many] == list(range(2_000))


def test_only_its_owner_can_read_it(store: TextStore) -> None:
    store.put("a", ROWS)
    assert [file.stat().st_mode & 0o077 for file in store.path.parent.iterdir()] == [0]


def test_erased_texts_are_gone_from_every_encoder_and_from_the_file(store: TextStore) -> None:
    row = np.frombuffer(b"a row that tells of somebody....", dtype=np.float32)
    for encoder in "ab":
        store.put(encoder, {"mine": row, "yours": ROWS["one"]})
    assert store.forget(["mine", "unknown"]) == 2
    assert store.get("a", ["mine", "yours"]).keys() == {"yours"}
    assert all(b"tells of somebody" not in file.read_bytes() for file in store.path.parent.iterdir())


def test_what_was_not_read_for_longest_makes_room(store: TextStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.limit_bytes = 400_000
    for day in range(3):
        monkeypatch.setattr(cache, "_today", lambda day=day: day)
        store.get("a", [f"0 {i}" for i in range(90)])  # read again every day
        store.put("a", {f"{day} {i}": np.zeros(384, np.float32) for i in range(90)})
    store.put("a", {f"new {i}": np.zeros(384, np.float32) for i in range(20)})
    kept = store.get("a", [f"{day} {i}" for day in range(3) for i in range(90)])
    n_by_day = [sum(text.startswith(f"{day} ") for text in kept) for day in range(3)]
    assert n_by_day[0] > n_by_day[1]
    assert sum(n_by_day) * 384 * 4 < store.limit_bytes


def test_a_damaged_file_is_begun_anew(store: TextStore) -> None:
    store.put("a", ROWS)
    store.path.write_bytes(b"no database" * 1_000)
    assert store.get("a", list(ROWS)) == {}
    store.put("a", ROWS)
    assert store.get("a", list(ROWS)).keys() == ROWS.keys()


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = TextStore(tmp_path / "file" / "texts.sqlite3")
    store.put("a", ROWS)
    assert store.get("a", list(ROWS)) == {}


_WRITER = """
import sys
import numpy as np
from chatbots.encoders.cache import TextStore
store = TextStore(sys.argv[1])
for part in range(int(sys.argv[3])):
    rows = {f"{sys.argv[2]} {part} {i}": np.full(384, i, np.float32) for i in range(50)}
    store.put("a", rows)
    assert len(store.get("a", list(rows))) == 50
    print(part, flush=True)
"""


def writer(store: TextStore, name: str, n_parts: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _WRITER, str(store.path), name, str(n_parts)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_processes_and_threads_write_at_the_same_time_and_one_is_killed(store: TextStore) -> None:
    running = [writer(store, name, 10) for name in "xy"]
    killed = writer(store, "killed", 100_000)
    assert killed.stdout is not None
    for _ in range(3):
        killed.stdout.readline()
    threads = [
        threading.Thread(target=store.put, args=("a", {f"thread {i}": np.ones(384, np.float32)})) for i in range(4)
    ]
    for thread in threads:
        thread.start()
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    for thread in threads:
        thread.join()
    for process in running:
        process.communicate()
        assert process.returncode == 0
    texts = [f"{name} {part} {i}" for name in "xy" for part in range(10) for i in range(50)]
    texts += [f"thread {i}" for i in range(4)]
    texts += [f"killed {part} {i}" for part in range(3) for i in range(50)]
    assert store.get("a", texts).keys() == set(texts)


D = 4


def likeness(x, y):
    return word_similarity(TextWords.from_vectors(x), TextWords.from_vectors(y))


def plain_cosine(a, b):
    dot = sum(p * q for p, q in zip(a, b, strict=True))
    size = math.sqrt(sum(p * p for p in a)) * math.sqrt(sum(q * q for q in b))
    return dot / size if size > 0 else math.nan


def plain_average(x, y):
    def mean(rows):
        return [sum(row[d] for row in rows) / len(rows) for d in range(D)]

    return plain_cosine(mean(x), mean(y))


def plain_extrema(x, y):
    def extreme(rows):
        out = []
        for d in range(D):
            column = [row[d] for row in rows]
            out.append(max(column) if abs(min(column)) <= max(column) else min(column))
        return out

    return plain_cosine(extreme(x), extreme(y))


def plain_greedy(x, y):
    total = 0.0
    for a in x:
        total += max(plain_cosine(a, b) for b in y)
    return total / len(x)


# Multiples of 1/8 keep sums exact, so that a mean that is zero is zero in both ways of adding.
numbers = st.integers(-40, 40).map(lambda k: k / 8)
texts = st.integers(1, 6).flatmap(lambda n: arrays(float, (n, D), elements=numbers))


@settings(max_examples=150, deadline=None)
@given(texts, texts)
def test_against_plain_loops(x, y):
    x = np.array([row for row in x if np.any(row)])
    y = np.array([row for row in y if np.any(row)])
    result = likeness(x.reshape(-1, D), y.reshape(-1, D))
    if not len(x) or not len(y):
        assert all(math.isnan(v) for v in (result.average, result.extrema, result.greedy))
        return
    forth, back = plain_greedy(x, y), plain_greedy(y, x)
    expected = (plain_average(x, y), plain_extrema(x, y), (forth + back) / 2, forth)
    np.testing.assert_allclose((result.average, result.extrema, result.greedy, result.greedy_ref), expected, atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(texts, texts)
def test_greedy_is_symmetric_and_all_are_cosines(x, y):
    one, other = likeness(x, y), likeness(y, x)
    np.testing.assert_allclose(one.greedy, other.greedy, atol=1e-12)
    for value in (one.average, one.extrema, one.greedy, one.greedy_ref):
        assert math.isnan(value) or -1 <= value <= 1


def test_extrema_takes_the_positive_of_equal_sizes():
    np.testing.assert_array_equal(extrema_vector(np.array([[1.0, -3.0], [-1.0, 2.0]])), [1.0, -3.0])


def test_blocks_do_not_change_greedy(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = unit_rows(rng.normal(size=(57, 8))), unit_rows(rng.normal(size=(31, 8)))
    whole = greedy_matching(x, y)
    monkeypatch.setattr(subject, "_CHUNK", 100)
    np.testing.assert_allclose(greedy_matching(x, y), whole)
