"""Loading models without chatter: commands keep standard output and logs for what matters."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from chatbots.imports import import_lock

_lock = threading.RLock()


@contextmanager
def quiet_loading(*loggers: str) -> Iterator[None]:
    """Hold back transformers' progress bars and load reports, and warnings of the named loggers.

    What was set before is restored. One thread at a time: the switches are global.
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
