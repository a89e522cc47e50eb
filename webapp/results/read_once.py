"""Reading a study once for all results that are made of it one after another, as a report makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from webapp.results.state import data_state
from webapp.results.study_data import StudyData, study_data
from webapp.studies.models import Study


@dataclass(slots=True)
class _Kept:
    """Data that were read last, and their study and its state."""

    of: Any = None
    data: StudyData | None = None


_kept: ContextVar[_Kept | None] = ContextVar("kept", default=None)


@contextmanager
def read_once() -> Iterator[None]:
    """Let `study_read` keep what it reads until the end of the block."""
    token = _kept.set(_Kept())
    try:
        yield
    finally:
        _kept.reset(token)


def study_read(
    study: Study,
    *,
    include_synthetic: bool = False,
    include_failed: bool = False,
    without: Sequence[str] = (),
) -> StudyData | None:
    """Return `study_data`; within `read_once` that which was read before, unless anything has changed since."""
    counted: dict[str, Any] = {
        "include_synthetic": include_synthetic,
        "include_failed": include_failed,
        "without": tuple(without),
    }
    kept = _kept.get()
    if kept is None:
        return study_data(study, **counted)
    # The state is taken before the data are read, so that what comes meanwhile makes it another one.
    of = (counted, data_state(study, ("metrics", "runs"), **counted).digest)
    if kept.of != of:
        kept.of, kept.data = None, None  # not two at a time
        kept.data, kept.of = study_data(study, **counted), of
    return kept.data
