"""Storing of a package's rows, with errors that name table and row."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from django.db import DatabaseError, transaction

from chatbots.text import error_text, quote
from evaluation.data.package import PackageError
from webapp.core.errors import Refused

BATCH = 500
"""Records of an import that are read and stored together."""

T = TypeVar("T")
R = TypeVar("R")
_WRONG = (DatabaseError, ArithmeticError, AttributeError, LookupError, Refused, TypeError, ValueError)
"""Errors that a value of a row may cause."""


def row_error(table: str, number: int, error: Exception) -> PackageError:
    """Return the error of a row, with the reason in one line."""
    if isinstance(error, KeyError):
        return PackageError(f"data/{table}.csv has no column {quote(error.args[0])}")
    message = error_text(error, 300)
    return PackageError(message if message.startswith("data/") else f"data/{table}.csv, row {number}: {message}")


def store_rows(table: str, first: int, batch: Sequence[T], store: Callable[[Sequence[T]], R]) -> R:
    """Store a batch in one transaction.

    Args:
        table: table of the package.
        first: number of the first row of the batch, from 1; a list in the batch counts as its rows.
        batch: rows.
        store: stores them.

    Raises:
        PackageError: a row cannot be stored; with the table and the number of the first such row.
    """
    try:
        with transaction.atomic():
            return store(batch)
    except _WRONG as error:
        number = first
        for row in batch:
            try:
                with transaction.atomic():
                    store([row])
                    transaction.set_rollback(True)
            except _WRONG as wrong:
                raise row_error(table, number, wrong) from None
            number += len(row) if isinstance(row, list) else 1
        raise row_error(table, first, error) from None


def read_whole_number(cell: str) -> int:
    """Return the whole number of a cell, in ASCII digits.

    Raises:
        ValueError: the cell contains something else.
    """
    if not re.fullmatch(r"-?[0-9]{1,30}", cell):
        raise ValueError(f"{quote(cell)} is not a whole number")
    return int(cell)
