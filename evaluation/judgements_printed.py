"""Agreements of metrics and people as a table in text, from the JSON of `evaluate_metrics`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evaluation.printing import probability, share, span

_METHODS = ("pearson", "spearman", "kendall")
_HEADINGS = (
    "metric",
    "data",
    "model",
    "n",
    "contexts",
    "Pearson",
    "Spearman",
    "Kendall",
    "p (Pearson)",
    "ceiling",
)


def agreements_printed(result: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table with a line for every metric (its main column), data set and dialogue model, and what was left out.

    Args:
        result: by the metric's name, as `MetricJudged.to_json` wrote them.
    """
    rows = [_HEADINGS, *(row for name, found in result.items() for row in _rows(name, found))]
    widths = [max(len(row[k]) for row in rows) for k in range(len(_HEADINGS))]
    lines = [
        "  ".join(
            cell.ljust(width) if k < 3 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, *_notes(result)])


def _rows(name: str, found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    if "unavailable" in found:
        return
    yield _row(name, "all", "all", found)
    for model, one in found.get("models", {}).items():
        yield _row(name, "all", model, one)
    for source, part in found.get("sources", {}).items():
        yield _row(name, source, "all", part)
        for model, one in part.get("models", {}).items():
            yield _row(name, source, model, one)


def _row(name: str, source: str, model: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        name,
        source,
        model,
        str(found["n"]),
        str(found["n_contexts"]),
        *(_coefficient(found[method]) for method in _METHODS),
        probability(found["pearson"]["p"]),
        _coefficient(found["ceiling"]) if found["ceiling"]["r"] is not None else "unknown",
    )


def _coefficient(found: Mapping[str, Any]) -> str:
    if found["r"] is None:
        return "undefined"
    low, high = found["ci95"] or (None, None)
    return f"{share(found['r'], 3)} {span(low, high, shares=True)}"


def _notes(result: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield ""
    yield "Intervals of 95 % by resampling contexts; p as if all replies were independent."
    yield (
        "ceiling: the highest Pearson's r that a perfect metric could be expected to reach, the square root of the reliability "
        "of the raters' mean (ICC(1,k), F interval); unknown where only means were published."
    )
    for name, found in result.items():
        if "unavailable" in found:
            yield f"{name}: skipped, {found['unavailable']}"
            continue
        if more := [one for one in found.get("columns", {}) if one != found["column"]]:
            yield f"{name}: shown is {found['column']}; ask by name for {', '.join(more)}"
        by_length = found.get("length_bias", {})
        if by_length.get("metric") is not None and by_length.get("people") is not None:
            yield (
                f"{name}: Spearman with the words of the reply {share(by_length['metric'])}, "
                f"people's {share(by_length['people'])}"
            )
        if found["skipped"]:
            told = "; ".join(f"{n} × {why}" for why, n in found["skipped"].items())
            yield f"{name}: left out {told}"
        if found["pearson"]["r"] is None:
            yield f"{name}: undefined, {found['pearson']['reason']}"
