"""Cache of computed arrays between runs: word vectors, encoded corpora.

One folder per process, set once by whoever knows the settings (`cache_folder_set`). A cache is a matter
of speed only: a folder that cannot be written costs time, never a result.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from chatbots.archives import DAMAGE
from chatbots.identity import Identity, canonical_json

if TYPE_CHECKING:
    import numpy as np  # imported where arrays are read: every command sets the folder, few read arrays

log = logging.getLogger(__name__)

# Longer than anything here takes to make, so that a process that hangs does not block others for ever.
WAIT_S = 300.0

_folder: Path | None = None


def cache_folder_set(path: Path | str | None) -> None:
    """Keep computed arrays under `path` from now on; None goes back to the default."""
    global _folder
    _folder = None if path is None else Path(path)


def cache_folder() -> Path:
    """Return the folder that was set, or `~/.cache/confab` if none was."""
    return _folder if _folder is not None else Path.home() / ".cache" / "confab"


def arrays_cached(
    identity: Identity, make: Callable[[], Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Return the arrays that `make` would return, from the cache if any process has made them before.

    Of several processes that want them at once, one makes them and the others wait. A reader sees a
    whole file or none.

    Args:
        identity: everything that decides the arrays; equal identities share a file.
        make: computes arrays by name, none of them of Python objects.
    """
    digest = hashlib.sha256(canonical_json(identity.as_dict()).encode()).hexdigest()[:24]
    path = cache_folder() / identity.name / f"{digest}.npz"
    stored = _read(path)
    if stored is not None:
        return stored
    with made_alone(path):
        stored = _read(path)  # another process may have made them while this one waited
        if stored is not None:
            return stored
        arrays = dict(make())
        try:
            _store(path, arrays)
        except OSError as error:
            log.warning(
                "nothing is cached under %s (%s); the next start computes it again", path, error
            )
        return arrays


def _read(path: Path) -> dict[str, np.ndarray] | None:
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        return None
    except DAMAGE as error:
        log.warning("the cached file %s is unreadable and is made again: %s", path, error)
        return None


@contextlib.contextmanager
def made_alone(path: Path) -> Iterator[None]:
    """Keep other processes from making the same file or folder meanwhile; not for ever, and only where
    files can be."""
    lock = FileLock(f"{path}.lock", timeout=WAIT_S)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, Timeout) as error:
        log.info("not waiting for others to make %s: %s", path, error)
    try:
        yield
    finally:
        lock.release()


def _store(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    import numpy as np

    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
