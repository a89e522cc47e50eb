"""Metrics trained with Confab: each checkpoint is a metric.

A kind derives from `TrainedMetric` in its own file. Without a checkpoint it is unavailable and explains how to get one.
Shipped checkpoints are in `evaluation/shipped`, a researcher's own in `metrics` of the data folder; the metric is named
after the checkpoint's folder, with underscores. Checkpoints in other places can be configured in `metrics.yaml`.

`WithPmi` is the base of `pone_pmi` and `grade_pmi`, which average a trained metric and mutual information. Each of the
two is standardised by its mean and standard deviation over held-out true and false pairs. The network's values are
stored with its checkpoint; those of mutual information depend on the language model and are part of the metric's entry.
Nothing is fitted to human ratings.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from chatbots.checkpoints import CheckpointError
from chatbots.gguf_files import SMOLLM2
from chatbots.validation import InputModel, Number, values_read
from evaluation.data.items import ReplyInContext
from evaluation.data.result_tables import Cell, declared_table, number_cell
from evaluation.data.tables import per_turn
from evaluation.metrics.base import ConfiguredMetric, Metric
from evaluation.metrics.explanations import Explanation
from evaluation.metrics.likelihood import ReplyPmi
from evaluation.metrics.registry import metric_kinds, metrics
from evaluation.metrics.replies import ReplyMetric
from evaluation.metrics.text_cache import TextCache
from evaluation.training.checkpoint import (
    MANIFEST_FILE,
    Checkpoint,
    MetricManifest,
    checkpoint_awaited,
    checkpoint_missing,
    checkpoint_read,
)
from evaluation.training.config import BackboneConfig, backbone_missing

log = logging.getLogger(__name__)

FOLDER = "metrics"
"""Subfolder of the data folder with one folder per training."""


CHECKPOINT_NEEDED = "a checkpoint of `train_metric`"
LOOKED_EVERY_S = 1.0
"""Minimum seconds between a process's checks for new trainings."""
SHIPPED = Path(__file__).parent.parent / "shipped"
"""Folder of the checkpoints shipped with Confab."""


