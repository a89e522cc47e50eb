"""Training the emotion head, on a few made comments and made sentence vectors."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from chatbots.encoders import emotion_training
from chatbots.encoders.cache import cache_folder_set
from chatbots.encoders.emotion import LABELS, EmotionHead, head_forward
from chatbots.encoders.emotion_report import GRID, f1_scores, polarity_figures, test_figures, thresholds_choose
from chatbots.encoders.emotion_training import (
    CONFIG,
    Comments,
    EmotionDataError,
    EmotionTraining,
    config_read,
    emotion_train,
    goemotions_read,
    head_train,
    sentiment_read,
)
from chatbots.encoders.sentence import sentence_encoder
from chatbots.validation import ValuesError

test_figures.__test__ = False  # no test, though its name begins like one
SMALL = EmotionTraining(hidden=16, dropout=0.0, input_dropout=0.0, learning_rate=0.05, batch_size=30, epochs=20)
SMALL_VALUES = SMALL.model_dump()
JOY, ANGER = LABELS.index("joy"), LABELS.index("anger")


class MadeEncoder:
    """Texts "joy …", "anger …" and "both …" to vectors that tell them apart, without a model."""

    identity = sentence_encoder().identity

    def unavailable_reason(self) -> None:
        return None

    def encode(self, texts) -> np.ndarray:
        x = np.random.default_rng(len(texts)).normal(0, 0.001, size=(len(texts), 384))
        for i, text in enumerate(texts):
            x[i, 0] += "joy" in text or "both" in text
            x[i, 1] += "anger" in text or "both" in text
        return x.astype(np.float32)


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


def test_labels_share_a_comment_equally(data: Path) -> None:
    parts = goemotions_read(data)
    assert {split: len(part.texts) for split, part in parts.items()} == {"train": 120, "valid": 30, "test": 30}
    shares = parts["train"].shares
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    both = parts["train"].texts.index("both train 0")
    assert shares[both, JOY] == shares[both, ANGER] == 0.5


def test_training_comes_near_the_shares_and_repeats_itself(data: Path) -> None:
    parts = goemotions_read(data)
    vectors = {split: MadeEncoder().encode(part.texts) for split, part in parts.items()}
    weights, losses = head_train(vectors, parts, SMALL)
    assert losses[0] > losses[-1]
    p = head_forward(vectors["test"], weights)
    np.testing.assert_allclose(p, parts["test"].shares, atol=0.1)
    again, _ = head_train(vectors, parts, SMALL)
    for name, array in weights.items():
        assert array.dtype == np.float16
        np.testing.assert_array_equal(array, again[name])
    reseeded = EmotionTraining(**{**SMALL_VALUES, "seed": 8, "epochs": 1})
    other, _ = head_train(vectors, parts, reseeded)
    assert not np.array_equal(other["hidden.weight"], weights["hidden.weight"])


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


def test_the_whole_command_writes_a_head_that_loads(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emotion_training, "sentence_encoder", lambda device: MadeEncoder())
    cache_folder_set(tmp_path / "cache")
    config = written(tmp_path / "training.yaml", [f"{k}: {v}" for k, v in SMALL_VALUES.items()])
    polar = [{"text": "joy", "label": 1}, {"text": "anger", "label": 0}, {"text": "joy 2", "label": 1}]
    measured = written(tmp_path / "films.jsonl", polar)
    manifest = emotion_train(data, config, tmp_path / "head", [measured])
    cache_folder_set(None)
    assert manifest["polarity"]["films"]["emotion_head"] == {"balanced_accuracy": 1.0, "auc": 1.0}
    assert manifest["test"]["f1"]["joy"] == 1
    assert manifest["n"] == {"train": 120, "valid": 30, "test": 30}
    head = EmotionHead(tmp_path / "head", MadeEncoder())
    assert head.identity.params["weights"] == manifest["sha256"]
    p = head.encode(["joy", "anger"])
    assert p[0, JOY] > 0.8
    assert p[1, ANGER] > 0.8
    assert head.thresholds.shape == (28,)
    assert "| films | 3 | 1.000 | 1.000 |" in (tmp_path / "head" / "CARD.md").read_text()


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
    found = test_figures(p, present, thresholds)
    said = p >= thresholds
    assert found["macro_f1"] == pytest.approx(f1_score(present, said, average="macro"), abs=1e-4)
    assert found["micro_f1"] == pytest.approx(f1_score(present, said, average="micro"), abs=1e-4)
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


def test_the_configuration_is_checked(tmp_path: Path) -> None:
    assert config_read(CONFIG).hidden > 0
    path = tmp_path / "training.yaml"
    for content, message in (
        ("hiden: 3", "hidden"),
        ("dropout: 1.5", "dropout is 1.5"),
        ("epochs: 0", "at least 1"),
        ("learning_rate: fast", "a number"),
        ("- hidden", "a mapping"),
    ):
        path.write_text(content)
        with pytest.raises(ValuesError, match=message):
            config_read(path)


def test_nothing_is_left_of_the_seed_for_others(data: Path) -> None:
    """Training draws from its own seed and leaves torch's generator to the others."""
    parts = goemotions_read(data)
    vectors = {split: MadeEncoder().encode(part.texts) for split, part in parts.items()}
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    head_train(vectors, parts, EmotionTraining(**{**SMALL_VALUES, "epochs": 1}))
    assert torch.rand(1) == expected
