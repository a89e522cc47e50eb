"""Drivers, which schedule the calls of one step or whole-reply bot.

A driver has no thread. `submit` and `cancel` may be called from any thread. `turn` is called repeatedly by the only
thread that may use the bot, and does one unit of work: one step, or one `answer`.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from chatbots.bots.base import BotError, Generation, Piece, StepBot, WholeBot
from chatbots.serving.request import ReplyEvent, ReplyRequest, describe_error

log = logging.getLogger(__name__)

Guard = Callable[[], AbstractContextManager[None]]
"""Context manager around every call of a bot, which detects hanging calls (`workers.py`)."""


class Abandoned(BaseException):
    """Signal to an abandoned thread that it must not change any state."""


class Driver(Protocol):
    """Protocol of a driver, for its worker thread."""

    n_running: int

    @property
    def has_idle_work(self) -> bool: ...
    def submit(self, request: ReplyRequest) -> None: ...
    def cancel(self, request: ReplyRequest) -> None: ...
    def due_in(self, now: float, batch_wait_s: float) -> float | None: ...
    def turn(self, guard: Guard = nullcontext) -> list[ReplyEvent]: ...
    def drop_running(self, reason: str) -> list[ReplyEvent]: ...
    def drop_all(self, reason: str) -> list[ReplyEvent]: ...


class _Queues:
    """Queues of both drivers: waiting requests, and requests to retry alone."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise BotError(f"has a capacity of {capacity}; it must be at least 1")
        self.capacity = capacity
        self.n_running = 0
        self._lock = threading.Lock()
        self._waiting: deque[ReplyRequest] = deque()
        self._alone: deque[ReplyRequest] = deque()

    @property
    def has_idle_work(self) -> bool:
        """True if `turn` has background work."""
        return False

    def submit(self, request: ReplyRequest) -> None:
        """Queue a request."""
        with self._lock:
            self._waiting.append(request)

    def _forget(self, request: ReplyRequest) -> bool:
        """Remove a request from the queues; False if it was in none."""
        for queue in (self._waiting, self._alone):
            if request in queue:
                queue.remove(request)
                return True
        return False

    def _wait_left(self, now: float, batch_wait_s: float) -> float | None:
        """Return the seconds until the first batch starts; None without requests."""
        if self._alone or len(self._waiting) >= self.capacity:
            return 0.0
        if not self._waiting:
            return None
        return max(0.0, self._waiting[0].queued_at + batch_wait_s - now)

    def _pop_waiting(self, n: int) -> list[ReplyRequest]:
        with self._lock:
            return [self._waiting.popleft() for _ in range(min(n, len(self._waiting)))]

    def _pop_alone(self) -> ReplyRequest | None:
        with self._lock:
            return self._alone.popleft() if self._alone else None

    def _again(self, requests: Iterable[ReplyRequest], exc: BaseException) -> list[ReplyEvent]:
        """Queue each request for a retry alone; fail those already retried."""
        events = []
        for request in requests:
            if request.closed:
                continue
            if request.tries > 1:
                events.append(ReplyEvent(request, error=describe_error(exc)))
                continue
            request.restart()
            with self._lock:
                self._alone.append(request)
        return events

    def _drop_queues(self, reason: str) -> list[ReplyEvent]:
        with self._lock:
            dropped = [*self._alone, *self._waiting]
            self._alone.clear()
            self._waiting.clear()
        return [ReplyEvent(request, error=reason) for request in dropped]


class _Batch:
    """Generation with its requests by slot."""

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self.slots: dict[int, ReplyRequest] = {}


