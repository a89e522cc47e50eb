"""Files that are written completely or not at all."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from django.utils.translation import gettext as _

from webapp.core.errors import Refused

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a new file for writing; remove it if writing fails.

    Raises:
        Refused: `disk_full`.
    """
    try:
        with path.open("wb") as handle:
            yield handle
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in _FULL:
            raise Refused(
                "disk_full",
                _(
                    "The file could not be stored: the server's disk is full. Ask your administrator to free some "
                    "space."
                ),
            ) from error
        raise
