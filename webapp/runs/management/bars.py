"""Progress of scoring replies, as a bar on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable


def reply_bar(metric: str) -> Callable[[int, int], None]:
    """Return what shows how many replies a metric has scored; nothing is shown where no terminal is."""
    from tqdm import tqdm

    bar = tqdm(desc=metric, unit="reply", file=sys.stderr, disable=not sys.stderr.isatty())

    def show(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return show
