"""Thread limits for linear algebra with many small systems."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def with_one_blas_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Limit BLAS to one thread while the function runs.

    Threads that share a small system spin while waiting for each other: a fit of 1.7 s took 10 s of CPU time on two
    threads, and 50 to 73 s on a busy machine.
    """

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> T:
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1, user_api="blas"):
            return function(*args, **kwargs)

    return limited
