"""Checkpoint folders with manifests, for dialogue models and learned metrics.

A folder is written atomically, and it is rejected if its files do not match its manifest:

    manifest.json        format, model, config, tokeniser, digests, corpus, code version, metrics, training
    vocabulary.txt       the words, in the order of their ids
    model.safetensors    the weights, in single or half precision; no pickled code anywhere
    ei_pca.safetensors   PCA of the sentence embeddings; only for models that read them (EI, input only)

    checkpoint_write(folder, model, vocabulary, Manifest(tokeniser="words", corpus="9f…", metrics={"ppl": 41.7}))
    model, vocabulary, manifest = checkpoint_load(folder, "cpu")

A manifest is read without torch, so a bot's identity is known before its weights are loaded.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from chatbots.identity import canonical_json
from chatbots.models import catalogue
from chatbots.text import quote

if TYPE_CHECKING:
    from torch import Tensor, nn

    from chatbots.corpora.vocabulary import Vocabulary
    from chatbots.encoders.sentence import PCA
    from chatbots.models.dialogue_model import DialogueModel

MANIFEST_FILE, WEIGHTS_FILE = "manifest.json", "model.safetensors"
TRAINING_LOCK = ".lock"
"""Lock file in a training folder, held by the process that trains there."""

DTYPES = {"float32": "F32", "float16": "F16"}
"""Precisions of stored weights and their safetensors names."""


class CheckpointError(Exception):
    """Error in an unreadable checkpoint; the message names it and the reason."""


class Digested(Protocol):
    """Manifest dataclass with a digest of everything that affects the output."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def digest(self) -> str: ...


CARD = "CARD.md"
"""File that describes a shipped model."""
SHIPPED_MAX_BYTES = 16_000_000
"""Maximum size of a shipped model with all its files, to keep the repository small."""

M = TypeVar("M", bound=Digested)


