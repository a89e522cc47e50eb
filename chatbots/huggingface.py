"""Transformers models: finding, identifying and loading them.

Used by bots, encoders and metrics. Reports missing files, identifies models by digest, and suppresses the library's
output while loading. Importing this loads no torch; `load_pretrained` does.

Bots are loaded in separate threads. If two of them import transformers at the same time, one may see it partially
initialised ("cannot import name …"). So the first import of transformers, or of a package that imports it, holds
`import_lock`. transformers imports most of its parts lazily, long after its own import; `transformers_module` imports
them at once.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import_lock = threading.RLock()


def transformers_module() -> Any:
    """Import transformers and its lazily imported dependencies, such as accelerate."""
    with import_lock:
        import transformers
        import transformers.modeling_utils
    return transformers


_lock = threading.RLock()


@contextmanager
def quiet_loading(*loggers: str) -> Iterator[None]:
    """Suppress transformers' progress bars, load reports and the loggers' warnings.

    Previous settings are restored. One thread at a time, because the settings are global.
    """
    with import_lock:
        from transformers.utils import logging as transformers_logging

    with _lock:
        verbosity = transformers_logging.get_verbosity()
        bars = transformers_logging.is_progress_bar_enabled()
        levels = {name: logging.getLogger(name).level for name in loggers}
        try:
            transformers_logging.set_verbosity_error()
            transformers_logging.disable_progress_bar()
            for name in loggers:
                logging.getLogger(name).setLevel(logging.ERROR)
            yield
        finally:
            transformers_logging.set_verbosity(verbosity)
            if bars:
                transformers_logging.enable_progress_bar()
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)


_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "spiece.model")
_CONFIG_FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
_DOWNLOADED = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")
SAFE_LOADING: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
"""Arguments of `from_pretrained`: no download, no code from the model's folder."""
_N_PROBES = 16
_PROBE_BYTES = 4096


