"""Contract of a kind of job, its registry, and loaded bots.

A kind declares its parameters (`Payload`), splits the work into parts (`plan`), processes one of them (`slice`) and
combines their results (`finish`). Claiming, heartbeats, progress, stopping and resuming belong to the engine.
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
    from evaluation.data.result_tables import NamedTable

Queue = Literal["gpu", "default", "analysis"]
QUEUES: tuple[Queue, ...] = get_args(Queue)


P = TypeVar("P", bound=InputModel)
J = TypeVar("J", bound=JobBase)


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """Part of a job's work.

    Attributes:
        payload: JSON that fixes the work, including its batches, so that the result does not depend on the worker.
        n_total: amount of work, in the unit shown on pages.
        n_done: amount already done; a shard with `n_done == n_total` is done from the start.
    """

    payload: Mapping[str, Any] = field(default_factory=dict)
    n_total: int = 1
    n_done: int = 0


@dataclass(slots=True)
class ShardWork(Generic[J, P]):
    """Arguments of `slice` and `finish`.

    Attributes:
        job: its row in the database.
        params: its payload.
        shard: the part to do, as planned; empty in `finish`.
        beat: reports the amount done, the total if it was unknown, and with `note=` a text shown next to the progress.
            Call it often: it writes at most every other second, and raises `Stopped` if a user stopped the job or
            another process took over the shard.
    """

    job: J
    params: P
    shard: Mapping[str, Any]
    beat: Callable[..., None]


class JobKind(Generic[J, P]):
    """Kind of job, registered under a name that must never change.

    Rows store the name.

    Attributes:
        title: a few words for the pages.
        queue: queue of its workers: "gpu" for models, "analysis" for a few seconds of statistics that a page waits for,
            else "default".
        Payload: pydantic model of the parameters; rejects unknown names and wrong values before a job is created.
        model: the table of its jobs; `Job`, unless other tables refer to jobs of this kind.
        writes_files: True if its jobs leave files that count towards the disk limit of their project.
        is_server_wide: True if its jobs can read all projects; other jobs read their own project only.
    """

    name: ClassVar[str]
    title: ClassVar[Any]
    queue: ClassVar[Queue] = "default"
    Payload: ClassVar[type[InputModel]] = InputModel
    model: ClassVar[type[JobBase]] = Job
    writes_files: ClassVar[bool] = False
    is_server_wide: ClassVar[bool] = False

    def job_title(self, job: J) -> str:
        """Return the job's title on pages."""
        study = getattr(job, "study", None)
        return f"{self.title}: {study.name}" if study is not None else str(self.title)

    def queue_of(self, job: J) -> Queue:
        """Return the job's queue; override if it depends on the parameters."""
        return self.queue

    def check(self, params: P) -> None:
        """Reject valid parameters that cannot be executed, before a job is created.

        Raises:
            Refused: with the valid alternatives.
        """

    def plan(self, job: J, params: P) -> Iterable[ShardPlan]:
        """Return the parts of the work, in order.

        By default there is one part.
        """
        return [ShardPlan()]

    def slice(self, work: ShardWork[J, P]) -> Any:
        """Process one shard from its start; return its JSON result or None.

        A shard may be repeated after a kill, and rarely processed twice at once: store results idempotently (unique
        constraints, `ignore_conflicts`).
        """
        raise NotImplementedError

    def finish(self, work: ShardWork[J, P], results: Sequence[Any]) -> Any:
        """Combine the results of all shards, in order, into the job's result.

        Returns:
            JSON for `Job.result`; by default the result of the only shard, or the list of all results.
        """
        return results[0] if len(results) == 1 else list(results)

    def describe_result(self, job: J, result: Any) -> list[str]:
        """Return sentences about the result of a finished job, for its page.

        A kind that returns none gets a table of its result.

        Args:
            result: `job.result`; None for jobs whose results are in other tables.
        """
        return []

    def result_tables(self, job: J, result: Any) -> Sequence[NamedTable]:
        """Return tables of the result of a finished job, for its page."""
        return ()

    def shard_title(self, shard: Mapping[str, Any]) -> str:
        """Return the title of a part in the list on the page of an unfinished job; without one, parts are not listed.

        Args:
            shard: payload of the part.
        """
        return ""

    def follow_up(self, job: J) -> None:
        """Request the next job, in the transaction that ends this one."""

    def restarted(self, job: J, *, had_failed: bool) -> None:
        """Prepare to resume a job that failed or was stopped.

        Finished shards stay done.
        """


kinds: Registry[JobKind[Any, Any]] = Registry("kind of job", "webapp.jobs.kinds")


def register_kind(cls: C) -> C:
    """Instantiate and register the decorated class as a kind of job."""
    kinds.register(cls)
    return cls


def kind_of(job: JobBase) -> JobKind[Any, Any]:
    """Return the kind of a job.

    Raises:
        UnknownName: it belongs to a plug-in that is not installed here.
    """
    return kinds.get(job.kind)


def job_models() -> list[type[JobBase]]:
    """Return every table of jobs."""
    return list(dict.fromkeys([Job, *(kind.model for kind in kinds)]))


_loaded: dict[str, Bot] = {}


def bot_unloaded(bot_id: str) -> None:
    """Forget a bot that other code in this process has unloaded.

    It is loaded again when needed.
    """
    _loaded.pop(bot_id, None)


def bots_loaded(needed: Sequence[str]) -> list[Bot]:
    """Return these bots, loaded once per process.

    Raises:
        BotError: if one cannot be loaded.
    """
    from chatbots.registry import bot_load

    bots_by_id = bots_find(needed)
    # Bots that are no longer registered, or registered again, are also unloaded.
    for bot_id in [bot_id for bot_id, bot in _loaded.items() if bot is not bots_by_id.get(bot_id)]:
        _loaded.pop(bot_id).unload()
    for bot_id in bots_by_id:
        if bot_id not in _loaded:
            _loaded[bot_id] = bot_load(bot_id, settings.CONFAB_DEVICE)
    return [_loaded[bot_id] for bot_id in needed]
