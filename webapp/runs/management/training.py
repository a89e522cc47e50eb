"""Shared options of the commands that train."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from django.conf import settings


def training_arguments(parser: ArgumentParser, *, folder: str, holds: str) -> None:
    """Add the config and where its data, its result and what is shipped of it lie.

    Args:
        folder: where trainings lie in the data folder unless something else is said.
        holds: what `--output` says of that folder.
    """
    parser.add_argument("config", type=Path, metavar="CONFIG", help="a YAML file")
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="of the corpora; the config's own if not given"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        default=Path(settings.DATA_DIR) / folder,
        help=holds,
    )
    parser.add_argument("--restart", action="store_true", help="begin anew")
    parser.add_argument(
        "--ship",
        type=Path,
        metavar="FOLDER",
        help="afterwards write it there in half precision, in a folder of its name, with a model card",
    )
    parser.add_argument(
        "--enqueue",
        action="store_true",
        help="as a job: a worker that has the same folders trains, and has time for nothing else meanwhile",
    )
