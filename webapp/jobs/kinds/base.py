"""Contract of a kind of job, its registry, and loaded bots.

A kind declares its parameters (`Payload`), splits the work into parts (`plan`), does one of them (`slice`) and
makes the result of all (`finish`). Claiming, heartbeats, progress, stopping and resuming belong to the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, get_args

from django.conf import settings

from chatbots.registry import C, Registry
from chatbots.validation import InputModel
from webapp.bots.selectors import bots_find
from webapp.jobs.models import Job, JobBase

if TYPE_CHECKING:
    from chatbots.bots.base import Bot

Queue = Literal["gpu", "default", "analysis"]
QUEUES: tuple[Queue, ...] = get_args(Queue)


P = TypeVar("P", bound=InputModel)
J = TypeVar("J", bound=JobBase)


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """A part of the work.

    Attributes:
        payload: JSON that fixes what is to be done, batches included, so that who does it changes nothing.
        n_total: how much it is, in the unit that people see.
        n_done: how much of it is there already; all of it: the shard is done from the start.
    """

    payload: Mapping[str, Any] = field(default_factory=dict)
    n_total: int = 1
    n_done: int = 0


@dataclass(slots=True)
class ShardWork(Generic[J, P]):
    """Arguments of `slice` and `finish`.

    Attributes:
        job: its row.
        asked: its payload.
        shard: the part to do, as planned; empty in `finish`.
        beat: reports how much of the shard is done, of how much where that was not known before, and by `note=` what
            else pages show next to the job's progress. Call it often: it writes every other second at most, and raises
            `Stopped` when a user stopped the job or another process took the shard over.
    """

    job: J
    asked: P
    shard: Mapping[str, Any]
    beat: Callable[..., None]


class JobKind(Generic[J, P]):
    """One kind of job. Registered by its name, which rows keep: never rename it.

    Attributes:
        title: a few words for the pages.
        queue: of the workers that do it: "gpu" where models compute, "analysis" where a page waits for a few seconds of
            statistics, else "default".
        Payload: the model of what may be asked: a mistyped name or value is refused before there is a job.
        model: the table of its jobs; `Job` unless rows of its own are pointed to by others.
        is_server_wide: its jobs see all projects; other jobs see the one that they belong to.
    """

    name: ClassVar[str]
    title: ClassVar[Any]
    queue: ClassVar[Queue] = "default"
    Payload: ClassVar[type[InputModel]] = InputModel
    model: ClassVar[type[JobBase]] = Job
    is_server_wide: ClassVar[bool] = False

    def job_title(self, job: J) -> str:
        """Return the job's title on pages."""
        study = getattr(job, "study", None)
        return f"{self.title}: {study.name}" if study is not None else str(self.title)

    def queue_of(self, job: J) -> Queue:
        """Return the queue of this job, where it depends on what was asked."""
        return self.queue

    def check(self, asked: P) -> None:
        """Refuse what is well-formed but cannot be done, before there is a job.

        Raises:
            Refused: with what would be right.
        """

    def plan(self, job: J, asked: P) -> Iterable[ShardPlan]:
        """Return the parts of the work, in order. One part unless the kind says otherwise."""
        return [ShardPlan()]

    def slice(self, work: ShardWork[J, P]) -> Any:
        """Do one shard from its beginning and return its result as JSON, or None.

        It may be done again after a kill, and in rare cases by two processes at once: store so that this
        doubles nothing (unique constraints, `ignore_conflicts`).
        """
        raise NotImplementedError

    def finish(self, work: ShardWork[J, P], results: Sequence[Any]) -> Any:
        """Make the job's result of its shards' results, in their order. Called once all are done.

        Returns:
            JSON for `Job.result`; by default the single shard's, or the list of all.
        """
        return results[0] if len(results) == 1 else list(results)

    def follow_up(self, job: J) -> None:
        """Ask for what comes after a job that is done, in the transaction that ends it."""

    def restarted(self, job: J, *, had_failed: bool) -> None:
        """Prepare to go on with a job that failed or was stopped. Its finished shards stay done."""


kinds: Registry[JobKind[Any, Any]] = Registry("kind of job", "webapp.jobs.kinds")


def register_kind(cls: C) -> C:
    """Decorate a class: make one kind of it and list it."""
    kinds.register(cls)
    return cls


def kind_of(job: JobBase) -> JobKind[Any, Any]:
    """Return the kind of a job.

    Raises:
        UnknownName: a plug-in that is not installed here made it.
    """
    return kinds.get(job.kind)


def job_models() -> list[type[JobBase]]:
    """Return every table of jobs."""
    return list(dict.fromkeys([Job, *(kind.model for kind in kinds)]))


_loaded: dict[str, Bot] = {}


def bot_unloaded(bot_id: str) -> None:
    """Note that another part of this process has unloaded a bot: it is loaded again when it is needed."""
    _loaded.pop(bot_id, None)


def bots_loaded(needed: Sequence[str]) -> list[Bot]:
    """Return these bots, loaded once a process.

    Raises:
        BotError: if one cannot be loaded.
    """
    from chatbots.registry import bot_load

    bots_by_id = bots_find(needed)
    # One that is no longer registered, or registered again, is unloaded too.
    for bot_id in [bot_id for bot_id, bot in _loaded.items() if bot is not bots_by_id.get(bot_id)]:
        _loaded.pop(bot_id).unload()
    for bot_id in bots_by_id:
        if bot_id not in _loaded:
            _loaded[bot_id] = bot_load(bot_id, settings.CONFAB_DEVICE)
    return [_loaded[bot_id] for bot_id in needed]
