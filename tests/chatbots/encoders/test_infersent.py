"""InferSent on small networks: by NumPy, in batches, its tokens, its files."""

from pathlib import Path

import numpy as np
import pytest
import torch

from chatbots.encoders.cache import cache_folder_set
from chatbots.encoders.infersent import InferSentEncoder
from chatbots.encoders.sentence import EncoderError
from chatbots.models.published_encoders import InferSent

D, H = 4, 3
WORDS = ["<s>", "</s>", "<p>", "</p>", "I", "do", "n't", "n", "'t", "like", "dogs", ".", "Dogs", "rare"]
TEXTS = ["I like dogs.", "dogs", "I do n't like I like I like dogs .", "zzz qqq", "Dogs"]


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory):
    cache_folder_set(tmp_path_factory.mktemp("cache"))
    yield
    cache_folder_set(None)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write weights in the published layout, and GloVe and fastText files of a few words."""
    folder = tmp_path_factory.mktemp("infersent")
    generator = torch.Generator().manual_seed(1)
    model = InferSent(D, H)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        for name in ("bias_ih_l0", "bias_ih_l0_reverse"):  # some units stay negative throughout
            getattr(model.enc_lstm, name)[2 * H] = -6.0
    torch.save(model.state_dict(), folder / "infersent.pkl", _use_new_zipfile_serialization=False)
    rows = np.random.default_rng(2).normal(size=(len(WORDS), D)).round(4)
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, rows, strict=True)]
    (folder / "glove.txt").write_text("".join(lines))
    (folder / "crawl.vec").write_text(f"{len(WORDS)} {D}\n" + "".join(lines))
    return {"weights": folder / "infersent.pkl", "glove": folder / "glove.txt", "fasttext": folder / "crawl.vec"}


def encoder(files: dict[str, Path], version: int = 1, **kw) -> InferSentEncoder:
    kind = "glove" if version == 1 else "fasttext"
    result = InferSentEncoder(files["weights"], files[kind], version, **{"normalise": False, **kw})
    result._vectors.dimension = D
    return result


def by_numpy(files: dict[str, Path], words: list[str]) -> np.ndarray:
    """Compute one sentence alone: a textbook LSTM both ways, the maximum over time."""
    w = {k: v.double().numpy() for k, v in torch.load(files["weights"], weights_only=True).items()}
    lines = [line.split() for line in files["glove"].read_text().splitlines()]
    table = {word: np.array(numbers, dtype=float) for word, *numbers in lines}

    def logistic(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    def direction(xs: list[np.ndarray], suffix: str) -> list[np.ndarray]:
        h, c, out = np.zeros(H), np.zeros(H), []
        for x in xs:
            a = w[f"enc_lstm.weight_ih_l0{suffix}"] @ x + w[f"enc_lstm.bias_ih_l0{suffix}"]
            a = a + w[f"enc_lstm.weight_hh_l0{suffix}"] @ h + w[f"enc_lstm.bias_hh_l0{suffix}"]
            i, f, g, o = np.split(a, 4)
            c = logistic(f) * c + logistic(i) * np.tanh(g)
            h = logistic(o) * np.tanh(c)
            out.append(h)
        return out

    xs = [table[word] for word in words if word in table] or [table["</s>"]]
    back = direction(xs[::-1], "_reverse")[::-1]
    return np.concatenate([np.array(direction(xs, "")), np.array(back)], axis=1).max(axis=0)


def test_the_published_size_has_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        model = InferSent()
    assert sum(parameter.numel() for parameter in model.parameters()) == 38_502_400


def test_vectors_equal_the_formulas_whatever_the_batch(files: dict[str, Path]) -> None:
    made = encoder(files)
    result = made.encode([*TEXTS, TEXTS[0]])
    assert result.shape == (6, 2 * H)
    assert result.dtype == np.float32
    for text, row in zip(TEXTS, result, strict=False):
        np.testing.assert_allclose(row, by_numpy(files, made.words(text)), atol=1e-5)
        np.testing.assert_allclose(made.encode([text])[0], row, atol=1e-6)
    np.testing.assert_array_equal(result[0], result[5])
    assert made.encode([]).shape == (0, 2 * H)


def test_compat_lets_padding_into_the_maximum(files: dict[str, Path]) -> None:
    made = encoder(files, compat=True)
    result = made.encode(TEXTS)
    alone = np.stack([by_numpy(files, made.words(text)) for text in TEXTS])
    n_words = [len(made.words(text)) for text in TEXTS]
    longest = int(np.argmax(n_words))
    padded = np.maximum(alone, 0)
    padded[longest] = alone[longest]
    assert (alone < 0).any(axis=1).all()
    np.testing.assert_allclose(result, padded, atol=1e-5)
    again = made.encode([*TEXTS, TEXTS[0]])  # repeated texts take part in their batch
    np.testing.assert_allclose(again, padded[[*range(len(TEXTS)), 0]], atol=1e-5)
    assert made.identity.name == "infersent1_compat"
    assert made.identity.key != encoder(files).identity.key


def test_tokens_have_the_markers_of_their_version(files: dict[str, Path]) -> None:
    assert encoder(files).words("I don't like Dogs.") == ["<s>", "I", "do", "n't", "like", "Dogs", ".", "</s>"]
    assert encoder(files, 2).words("I don't like Dogs.") == ["<p>", "I", "don", "'t", "like", "Dogs", ".", "</p>"]


def test_version_two_reads_fasttext(files: dict[str, Path]) -> None:
    made = encoder(files, 2)
    np.testing.assert_allclose(
        made.encode(["I like dogs"])[0], by_numpy(files, ["<p>", "I", "like", "dogs", "</p>"]), atol=1e-5
    )


def test_rows_have_length_one_unless_raw_ones_are_asked_for(files: dict[str, Path]) -> None:
    unit = encoder(files, normalise=True).encode(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-5)
    raw = encoder(files).encode(TEXTS)
    np.testing.assert_allclose(raw / np.linalg.norm(raw, axis=1, keepdims=True), unit, atol=1e-6)


def test_rarer_words_than_the_first_rows_are_dropped(files: dict[str, Path]) -> None:
    few = encoder(files, rows=len(WORDS) - 1)
    np.testing.assert_array_equal(few.encode(["I like rare dogs"]), few.encode(["I like dogs"]))
    for enough in (encoder(files), encoder(files, rows=None)):
        assert np.abs(enough.encode(["I like rare dogs"]) - few.encode(["I like dogs"])).max() > 1e-3


def test_what_cannot_be_is_told(files: dict[str, Path], tmp_path: Path) -> None:
    absent = InferSentEncoder(tmp_path / "infersent1.pkl", files["glove"])
    assert "infersent1.pkl; to get it:" in (absent.unavailable_reason() or "")
    assert absent.identity.params["weights"] is None
    assert "CC-BY-NC-4.0" in absent.provenance.licence
    with pytest.raises(EncoderError, match="there is no file"):
        absent.encode(["hello"])
    assert "glove" in (InferSentEncoder(files["weights"], tmp_path / "glove.txt").unavailable_reason() or "")
    with pytest.raises(ValueError, match="1 or 2"):
        encoder(files, 1).__class__(files["weights"], files["glove"], 3)
    with pytest.raises(ValueError, match="version 1"):
        encoder(files, 2, compat=True)
    torch.save({"weight": torch.zeros(2)}, tmp_path / "infersent1.pkl")
    with pytest.raises(EncoderError, match="published layout"):
        absent.load()


def test_vectors_of_another_size_are_refused(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("<s> 1 2\n</s> 3 4\n")
    result = InferSentEncoder(files["weights"], tmp_path / "glove.txt")
    result._vectors.dimension = 2
    with pytest.raises(EncoderError, match="2 dimensions"):
        result.encode(["hello"])
