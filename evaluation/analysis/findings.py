"""Findings of a result as codes and numbers, which pages and reports put into sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evaluation.printing import figure, span


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a result shows.

    Attributes:
        code: what it is, `baseline` say.
        values: its numbers and names, plain JSON values; an interval is a list of two.
    """

    code: str
    values: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the code and the values in one object."""
        return {"code": self.code, **self.values}


def finding(code: str, **values: Any) -> Finding:
    """Return a finding of these values."""
    return Finding(code, values)


def findings_printed(findings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each finding: its code, then names and numbers.

    Args:
        findings: as `Finding.to_json` wrote them.
    """
    width = max((len(str(found["code"])) for found in findings), default=0)
    return [
        f"{str(found['code']).replace('_', ' '):{width}}  "
        + ", ".join(
            f"{name.replace('_', ' ')} {_printed(value)}"
            for name, value in found.items()
            if name != "code" and value is not None
        )
        for found in findings
    ]


def _printed(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return figure(value)
    if isinstance(value, Mapping):
        parts = [
            f"{name.replace('_', ' ')} {_printed(v)}" for name, v in value.items() if name != "code"
        ]
        return ", ".join([str(value["code"]).replace("_", " "), *parts])
    if isinstance(value, list | tuple):
        numbers = len(value) == 2 and all(isinstance(end, float) for end in value)
        return span(*value) if numbers else ", ".join(str(part) for part in value)
    return f"{value:,}" if isinstance(value, int) else str(value)
