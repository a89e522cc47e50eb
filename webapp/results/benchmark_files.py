"""Uploaded files in the data folder, named by their digests: judged replies, and judges' choices of pairs."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from evaluation.formats.base import Skipped
from evaluation.items import judged_read
from evaluation.judging_files import judged_file_read
from webapp.core.errors import Refused

_LINES_LOOKED_AT = 50
_NAME = re.compile(r"[0-9a-f]{32}\.(jsonl(\.gz)?|csv)")
OF_JUDGE = ".csv"
"""How the name of a file of a judge's choices ends."""


def benchmark_folder() -> Path:
    """Return the folder of uploaded files, made for its owner alone if need be."""
    folder = Path(settings.DATA_DIR) / "benchmarks"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def benchmark_file(name: str) -> Path | None:
    """Return the path of an uploaded file; None where none has this name."""
    path = benchmark_folder() / name
    return path if is_file_name(name) and path.is_file() else None


def is_file_name(name: str) -> bool:
    """Return True if an uploaded file can have this name."""
    return _NAME.fullmatch(name) is not None


def benchmark_files() -> list[Path]:
    """Return the uploaded files that are here, the newest first."""
    found = [path for path in benchmark_folder().iterdir() if is_file_name(path.name)]
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


def benchmark_file_keep(upload: Path, ending: str) -> str:
    """Keep an uploaded file of judged items under the name of its digest, and return that.

    Raises:
        Refused: no judged reply is among its first lines, with what is wrong with the first.
    """
    mistake = ""
    for number, one in enumerate(judged_read(upload)):
        if not isinstance(one, Skipped) and one.dimensions:
            break
        if isinstance(one, Skipped) and not mistake:
            mistake = f"line {one.line}: {one.reason}"
        if number + 1 == _LINES_LOOKED_AT:
            raise Refused("not_judged", _not_judged(mistake))
    else:
        raise Refused("not_judged", _not_judged(mistake))
    return _keep(upload, ending)


def judged_file_keep(upload: Path) -> str:
    """Keep an uploaded file of a judge's choices between two replies under the name of its digest, and return that.

    Raises:
        Refused: it is another kind of file, of several judges, or holds no pair.
    """
    try:
        read = judged_file_read(upload)
    except (ValueError, UnicodeDecodeError) as error:
        told = str(error).replace(str(upload), str(_("the file")))
        raise Refused("not_judged", told) from error
    if not read.pairs:
        raise Refused("not_judged", str(_("The file holds no pair that a judge judged.")))
    return _keep(upload, OF_JUDGE)


def _keep(upload: Path, ending: str) -> str:
    content = upload.read_bytes()
    name = f"{hashlib.sha256(content).hexdigest()[:32]}{ending}"
    (benchmark_folder() / name).write_bytes(content)
    return name


def _not_judged(mistake: str) -> str:
    told = str(_("There is no judged reply in its first lines."))
    return f"{told} {mistake}".strip()