def shipped_names() -> list[str]:
    """Return the names of the checkpoints shipped with Confab."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/manifest.json"))


class TrainedOptions(InputModel):
    """Options of an entry of `metrics.yaml` for a trained metric."""

    checkpoint: str = Field(
        min_length=1,
        description="folder of a training (manage.py train_metric) or of its checkpoint, or the name of a shipped one, "
        "such as grade-lite",
    )
    device: str = Field("", description="device to compute on; by default that of the run")


class TrainedMetric(ReplyMetric, ConfiguredMetric):
    """Base class of a checkpoint's metric.

    Derive from it under the learned metric's name and write `score`.

    Attributes:
        trained: learned metric whose checkpoints it reads, if different from its own name.
    """

    has_network = True
    licence = "that of the text its checkpoint is trained on"
    trained: ClassVar[str] = ""
    options_type: ClassVar[type[InputModel]] = TrainedOptions
    options: Any
    default = False

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        if self.options is not None and self.options.checkpoint in shipped_names():
            self.needs = tuple(need for need in self.needs if need != CHECKPOINT_NEEDED)
        if self.options is not None and self.options.checkpoint.removeprefix(f"{SHIPPED}/") in shipped_names():
            self.seen_sets = ("grade",)  # designs were compared on it
        self._networks: dict[str, tuple[MetricManifest, Any]] = {}  # by position
        self._lock = threading.RLock()

    @classmethod
    def is_of(cls, manifest: MetricManifest) -> bool:
        """Return True if the checkpoint is the special case with this name."""
        return False

    @property
    def checkpoint(self) -> Checkpoint:
        """Its checkpoint, loaded from disk.

        Raises:
            CheckpointError: if none is specified, or it does not exist.
        """
        if self.options is None:
            raise CheckpointError(
                "no checkpoint is specified; train one with `manage.py train_metric`, or name one in "
                f"metrics.yaml (kind: {self.kind}, params: {{checkpoint: folder}})"
            )
        name = self.options.checkpoint
        checkpoint = checkpoint_read(SHIPPED / name if name in shipped_names() else name)
        metric = self.trained or self.kind
        if checkpoint.manifest.metric != metric:
            raise CheckpointError(
                f"{checkpoint.folder} contains a checkpoint of {checkpoint.manifest.metric}, not of {metric}"
            )
        return checkpoint

    @property
    def params(self) -> dict[str, Any]:
        try:
            return {"checkpoint": self.checkpoint.manifest.digest}
        except CheckpointError:
            return {"checkpoint": None}

    def unavailable_reason(self) -> str | None:
        try:
            checkpoint = self.checkpoint
        except CheckpointError as error:
            return str(error)
        backbone = values_read(BackboneConfig, dict(checkpoint.manifest.config["backbone"]))
        return checkpoint_missing(checkpoint.folder) or backbone_missing(backbone)

    def choose_device(self, device: str) -> str:
        """Return the device of the options, otherwise that of the run."""
        return (self.options.device if self.options else "") or device

    def restored(self, device: str) -> Any:
        """Load the network on this device, once per checkpoint."""
        from evaluation.training.loop import restored

        with self._lock:
            place, checkpoint = self.choose_device(device), self.checkpoint
            manifest, network = self._networks.get(place, (None, None))
            if manifest != checkpoint.manifest:  # first use, or retrained since then
                network = restored(checkpoint, place)
                self._networks[place] = checkpoint.manifest, network
            return network


def trained_register(folder: Path, device: str = "") -> list[Metric]:
    """Register every checkpoint of a folder as a metric; return new ones.

    A training that is named after its kind, such as `grade`, replaces the placeholder without a checkpoint.

    Args:
        folder: folder with one subfolder per training; if it does not exist, there are no metrics.
        device: device to compute on; empty for that of each run.
    """
    registered = []
    for place in sorted(folder.glob("[!._]*")):
        try:
            manifest = checkpoint_read(place).manifest
            name = place.name.replace("-", "_")
            if manifest.metric not in metric_kinds:
                continue
            known = metrics.get(name) if name in metrics else None
            if known is not None and (not isinstance(known, TrainedMetric) or known.options is not None):
                continue
            metric = checkpoint_metric(place, name, device)
        except (CheckpointError, ValueError) as error:
            # DEBUG, because commands also log INFO and would repeat this message during a long training.
            level = logging.DEBUG if checkpoint_awaited(place) else logging.WARNING
            log.log(level, "%s is skipped: %s", place, error)
            continue
        registered.append(metrics.put(metric))
    return registered


def checkpoint_metric(folder: Path, name: str, device: str = "") -> Metric:
    """Return the metric of a checkpoint, without registering it.

    Raises:
        CheckpointError, ValueError: the folder has no checkpoint, or its metric cannot be made.
    """
    manifest = checkpoint_read(folder).manifest
    return metric_kinds.get(_kind(manifest)).make(
        name=name, title=manifest.title, checkpoint=str(folder), device=device
    )


class TrainedLook:
    """Watcher for trainings that finish while a process runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looked_at = -math.inf
        self._seen: dict[str, tuple[int, ...]] = {}

    def look(self, folder: Path, device: str = "") -> None:
        """Register the folder's checkpoints as metrics if the folder has changed.

        Args:
            folder, device: as in `trained_register`.
        """
        # Another thread has the lock, or `trained_register` called the registry; both use the registered metrics.
        if not self._lock.acquire(blocking=False):
            return
        try:
            if time.monotonic() - self._looked_at < LOOKED_EVERY_S:
                return
            self._looked_at = time.monotonic()
            stamps = {str(place): _stamp(place) for place in folder.glob("[!._]*")}
            if stamps != self._seen:
                self._seen = stamps
                trained_register(folder, device)
        finally:
            self._lock.release()


def _stamp(place: Path) -> tuple[int, ...]:
    """Return the modification times of a training's manifests; 0 if missing."""
    stamps = []
    for manifest in (place / MANIFEST_FILE, place / "best" / MANIFEST_FILE):
        try:
            stamps.append(manifest.stat().st_mtime_ns)
        except OSError:
            stamps.append(0)
    return tuple(stamps)


