"""Validation of untrusted input by pydantic models, with all mistakes reported at once.

Keys and values that a person or a program wrote (a YAML file, a socket frame, a form's JSON, a
command's argument) are described by a model and read here:

    class Optimiser(InputModel):
        lr: Number = Field(1e-4, gt=0)
        epochs: int = Field(30, ge=1)
        betas: Many[Number] = (0.9, 0.999)

    values_read(Optimiser, {"lr": "fast", "epoch": 3}, path="optimiser")
    # ValuesError: 2 mistakes: (1) optimiser.lr is 'fast'; it must be a number above 0; (2) optimiser.epoch is
    # no key here; did you mean epochs? Allowed: lr, epochs, betas

Every message names the place, the value that was got, and what would be right. What a type cannot
express is a validator of the model. One of a field raises `ValueError` with what would be right ("it must be
the plain name of a folder"); one of the whole model raises a sentence that begins with a field's name. Either may
raise a `ValuesError` with several mistakes, whose paths begin where the field or the model does. A field declared
with `Field(repr=False)` may hold a secret: its value is never shown.
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
    """Base of the models of what comes from outside: frozen, unknown keys refused, nothing converted silently."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        validate_default=False,
        protected_namespaces=(),  # "model" is a word of this field
    )


def _number(value: Any) -> Any:
    """Read a number that YAML took for a text, as it does with 1e-4, which has no point."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            pass
    return value


Number = Annotated[float, BeforeValidator(_number)]
"""A finite number; whole numbers and texts such as "1e-4" are numbers too."""


def _as_written(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    checked = check(_number(value))
    return value if isinstance(value, int) else checked


NumberAsWritten = Annotated[float, WrapValidator(_as_written)]
"""The same where 1 stays 1: identities that hold it as it was written would be others with 1.0."""

Size = Annotated[int, Field(ge=1)]
"""How many of something, at least one."""

Share = Annotated[Number, Field(ge=0, lt=1)]
"""A part of something that is never all of it, such as a dropout."""

Many = Annotated[tuple[T, ...], Strict(False)]
"""A list from outside, a tuple inside."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong.

    Attributes:
        path: where, such as "data.corpora[0].path"; empty for the whole.
        message: a sentence that names the path, the value that was got and what would be right.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return self.message


class ValuesError(ValueError):
    """Values from outside that cannot be used, with every mistake in them.

    Args:
        file: where the values stand, which the message then begins with.
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
    except ValueError as error:  # a number of thousands of digits, a date that is none
        raise ValuesError(f"{path} cannot be read: {error_text(error)}") from None


def values_read(kind: type[T], values: Any, *, path: str = "", subject: str = "it") -> T:
    """Return `values` as a `kind`, which is a model, a dataclass or any other type that pydantic knows.

    Args:
        path: where the values stand in what they are part of, such as "params".
        subject: the word for the whole where no path can be named, such as "the config".

    Raises:
        ValuesError: with all mistakes.
    """
    try:
        return _reader(kind).validate_python(values)  # type: ignore[arg-type]
    except ValidationError as error:
        raise ValuesError(mistakes_of(error, kind, path=path, subject=subject)) from None


def values_read_json(kind: type[T], text: str | bytes, *, path: str = "", subject: str = "it") -> T:
    """Return a JSON text as a `kind`; what JSON has no type for (a UUID, a date, a tuple) is read from its text.

    Raises:
        ValuesError: with all mistakes.
    """
    try:
        return _reader(kind).validate_json(text)  # type: ignore[arg-type]
    except ValidationError as error:
        raise ValuesError(mistakes_of(error, kind, path=path, subject=subject)) from None


def mistakes_of(error: ValidationError, kind: Any, *, path: str = "", subject: str = "it") -> list[Mistake]:
    """Return pydantic's errors in the values of a `kind`, in words.

    Args:
        path, subject: as `values_read`.
    """
    places = [(each, ErrorLocation.locate(kind, each["loc"], path)) for each in error.errors(include_url=False)]
    mistakes: dict[tuple[str, str], Mistake] = {}
    for each, spot in places:
        # Of a list with a broken entry pydantic says that it is too short, and of an alternative that was not
        # meant, that the value is none: the mistake is further inside.
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
    """Return the mistakes behind one error of pydantic."""
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
    """Return the mistakes that a model's validator found: of one field, or of the model as a whole."""
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
    """Return that the key which tells the alternatives apart is missing or unknown."""
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
    """Return a description of the values allowed, with the nearest allowed one where there is one."""
    near = did_you_mean(value[:_COMPARED_CHARS], spot.choices) if isinstance(value, str) else ""
    return f"{near} It must be {spot.allowed_values}" if near else f"it must be {spot.allowed_values}"


def _got(spot: ErrorLocation, value: Any, subject: str) -> str:
    name = spot.path or subject
    return f"{name} is not usable" if spot.is_secret else f"{name} is {quote(value)}"


def _unknown(path: str, key: str, allowed: Sequence[str]) -> str:
    # A question has a `key` which is its name; only where secrets may be named is it likely to be one.
    is_name = key == "key" and not any(key_name.endswith("_env") for key_name in allowed)
    if is_secret_name(key) and not is_name:
        return (
            f"{path}: no secret may stand here; put it into an environment variable and name that variable, with "
            "a key such as api_key_env"
        )
    near = did_you_mean(key[:_COMPARED_CHARS], allowed)
    known = f"Allowed: {', '.join(allowed)}" if allowed else "None is allowed"
    return f"{path} is no key here; {f'{near} ' if near else ''}{known}"


def _is_inside(path: str, outer: str) -> bool:
    return path.startswith((f"{outer}.", f"{outer}[")) if outer else bool(path)
