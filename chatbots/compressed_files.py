"""Damage of compressed files (zip, gzip), reported as a single error type.

The readers of these formats raise a dozen types of errors for it.
"""

from __future__ import annotations

import errno
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DAMAGE_ERRORS = (
    EOFError,
    IndexError,
    MemoryError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""Errors of readers for damaged bytes, besides the `OSError` and `RuntimeError` handled in `damage_as_error`."""
_OF_BYTES = {None, errno.EINVAL, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST}
"""`errno` values caused by a wrong size, offset or name in an archive; others come from the disk."""
_ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")


@contextmanager
def damage_as_error(name: str, error: type[ValueError], kind: str = "zip") -> Iterator[None]:
    """Convert errors of a damaged compressed file to the caller's error type.

    Args:
        name: the file's name for the message.
        error: type of the raised error; errors of this type pass unchanged.
    """
    try:
        yield
    except (error, RecursionError):
        raise
    except DAMAGE_ERRORS as damage:
        if isinstance(damage, OSError) and damage.errno not in _OF_BYTES:
            raise
        if isinstance(damage, NotImplementedError):
            problem = f"is a {kind} that cannot be read here, or a damaged one"
        elif isinstance(damage, RuntimeError):
            problem = f"is an encrypted {kind}, or a damaged one; create it again without a password"
        else:
            problem = f"is a damaged {kind}; copy or download it again"
        raise error(f"{name} {problem}") from damage


def is_zip(path: Path) -> bool:
    """Return True if a file is a zip, even a damaged or truncated one."""
    with path.open("rb") as file:
        begins_so = file.read(4) in _ZIP_MAGICS
    return begins_so or zipfile.is_zipfile(path)


def is_gzip(path: Path) -> bool:
    """Return True if the file begins like a gzip file."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"
