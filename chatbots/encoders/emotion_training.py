"""Training the emotion head on GoEmotions: `manage.py train_emotion --data goemotions.jsonl.gz`.

A comment may have several of the 28 labels (one in six does), but metrics need one distribution per text, like
DeepMoji's softmax. So the target gives each of a comment's n labels the share 1/n, and the head is a softmax trained
with cross-entropy on these targets: p_k estimates the share of emotion k among the labels that raters would give.
Classes are not weighted, so the shares stay calibrated. Each emotion has its own threshold, chosen on the valid part;
this helps rare emotions in the model card's F1 and affects no metric.

The test part and the sentiment sets are used only once, after all choices have been made.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import ConfigDict, Field

from chatbots.compressed_files import DAMAGE_ERRORS
from chatbots.encoders.cache import arrays_cached
from chatbots.encoders.emotion import (
    EMOTION_HEAD_FOLDER,
    LABELS,
    MANIFEST_FILE,
    WEIGHTS_FILE,
    head_forward,
    sentiment_of,
    vader_scores,
    valence_weights,
)
from chatbots.encoders.emotion_report import emotion_model_card, polarity_figures, test_figures, thresholds_choose
from chatbots.encoders.sentence import SentenceEncoder, sentence_encoder
from chatbots.identity import Identity
from chatbots.text import quote
from chatbots.validation import (
    InputModel,
    Many,
    Number,
    Share,
    Size,
    ValuesError,
    values_read,
    values_read_json,
    yaml_read,
)

CONFIG = EMOTION_HEAD_FOLDER / "training.yaml"
SPLITS = ("train", "valid", "test")

L = TypeVar("L", bound="_Line")


class EmotionDataError(ValueError):
    """Error in training data; the message explains the expected form."""


class EmotionTraining(InputModel):
    """Training parameters of the emotion head (`emotion_head/training.yaml`).

    Attributes:
        hidden: hidden units.
        dropout: share of hidden units, and `input_dropout` of inputs, dropped in training.
        learning_rate: initial learning rate of AdamW, which decays to 0 along half a cosine.
        weight_decay: weight decay of AdamW.
        batch_size: comments per step.
        epochs: passes over the training part; the epoch with the lowest validation loss is kept.
        seed: seed of initial weights, dropout and order.
    """

    hidden: Size = 1024
    dropout: Share = 0.5
    input_dropout: Share = 0.1
    learning_rate: Number = Field(1e-3, ge=0)
    weight_decay: Number = Field(0.01, ge=0)
    batch_size: Size = 256
    epochs: Size = 20
    seed: int = 7


@dataclass(frozen=True, slots=True)
class Comments:
    """One part of GoEmotions.

    Attributes:
        texts: the N comments.
        present: (N, 28) bool, the labels of each comment; at least one.
    """

    texts: tuple[str, ...]
    present: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """(N, 28) float32 targets: equal shares for each label of a comment."""
        return (self.present / self.present.sum(axis=1, keepdims=True)).astype(np.float32)


def config_read(path: Path | str) -> EmotionTraining:
    """Read a configuration.

    Raises:
        ValuesError: lists all unknown settings and invalid values.
    """
    try:
        return values_read(EmotionTraining, yaml_read(Path(path)), subject="the config")
    except ValuesError as error:
        raise ValuesError(error.mistakes, path) from None


def goemotions_read(path: Path | str) -> dict[str, Comments]:
    """Read GoEmotions, one `{"split", "text", "labels"}` per line, plain or gzip.

    Returns:
        The parts `train`, `valid` and `test`.

    Raises:
        EmotionDataError: for a line that is not of this form, with all its mistakes, or a part without comments.
    """
    texts: dict[str, list[str]] = {split: [] for split in SPLITS}
    rows: dict[str, list[list[int]]] = {split: [] for split in SPLITS}
    number = {label: k for k, label in enumerate(LABELS)}
    for record in _records(_Labelled, Path(path)):
        rows[record.split].append([number[label] for label in record.labels])
        texts[record.split].append(record.text)
    empty = [split for split in SPLITS if not texts[split]]
    if empty:
        raise EmotionDataError(f"{path} has no comments in the part {quote(empty[0])}")
    parts = {}
    for split in SPLITS:
        present = np.zeros((len(rows[split]), len(LABELS)), dtype=bool)
        for i, labels in enumerate(rows[split]):
            present[i, labels] = True
        parts[split] = Comments(tuple(texts[split]), present)
    return parts


def sentiment_read(path: Path | str) -> tuple[list[str], np.ndarray]:
    """Read texts with a polarity, for evaluation.

    Returns:
        N texts and (N,) bool, true for positive texts. Files have the classes 0 and 1, or 0 to 2, where 1 is neutral
        and excluded.
    """
    records = [(record.text, record.label) for record in _records(_Polar, Path(path))]
    top = max(label for _, label in records)
    polar = [(text, label == top) for text, label in records if label in (0, top)]
    return [text for text, _ in polar], np.array([positive for _, positive in polar])


class _Line(InputModel):
    """Line of a data file; other keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    text: str


class _Labelled(_Line):
    split: Literal[SPLITS]  # type: ignore[valid-type]
    labels: Annotated[Many[Literal[LABELS]], Field(min_length=1)]  # type: ignore[valid-type]


class _Polar(_Line):
    label: Literal[0, 1, 2]


