"""Formatting of numbers and results, and JSON of results.

A result is a frozen dataclass. `result_dump` writes it by the types of its fields, and `result_load` reads back an
equal result: tuples remain tuples, NaN and infinities are kept, and reasons keep their codes and values. Two kinds of
fields have no JSON form and declare one:

    mean: Array                                        a list of numbers
    cells: Annotated[Mapping[tuple[int, int], Correlation], BY_TUPLE]     a list of pairs of key and value

`to_json()` of a result is meant for other programs; it omits derived fields and cannot be read back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

import numpy as np

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, TypeAdapter
    from pydantic_core import CoreSchema

MINUS = "−"
NONE = "–"


def figure(value: float | None, digits: int = 2) -> str:
    """Format a number, `4.60`."""
    if value is None or not math.isfinite(value):
        return NONE
    printed = f"{value:.{digits}f}"
    if float(printed) == 0:
        printed = printed.lstrip("-")
    return printed.replace("-", MINUS)


def share(value: float | None, digits: int = 2) -> str:
    """Format a number between −1 and 1, as `.84` or `−.59`.

    Correlations and probabilities, for example.
    """
    printed = figure(value, digits)
    if printed.lstrip(MINUS).startswith("0."):
        return printed.replace("0.", ".", 1)
    return printed


def span(low: float | None, high: float | None, digits: int = 2, *, shares: bool = False) -> str:
    """Format an interval, `[4.60, 5.12]`."""
    printed = share if shares else figure
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return NONE
    return f"[{printed(low, digits)}, {printed(high, digits)}]"


def plain_interval(low: float | None, high: float | None) -> list[float] | None:
    """Return the ends of an interval for JSON, or None if one is missing."""
    return None if low is None or high is None else [low, high]


def digits_for(low: float, high: float) -> int:
    """Return the decimals for a scale: two up to a range of 20, else one."""
    return 1 if high - low > 20 else 2


def probability(p: float | None) -> str:
    """Format a p-value, `p = .031` or `p < .001`."""
    if p is None or not math.isfinite(p):
        return "p –"
    if p < 0.001:
        return "p < .001"
    return f"p = {share(p, 3)}"


def p_value(p: float | None) -> str:
    """Format a p-value without `p =`, for columns: `.031` or `< .001`."""
    return probability(p).removeprefix("p ").removeprefix("= ")


def percent(value: float | None, digits: int = 0) -> str:
    """Format a share as `90 %`."""
    printed = figure(None if value is None else 100 * value, digits)
    return printed if printed == NONE else f"{printed} %"


def columns_printed(rows: Sequence[Sequence[str]], n_left: int) -> list[str]:
    """Format rows as lines of aligned columns.

    The first `n_left` columns are left-aligned, the others right-aligned.
    """
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if k < n_left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def pluralise(n: int, noun: str) -> str:
    """Return `1 bot`, `2 bots`; `noun` must form its plural with s."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


T = TypeVar("T")


def result_dump(result: T, kind: type[T]) -> Any:
    """Convert a result to JSON values without NaN.

    Databases reject NaN, so NaN and infinities become words.

    Args:
        kind: its class, or a type such as `tuple[Comparisons, ...]`.
    """
    return json.loads(_adapter(tuple[kind]).dump_json((result,), by_alias=True))[0]  # type: ignore[valid-type]


def result_load(document: Any, kind: type[T]) -> T:
    """Return the result written by `result_dump`.

    Raises:
        ValueError: if it is not of this kind, perhaps because an earlier version of Confab wrote it.
    """
    (result,) = _adapter(tuple[kind]).validate_python((document,))  # type: ignore[valid-type]
    return result


@lru_cache
def _adapter(kinds: Any) -> TypeAdapter[Any]:
    """Return the adapter that writes and reads a tuple of results.

    A tuple, because pydantic cannot configure a dataclass alone.
    """
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(kinds, config=ConfigDict(ser_json_inf_nan="strings"))


class _Written:
    """Read and write functions of a field without a JSON type.

    Args:
        schema: maps the field's type to the type that is written.
        write, read: functions that convert between the two types.
    """

    def __init__(self, schema: Callable[[Any], Any], write: Callable[[Any], Any], read: Callable[[Any], Any]) -> None:
        self.schema, self.write, self.read = schema, write, read

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        written = handler.generate_schema(self.schema(source))
        return core_schema.no_info_after_validator_function(
            self.read,
            written,
            serialization=core_schema.plain_serializer_function_ser_schema(self.write, return_schema=written),
        )


def _pairs(mapping: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    return list(mapping.items())


def _pairs_type(mapping: Any) -> Any:
    key, value = get_args(mapping)
    return list[tuple[key, value]]  # type: ignore[valid-type]


BY_TUPLE = _Written(_pairs_type, _pairs, dict)
"""Annotation for mappings with tuples as keys."""

Array = Annotated[np.ndarray, _Written(lambda _array: list[int | float], np.ndarray.tolist, np.array)]
"""One-dimensional array of numbers, (n,)."""
