"""Threads that keep the context variables of their caller, such as the active project of a request or job.

A bare thread starts with an empty context: what it reads or spends would belong to no project. All threads of Confab
therefore start here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def thread_start(
    work: Callable[[], object], *, name: str, daemon: bool = True, lasting: bool = False
) -> threading.Thread:
    """Start and return a thread that does the work in a copy of the caller's context.

    Args:
        daemon: the process does not wait for the thread when it ends.
        lasting: the thread serves many callers, so it starts with an empty context.
    """
    context = Context() if lasting else copy_context()
    thread = threading.Thread(target=context.run, args=(work,), name=name, daemon=daemon)
    thread.start()
    return thread


class ContextPool(ThreadPoolExecutor):
    """Thread pool in which each call runs in a copy of its caller's context."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """See `ThreadPoolExecutor.submit`."""
        return super().submit(copy_context().run, partial(fn, *args, **kwargs))