def _records(kind: type[L], path: Path) -> Iterator[L]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield values_read_json(kind, line, subject="the line")
                except ValuesError as error:
                    raise EmotionDataError(f"{path}, line {number}: {error}") from None
    except (EmotionDataError, FileNotFoundError):
        raise
    except DAMAGE_ERRORS as error:
        raise EmotionDataError(f"{path} cannot be read: {error}") from error


def vectors_of(texts: tuple[str, ...], encoder: SentenceEncoder) -> np.ndarray:
    """Return (N, D) sentence vectors, cached for later trainings."""
    digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
    identity = Identity("emotion_training_vectors", "1", {"encoder": encoder.identity.as_dict(), "texts": digest})
    return arrays_cached(identity, lambda: {"vectors": encoder.encode(texts)})["vectors"]


def head_train(
    vectors: Mapping[str, np.ndarray], parts: Mapping[str, Comments], config: EmotionTraining
) -> tuple[dict[str, np.ndarray], list[float]]:
    """Train the head, selecting the epoch on the validation part.

    Args:
        vectors: the parts' sentence vectors, (N, D) each.

    Returns:
        Weights by name, float16, and the valid loss (nats) after each epoch.
    """
    import torch

    with torch.random.fork_rng(devices=[]):  # dropout draws from torch's global generator
        torch.manual_seed(config.seed)
        best, losses = _fit(vectors, parts, config)
    # Half precision halves the file and changes only the fourth digit of the shares.
    return {name: array.astype(np.float16) for name, array in best.items()}, losses


def _fit(
    vectors: Mapping[str, np.ndarray], parts: Mapping[str, Comments], config: EmotionTraining
) -> tuple[dict[str, np.ndarray], list[float]]:
    import torch
    from torch import nn
    from torch.nn import functional as F

    order = np.random.default_rng(config.seed)
    x, y = (torch.from_numpy(a) for a in (vectors["train"], parts["train"].shares))
    x_valid, y_valid = (torch.from_numpy(a) for a in (vectors["valid"], parts["valid"].shares))
    net = nn.ModuleDict(
        {"hidden": nn.Linear(x.shape[1], config.hidden), "output": nn.Linear(config.hidden, len(LABELS))}
    )

    def scores(inputs: torch.Tensor, training: bool) -> torch.Tensor:
        hidden = F.relu(net["hidden"](F.dropout(inputs, config.input_dropout, training)))
        return net["output"](F.dropout(hidden, config.dropout, training))  # (B, 28)

    steps = config.epochs * -(-len(x) // config.batch_size)
    optimiser = torch.optim.AdamW(net.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    losses: list[float] = []
    best: dict[str, np.ndarray] = {}
    for _ in range(config.epochs):
        for rows in torch.from_numpy(order.permutation(len(x))).split(config.batch_size):
            optimiser.zero_grad()
            F.cross_entropy(scores(x[rows], True), y[rows]).backward()
            optimiser.step()
            schedule.step()
        with torch.inference_mode():
            losses.append(float(F.cross_entropy(scores(x_valid, False), y_valid)))
        if losses[-1] == min(losses):
            best = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    return best, losses


def emotion_train(
    data: Path | str,
    config: Path | str = CONFIG,
    output: Path | str = EMOTION_HEAD_FOLDER,
    measure: Sequence[Path | str] = (),
    device: str = "cpu",
) -> dict[str, Any]:
    """Train the head, measure it, and write weights, manifest and card.

    Args:
        data: GoEmotions, in the form of `goemotions_read`.
        config: the training configuration.
        output: output folder.
        measure: files of texts with a polarity (`sentiment_read`), for the card.
        device: device of the sentence encoder; the head trains on the CPU.

    Returns:
        The manifest.

    Raises:
        EmotionDataError, ValuesError: the data or the configuration is invalid.
        EncoderError: the sentence encoder is missing.
    """
    from safetensors.numpy import save

    settings = config_read(config)
    parts = goemotions_read(data)
    encoder = sentence_encoder(device)
    vectors = {split: vectors_of(parts[split].texts, encoder) for split in SPLITS}
    weights, losses = head_train(vectors, parts, settings)
    packed = save(weights)
    shares = {split: head_forward(vectors[split], weights) for split in ("valid", "test")}
    thresholds = thresholds_choose(shares["valid"], parts["valid"].present)
    polarity = {}
    for file in measure:
        texts, positive = sentiment_read(file)
        p = head_forward(vectors_of(tuple(texts), encoder), weights)
        ours = sentiment_of(p, valence_weights())
        scores = {"emotion_head": ours, "vader": vader_scores(texts)}
        polarity[Path(file).name.partition(".")[0]] = polarity_figures(scores, positive)
    manifest = {
        "sha256": hashlib.sha256(packed).hexdigest(),
        "n_parameters": sum(array.size for array in weights.values()),
        "labels": list(LABELS),
        "thresholds": dict(zip(LABELS, thresholds.tolist(), strict=True)),
        "encoder": dict(encoder.identity.params),
        "data_sha256": hashlib.sha256(Path(data).read_bytes()).hexdigest(),
        "n": {split: len(parts[split].texts) for split in SPLITS},
        "training": settings.model_dump(),
        "valid_losses": [round(loss, 4) for loss in losses],
        "best_epoch": int(np.argmin(losses)) + 1,
        "test": test_figures(shares["test"], parts["test"].present, thresholds),
        "polarity": polarity,
    }
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / WEIGHTS_FILE).write_bytes(packed)
    (folder / MANIFEST_FILE).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    (folder / "CARD.md").write_text(emotion_model_card(manifest), encoding="utf-8")
    return manifest
