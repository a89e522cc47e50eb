"""Reading published weight files without running what is in them."""

from __future__ import annotations

import hashlib
import pickle
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from chatbots.encoders.sentence import EncoderError

if TYPE_CHECKING:
    from torch import Tensor


def weights_read(path: Path) -> dict[str, Tensor]:
    """Read tensors by name from a `.safetensors` file, or from a PyTorch file that holds tensors alone.

    PyTorch's files are pickles; torch's restricted unpickler refuses whatever is no tensor, so nothing in
    the file can run.

    Raises:
        EncoderError: if the file is broken or holds anything else.
    """
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        import torch

        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged archives fail in as many ways as there are bytes
        kind = (
            "holds more than tensors and was not run"
            if isinstance(error, pickle.UnpicklingError)
            else "is damaged"
        )
        raise EncoderError(f"{path} {kind}: {str(error).splitlines()[0]}") from error
    if not isinstance(found, dict) or not all(
        hasattr(tensor, "shape") for tensor in found.values()
    ):
        raise EncoderError(f"{path} holds no tensors by name, but {type(found).__name__}")
    return dict(found)


def file_sha256(path: Path) -> str | None:
    """Return the digest of a file, read once as long as it does not change; None where there is none."""
    try:
        stamp = path.stat()
    except FileNotFoundError:
        return None
    return _sha256(path, stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=64)
def _sha256(path: Path, mtime_ns: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
