"""Shared options and output of the commands that score rated replies."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable


def scoring_arguments(parser: ArgumentParser, *, metrics: str, target: str) -> None:
    """Add the metrics, what people judged, and where models compute.

    Args:
        metrics, target: what the help says of these two.
    """
    parser.add_argument("--metrics", required=True, metavar="a,b", help=metrics)
    parser.add_argument("--target", default="", metavar="DIMENSION", help=target)
    parser.add_argument(
        "--device",
        default="cpu",
        help="where models compute for which metrics.yaml says nothing else",
    )


def reply_bar(metric: str) -> Callable[[int, int], None]:
    """Return a callback that shows the number of replies scored; silent without a terminal."""
    from tqdm import tqdm

    bar = tqdm(desc=metric, unit="reply", file=sys.stderr, disable=not sys.stderr.isatty())

    def show(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return show
