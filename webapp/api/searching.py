"""The workbench's search line and columns in calls: read as pages read them, refused with what would work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from ninja import Schema
from pydantic import Field

from chatbots.names import did_you_mean
from chatbots.outside import Mistake, ValuesError
from chatbots.storable import quote
from webapp.reading.fields import Number, Numbers
from webapp.reading.syntax import LONGEST, Unreadable
from webapp.transfer.exporters.base import ExportOptions, Source, search_check

Line = Annotated[str, Field(max_length=LONGEST, description="The workbench's search line.")]


class SearchedTable(Schema):
    """Query of the conversations of a table."""

    q: Line = ""


def table_line(source: Source, table: str, q: str) -> str:
    """Return the query that filters a table of a study or run, once it is known that it can.

    Raises:
        ValuesError: it cannot be read, or the table is not of conversations alone; with what would work.
    """
    line = " ".join(q.split())
    with line_told(line):
        search_check(source, table, ExportOptions(search=line))
    return line


@contextmanager
def line_told(line: str) -> Iterator[None]:
    """Make of what is wrong with a line a mistake of the call.

    Raises:
        ValuesError: the line cannot be read or used.
    """
    if "\x00" in line:
        raise ValuesError([Mistake("q", "q holds a NUL, which no text can hold")])
    try:
        yield
    except Unreadable as error:
        told = f"q cannot be read: {error.why} This would be: {error.example}"
        raise ValuesError([Mistake("q", told)]) from None
    except ValueError as error:
        raise ValuesError([Mistake("q", str(error))]) from None


def columns_read(names: str, numbers: Numbers) -> list[Number]:
    """Return the numbers that a call names by commas.

    Raises:
        ValuesError: one is no number here, with the nearest name.
    """
    found: list[Number] = []
    for name in filter(None, names.split(",")):
        number = numbers.get(name)
        if number is None:
            near = did_you_mean(name, numbers.names())
            raise ValuesError(
                [
                    Mistake(
                        "columns",
                        f"columns names {quote(name)}, which is no number here. {near}".rstrip(),
                    )
                ]
            )
        found.append(number)
    return list(dict.fromkeys(found))
