"""Checkpoints of learned metrics: a folder with a manifest.

Checkpoints whose files do not match the manifest are rejected.

    manifest.json        format, metric, config, digests, training data and results
    model.safetensors    the learned weights, in single or half precision; nothing is pickled
    …                    other files needed for scoring, such as a vocabulary or counts

Manifests are read without torch, so a metric can be identified without loading weights. A frozen encoder's weights are
not stored: the config names the encoder, and its digest is compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatbots.checkpoints import (
    MANIFEST_FILE,
    TRAINING_LOCK,
    WEIGHTS_FILE,
    CheckpointError,
    folder_written,
    manifest_read,
    manifest_write,
    tensors_stored,
)
from chatbots.identity import canonical_json
from evaluation.training.config import MetricTrainingConfig, config_again

if TYPE_CHECKING:
    from torch import nn

FORMAT = "metric 1"
CONCEPTNET = "conceptnet"
"""Folder next to the shipped checkpoints for ConceptNet's triples, which are under CC BY-SA 4.0, unlike the weights."""


@dataclass(frozen=True, kw_only=True)
class MetricManifest:
    """Manifest of a checkpoint.

    Attributes:
        metric, version: the learned metric.
        config: complete training config.
        decisive: part of the config that determines the weights.
        backbone: identity of the encoder of text.
        data: digest of the examples.
        facts: further facts about the examples.
        metrics: results on held-out examples; None if undefined.
        training: steps, epochs, seconds.
        title: readable name.
        dtype: precision of the stored weights.
        files: SHA-256 of every other file, by name.
        weights_bytes: size of the weights file.
    """

    metric: str
    version: str
    config: Mapping[str, Any]
    decisive: Mapping[str, Any]
    backbone: Mapping[str, Any]
    data: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    dtype: str = "float32"
    files: Mapping[str, str] = field(default_factory=dict)
    weights_bytes: int = 0

    @property
    def digest(self) -> str:
        """Digest of everything that determines a score, 16 hexadecimal digits."""
        decisive = {
            "format": FORMAT,
            "metric": [self.metric, self.version],
            "config": dict(self.decisive),
            "backbone": dict(self.backbone),
            "files": dict(self.files),
        }
        return hashlib.sha256(canonical_json(decisive).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Checkpoint:
    """Checkpoint folder with its parsed manifest."""

    folder: Path
    manifest: MetricManifest

    @property
    def config(self) -> MetricTrainingConfig:
        """Training config."""
        return config_again(self.manifest.config)

    def file(self, name: str) -> bytes:
        """Return the contents of a file.

        Raises:
            CheckpointError: if the file is missing or was changed.
        """
        path = _place(self.folder, name)
        if name not in self.manifest.files or not path.is_file():
            raise CheckpointError(f"{self.folder} has no {name}")
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if digest != self.manifest.files[name]:
            raise CheckpointError(
                f"{path} was changed: its SHA-256 is {digest[:12]}…, the manifest's {self.manifest.files[name][:12]}…"
            )
        return content


def checkpoint_write(
    folder: Path, network: nn.Module, manifest: MetricManifest, files: Mapping[str, bytes], dtype: str = "float32"
) -> MetricManifest:
    """Write a checkpoint, replacing an existing one atomically.

    It is written to a temporary folder next to it, which is then renamed.

    Args:
        network: only trainable parameters are stored.
        files: other files needed for scoring.
        dtype: precision of the stored weights: "float32" or "float16".

    Returns:
        The manifest as written.

    Raises:
        ValueError: if the precision is unknown or a weight is not finite in it.
    """
    from safetensors.torch import save

    learning = ((name, parameter) for name, parameter in network.named_parameters() if parameter.requires_grad)
    contents = {WEIGHTS_FILE: save(dict(tensors_stored(learning, dtype))), **files}
    written = replace(
        manifest,
        dtype=dtype,
        files={n: hashlib.sha256(c).hexdigest() for n, c in sorted(contents.items())},
        weights_bytes=len(contents[WEIGHTS_FILE]),
    )
    with folder_written(folder) as work_folder:
        for name, content in contents.items():
            (work_folder / name).write_bytes(content)
        manifest_write(work_folder, written, FORMAT)
    return written


def checkpoint_read(folder: Path | str) -> Checkpoint:
    """Read a checkpoint's manifest without loading weights or torch.

    The folder or its subfolder `best` contains the manifest.

    Raises:
        CheckpointError: if the manifest is missing, truncated, changed or in another format.
    """
    folder = Path(folder).expanduser()
    if not (folder / MANIFEST_FILE).is_file() and (folder / "best" / MANIFEST_FILE).is_file():
        folder = folder / "best"
    path = folder / MANIFEST_FILE
    try:
        stamp = path.stat()
    except OSError:
        raise CheckpointError(f"{folder} has no {MANIFEST_FILE}, so it is not a checkpoint") from None
    return Checkpoint(folder, _manifest(path, stamp.st_mtime_ns, stamp.st_size))


def checkpoint_awaited(folder: Path) -> bool:
    """Return True if a training has started but has no checkpoint yet."""
    has_lock = (folder / TRAINING_LOCK).exists()
    return has_lock and not any((folder / name / MANIFEST_FILE).is_file() for name in ("", "best"))


def checkpoint_missing(folder: Path | str) -> str | None:
    """Explain why a checkpoint cannot be loaded, or return None; does not read weights."""
    try:
        checkpoint = checkpoint_read(folder)
        for name in checkpoint.manifest.files:
            if not _place(checkpoint.folder, name).is_file():
                return f"{checkpoint.folder} has no {name}"
        size = (checkpoint.folder / WEIGHTS_FILE).stat().st_size
    except CheckpointError as error:
        return str(error)
    if size != checkpoint.manifest.weights_bytes:
        return f"{checkpoint.folder / WEIGHTS_FILE} is truncated: {size} of {checkpoint.manifest.weights_bytes} bytes"
    return None


def weights_fill(network: nn.Module, checkpoint: Checkpoint) -> None:
    """Load the stored weights into a network.

    Raises:
        CheckpointError: if the file is damaged or its tensors do not match the network.
    """
    for name, stored, parameter in _fitting(network, checkpoint):
        if stored.shape != parameter.shape:
            raise CheckpointError(
                f"{checkpoint.folder}: {name} has shape {tuple(stored.shape)}; the config requires "
                f"{tuple(parameter.shape)}"
            )
        parameter.data.copy_(stored)


def weights_take_over(network: nn.Module, checkpoint: Checkpoint) -> int:
    """Copy stored tensors that match in name and shape; return their number."""
    from safetensors.torch import load

    stored = load(checkpoint.file(WEIGHTS_FILE))
    n = 0
    for name, parameter in network.named_parameters():
        if name in stored and stored[name].shape == parameter.shape:
            parameter.data.copy_(stored[name])
            n += 1
    return n


def _fitting(network: nn.Module, checkpoint: Checkpoint) -> list[tuple[str, Any, Any]]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        stored = load(checkpoint.file(WEIGHTS_FILE))
    except SafetensorError as error:
        raise CheckpointError(f"{checkpoint.folder / WEIGHTS_FILE} is damaged: {error}") from error
    learning = {n: p for n, p in network.named_parameters() if p.requires_grad}
    if wrong := sorted(set(stored) ^ set(learning)):
        which = "lacks" if wrong[0] in learning else "has the unexpected tensor"
        raise CheckpointError(f"{checkpoint.folder / WEIGHTS_FILE} {which} {wrong[0]}")
    return [(name, stored[name], parameter) for name, parameter in learning.items()]


def _place(folder: Path, name: str) -> Path:
    """Return the path of a checkpoint's file.

    Files under ConceptNet's licence are in `conceptnet`, next to the checkpoint.
    """
    conceptnet_path = folder.parent / CONCEPTNET / name
    return conceptnet_path if conceptnet_path.is_file() and not (folder / name).is_file() else folder / name


@lru_cache(maxsize=256)
def _manifest(path: Path, mtime_ns: int, size: int) -> MetricManifest:
    """Read and validate a manifest.

    Modification time and size are arguments so that a changed file misses the cache.
    """
    return manifest_read(path, MetricManifest, FORMAT)