def find_model(model: str, revision: str | None = None) -> Path | None:
    """Return a model's folder, local or in the Hugging Face cache, or None."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if not _HUB_ID.fullmatch(model):
        return None
    from huggingface_hub import try_to_load_from_cache

    try:
        config = try_to_load_from_cache(model, "config.json", revision=revision)
    except ValueError:  # not a valid hub id
        return None
    return Path(config).parent if isinstance(config, str) else None


_LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")


def cached_language_models() -> list[str]:
    """Return the ids of the complete language models in the Hugging Face cache, sorted.

    Nothing is downloaded.
    """
    from huggingface_hub import constants

    folders = Path(constants.HF_HUB_CACHE).glob("models--*")
    names = sorted(folder.name.removeprefix("models--").replace("--", "/") for folder in folders)
    return [
        name
        for name in names
        if _HUB_ID.fullmatch(name)
        and missing_reason(name, None, allow_download=False) is None
        and _is_language_model(find_model(name))
    ]


def _is_language_model(folder: Path | None) -> bool:
    if folder is None:
        return False
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    architectures = config.get("architectures") if isinstance(config, dict) else None
    return any(str(name).endswith(_LANGUAGE_MODELS) for name in architectures or ())


def is_local(model: str) -> bool:
    """Return True if `model` is a local folder, not a hub id."""
    return Path(model).expanduser().is_dir() or not _HUB_ID.fullmatch(model)


def missing_reason(model: str, revision: str | None, *, allow_download: bool, has_option: bool = True) -> str | None:
    """Explain why a model cannot be loaded and how to fix it, or return None.

    Args:
        has_option: True if its entry has an option `allow_download`.
    """
    folder = find_model(model, revision)
    if folder is not None:
        if reason := _unusable_reason(folder):
            return reason
        reason = _incomplete_reason(folder)
        if reason is None or is_local(model):
            return reason
    if (file := Path(model).expanduser()).is_file():
        kind = "; set `kind: gguf`" if file.suffix == ".gguf" else ", not the folder of a transformers model"
        return f"{model!r} is a file{kind}"
    if is_local(model):
        return f"there is no folder {model!r}; put the model there or correct the path"
    if allow_download:
        from huggingface_hub import constants

        if not constants.HF_HUB_OFFLINE:
            return None
        return f"{model!r} is not downloaded yet, and HF_HUB_OFFLINE forbids downloads; unset this variable"
    revision_option = f" --revision {revision}" if revision else ""
    return (
        f"there is no folder {model!r} and no complete copy of this model in the Hugging Face cache; run "
        f"`hf download {model}{revision_option}` while online"
        + (", or set `allow_download: true`" if has_option else "")
    )


def fetch_model(model: str, revision: str | None, *, allow_download: bool) -> Path:
    """Return the complete folder of a model, downloading it if allowed.

    Raises:
        OSError: the model is missing and cannot be downloaded.
    """
    folder = find_model(model, revision)
    if folder is not None and _incomplete_reason(folder) is None:
        return folder
    reason = missing_reason(model, revision, allow_download=allow_download)
    if reason is not None:
        raise OSError(reason)
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(model, revision=revision, allow_patterns=list(_DOWNLOADED)))


def model_digest(folder: Path) -> str:
    """Return 16 hexadecimal digits that identify a model, without reading all weights.

    The digest covers all bytes of the configuration and tokenizer files. Of each weight file it covers the
    size, the header (names, types and shapes of all tensors) and 16 blocks of 4 KiB spread over the file, which
    differ between two checkpoints of the same training.
    """
    files = [folder / name for name in _CONFIG_FILES]
    files = sorted({*(f for f in files if f.is_file()), *folder.glob("*.safetensors")})
    stamps = tuple((str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files)
    return _digest(stamps)


def model_known_by(model: str, revision: str | None = None) -> dict[str, Any]:
    """Return a model's part of an identity: its name and digest.

    A folder is identified by its name and content, not by its path.
    """
    folder = find_model(model, revision)
    return {
        "model": folder.resolve().name if folder and is_local(model) else model,
        "digest": model_digest(folder) if folder else None,
    }


def n_weights(folder: Path) -> int:
    """Return the number of weights in safetensors files, from their headers."""
    n = 0
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        n += sum(math.prod(t["shape"]) for name, t in header.items() if name != "__metadata__")
    return n


@lru_cache(maxsize=256)
def _digest(stamps: tuple[tuple[str, int, int], ...]) -> str:
    """Return a digest of files, cached by name, size and modification time."""
    digest = hashlib.sha256()
    for name, size, _ in stamps:
        path = Path(name)
        digest.update(f"{path.name}:{size}:".encode())
        digest.update(_sample(path, size) if path.suffix == ".safetensors" else path.read_bytes())
    return digest.hexdigest()[:16]


def _sample(path: Path, size: int) -> bytes:
    """Read the header and evenly spaced blocks of a safetensors file."""
    with path.open("rb") as file:
        length = file.read(8)
        n_header = min(int.from_bytes(length, "little"), size)
        parts = [length, file.read(n_header)]
        for i in range(_N_PROBES):
            position = 8 + n_header + i * (size - 8 - n_header) // _N_PROBES
            file.seek(min(max(position, 0), size))
            parts.append(file.read(_PROBE_BYTES))
    return b"".join(parts)


_LFS_POINTER = b"version https://git-lfs"


def lfs_pointer_reason(path: Path) -> str | None:
    """Explain that a file is a Git LFS pointer, or return None.

    A clone without Git LFS leaves pointers instead of the files.
    """
    with path.open("rb") as file:
        if file.read(len(_LFS_POINTER)) != _LFS_POINTER:
            return None
    return f"{path} is a Git LFS pointer; fetch the file itself (`git lfs pull`, or `hf download`)"


def _unusable_reason(folder: Path) -> str | None:
    """Explain why this folder can never become a usable model, or return None."""
    for path in sorted(folder.glob("*")):
        if path.is_file() and path.stat().st_size < _PROBE_BYTES and (reason := lfs_pointer_reason(path)):
            return reason
    weights = {path.name for path in folder.glob("*.safetensors")}
    if (folder / "adapter_config.json").is_file() and weights <= {"adapter_model.safetensors"}:
        return (
            f"{folder} contains an adapter; merge it into its base model (peft: `merge_and_unload`) and name the "
            "folder "
            "of the merged model"
        )
    if not weights and (files := sorted(folder.glob("*.gguf"))):
        return f"{folder} contains {files[0].name}; set `kind: gguf` and name that file"
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if isinstance(config, dict) and config.get("auto_map") and not _is_known_type(str(config.get("model_type", ""))):
        return f"{folder} {NEEDS_CODE}"
    return None


NEEDS_CODE = "needs custom code, which Confab never runs; use a model type of transformers, or an endpoint"


def _is_known_type(model_type: str) -> bool:
    """Return True if transformers has code for this model type, without importing it."""
    spec = find_spec("transformers")
    if spec is None or spec.origin is None:
        return True
    return (Path(spec.origin).parent / "models" / model_type.replace("-", "_")).is_dir()


def _incomplete_reason(folder: Path) -> str | None:
    if not (folder / "config.json").is_file():
        return f"{folder} has no config.json, so it is not the folder of a transformers model"
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        shards = set(json.loads(index.read_text())["weight_map"].values())
        lacking = sorted(name for name in shards if not (folder / name).is_file())
        if lacking:
            return f"{folder} lacks {len(lacking)} of {len(shards)} weight files, the first is {lacking[0]}"
    elif not any(folder.glob("*.safetensors")):
        pickled = any(folder.glob("*.bin"))
        return f"{folder} has no .safetensors weights" + (
            "; its .bin files are not loaded, because they can run code: convert them" if pickled else ""
        )
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        return f"{folder} has no tokenizer file, such as tokenizer.json"
    return None


@dataclass(frozen=True, slots=True)
class LoadedPretrained:
    """Transformers model in evaluation mode on its device, with tokenizer and config."""

    model: Any
    tokenizer: Any
    config: Any
    device: str


def load_pretrained(folder: Path, kind: str | None = None, *, device: str, dtype: str = "auto") -> LoadedPretrained:
    """Load a model from safetensors without downloads or code from its folder.

    Args:
        folder: as returned by `fetch_model` or `find_model`.
        kind: transformers class, such as "AutoModelForSequenceClassification"; None for a language model, with an
            encoder if its configuration says so.
        device: "cpu", "cuda" or "cuda:1".
        dtype: "float32", "bfloat16", …, or "auto" for the dtype of the stored weights.
    """
    transformers = transformers_module()
    import torch

    config = transformers.AutoConfig.from_pretrained(folder, **SAFE_LOADING)
    if kind is None:
        kind = "AutoModelForSeq2SeqLM" if config.is_encoder_decoder else "AutoModelForCausalLM"
    chosen = (config.dtype or "auto") if dtype == "auto" else getattr(torch, dtype)
    with quiet_loading():
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **SAFE_LOADING)
        model = getattr(transformers, kind).from_pretrained(folder, dtype=chosen, use_safetensors=True, **SAFE_LOADING)
    return LoadedPretrained(model.to(device).eval(), tokenizer, config, device)


_OFFSET_POSITIONS = ("roberta", "camembert", "longformer", "mpnet", "data2vec-text")
"""Parts of the names of model types whose first position comes after that of padding."""


def n_positions(config: Any) -> int | None:
    """Return the maximum number of positions of a model, or None if unknown."""
    text_config = config.get_text_config()
    names = ("max_position_embeddings", "n_positions", "n_ctx")
    candidates = (getattr(text_config, name, None) for name in names)
    n = next((n for n in candidates if isinstance(n, int) and n > 0), None)
    if n is not None and any(part in str(text_config.model_type) for part in _OFFSET_POSITIONS):
        n -= (text_config.pad_token_id or 0) + 1
    return n
