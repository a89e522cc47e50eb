"""Checkpoint folders with a manifest, of dialogue models and of learned metrics.

Each is written whole or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from chatbots.storable import quote

if TYPE_CHECKING:
    from torch import Tensor, nn

MANIFEST, WEIGHTS = "manifest.json", "model.safetensors"
TRAINING_LOCK = ".lock"
"""In the folder of a training, from its beginning on: whoever trains there holds it."""

DTYPES = {"float32": "F32", "float16": "F16"}
"""Precisions of stored weights, and what safetensors calls them."""


class CheckpointError(Exception):
    """Error in a checkpoint that cannot be read; the message names it and the reason."""


class Digested(Protocol):
    """A manifest: a dataclass that knows the digest of what decides."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def digest(self) -> str: ...


M = TypeVar("M", bound=Digested)


@contextmanager
def folder_written(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to write into; at the end it replaces `folder`, flushed to the disk, never half."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        beside.chmod(0o755)  # mkdtemp gives access to the owner alone
        yield beside
        for path in beside.iterdir():
            path.chmod(0o644)
            _flush(path)
        _put_in_place(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def manifest_write(folder: Path, manifest: Digested, format: int | str) -> None:
    """Write a manifest with its format and digest into a folder."""
    values = {"format": format, "digest": manifest.digest, **asdict(manifest)}
    text = json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def manifest_read(path: Path, kind: type[M], format: int | str) -> M:
    """Read a manifest and check it.

    Raises:
        CheckpointError: it is cut off, of another format or version, or was changed.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} is cut off or no JSON: {error}") from error
    if not isinstance(values, dict) or values.get("format") != format:
        found = values.get("format") if isinstance(values, dict) else None
        raise CheckpointError(
            f"{path} has format {quote(found)}; this version of Confab reads format {quote(format)}"
        )
    digest = values.get("digest")
    values = {key: value for key, value in values.items() if key not in ("format", "digest")}
    if wrong := sorted({f.name for f in fields(kind)} ^ set(values)):
        raise CheckpointError(f"{path} has the keys of another version: {', '.join(wrong)} differ")
    # JSON knows lists alone.
    manifest = kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
    if manifest.digest != digest:
        raise CheckpointError(f"{path} was changed: its digest is {manifest.digest}, not {digest}")
    return manifest


def tensors_stored(
    parameters: Iterable[tuple[str, nn.Parameter]], dtype: str
) -> Mapping[str, Tensor]:
    """Return parameters by name as they are stored, in this precision.

    Raises:
        ValueError: an unknown precision, or a number that is not finite in it.
    """
    import torch

    if dtype not in DTYPES:
        raise ValueError(f"dtype is {quote(dtype)}; it must be {' or '.join(DTYPES)}")
    stored = {}
    for name, parameter in parameters:
        tensor = parameter.detach().to("cpu", getattr(torch, dtype)).contiguous()
        if not bool(tensor.isfinite().all()):
            raise ValueError(f"{name} has numbers that are not finite in {dtype}")
        stored[name] = tensor
    return stored


def _put_in_place(beside: Path, folder: Path) -> None:
    """Rename a finished folder to its place; a folder that is there is renamed away first."""
    if not folder.exists():
        beside.rename(folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
    folder.rename(old)
    beside.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _flush(path: Path) -> None:
    """Have the bytes on the disk before the folder's name says that they are."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
