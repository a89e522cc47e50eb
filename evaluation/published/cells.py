"""Published rows next to the cells of a metric's JSON: all together, each data set, each dialogue model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evaluation.published.rows import Published, beside, caveats_of, published_of


def cells_of(found: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Return (data set, dialogue model, agreement) of a metric's JSON, all together first; names are empty for all."""
    yield "", "", found
    for model, one in found.get("models", {}).items():
        yield "", model, one
    for source, part in found.get("sources", {}).items():
        yield source, "", part
        for model, one in part.get("models", {}).items():
            yield source, model, one


def published_beside(found: Mapping[str, Any], source: str, model: str) -> Published | None:
    """Return a paper's figures of a metric's main column in a cell, or None if none are known.

    Args:
        found: the metric's JSON; source, model: of the cell, empty for all.
    """
    name = source or found.get("source", "")
    return beside(published_of(name, found["target"]), found["column"], model)


def with_published(found: dict[str, Any]) -> dict[str, Any]:
    """Return a metric's JSON with `published` in every cell that a paper printed, and `caveats` of them all.

    Cells are changed in place. The columns besides the main one have their own rows.
    """
    rows = []
    for column in (found["column"], *found.get("columns", {})):
        part = found.get("columns", {}).get(column, found)
        asked = {"column": column, "target": found["target"], "source": found.get("source", "")}
        for source, model, one in cells_of(part):
            row = published_beside(asked, source, model)
            if row is not None:
                one["published"] = row.to_json()  # type: ignore[index]
                rows.append(row)
    main = found.get("columns", {}).get(found["column"])
    if main is not None:
        for (_s, _m, one), (_t, _n, same) in zip(cells_of(found), cells_of(main), strict=True):
            if "published" in same:
                one["published"] = same["published"]  # type: ignore[index]
    found["caveats"] = caveats_of(rows)
    return found