@contextmanager
def folder_written(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that atomically replaces `folder` at the end.

    Files are flushed to disk first.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    work_folder = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        work_folder.chmod(0o755)  # mkdtemp gives access to the owner only
        yield work_folder
        for path in work_folder.iterdir():
            path.chmod(0o644)
            _flush(path)
        _put_in_place(work_folder, folder)
    finally:
        shutil.rmtree(work_folder, ignore_errors=True)


def manifest_write(folder: Path, manifest: Digested, format: int | str) -> None:
    """Write a manifest with its format and digest into a folder."""
    values = {"format": format, "digest": manifest.digest, **asdict(manifest)}
    text = json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")


def manifest_read(path: Path, kind: type[M], format: int | str) -> M:
    """Read and verify a manifest.

    Raises:
        CheckpointError: it is truncated, modified, or of another format or version.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} is truncated or not JSON: {error}") from error
    if not isinstance(values, dict) or values.get("format") != format:
        found_format = values.get("format") if isinstance(values, dict) else None
        raise CheckpointError(
            f"{path} has format {quote(found_format)}; this version of Confab reads format {quote(format)}"
        )
    digest = values.get("digest")
    values = {key: value for key, value in values.items() if key not in ("format", "digest")}
    if wrong := sorted({f.name for f in fields(kind)} ^ set(values)):
        raise CheckpointError(f"{path} has keys of another version: {', '.join(wrong)} differ")
    # JSON has lists but no tuples.
    manifest = kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
    if manifest.digest != digest:
        raise CheckpointError(f"{path} was changed: its digest is {manifest.digest}, not {digest}")
    return manifest


def tensors_stored(parameters: Iterable[tuple[str, nn.Parameter]], dtype: str) -> Mapping[str, Tensor]:
    """Return parameters by name, converted to the precision of storage.

    Raises:
        ValueError: the precision is unknown, or a number is not finite in it.
    """
    import torch

    if dtype not in DTYPES:
        raise ValueError(f"dtype is {quote(dtype)}; it must be {' or '.join(DTYPES)}")
    stored = {}
    for name, parameter in parameters:
        tensor = parameter.detach().to("cpu", getattr(torch, dtype)).contiguous()
        if not bool(tensor.isfinite().all()):
            raise ValueError(f"{name} contains numbers that are not finite in {dtype}")
        stored[name] = tensor
    return stored


def _put_in_place(work_folder: Path, folder: Path) -> None:
    """Rename a finished folder to its place, after renaming an existing one."""
    if not folder.exists():
        work_folder.rename(folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
    folder.rename(old)
    work_folder.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _flush(path: Path) -> None:
    """Flush a file to disk before its folder gets its final name."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


CHECKPOINT_FORMAT = 1
"""Format number; increase it when older code cannot read new checkpoints, or new code older ones."""

VOCABULARY_FILE = "vocabulary.txt"

TRAINING_HEADS = ("ei", "bow")
"""Training-only parts: attributes of models, None if absent."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Manifest of a checkpoint.

    The trainer sets the first five attributes; `checkpoint_write` sets the others.

    Attributes:
        tokeniser: name of the tokeniser (`chatbots.corpora.vocabulary`).
        corpus: digest of the training corpus.
        metrics: metrics on held-out text; None for undefined values.
        training: other facts about the training: config, epochs, date, licence of the data.
        title: display name.
        model, config: as `chatbots.models.catalogue` reads them.
        dtype: precision of the weights: "float32" or "float16".
        dropped_heads: omitted training-only parts, from "ei" and "bow".
        code_version: digest of the code of the models when it was written.
        vocabulary_sha256, weights_sha256, weights_bytes: digests and size of the files.
    """

    tokeniser: str
    corpus: str
    metrics: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    model: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    dropped_heads: tuple[str, ...] = ()
    code_version: str = ""
    vocabulary_sha256: str = ""
    weights_sha256: str = ""
    weights_bytes: int = 0

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over everything that affects the model's output."""
        decisive = {
            "format": CHECKPOINT_FORMAT,
            "model": self.model,
            "config": dict(self.config),
            "tokeniser": self.tokeniser,
            "vocabulary": self.vocabulary_sha256,
            "weights": self.weights_sha256,
        }
        return hashlib.sha256(canonical_json(decisive).encode()).hexdigest()[:16]


def checkpoint_write(
    folder: Path | str,
    model: DialogueModel,
    vocabulary: Vocabulary,
    manifest: Manifest,
    dtype: str = "float32",
    drop_heads: bool = False,
    ei_pca: PCA | None = None,
) -> Manifest:
    """Write a checkpoint atomically, replacing an existing one.

    Args:
        model: on any device, in any mode.
        dtype: precision of the stored weights: "float32" or "float16".
        drop_heads: omit training-only parts (EI heads, bag of words).
        ei_pca: PCA of a model that reads sentence embeddings, stored in the folder.

    Returns:
        The manifest as written.

    Raises:
        ValueError: the precision is unknown, the vocabulary's size differs from the model's, the manifest contains
        NaN, or weights exceed the range of half precision.
    """
    from safetensors.torch import save_file

    config = catalogue.config_write(model.config)  # type: ignore[arg-type]
    if len(vocabulary) != config["V"]:
        raise ValueError(f"the vocabulary has {len(vocabulary)} words; the model's V is {config['V']}")
    dropped = tuple(h for h in TRAINING_HEADS if drop_heads and getattr(model, h, None) is not None)
    # By name; each parameter appears once, even if several parts of the model share it.
    parameters = (parameter for parameter in model.named_parameters() if parameter[0].partition(".")[0] not in dropped)
    with folder_written(Path(folder)) as work_folder:
        save_file(dict(tensors_stored(parameters, dtype)), work_folder / WEIGHTS_FILE)
        vocabulary.write(work_folder / VOCABULARY_FILE)
        if ei_pca is not None:
            ei_pca.write(work_folder)
        manifest = replace(
            manifest,
            model=catalogue.model_name(model.config),
            config=config,
            dtype=dtype,
            dropped_heads=dropped,
            code_version=code_version(),
            vocabulary_sha256=_sha256(work_folder / VOCABULARY_FILE),
            weights_sha256=_sha256(work_folder / WEIGHTS_FILE),
            weights_bytes=(work_folder / WEIGHTS_FILE).stat().st_size,
        )
        manifest_write(work_folder, manifest, CHECKPOINT_FORMAT)
    return manifest


def checkpoint_manifest(folder: Path | str) -> Manifest:
    """Read a checkpoint's manifest; neither its weights nor torch are loaded.

    Raises:
        CheckpointError: the manifest is missing, truncated, modified or of another format.
    """
    path = Path(folder) / MANIFEST_FILE
    try:
        stat = path.stat()
    except OSError:
        raise CheckpointError(f"{folder} has no {MANIFEST_FILE}, so it is not a checkpoint") from None
    return _manifest(path, stat.st_mtime_ns, stat.st_size)


def missing_reason(folder: Path | str) -> str | None:
    """Explain why a checkpoint cannot be loaded, or return None.

    Does not read the weights.
    """
    try:
        _check_weights_size(Path(folder), checkpoint_manifest(folder))
    except CheckpointError as error:
        return str(error)
    if not (Path(folder) / VOCABULARY_FILE).is_file():
        return f"{folder} has no {VOCABULARY_FILE}"
    return None


def checkpoint_load(
    folder: Path | str, device: str = "cpu", *, share: bool = False
) -> tuple[DialogueModel, Vocabulary, Manifest]:
    """Load the model (evaluation mode, single precision), vocabulary and manifest.

    Args:
        device: device of the weights.
        share: reuse byte-identical tensors of models loaded earlier with `share`, so that equal embeddings use memory
            only once. For generation only: training one such model would change the others.

    Raises:
        CheckpointError: a file is missing, truncated or modified, or its tensors do not fit the config.
    """
    import torch

    from chatbots.corpora.vocabulary import Vocabulary

    folder = Path(folder)
    manifest = checkpoint_manifest(folder)
    _check_weights_size(folder, manifest)
    _check_digest(folder / WEIGHTS_FILE, manifest.weights_sha256)
    _check_digest(folder / VOCABULARY_FILE, manifest.vocabulary_sha256)
    try:
        config = catalogue.config_read(manifest.model, manifest.config)
        vocabulary = Vocabulary.read(folder / VOCABULARY_FILE)
    except ValueError as error:
        raise CheckpointError(f"{folder} cannot be used: {error}") from error
    if len(vocabulary) != config.V:
        raise CheckpointError(f"{folder} has a vocabulary of {len(vocabulary)} words for a model of {config.V}")
    with torch.device("meta"):  # no memory is allocated: the values come from the file
        model = catalogue.model_class(manifest.model)(config)
    for head in manifest.dropped_heads:
        setattr(model, head, None)
    _fill(model, folder / WEIGHTS_FILE, torch.device(device), share)
    return model.eval(), vocabulary, manifest


@lru_cache(maxsize=1)
def code_version() -> str:
    """Return 12 hexadecimal digits over the code of the models.

    Comments, docstrings and formatting do not affect them.
    """
    digest = hashlib.sha256()
    for path in sorted((Path(__file__).parent / "models").glob("*.py")):
        digest.update(f"{path.name}\0{_code(path.read_text(encoding='utf-8'))}".encode())
    return digest.hexdigest()[:12]


def _code(source: str) -> str:
    """Normalise Python code without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        # A bare string has no effect, whether it is a docstring or documents a constant.
        statements = [
            line
            for line in body
            if not (
                isinstance(line, ast.Expr)
                and isinstance(line.value, ast.Constant)
                and isinstance(line.value.value, str)
            )
        ]
        node.body = statements or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)


@lru_cache(maxsize=256)
def _manifest(path: Path, mtime_ns: int, size: int) -> Manifest:
    """Read and check a manifest.

    The result is cached; modification time and size are part of the key.
    """
    manifest = manifest_read(path, Manifest, CHECKPOINT_FORMAT)
    if not set(manifest.dropped_heads) <= set(TRAINING_HEADS):
        raise CheckpointError(f"{path}: dropped_heads may contain only {', '.join(TRAINING_HEADS)}")
    return manifest


def _check_weights_size(folder: Path, manifest: Manifest) -> None:
    path = folder / WEIGHTS_FILE
    if not path.is_file():
        raise CheckpointError(f"{folder} has no weights ({WEIGHTS_FILE})")
    size = path.stat().st_size
    if size != manifest.weights_bytes:
        cut = "cut off" if size < manifest.weights_bytes else "of another checkpoint"
        raise CheckpointError(f"{path} is {cut}: {size} bytes, not {manifest.weights_bytes}")


def _check_digest(path: Path, expected: str) -> None:
    if not path.is_file():
        raise CheckpointError(f"{path.parent} has no {path.name}")
    digest = _sha256(path)
    if digest != expected:
        raise CheckpointError(f"{path} was changed: its SHA-256 is {digest[:12]}…, the manifest's {expected[:12]}…")


def _fill(model: DialogueModel, path: Path, device: Any, share: bool) -> None:
    """Load a file's weights into a model on the meta device."""
    from safetensors import SafetensorError, safe_open

    empty = dict(model.named_parameters())
    try:
        with safe_open(path, framework="pt") as file:
            names = set(file.keys())
            if wrong := sorted(names ^ set(empty)):
                which = "lacks" if wrong[0] in empty else "has the unexpected tensor"
                raise CheckpointError(f"{path} {which} {wrong[0]}")
            for name, parameter in empty.items():
                stored = file.get_tensor(name)
                if stored.shape != parameter.shape:
                    raise CheckpointError(
                        f"{path}: {name} has shape {tuple(stored.shape)}; the config makes it {tuple(parameter.shape)}"
                    )
                part, _, last = name.rpartition(".")
                setattr(model.get_submodule(part), last, _parameter(stored, device, share))
    except SafetensorError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error


_shared: Any = None
"""Weak references to parameters of loaded models, by digest and device; created with torch."""


def _parameter(stored: Tensor, device: Any, share: bool) -> Any:
    import weakref

    import torch

    global _shared
    if _shared is None:
        _shared = weakref.WeakValueDictionary()

    def make() -> Any:
        # Always a copy: a model in training must not be backed by the file's pages.
        tensor = stored.to(device, torch.float32, copy=True)
        return torch.nn.Parameter(tensor, requires_grad=not share)

    if not share:
        return make()
    raw = stored.contiguous().flatten().view(torch.uint8).numpy()
    key = (hashlib.sha256(raw.data).hexdigest(), stored.dtype, tuple(stored.shape), str(device))
    parameter = _shared.get(key)
    if parameter is None:
        parameter = _shared[key] = make()
    return parameter


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