class StepDriver(_Queues):
    """Driver of a `StepBot`, which admits requests between steps.

    Up to its capacity there is one running batch, and at most one more conversation that is retried alone after its
    batch raised. An error in `admit` affects only the new requests; the running batch continues.
    """

    def __init__(self, bot: StepBot) -> None:
        super().__init__(bot.capacity)
        self.bot = bot
        self._main: _Batch | None = None
        self._solo: _Batch | None = None
        self._gone: list[ReplyRequest] = []
        self._joining: list[ReplyRequest] = []
        self._news: list[ReplyEvent] = []

    def cancel(self, request: ReplyRequest) -> None:
        """Drop a waiting request, or free its slot before the next step."""
        request.closed = True
        with self._lock:
            if not self._forget(request):
                self._gone.append(request)

    def due_in(self, now: float, batch_wait_s: float) -> float | None:
        """Return the seconds until `turn` has work; None if none is in sight."""
        if self._main or self._solo or self._gone:
            return 0.0
        with self._lock:
            return self._wait_left(now, batch_wait_s)

    def turn(self, guard: Guard = nullcontext) -> list[ReplyEvent]:
        """Free slots, admit requests, advance every batch by one step."""
        # Store events on the driver, so that a hung call does not lose events of other requests.
        self._news = self._free_gone(guard)
        self._news += self._admit_alone(guard)
        self._news += self._admit_waiting(guard)
        for batch in (self._main, self._solo):
            if batch is not None:
                self._news += self._step(batch, guard)
        self._count()
        news, self._news = self._news, []
        if not (news or self._main or self._solo) and self.has_idle_work:
            self._work_idle(guard)
        return news

    @property
    def has_idle_work(self) -> bool:
        """True if the bot has background work (its `has_idle_work` and `work_idle`)."""
        return getattr(self.bot, "has_idle_work", False)

    def _work_idle(self, guard: Guard) -> None:
        try:
            with guard():
                self.bot.work_idle()  # type: ignore[attr-defined]
        except Exception:
            log.exception("%s failed during background work", self.bot.name)

    def drop_running(self, reason: str) -> list[ReplyEvent]:
        """Abandon the running batches of a hung bot."""
        batches = [batch for batch in (self._main, self._solo) if batch]
        concerned = [r for batch in batches for r in batch.slots.values()] + self._joining
        news = self._news
        self._main = self._solo = None
        self._gone, self._joining, self._news = [], [], []
        self._count()
        return news + [ReplyEvent(request, error=reason) for request in concerned]

    def drop_all(self, reason: str) -> list[ReplyEvent]:
        """Abandon running and waiting requests."""
        return self.drop_running(reason) + self._drop_queues(reason)

    def _count(self) -> None:
        self.n_running = sum(len(batch.slots) for batch in (self._main, self._solo) if batch)

    def _free_gone(self, guard: Guard) -> list[ReplyEvent]:
        with self._lock:
            abandoned, self._gone = self._gone, []
        events = []
        for request in abandoned:
            for batch in (self._main, self._solo):
                slot = next((s for s, r in batch.slots.items() if r is request), None) if batch else None
                if batch is None or slot is None:
                    continue
                del batch.slots[slot]
                try:
                    with guard():
                        batch.generation.cancel(slot)
                except Abandoned:
                    raise
                except BaseException as exc:
                    events += self._broken(batch, exc)
                self._drop_if_empty(batch)
        return events

    def _admit_alone(self, guard: Guard) -> list[ReplyEvent]:
        n_main = len(self._main.slots) if self._main else 0
        if self._solo or n_main >= self.capacity:
            return []
        request = self._pop_alone()
        if request is None:
            return []
        self._solo = _Batch(None)  # type: ignore[arg-type]  # started below
        return self._admit(self._solo, [request], guard)

    def _admit_waiting(self, guard: Guard) -> list[ReplyEvent]:
        n_main = len(self._main.slots) if self._main else 0
        kept_free = 1 if self._solo or self._alone else 0
        newcomers = self._pop_waiting(self.capacity - n_main - kept_free)
        if not newcomers:
            return []
        if self._main is None:
            self._main = _Batch(None)  # type: ignore[arg-type]  # started below
        return self._admit(self._main, newcomers, guard)

    def _admit(self, batch: _Batch, newcomers: list[ReplyRequest], guard: Guard) -> list[ReplyEvent]:
        self._joining = newcomers
        try:
            with guard():
                if batch.generation is None:
                    batch.generation = self.bot.start()
                slots = batch.generation.admit([request.context for request in newcomers])
            if len(slots) != len(newcomers):
                raise BotError(f"returned {len(slots)} slots for {len(newcomers)} conversations")
        except Abandoned:
            raise
        except BaseException as exc:
            self._joining = []
            self._drop_if_empty(batch)
            return self._again(newcomers, exc)
        self._joining = []
        batch.slots.update(zip(slots, newcomers, strict=True))
        self._count()
        return []

    def _step(self, batch: _Batch, guard: Guard) -> list[ReplyEvent]:
        events: list[ReplyEvent] = []
        try:
            with guard():
                pieces = batch.generation.step()
            for piece in pieces:
                events += self._piece(batch, piece, guard)
        except Abandoned:
            raise
        except BaseException as exc:
            return events + self._broken(batch, exc)
        self._drop_if_empty(batch)
        return events

    def _piece(self, batch: _Batch, piece: Piece, guard: Guard) -> list[ReplyEvent]:
        ends = piece.done or piece.error is not None
        request = batch.slots.get(piece.slot)
        if request is None:  # left over from an `admit` that raised; no request belongs to it
            if not ends:
                with guard():
                    batch.generation.cancel(piece.slot)
            return []
        try:
            if piece.error is not None:
                raise BotError(piece.error)
            text = request.take(piece.text)
            done = piece.done or request.is_full
            if done:
                text += request.finish()
        except BotError as exc:
            self._end(batch, piece, guard)
            return [ReplyEvent(request, error=describe_error(exc))]
        if done:
            self._end(batch, piece, guard)
        return [ReplyEvent(request, text, done)] if text or done else []

    @staticmethod
    def _end(batch: _Batch, piece: Piece, guard: Guard) -> None:
        """Close a slot, cancelling it if the bot has not ended it."""
        del batch.slots[piece.slot]
        if not piece.done and piece.error is None:
            with guard():
                batch.generation.cancel(piece.slot)

    def _broken(self, batch: _Batch, exc: BaseException) -> list[ReplyEvent]:
        """Drop a batch that raised, and retry its requests alone."""
        concerned = list(batch.slots.values())
        batch.slots.clear()
        self._drop_if_empty(batch)
        return self._again(concerned, exc)

    def _drop_if_empty(self, batch: _Batch) -> None:
        """Release an empty batch and its memory."""
        if batch.slots:
            return
        if batch is self._main:
            self._main = None
        elif batch is self._solo:
            self._solo = None


