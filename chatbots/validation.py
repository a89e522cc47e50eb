"""Validation of untrusted input with pydantic, reporting all errors at once.

A model describes keys and values from outside: a YAML file, a socket frame, a form's JSON, a command's argument.

    class Optimiser(InputModel):
        lr: Number = Field(1e-4, gt=0)
        epochs: int = Field(30, ge=1)
        betas: Many[Number] = (0.9, 0.999)

    values_read(Optimiser, {"lr": "fast", "epoch": 3}, path="optimiser")
    # ValuesError: 2 mistakes: (1) optimiser.lr is 'fast'; it must be a number above 0; (2) optimiser.epoch is
    # an unknown key; did you mean epochs? Allowed: lr, epochs, betas

Every message gives the location, the value and the requirement. Requirements that a type cannot express are validators.
A field's validator raises ValueError with the requirement ("it must be the plain name of a folder"); a model's
validator raises ValueError with a sentence that begins with a field's name. Both may raise a `ValuesError` with several
mistakes, with paths relative to the field or model. Declare a field that may hold a secret with `Field(repr=False)`;
its value is never shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import ErrorDetails

from chatbots.text import did_you_mean, error_text, quote
from chatbots.type_descriptions import ErrorLocation, is_secret_name

T = TypeVar("T")

_COMPARED_CHARS = 200


class InputModel(BaseModel):
    """Base class of models of untrusted input.

    Frozen; unknown keys are errors, and no value is converted silently.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        validate_default=False,
        protected_namespaces=(),  # "model" is a common field name here
    )


def _number(value: Any) -> Any:
    """Read a number that YAML parsed as text, such as 1e-4, which has no point."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            pass
    return value


Number = Annotated[float, BeforeValidator(_number)]
"""A finite number; integers and texts such as "1e-4" are accepted."""


def _as_written(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    checked = check(_number(value))
    return value if isinstance(value, int) else checked


NumberAsWritten = Annotated[float, WrapValidator(_as_written)]
"""A `Number` that keeps integers, because 1 and 1.0 give different identities."""

Size = Annotated[int, Field(ge=1)]
"""A positive integer."""

Share = Annotated[Number, Field(ge=0, lt=1)]
"""A share of at least 0 and below 1, such as a dropout rate."""

Many = Annotated[tuple[T, ...], Strict(False)]
"""A list in the input, read as a tuple."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """Mistake in untrusted values.

    Attributes:
        path: location, such as "data.corpora[0].path"; empty for the whole.
        message: sentence that gives the path, the value and the requirement.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return self.message


class ValuesError(ValueError):
    """Error with all mistakes in untrusted values.

    Args:
        file: file with the values; the message begins with it.
    """

    def __init__(self, mistakes: Sequence[Mistake] | str, file: Path | str = "") -> None:
        if isinstance(mistakes, str):
            mistakes = [Mistake("", mistakes)]
        self.mistakes = tuple(mistakes)
        self.file = str(file)
        super().__init__(self.mistakes, self.file)

    def __str__(self) -> str:
        file_prefix = f"{self.file}: " if self.file else ""
        if len(self.mistakes) == 1:
            return f"{file_prefix}{self.mistakes[0].message}"
        messages = "; ".join(f"({i}) {each}" for i, each in enumerate(self.mistakes, start=1))
        return f"{file_prefix}{len(self.mistakes)} mistakes: {messages}"


def yaml_read(path: Path) -> Any:
    """Return the content of a YAML file.

    Raises:
        ValuesError: it cannot be read.
    """
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValuesError(f"{path} cannot be read: {error_text(error)}") from error
    except RecursionError:
        raise ValuesError(f"{path} cannot be read: it is nested too deeply") from None
    except ValueError as error:  # a number with thousands of digits, an impossible date
        raise ValuesError(f"{path} cannot be read: {error_text(error)}") from None


def values_read(kind: type[T], values: Any, *, path: str = "", subject: str = "it") -> T:
    """Return `values` as a `kind`: a model, dataclass or other type that pydantic supports.

    Args:
        path: location of the values in a larger structure, such as "params".
        subject: name of the whole for messages without a path, such as "the config".

    Raises:
        ValuesError: lists all mistakes.
    """
    try:
        return _reader(kind).validate_python(values)  # type: ignore[arg-type]
    except ValidationError as error:
        raise ValuesError(mistakes_of(error, kind, path=path, subject=subject)) from None


def values_read_json(kind: type[T], text: str | bytes, *, path: str = "", subject: str = "it") -> T:
    """Return a JSON text as a `kind`.

    Types that JSON lacks (UUID, date, tuple) are read from text or lists.

    Raises:
        ValuesError: lists all mistakes.
    """
    try:
        return _reader(kind).validate_json(text)  # type: ignore[arg-type]
    except ValidationError as error:
        raise ValuesError(mistakes_of(error, kind, path=path, subject=subject)) from None


