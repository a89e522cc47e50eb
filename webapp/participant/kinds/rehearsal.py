"""Rehearsal started in the browser: a worker runs scripted participants."""

from __future__ import annotations

import asyncio
import queue
from collections import Counter
from statistics import median
from typing import Any

import httpx
from django.conf import settings
from django.utils.translation import gettext_lazy as _
from pydantic import Field

from chatbots.threads import thread_start
from chatbots.validation import InputModel
from webapp.bots.selectors import bot_entry_list, bot_name
from webapp.conversations.selectors import slowest_reply
from webapp.core.errors import Refused
from webapp.core.language import plural
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

    def plan(self, job: Job, params: RehearsalParams) -> list[ShardPlan]:
        return [ShardPlan(n_total=params.people)]

    def slice(self, work: ShardWork[Job, RehearsalParams]) -> dict[str, Any]:
        study = work.job.study
        if study is None:
            raise Refused("no_study", "the job has no study to rehearse")
        url = settings.CONFAB_REHEARSAL_URL or work.params.url
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
            n_people=work.params.people,
            seed=work.params.seed or work.job.pk,
        )
        played = crowd.play(work)
        visits = [outcome for outcome in played if isinstance(outcome, ScriptedVisit)]
        failures = [outcome for outcome in played if not isinstance(outcome, ScriptedVisit)]
        slowest = slowest_reply(study, since=work.job.started_at)
        return {
            "people": len(played),
            "done": len(visits),
            "failed": [str(failure) for failure in failures[:_FAILURES_KEPT]],
            "steps": [getattr(failure, "step", "") for failure in failures],
            "median_s": round(median(visit.seconds for visit in visits), 1) if visits else None,
            "slowest": None if slowest is None else {"bot": slowest[0], "seconds": slowest[1]},
        }

    def describe_result(self, job: Job, result: Any) -> list[str]:
        sentences = [f"{result['done']} of {result['people']} scripted participants finished."]
        if result.get("median_s") is not None:
            sentences.append(f"Each took about {_say_minutes(result['median_s'])}; people take longer.")
        if result.get("slowest"):
            slowest = result["slowest"]
            sentences.append(f"The slowest reply took {slowest['seconds']:.1f} s ({bot_name(slowest['bot'])}).")
        for step, n in Counter(result.get("steps", ())).most_common():
            sentences.append(f"{n} got stuck {_PLACES.get(step, 'on another page')}.")
        for reason, n in Counter(result["failed"]).most_common(_REASONS_SHOWN):
            sentences.append(f"Reason, {n} times: {reason}" if n > 1 else f"Reason: {reason}")
        if result["failed"] and job.study is not None:
            entries = {entry.id: entry for entry in bot_entry_list()}
            troubled = [entries[bot_id] for bot_id in job.study.bots if bot_id in entries and entries[bot_id].trouble]
            sentences += [f"{entry.name} {entry.trouble}." for entry in troubled]
        return sentences


_PLACES = {
    "consent": "on the first page",
    "quiz": "in the quiz",
    "questions": "in the questions before the task",
    "practice": "in the practice",
    "chat": "in the chat",
    "arena": "in the chat",
    "picks": "in the chat",
    "form": "in the rating form",
    "judge": "while rating items",
}
_REASONS_SHOWN = 3


def _say_minutes(seconds: float) -> str:
    """Write a duration as 1:40 minutes, or in seconds below one minute."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d} minutes" if minutes else plural(rest, "1 second", f"{rest} seconds")


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
