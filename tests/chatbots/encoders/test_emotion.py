"""The shipped emotion head: distributions, sentiment, what its manifest and card promise."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from safetensors.numpy import load_file

from chatbots.encoders.emotion import (
    EMOTION_HEAD_FOLDER,
    LABELS,
    MANIFEST_FILE,
    VALENCE,
    WEIGHTS_FILE,
    EmotionHead,
    emotion_encoder,
)
from chatbots.encoders.emotion_report import BERT_F1, emotion_model_card
from chatbots.encoders.sentence import EncoderError, LocalSentenceEncoder, encoder_folder, encoder_get, sentence_encoder

TEXTS = {
    "gratitude": "Thank you so much for your help!",
    "anger": "I hate you, you stupid idiot!",
    "joy": "I am so happy today, what a wonderful day!",
    "sadness": "I feel so sad and lonely.",
    "neutral": "The train leaves at ten from platform two.",
}


@pytest.fixture(scope="module")
def shares() -> np.ndarray:
    return emotion_encoder().encode(list(TEXTS.values()))


def test_rows_are_distributions(shares: np.ndarray) -> None:
    assert shares.shape == (5, 28)
    assert shares.dtype == np.float32
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)


def test_plain_texts_get_their_emotion(shares: np.ndarray) -> None:
    labels = emotion_encoder().labels
    assert labels == LABELS
    assert [labels[k] for k in shares.argmax(axis=1)] == list(TEXTS)


def test_the_network_is_the_one_of_its_formula(shares: np.ndarray) -> None:
    """In double precision, entry by entry, from the file."""
    w = {k: v.astype(np.float64) for k, v in load_file(EMOTION_HEAD_FOLDER / WEIGHTS_FILE).items()}
    x = sentence_encoder().encode(list(TEXTS.values())).astype(np.float64)
    for row, vector in zip(shares, x, strict=True):
        hidden = [max(0.0, float(a @ vector + b)) for a, b in zip(w["hidden.weight"], w["hidden.bias"], strict=True)]
        scores = [np.exp(a @ hidden + b) for a, b in zip(w["output.weight"], w["output.bias"], strict=True)]
        np.testing.assert_allclose(row, np.array(scores) / sum(scores), atol=1e-5)


def test_vectors_at_hand_give_the_same_as_texts(shares: np.ndarray) -> None:
    vectors = sentence_encoder().encode(list(TEXTS.values()))
    np.testing.assert_array_equal(emotion_encoder().from_embeddings(vectors), shares)
    with pytest.raises(ValueError, match=r"\(N, 384\)"):
        emotion_encoder().from_embeddings(vectors[:, :100])


def test_it_encodes_with_the_encoder_it_is_given() -> None:
    class Remembering(LocalSentenceEncoder):
        asked: ClassVar[list[str]] = []

        def encode(self, texts: Sequence[str]) -> np.ndarray:
            self.asked.extend(texts)
            return super().encode(texts)

    head = EmotionHead(sentence=Remembering())
    assert head.encode(["one", "two", "one"]).shape == (3, 28)
    assert Remembering.asked == ["one", "two", "one"]
    assert head.encode([]).shape == (0, 28)
    assert head.identity == emotion_encoder().identity


def test_sentiment_is_the_weighted_sum(shares: np.ndarray) -> None:
    head = emotion_encoder()
    assert head.weights.shape == (28,)
    expected = [sum(p * VALENCE[label][0] for p, label in zip(row, LABELS, strict=True)) for row in shares]
    found = head.sentiment(shares)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    thanks, hate, happy, sad, train = found
    assert min(thanks, happy) > 0.4
    assert max(hate, sad) < -0.3
    assert abs(train) < 0.2
    with pytest.raises(ValueError, match=r"\(N, 28\)"):
        head.sentiment(shares[:, :10])


def test_what_is_shipped_is_small_and_its_card_is_fresh() -> None:
    assert sum(file.stat().st_size for file in EMOTION_HEAD_FOLDER.iterdir()) <= 2_000_000
    manifest = json.loads((EMOTION_HEAD_FOLDER / MANIFEST_FILE).read_text())
    assert (EMOTION_HEAD_FOLDER / "CARD.md").read_text() == emotion_model_card(manifest), "run manage.py train_emotion"
    arrays = load_file(EMOTION_HEAD_FOLDER / WEIGHTS_FILE)
    assert sum(array.size for array in arrays.values()) == manifest["n_parameters"]
    assert manifest["test"]["macro_f1"] == pytest.approx(np.mean(list(manifest["test"]["f1"].values())), abs=1e-4)


def test_the_published_baseline_has_its_published_mean_and_spread() -> None:
    scores = list(BERT_F1.values())  # Demszky et al. (2020), Table 4: macro average .46, standard deviation .19
    assert round(np.mean(scores), 2) == 0.46
    assert round(np.std(scores), 2) == 0.19


def test_missing_or_damaged_files_are_told(tmp_path: Path) -> None:
    head = EmotionHead(tmp_path)
    assert "manifest.json" in (head.unavailable_reason() or "")
    with pytest.raises(EncoderError, match="train_emotion"):
        head.encode(["hello"])
    for name in (MANIFEST_FILE, WEIGHTS_FILE):
        shutil.copy(EMOTION_HEAD_FOLDER / name, tmp_path)
    assert head.unavailable_reason() is None
    with (tmp_path / WEIGHTS_FILE).open("r+b") as file:
        file.seek(1000)
        file.write(b"x")
    with pytest.raises(EncoderError, match="not the file of its manifest"):
        head.load()


def test_another_sentence_encoder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "other"
    shutil.copytree(encoder_folder(), folder)
    assert EmotionHead(sentence=encoder_get(str(folder))).unavailable_reason() is None
    (folder / "config.json").write_text("{}")
    head = EmotionHead(sentence=encoder_get(str(folder)))
    assert "was trained on" in (head.unavailable_reason() or "")