class WholeDriver(_Queues):
    """Driver of a `WholeBot`.

    Waiting requests are answered together, up to its capacity.
    """

    def __init__(self, bot: WholeBot) -> None:
        super().__init__(bot.capacity)
        self.bot = bot
        self._running: list[ReplyRequest] = []

    def cancel(self, request: ReplyRequest) -> None:
        """Drop a waiting request, or discard the reply to a running one."""
        request.closed = True
        with self._lock:
            self._forget(request)

    def due_in(self, now: float, batch_wait_s: float) -> float | None:
        """Return the seconds until `turn` has work; None if none is in sight."""
        with self._lock:
            return self._wait_left(now, batch_wait_s)

    def turn(self, guard: Guard = nullcontext) -> list[ReplyEvent]:
        """Call `answer` once, with all waiting requests or one retried alone."""
        alone = self._pop_alone()
        batch = [alone] if alone else self._pop_waiting(self.capacity)
        if not batch:
            return []
        self._running = batch
        self.n_running = len(batch)
        try:
            with guard():
                texts = self.bot.answer([request.context for request in batch])
            self._check(texts, len(batch))
        except Abandoned:
            raise
        except BaseException as exc:
            return self._again(batch, exc)
        finally:
            # An abandoned thread must not overwrite its successor's results.
            if self._running is batch:
                self._running = []
                self.n_running = 0
        return [self._event(request, text) for request, text in zip(batch, texts, strict=True)]

    def drop_running(self, reason: str) -> list[ReplyEvent]:
        """Abandon the running call."""
        batch, self._running, self.n_running = self._running, [], 0
        return [ReplyEvent(request, error=reason) for request in batch]

    def drop_all(self, reason: str) -> list[ReplyEvent]:
        """Abandon running and waiting requests."""
        return self.drop_running(reason) + self._drop_queues(reason)

    @staticmethod
    def _check(texts: Sequence[str], n: int) -> None:
        if isinstance(texts, str) or len(texts) != n:
            received = "a text" if isinstance(texts, str) else f"{len(texts)} replies"
            raise BotError(f"returned {received} for {n} conversations; it must be a list of {n}")

    @staticmethod
    def _event(request: ReplyRequest, text: object) -> ReplyEvent:
        try:
            if not isinstance(text, str):
                raise BotError(f"returned a reply of type {type(text).__name__}; it must be text")
            fresh = request.take(text) + request.finish()
        except BotError as exc:
            return ReplyEvent(request, error=describe_error(exc))
        return ReplyEvent(request, fresh, done=True)