def _kind(manifest: MetricManifest) -> str:
    """Return the metric class of a checkpoint, or of its special case."""
    for kind in metric_kinds:
        metric_type = kind.make
        if (
            isinstance(metric_type, type)
            and issubclass(metric_type, TrainedMetric)
            and metric_type.trained == manifest.metric
            and metric_type.is_of(manifest)
        ):
            return kind.name
    return manifest.metric


PMI_LEVEL, PMI_SPREAD = 0.52, 0.55
"""Mean and standard deviation for SmolLM2-135M, over 40 true and 40 random held-out pairs of Topical-Chat."""


class PmiOptions(TrainedOptions):
    """Options of an entry of `metrics.yaml`."""

    model: str = Field(
        SMOLLM2, min_length=1, description="language model: a transformers folder, a hub id, a GGUF file, or a bot's id"
    )
    pmi_level: Number = Field(
        PMI_LEVEL, description="mean of the mutual information over held-out true and random pairs, nats per token"
    )
    pmi_spread: Number = Field(PMI_SPREAD, gt=0, description="standard deviation over the same pairs")


class WithPmi(TrainedMetric):
    """Base of the metrics that average a network's score with mutual information.

    Attributes:
        network: name of the network in the description.
    """

    options_type = PmiOptions
    options: PmiOptions | None
    needs = (CHECKPOINT_NEEDED, "a causal language model")
    network: str

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self.columns = per_turn(
            f"{self.name}_bot",
            f"{self.title}, bot",
            unit="standard deviations",
            range=(None, None),
            direction="higher",
            description=f"Mean of {self.network}'s score before its sigmoid and the reply's pointwise mutual "
            f"information, "
            "each in standard deviations over held-out true and false pairs. Undefined for a turn that opens "
            "the conversation.",
        )
        model = self.options.model if self.options else SMOLLM2
        self._pmi = ReplyPmi(model=model, device=self.choose_device("cpu"))
        self.licence = f"{self.licence}; {self._pmi.licence}"
        self.window = max(self.window or 0, self._pmi.window or 0)

    @abstractmethod
    def network_scores(
        self, replies: Sequence[ReplyInContext], shared: TextCache
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return standardised scores (N,) before the sigmoid, and other columns.

        The unit is the standard deviation over held-out pairs.
        """

    @property
    def params(self) -> dict[str, Any]:
        chosen = self.options
        scale = [chosen.pmi_level, chosen.pmi_spread] if chosen else []
        return {**super().params, "pmi": self._pmi.identity.as_dict(), "scale": scale}

    def unavailable_reason(self) -> str | None:
        return super().unavailable_reason() or self._pmi.unavailable_reason()

    def explain(self, reply: ReplyInContext, others: Sequence[ReplyInContext], shared: TextCache) -> Explanation | None:
        """Return both parts, and the explanation of the network's part."""
        if self.lacking(self.seen(reply)) is not None:
            return None
        pmi, network_scores, _extra = self._parts([self.seen(reply)], shared)
        table = declared_table(
            "parts",
            "Parts of the score",
            [("Mutual information", pmi[0]), (self.network, network_scores[0])],
            ("Part", lambda row: Cell(row[0])),
            ("Standard deviations", lambda row: number_cell(float(row[1]))),
            method="The score is their mean. Unit: standard deviations over held-out true and false pairs.",
        )
        network_explanation = super().explain(reply, others, shared) or Explanation()
        return replace(network_explanation, tables=(table, *network_explanation.tables))

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        pmi, scores, extra_scores = self._parts(replies, shared)
        return {f"{self.name}_bot": (scores + pmi) / 2, **extra_scores}

    def _parts(
        self, replies: Sequence[ReplyInContext], shared: TextCache
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Return mutual information and network scores (N,), standardised, and other columns."""
        assert self.options is not None, "called although it is unavailable"
        pmi = self._pmi.scored(replies, shared)["reply_pmi_bot"]
        pmi = (pmi - self.options.pmi_level) / self.options.pmi_spread
        return (pmi, *self.network_scores(replies, shared))
