"""The shipped emotion head, what its manifest and card promise, and how it is trained."""

import gzip
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
    head_forward,
)
from chatbots.encoders.emotion_report import (
    BERT_F1,
    GRID,
    emotion_model_card,
    f1_scores,
    polarity_figures,
    test_figures,
    thresholds_choose,
)
from chatbots.encoders.emotion_training import (
    Comments,
    EmotionDataError,
    EmotionTraining,
    goemotions_read,
    head_train,
    sentiment_read,
)
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
    result = head.sentiment(shares)
    np.testing.assert_allclose(result, expected, atol=1e-6)
    thanks, hate, happy, sad, train = result
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


test_figures.__test__ = False  # no test, though its name begins like one
SMALL = EmotionTraining(hidden=16, dropout=0.0, input_dropout=0.0, learning_rate=0.05, batch_size=30, epochs=20)
SMALL_VALUES = SMALL.model_dump()
JOY, ANGER = LABELS.index("joy"), LABELS.index("anger")


def records() -> list[dict]:
    kinds = {"joy": ["joy"], "anger": ["anger"], "both": ["joy", "anger"]}
    return [
        {"split": split, "text": f"{kind} {split} {i}", "labels": labels}
        for split, n in (("train", 40), ("valid", 10), ("test", 10))
        for i in range(n)
        for kind, labels in kinds.items()
    ]


def written(path: Path, lines: list) -> Path:
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return written(tmp_path / "goemotions.jsonl.gz", records())


def test_the_epoch_with_the_best_valid_loss_is_kept() -> None:
    """Valid labels that contradict the train labels: the longer the training, the worse."""
    rng = np.random.default_rng(0)
    vectors = {split: rng.normal(size=(64, 8)).astype(np.float32) for split in ("train", "valid")}
    present = {split: np.zeros((64, 28), dtype=bool) for split in vectors}
    present["train"][:, JOY] = True
    present["valid"][:, ANGER] = True
    parts = {split: Comments(("",) * 64, rows) for split, rows in present.items()}
    weights, losses = head_train(vectors, parts, EmotionTraining(**{**SMALL_VALUES, "epochs": 4}))
    assert losses.index(min(losses)) == 0
    p = head_forward(vectors["valid"], weights)
    assert -np.log(p[:, ANGER]).mean() == pytest.approx(losses[0], rel=1e-2)


def test_thresholds_have_the_best_f1_of_the_grid() -> None:
    rng = np.random.default_rng(4)
    p = rng.dirichlet(np.ones(3), size=200)
    present = rng.random((200, 3)) < p
    chosen = thresholds_choose(p, present)
    for k in range(3):
        scores = {}
        for t in GRID:
            said = p[:, k] >= t
            hits = np.sum(said & present[:, k])
            precision, recall = hits / max(said.sum(), 1), hits / present[:, k].sum()
            scores[round(float(t), 2)] = 2 * precision * recall / max(precision + recall, 1e-12)
        assert scores[round(float(chosen[k]), 2)] == pytest.approx(max(scores.values()))


def test_figures_equal_scikit_learns() -> None:
    from sklearn.metrics import balanced_accuracy_score, f1_score, log_loss, roc_auc_score

    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.ones(28), size=300)
    present = rng.random((300, 28)) < 0.1
    present[np.arange(300), rng.integers(28, size=300)] = True
    thresholds = np.full(28, 0.05)
    result = test_figures(p, present, thresholds)
    said = p >= thresholds
    assert result["macro_f1"] == pytest.approx(f1_score(present, said, average="macro"), abs=1e-4)
    assert result["micro_f1"] == pytest.approx(f1_score(present, said, average="micro"), abs=1e-4)
    single = np.eye(28, dtype=bool)[rng.integers(28, size=300)]
    one = test_figures(p, single, thresholds)
    expected = log_loss(single.argmax(axis=1), p, labels=range(28))
    assert one["cross_entropy"] == pytest.approx(expected, abs=1e-4)
    assert f1_scores(np.zeros((2, 1), bool), np.zeros((2, 1), bool)) == 0

    positive = rng.random(300) < 0.3
    scores = rng.normal(size=300) + positive
    polar = polarity_figures({"ours": scores}, positive)["ours"]
    assert polar["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(positive, scores > 0), abs=1e-4)
    assert polar["auc"] == pytest.approx(roc_auc_score(positive, scores), abs=1e-4)


def test_neutral_texts_are_left_out_of_the_polarity(tmp_path: Path) -> None:
    three = [{"text": name, "label": i} for i, name in enumerate(("bad", "so-so", "good"))]
    texts, positive = sentiment_read(written(tmp_path / "three.jsonl", three))
    assert texts == ["bad", "good"]
    assert positive.tolist() == [False, True]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"split": "train", "text": "x", "labels": ["glee"]}, r"line 181: labels\[0\] is 'glee'; did you mean"),
        ({"split": "train", "text": "x"}, "line 181: labels is missing; it must be a list"),
        ({"split": "dev", "text": "x", "labels": ["joy"]}, "split is 'dev'; it must be one of train, valid, test"),
        ({"split": "train", "text": "x", "labels": []}, r"labels is \[\]; it must be a list that is not empty"),
        ("{broken", "line 181: the line is not JSON"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: object, message: str) -> None:
    with pytest.raises(EmotionDataError, match=message):
        goemotions_read(written(tmp_path / "data.jsonl", [*records(), line]))


def test_a_part_without_comments_is_refused(tmp_path: Path) -> None:
    some = [record for record in records() if record["split"] != "valid"]
    with pytest.raises(EmotionDataError, match="'valid'"):
        goemotions_read(written(tmp_path / "data.jsonl", some))
