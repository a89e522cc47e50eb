"""Trace of a reply: the bot's reasoning and tool calls.

A trace is stored with the reply but is not part of its text, and never enters a prompt. A bot that reasons or calls
tools adds steps to `current_trace()` while it generates; the caller listens. The log belongs to the caller's task, so
concurrent replies do not mix. It also takes the reply's image.

Endpoints run their own tools; Confab runs none. Their reports are untrusted and may be large, so texts are truncated
while they grow, and sanitised before they are passed on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from chatbots.text import sanitise
from chatbots.validation import InputModel, values_read

MAX_STEPS = 100
STEP_MAX_CHARS = 16_000
"""Maximum length of the stored reasoning, arguments or result of one step."""
TRACE_MAX_CHARS = 64_000
"""Maximum total length of the stored texts of a reply's steps."""
_NAME_MAX_CHARS = 200
_CUT = " [… cut: {:,} characters]"
_MARGIN_CHARS = 1_000


class TraceStep(InputModel):
    """Step before a reply: a stretch of reasoning or a tool call.

    Attributes:
        name, arguments: of the call, as sent by the endpoint; empty for reasoning.
        text: the reasoning, or the tool's result (None until it is known).
        failed: True if the endpoint reports that the call failed.
        seconds: time from call to result; None if both arrived together.
    """

    kind: Literal["reasoning", "tool"]
    name: str = ""
    arguments: str = ""
    text: str | None = None
    failed: bool = False
    seconds: Annotated[float, Field(ge=0)] | None = None


def read_trace(stored: Any) -> tuple[TraceStep, ...]:
    """Return the steps of an untrusted trace, sanitised and truncated.

    Raises:
        ValuesError: it is not a list of steps; lists every mistake with its path.
    """
    steps: Any = Annotated[list[TraceStep], Field(max_length=MAX_STEPS)]
    return _within_limits(values_read(steps, stored, path="trace"))


@dataclass(frozen=True, slots=True)
class CallDelta:
    """Part of a tool call in one piece of a stream.

    It may begin the call, extend its arguments or give its result.

    Attributes:
        index: of the call in the reply; None if the endpoint gives only its id.
        result: part of the result; None if there is none.
    """

    index: int | None = None
    id: str = ""
    name: str = ""
    arguments: str = ""
    result: str | None = None
    failed: bool = False


class _GrowingField:
    """Text that arrives in pieces, buffered only slightly beyond the storage limit."""

    def __init__(self) -> None:
        self._kept, self._n_chars = "", 0

    def add(self, piece: str) -> None:
        self._kept += piece[: max(0, STEP_MAX_CHARS + _MARGIN_CHARS - len(self._kept))]
        self._n_chars += len(piece)

    def read(self, clean: Callable[[str], str]) -> str:
        text = clean(self._kept)  # clean before cutting: half a secret would not be recognised
        return text if self._n_chars <= STEP_MAX_CHARS else text[:STEP_MAX_CHARS] + _CUT.format(self._n_chars)


class _GrowingStep:
    """Step that is still arriving."""

    def __init__(self, kind: Literal["reasoning", "tool"], delta: CallDelta) -> None:
        self.kind, self.index, self.id, self.name = kind, delta.index, delta.id, delta.name
        self.began_at = time.monotonic()
        self.arguments, self.text = _GrowingField(), _GrowingField()
        self.has_text = kind == "reasoning"
        self.failed = False
        self.seconds: float | None = None

    def step(self, clean: Callable[[str], str]) -> TraceStep:
        text = self.text.read(clean) if self.has_text else None
        return TraceStep(
            kind=self.kind,
            name=clean(self.name),
            arguments=self.arguments.read(clean),
            text=text.strip() if text and self.kind == "reasoning" else text,
            failed=self.failed,
            seconds=self.seconds,
        )


