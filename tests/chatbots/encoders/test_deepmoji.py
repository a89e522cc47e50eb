"""DeepMoji: the network by NumPy, its words by the fact sheet (section 1.1), its files."""

import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from chatbots.encoders.deepmoji import (
    DEEPMOJI_SPECIAL_TOKENS,
    EMOJI,
    DeepMojiEncoder,
    DeepMojiVocabularyError,
    deepmoji_words,
    vocabulary_read,
    word_ids,
)
from chatbots.encoders.sentence import EncoderError
from chatbots.models.published_encoders import DeepMoji

WORDS = ["i", "love", "you", "!", "hate", "it", "so", "much", "_", "this", "day", "#fun", "<3"]
TEXTS = ["I love you !", "hate it", "this day so much I love it", "zzz", "_"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, DeepMoji]:
    """Write a small network with random weights in torchMoji's file layout, and its vocabulary."""
    folder = tmp_path_factory.mktemp("deepmoji")
    vocabulary = {word: i for i, word in enumerate([*DEEPMOJI_SPECIAL_TOKENS, *WORDS])}
    (folder / "vocabulary.json").write_text(json.dumps(vocabulary))
    model = DeepMoji(len(vocabulary), E=5, H=4, K=64)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 1.5)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder / "pytorch_model.bin", folder / "vocabulary.json", model


def forward_by_numpy(w: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    """Compute one text, word by word, as the fact sheet writes it."""

    def gate(x: np.ndarray) -> np.ndarray:
        return np.clip(0.2 * x + 0.5, 0, 1)

    def direction(xs: list[np.ndarray], layer: str, suffix: str) -> list[np.ndarray]:
        size = w[f"{layer}.weight_hh_l0{suffix}"].shape[1]
        h, c, out = np.zeros(size), np.zeros(size), []
        for x in xs:
            a = w[f"{layer}.weight_ih_l0{suffix}"] @ x + w[f"{layer}.bias_ih_l0{suffix}"]
            a = a + w[f"{layer}.weight_hh_l0{suffix}"] @ h + w[f"{layer}.bias_hh_l0{suffix}"]
            i, f, g, o = a[:size], a[size : 2 * size], a[2 * size : 3 * size], a[3 * size :]
            c = gate(f) * c + gate(i) * np.tanh(g)
            h = gate(o) * np.tanh(c)
            out.append(h)
        return out

    def both(xs: list[np.ndarray], layer: str) -> list[np.ndarray]:
        back = direction(xs[::-1], layer, "_reverse")[::-1]
        return [np.concatenate(pair) for pair in zip(direction(xs, layer, ""), back, strict=True)]

    embedded = [np.tanh(w["embed.weight"][i]) for i in ids]
    first = both(embedded, "lstm_0")
    second = both(first, "lstm_1")
    h = [np.concatenate(parts) for parts in zip(second, first, embedded, strict=True)]
    a = np.exp([float(x @ w["attention_layer.attention_vector"]) for x in h])
    text = sum(share * x for share, x in zip(a / a.sum(), h, strict=True))
    scores = w["output_layer.0.weight"] @ text + w["output_layer.0.bias"]
    return np.exp(scores) / np.exp(scores).sum()


def test_the_published_size_has_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        model = DeepMoji()
    assert sum(parameter.numel() for parameter in model.parameters()) == 22_403_392


def test_the_network_equals_the_formulas(small: tuple[Path, Path, DeepMoji]) -> None:
    weights, vocabulary, model = small
    result = DeepMojiEncoder(weights, vocabulary).encode(TEXTS)
    w = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
    words = vocabulary_read(vocabulary)
    for text, row in zip(TEXTS, result, strict=True):
        np.testing.assert_allclose(row, forward_by_numpy(w, word_ids(text, words)), atol=1e-5)
    assert np.ptp(result, axis=0).max() > 0.1


def test_a_logistic_gate_would_be_another_network(small: tuple[Path, Path, DeepMoji]) -> None:
    _, _, model = small
    layer = model.lstm_0
    stock = torch.nn.LSTM(5, 4, batch_first=True, bidirectional=True)
    stock.load_state_dict(layer.state_dict())
    x = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        assert (layer(x, torch.ones(2, 3, dtype=torch.bool)) - stock(x)[0]).abs().max() > 0.05


def test_rows_are_distributions_whatever_the_batch(small: tuple[Path, Path, DeepMoji]) -> None:
    encoder = DeepMojiEncoder(*small[:2])
    together = encoder.encode([*TEXTS, TEXTS[0]])
    assert together.shape == (6, 64)
    assert together.dtype == np.float32
    np.testing.assert_allclose(together.sum(axis=1), 1, atol=1e-5)
    for i, text in enumerate(TEXTS):
        np.testing.assert_allclose(encoder.encode([text])[0], together[i], atol=1e-6)
    assert encoder.encode([]).shape == (0, 64)


def test_a_text_without_a_word_is_uniform(small: tuple[Path, Path, DeepMoji]) -> None:
    encoder = DeepMojiEncoder(*small[:2])
    p = encoder.encode(["", " \t", "I love you"])
    np.testing.assert_allclose(p[:2], 1 / 64)
    assert encoder.sentiment(p)[0] == pytest.approx(0.0703125)


def test_the_weights_are_those_of_the_table(small: tuple[Path, Path, DeepMoji]) -> None:
    encoder = DeepMojiEncoder(*small[:2])
    w = encoder.weights
    assert w.shape == (64,)
    assert np.count_nonzero(w) == 31
    assert w.sum() == pytest.approx(4.5)
    numbered = {4: 0.75, 14: -0.5, 23: 1, 24: 0.5, 33: 1, 38: 0, 47: 0.5, 52: -0.75, 55: -1, 62: -0.5}
    assert {k: float(w[k]) for k in numbered} == numbered
    names = {24: "heartbeat", 36: "yum", 38: "hand", 44: "smiling_imp", 47: "yellow_heart"}
    assert {k: encoder.labels[k] for k in names} == names
    assert len(EMOJI) == 64


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("  Hello World!!!  ", ["hello", "world", "!!!"]),
        ("soooo gooood", ["soooo", "gooood"]),  # not shortened on Python 3
        ("call 42 or 3.5", ["call", "CUSTOM_NUMBER", "or", *["CUSTOM_NUMBER", ".", "CUSTOM_NUMBER"]]),
        ("@bob see http://a.org/b?c and www.x.de", ["CUSTOM_AT", "see", "CUSTOM_URL", "and", "CUSTOM_URL"]),
        ("mail a.b@c.de", ["mail", "CUSTOM_AT"]),
        ("one\ntwo <br> three", ["one", "CUSTOM_BREAK", "two", "CUSTOM_BREAK", "three"]),
        ("red-haired snake_case", ["red-haired", "snake_case"]),
        ("##tag #tag @@bob", ["#", "#tag", "#tag", "@", "CUSTOM_AT"]),
        ("<3 </3 <33", ["<3", "</3", "<33"]),
        (":-) :(( ;P o_o (:", [":-)", ":((", ";p", "o_o", "(:"]),
        ("don't I'm", ["don't", "i'm"]),
        ("Mr. Smith, U.S.A.", ["mr.", "smith", ",", "u.s.a."]),
        ("a,,b--c", ["a", ",,", "b", "--", "c"]),
        ("“Quoted” — it’s…", ['"', "quoted", '"', "--", "it's", "..."]),
        ("😀😀 ❤️", ["😀", "😀", "❤"]),
        ("ﬁne １２", ["fine", "CUSTOM_NUMBER"]),  # NFKC
        ("日本", ["日", "本"]),
        ("_", ["_"]),
        (" \n".strip(), []),
    ],
)
def test_words_are_split_as_torchmoji_splits_them(text: str, words: list[str]) -> None:
    assert deepmoji_words(text) == words


