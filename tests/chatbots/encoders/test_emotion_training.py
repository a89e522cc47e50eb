"""Training the emotion head, on a few made comments and made sentence vectors."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from chatbots.encoders.emotion import LABELS, head_forward
from chatbots.encoders.emotion_report import GRID, f1_scores, polarity_figures, test_figures, thresholds_choose
from chatbots.encoders.emotion_training import (
    Comments,
    EmotionDataError,
    EmotionTraining,
    goemotions_read,
    head_train,
    sentiment_read,
)

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