class TraceLog:
    """Steps of a reply that is being generated.

    Args:
        on_step: called with a step's number, from 0, and the step as soon as the step is complete.
        takes_image: if False, images of replies are ignored.
    """

    def __init__(self, on_step: Callable[[int, TraceStep], None] | None = None, takes_image: bool = False) -> None:
        self._on_step, self.takes_image = on_step, takes_image
        self.restart()

    def restart(self, clean: Callable[[str], str] = str) -> None:
        """Discard the steps of a failed attempt.

        Args:
            clean: removes secrets from the texts of the next attempt.
        """
        self._clean = clean
        self._steps: list[_GrowingStep] = []
        self._touched: _GrowingStep | None = None
        self.image: tuple[str, str] | None = None
        """Address and description of the reply's first image, both untrusted."""

    def add_image(self, address: str, description: str = "") -> None:
        """Store the reply's first image, if images are wanted."""
        if self.takes_image and self.image is None:
            self.image = address, self._clean(description)

    def think(self, text: str) -> None:
        """Add reasoning to the last step if that is reasoning, else to a new step."""
        is_going_on = bool(self._steps) and self._steps[-1].kind == "reasoning"
        if not text or not (is_going_on or text.strip()):
            return
        step = self._steps[-1] if is_going_on else self._begin("reasoning", CallDelta())
        if step is not None:
            self._touch(step)
            step.text.add(text)

    def call(self, deltas: Sequence[CallDelta]) -> None:
        """Add the parts of tool calls in one piece of a stream."""
        n_before = len(self._steps)
        for delta in deltas:
            step = self._find(delta) or self._begin("tool", delta)
            if step is None:
                continue
            self._touch(step)
            step.name = step.name or delta.name
            step.arguments.add(delta.arguments)
            step.failed = step.failed or delta.failed
            if delta.result is not None:
                step.text.add(delta.result)
                step.has_text = True
                if step in self._steps[:n_before]:
                    step.seconds = round(time.monotonic() - step.began_at, 3)

    def close(self) -> None:
        """Report the last step, because the reply's text or nothing more follows."""
        step, self._touched = self._touched, None
        if step is not None and self._on_step is not None:
            number = self._steps.index(step)
            self._on_step(number, self.steps[number])

    @property
    def steps(self) -> tuple[TraceStep, ...]:
        """The steps so far, within the limits."""
        return _within_limits([step.step(self._clean) for step in self._steps])

    def _touch(self, step: _GrowingStep) -> None:
        if step is not self._touched:
            self.close()
            self._touched = step

    def _begin(self, kind: Literal["reasoning", "tool"], delta: CallDelta) -> _GrowingStep | None:
        if len(self._steps) >= MAX_STEPS:
            return None
        self._steps.append(_GrowingStep(kind, delta))
        return self._steps[-1]

    def _find(self, delta: CallDelta) -> _GrowingStep | None:
        """Return the call that a delta belongs to.

        Some endpoints give every call the index 0; a different id then means another call.
        """
        for step in reversed(self._steps):
            if step.kind == "tool" and (
                step.id == delta.id if step.id and delta.id else delta.index is not None and delta.index == step.index
            ):
                return step
        return None


def _within_limits(steps: Sequence[TraceStep]) -> tuple[TraceStep, ...]:
    """Return the steps sanitised and truncated to the limits per text and per reply."""
    chars_left, limited_steps = TRACE_MAX_CHARS, []
    for step in steps:
        values: dict[str, Any] = {"name": sanitise(step.name, _NAME_MAX_CHARS)}
        for key in ("arguments", "text"):
            text = getattr(step, key)
            if text is not None:
                limit = max(0, min(chars_left, STEP_MAX_CHARS))
                if len(text) > limit + len(_CUT) * 2:  # texts cut before already say so
                    text = text[:limit] + _CUT.format(len(text))
                values[key] = sanitise(text)
                chars_left -= len(text)
        limited_steps.append(step.model_copy(update=values))
    return tuple(limited_steps)


_current: ContextVar[TraceLog | None] = ContextVar("reply_trace", default=None)


def listen_to_trace(log: TraceLog) -> None:
    """Make bots called by this task and its child tasks report steps to this log."""
    _current.set(log)


def current_trace() -> TraceLog:
    """Return the log of the current reply, or a throw-away log without a listener."""
    return _current.get() or TraceLog()
