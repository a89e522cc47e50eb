"""Findings of results, and reasons for undefined numbers, as codes with values.

Pages and reports turn the codes into sentences; `summary()` prints the text of a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evaluation.number_format import figure, span

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


class Reason(str):
    """Reason as text, with a code and values for programs.

    Attributes:
        code: code of the reason, e.g. "one_value".
        values: numbers and names in it.
    """

    __slots__ = ("code", "values")
    code: str
    values: Mapping[str, Any]

    def __new__(cls, code: str, text: str, **values: Any) -> Reason:
        """Return the reason `code`, with `text` shown in tables and error messages."""
        reason = super().__new__(cls, text)
        reason.code = code
        reason.values = values
        return reason

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.code, str(self), dict(self.values))

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> CoreSchema:
        """Return the pydantic schema that preserves code and values in JSON."""
        from pydantic_core import core_schema

        def read(document: Any) -> Reason:
            return document if isinstance(document, cls) else _again(**document)

        def write(reason: Reason) -> dict[str, Any]:
            return {"code": reason.code, "text": str(reason), "values": dict(reason.values)}

        return core_schema.no_info_plain_validator_function(
            read, serialization=core_schema.plain_serializer_function_ser_schema(write)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the code and the values in one object."""
        return {"code": self.code, **self.values}


def reason_read(document: Reason | Mapping[str, Any] | str | None) -> Reason | None:
    """Return the reason in a document, or None if there is none.

    Args:
        document: output of `Reason.to_json`; or plain text, as stored before reasons had codes.
    """
    if document is None or isinstance(document, Reason):
        return document
    if isinstance(document, str):
        return Reason("in_words", document, words=document)
    values = {name: value for name, value in document.items() if name != "code"}
    return Reason(document["code"], str(document["code"]).replace("_", " "), **values)


def _again(code: str, text: str, values: Mapping[str, Any]) -> Reason:
    return Reason(code, text, **values)


@dataclass(frozen=True, slots=True)
class Finding:
    """A single finding of a result.

    Attributes:
        code: code of the finding, e.g. `baseline`.
        values: numbers and names in it, as plain JSON values; an interval is a list of two.
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
    """Return one line per finding: its code, then names and numbers.

    Args:
        findings: output of `Finding.to_json`.
    """
    width = max((len(str(finding_json["code"])) for finding_json in findings), default=0)
    return [
        f"{str(finding_json['code']).replace('_', ' '):{width}}  "
        + ", ".join(
            f"{name.replace('_', ' ')} {_printed(value)}"
            for name, value in finding_json.items()
            if name != "code" and value is not None
        )
        for finding_json in findings
    ]


def _printed(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return figure(value)
    if isinstance(value, Mapping):
        parts = [f"{name.replace('_', ' ')} {_printed(v)}" for name, v in value.items() if name != "code"]
        return ", ".join([str(value["code"]).replace("_", " "), *parts])
    if isinstance(value, list | tuple):
        numbers = len(value) == 2 and all(isinstance(end, float) for end in value)
        return span(*value) if numbers else ", ".join(str(part) for part in value)
    return f"{value:,}" if isinstance(value, int) else str(value)
