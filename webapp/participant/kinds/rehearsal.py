"""Rehearsal started in the browser: a worker runs scripted participants."""

from __future__ import annotations

import asyncio
import queue
from typing import Any

import httpx
from django.conf import settings
from django.utils.translation import gettext_lazy as _
from pydantic import Field

from chatbots.threads import thread_start
from chatbots.validation import InputModel
from webapp.core.errors import Refused
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, register_kind
from webapp.jobs.models import Job
from webapp.participant.simulated import ScriptedVisit, rehearse
from webapp.participant.simulated.answers import script_in
from webapp.studies.selectors import rehearsal_token

MOST_PEOPLE = 200
"""Maximum number of scripted participants of a rehearsal that is started from the browser."""
_FAILURES_KEPT = 20
_LOOKED_AT_S = 1.0
Outcome = ScriptedVisit | Exception


class RehearsalParams(InputModel):
    """Parameters of a rehearsal: number of participants, and address.

    The address is that of the server in the researcher's browser.
    """

    people: int = Field(default=12, ge=1, le=MOST_PEOPLE)
    url: str = Field(default="", max_length=500)
    seed: int = 0


@register_kind
class Rehearsal(JobKind[Job, RehearsalParams]):
    """Job in which scripted participants complete a study's pages.

    The result lists those who completed them.
    """

    name = "rehearsal"
    title = _("Rehearsal")
    Payload = RehearsalParams

    def plan(self, job: Job, asked: RehearsalParams) -> list[ShardPlan]:
        return [ShardPlan(n_total=asked.people)]

    def slice(self, work: ShardWork[Job, RehearsalParams]) -> dict[str, Any]:
        study = work.job.study
        if study is None:
            raise Refused("no_study", "the job has no study to rehearse")
        url = settings.CONFAB_REHEARSAL_URL or work.asked.url
        try:
            httpx.get(f"{url}/healthz", timeout=10)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Refused(
                "no_server",
                f"the worker cannot reach the server at {url} ({error}); set CONFAB_REHEARSAL_URL to an address "
                "that it can reach",
            ) from None
        crowd = _Crowd(
            base_url=url,
            study_key=study.key,
            rehearsal_token=rehearsal_token(study),
            script=script_in(study.values.texts.language),
            n_people=work.asked.people,
            seed=work.asked.seed or work.job.pk,
        )
        played = crowd.play(work)
        failed = [str(outcome) for outcome in played if not isinstance(outcome, ScriptedVisit)]
        return {"people": len(played), "done": len(played) - len(failed), "failed": failed[:_FAILURES_KEPT]}


class _Crowd:
    """Runner in a separate thread.

    Heartbeats write to the database, which event loops cannot.
    """

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self.result: list[Outcome] | BaseException | None = None
        self.loop = asyncio.new_event_loop()
        self.task: asyncio.Task[list[Outcome]] | None = None

    def play(self, work: ShardWork[Job, RehearsalParams]) -> list[Outcome]:
        """Return every scripted participant's outcome.

        They are cancelled when the job is stopped.
        """
        thread = thread_start(self._run, name="rehearsal", daemon=False)
        n_done = 0
        try:
            while thread.is_alive() or not self.outcomes.empty():
                try:
                    self.outcomes.get(timeout=_LOOKED_AT_S)
                except queue.Empty:
                    pass
                else:
                    n_done += 1
                work.beat(n_done)
        except BaseException:
            self.loop.call_soon_threadsafe(self._cancel)
            raise
        finally:
            thread.join()
            self.loop.close()
        if isinstance(self.result, BaseException):
            raise self.result
        assert self.result is not None, "the thread ends with a result"
        return self.result

    def _run(self) -> None:
        async def all_of_them() -> list[Outcome]:
            return await rehearse(**self.arguments, on_played=self.outcomes.put)

        self.task = self.loop.create_task(all_of_them())
        try:
            self.result = self.loop.run_until_complete(self.task)
        except BaseException as error:  # raised in the waiting thread
            self.result = error

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()
