"""Option of commands that leaves participants out by their flags: `--without fast,pasted`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable

from webapp.quality.flags.base import flag_kinds
from webapp.quality.selectors import without_read
from webapp.quality.services import flags_ensure
from webapp.studies.models import Study


def without_argument(parser: ArgumentParser) -> None:
    """Add the option that leaves participants out."""
    parser.add_argument(
        "--without",
        default="",
        metavar="a,b",
        help=f"leave out what people with one of these flags did: {', '.join(flag_kinds.names())}",
    )


def without_asked(studies: Iterable[Study], text: str) -> tuple[str, ...]:
    """Return the flags that a command was given, looked for in the studies' data as they are now.

    Raises:
        UnknownName: for a flag that there is not, with the nearest names.
    """
    without = without_read(text)
    if without:
        for study in studies:
            flags_ensure(study=study)
    return without