def mistakes_of(error: ValidationError, kind: Any, *, path: str = "", subject: str = "it") -> list[Mistake]:
    """Translate pydantic's errors in the values of a `kind` into mistakes.

    Args:
        path, subject: as `values_read`.
    """
    places = [(each, ErrorLocation.locate(kind, each["loc"], path)) for each in error.errors(include_url=False)]
    mistakes: dict[tuple[str, str], Mistake] = {}
    for each, spot in places:
        # If a list entry is invalid, pydantic also reports the list as too short, and it reports every alternative of
        # a union. Keep only the innermost mistake.
        is_echo = spot.is_alternative or each["type"] == "too_short"
        if is_echo and any(_is_inside(other_spot.path, spot.path) for _, other_spot in places):
            continue
        for mistake in _explain(each, spot, subject):
            mistakes.setdefault((mistake.path, mistake.message), mistake)
    return list(mistakes.values())


@lru_cache(maxsize=512)
def _reader(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _explain(error: ErrorDetails, spot: ErrorLocation, subject: str) -> list[Mistake]:
    """Return the mistakes behind one pydantic error."""
    kind, path = error["type"], spot.path
    if kind == "missing":
        return [Mistake(path, f"{path} is missing; it must be {spot.allowed_values}")]
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return [Mistake(path, _unknown(path, str(error["loc"][-1]), spot.siblings))]
    if error["loc"][-1:] == ("[key]",):
        mapping_name = spot.path or subject
        requirement = f"its keys must be {spot.allowed_values}"
        return [Mistake(spot.path, f"{mapping_name} has the key {quote(error['input'])}; {requirement}")]
    if kind == "json_invalid":
        return [Mistake(path, f"{path or subject} is not JSON: {error['ctx']['error']}")]
    if kind in ("value_error", "assertion_error"):
        return _by_validator(error, spot, subject)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return [_tag_wrong(error, spot)]
    return [Mistake(path, f"{_got(spot, error['input'], subject)}; {_right(error['input'], spot)}")]


def _by_validator(error: ErrorDetails, spot: ErrorLocation, subject: str) -> list[Mistake]:
    """Return the mistakes that a validator reported, of fields or the whole model."""
    raised: Any = error["ctx"]["error"]
    dot = f"{spot.path}." if spot.path else ""
    if isinstance(raised, ValuesError):
        inner = [(m.path or spot.field_named(m.message), m.message) for m in raised.mistakes]
    else:
        inner = [(spot.field_named(str(raised)), str(raised))]
        if not inner[0][0]:
            return [Mistake(spot.path, f"{_got(spot, error['input'], subject)}; {raised}")]
    return [Mistake(f"{dot}{path}".rstrip("."), f"{dot}{message}") for path, message in inner]


def _tag_wrong(error: ErrorDetails, spot: ErrorLocation) -> Mistake:
    """Return the mistake of a missing or unknown discriminator key."""
    key = error["ctx"]["discriminator"].strip("'")
    path = f"{spot.path}.{key}" if spot.path else key
    tags = spot.tags(key)
    requirement = f"it must be one of {', '.join(tags)}"
    if error["type"] == "union_tag_not_found":
        return Mistake(path, f"{path} is missing; {requirement}")
    tag = str(error["ctx"]["tag"])
    near = did_you_mean(tag[:_COMPARED_CHARS], tags)
    requirement = f"{near} It must be one of {', '.join(tags)}" if near else requirement
    return Mistake(path, f"{path} is {quote(tag)}; {requirement}")


def _right(value: Any, spot: ErrorLocation) -> str:
    """Describe the allowed values, with the nearest one as a suggestion if any."""
    near = did_you_mean(value[:_COMPARED_CHARS], spot.choices) if isinstance(value, str) else ""
    return f"{near} It must be {spot.allowed_values}" if near else f"it must be {spot.allowed_values}"


def _got(spot: ErrorLocation, value: Any, subject: str) -> str:
    name = spot.path or subject
    is_quoted = not spot.is_secret and not (isinstance(value, str) and "\n" in value)
    return f"{name} is {quote(value)}" if is_quoted else f"{name} is not usable"


def _unknown(path: str, key: str, allowed: Sequence[str]) -> str:
    # The `key` of a question is its name. `key` is likely to be a secret only next to keys for secrets (`…_env`).
    is_name = key == "key" and not any(key_name.endswith("_env") for key_name in allowed)
    if is_secret_name(key) and not is_name:
        return (
            f"{path}: secrets are not allowed here; put the secret into an environment variable and name that "
            "variable, with a key such as api_key_env"
        )
    near = did_you_mean(key[:_COMPARED_CHARS], allowed)
    known = f"Allowed: {', '.join(allowed)}" if allowed else "No keys are allowed"
    return f"{path} is an unknown key; {f'{near} ' if near else ''}{known}"


def _is_inside(path: str, outer: str) -> bool:
    return path.startswith((f"{outer}.", f"{outer}[")) if outer else bool(path)
