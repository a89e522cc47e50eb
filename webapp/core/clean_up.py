"""Clean-up outside the database that a transaction promises.

An example is removing files after an erasure.

The promise is a row of the same transaction. The clean-up runs right after the commit; if it fails or the process is
killed, a worker repeats it until it is done. Clean-ups are idempotent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import F

from webapp.core.clock import database_now
from webapp.core.models import CleanUp

log = logging.getLogger(__name__)

_kinds: dict[str, tuple[Any, Callable[[Any], object]]] = {}


def clean_up_kind(kind: str, title: Any, act: Callable[[Any], object]) -> None:
    """Register the function of a kind of clean-up.

    It gets the row's payload.
    """
    _kinds[kind] = (title, act)


def clean_up_title(kind: str) -> str:
    """Return a kind's title on pages."""
    return str(_kinds[kind][0]) if kind in _kinds else kind


def clean_up_add(kind: str, payload: Any = None, *, using: str = "default") -> CleanUp:
    """Store a promise in the current transaction.

    The caller runs it after the commit.
    """
    return CleanUp.objects.using(using).create(kind=kind, payload=payload)


def clean_up_on_commit(kind: str, payload: Any = None, *, using: str = "default") -> None:
    """Store a promise in the transaction, and keep it after the commit."""
    row = clean_up_add(kind, payload, using=using)
    transaction.on_commit(partial(clean_up_run, row), using=using, robust=True)


def clean_up_run(row: CleanUp, act: Callable[[], object] | None = None) -> bool:
    """Run a clean-up, and delete its row on success.

    Returns whether it succeeded.

    Args:
        act: replaces the kind's function, using data that only this process has.
    """
    rows = CleanUp.objects.using(row._state.db).filter(pk=row.pk)
    try:
        if act is not None:
            act()
        else:
            _kinds[row.kind][1](row.payload)
    except Exception as error:
        log.exception("clean-up %s (%s) is not finished; a worker will retry it", row.pk, row.kind)
        error_text = f"{type(error).__name__}: {error}"[:500]
        rows.update(n_tries=F("n_tries") + 1, tried_at=database_now(), error=error_text)
        return False
    rows.delete()
    return True


def clean_ups_repeat() -> int:
    """Run all remaining clean-ups.

    Returns how many still remain.
    """
    return sum(not clean_up_run(row) for row in CleanUp.objects.order_by("pk"))