def test_ids_stop_at_thirty_and_unknown_words_are_one() -> None:
    vocabulary = {word: i for i, word in enumerate([*DEEPMOJI_SPECIAL_TOKENS, *WORDS])}
    assert word_ids("I LOVE you qqq", vocabulary) == [10, 11, 12, 1]
    assert word_ids("love " * 50, vocabulary) == [11] * 30


def test_the_vocabulary_file_is_checked(tmp_path: Path) -> None:
    words = {word: i for i, word in enumerate([*DEEPMOJI_SPECIAL_TOKENS, *WORDS])}
    packed = tmp_path / "vocabulary.json.gz"
    packed.write_bytes(gzip.compress(json.dumps(words).encode()))
    assert vocabulary_read(packed) == words
    path = tmp_path / "vocabulary.json"
    for content, message in (
        ("[1, 2", "not a JSON"),
        (json.dumps({**words, "more": 100}), "without gaps"),
        (json.dumps({"the": 0, "cat": 1}), "CUSTOM_MASK"),
    ):
        path.write_text(content)
        with pytest.raises(DeepMojiVocabularyError, match=message):
            vocabulary_read(path)


def test_what_is_missing_is_told_with_how_to_fetch_it(tmp_path: Path) -> None:
    encoder = DeepMojiEncoder(tmp_path / "pytorch_model.bin", tmp_path / "vocabulary.json")
    assert "git clone https://github.com/huggingface/torchMoji" in (encoder.unavailable_reason() or "")
    assert encoder.identity.params["weights"] is None
    assert encoder.provenance.licence == "MIT"
    with pytest.raises(EncoderError, match=r"pytorch_model\.bin"):
        encoder.encode(["hello"])


class _Runs:
    def __reduce__(self):
        return print, ("a pickle ran code",)


def test_files_that_are_not_deepmoji_are_refused(
    small: tuple[Path, Path, DeepMoji], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, vocabulary, model = small
    bad = tmp_path / "pytorch_model.bin"
    state = model.state_dict()
    longer = {**state, "embed.weight": torch.zeros(99, 5)}
    fewer = {**state, "output_layer.0.weight": torch.zeros(3, 21), "output_layer.0.bias": torch.zeros(3)}
    for content, message in (
        ({name: tensor for name, tensor in state.items() if "lstm_1" not in name}, "layout"),
        (longer, "99 words"),
        (fewer, "3 classes"),
        ([1, 2], "contains no mapping of tensors"),
    ):
        torch.save(content, bad)
        with pytest.raises(EncoderError, match=message):
            DeepMojiEncoder(bad, vocabulary).load()
    bad.write_bytes(b"nothing of the kind")
    with pytest.raises(EncoderError, match=str(bad)):
        DeepMojiEncoder(bad, vocabulary).load()
    bad.write_bytes(pickle.dumps(_Runs(), protocol=2))
    with pytest.raises(EncoderError, match="contains other objects than tensors"):
        DeepMojiEncoder(bad, vocabulary).load()
    assert "ran code" not in capsys.readouterr().out


def test_safetensors_do_as_well(small: tuple[Path, Path, DeepMoji], tmp_path: Path) -> None:
    from safetensors.torch import save_file

    weights, vocabulary, model = small
    save_file(model.state_dict(), tmp_path / "deepmoji.safetensors")
    other = DeepMojiEncoder(tmp_path / "deepmoji.safetensors", vocabulary)
    np.testing.assert_array_equal(other.encode(TEXTS), DeepMojiEncoder(weights, vocabulary).encode(TEXTS))
    assert other.identity.key != DeepMojiEncoder(weights, vocabulary).identity.key
