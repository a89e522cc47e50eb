"""Stored comparison of simulated participants with a study's people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import Count, Max, QuerySet

from chatbots.text import quote
from chatbots.validation import InputModel
from evaluation.data.formats.base import RecordRating
from evaluation.data.study import Study as NotebookStudy
from evaluation.data.study import StudyDialogue
from evaluation.metrics.base import MetricTable
from evaluation.simulation.realism.result import RealismResult
from evaluation.simulation.simulated_chats import SOURCE
from webapp.bots.models import Spending
from webapp.bots.selectors import spending_spent, text_store
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import conversations_for_metrics
from webapp.core.errors import Refused
from webapp.jobs.models import Job, MetricResult, SelfPlayRun, State
from webapp.jobs.selectors.analysis_tables import column_names
from webapp.jobs.selectors.metrics import measurable, metrics_find, versions_current
from webapp.jobs.selectors.selfplay import PARTICIPANT, run_with_metrics
from webapp.jobs.selectors.simulation import bots_simulated, chats_by_bot
from webapp.jobs.services.jobs import job_ask
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_conversations, study_ratings
from webapp.results.fingerprint import Reads, data_state
from webapp.studies.models import Study

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from evaluation.metrics.text_cache import TextCache

REALISM_KIND = "realism"
_READS: tuple[Reads, ...] = ("metrics",)
FEWEST_PLAYED = 3
"""Minimum number of bots that a self-play run must share with the study to be compared as well."""


class RealismParams(InputModel):
    """Parameters: ids of study and simulation run, and a simulated participant."""

    study: int
    run: int
    participant: str


def realism_ask(run: SelfPlayRun, participant: str = "", created_by: User | None = None) -> Job:
    """Return the job that compares a run with current data.

    It is created if needed.

    Args:
        participant: simulated participant of the run; empty: the first.

    Raises:
        Refused: the run is self-play, has no such participant, or no complete conversation.
    """
    if run.study is None:
        problem = "has no study with people to compare with" if run.is_simulated else "is self-play"
        raise Refused("bad_run", f"run {run.pk} {problem}; specify a run of simulated participants of a study")
    participant = participant or run.plan["participants"][0]
    if participant not in run.plan["participants"]:
        known_participants = ", ".join(run.plan["participants"])
        raise Refused("bad_run", f"run {run.pk} has no participant {quote(participant)}; it has {known_participants}")
    totals = _of_participant(run, participant).aggregate(n=Count("pk"), newest=Max("metric_results__created_at"))
    if not totals["n"]:
        raise Refused("no_conversations", f"run {run.pk} has no complete conversation of {participant} to compare")
    state = f"{data_state(run.study, _READS).digest}-{totals['n']}-{totals['newest'] or ''}"
    params = RealismParams(study=run.study.pk, run=run.pk, participant=participant)
    job_fields: dict[str, Any] = {
        "kind": REALISM_KIND,
        "payload": params.model_dump(),
        "state": state,
        "study": run.study,
    }
    job = job_ask(**job_fields, created_by=created_by)
    if job.state == State.DONE and realism_of(job) is None:  # from a Confab version with another result format
        job.delete()
        job = job_ask(**job_fields, created_by=created_by)
    return job


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """Work of a simulation before it starts, and what a comparison with people can answer.

    Attributes:
        answers: sentence on what can be answered.
        missing: sentences on what cannot, each with what it needs.
        n_exchanges: median exchanges of people's chats.
        n_calls, seconds, cost: for 100 conversations per bot; the last two as in the latest run, or None.
    """

    answers: str
    missing: tuple[str, ...]
    n_bots: int
    n_exchanges: int
    n_calls: int
    seconds: float | None
    cost: float | None


def simulation_plan(study: Study) -> SimulationPlan:
    """Return the questions that a simulation of the study can answer, and what it still needs."""
    from evaluation.hybrid.rivals import FEWEST_BOTS
    from evaluation.simulation.realism.compare import FEWEST_CHATS
    from evaluation.simulation.simulated_chats import DEFAULT_EXCHANGES

    by_bot, bots = chats_by_bot(study), bots_simulated(study)
    n_compared = sum(by_bot.get(bot, 0) >= FEWEST_CHATS for bot in bots)
    rated = Rating.objects.filter(conversation__in=study_conversations(study))
    n_rated = rated.order_by().values("conversation__bot__bot_id").distinct().count()
    missing = []
    if n_compared < len(bots):
        missing.append(
            f"{len(bots) - n_compared} of {len(bots)} bots cannot be compared with people: a bot needs {FEWEST_CHATS} "
            "complete chats of people."
        )
    if study.is_imported:
        missing.append("Whether simulated chats predict the order of the bots needs bots that can chat here.")
    elif n_rated < FEWEST_BOTS:
        missing.append(
            f"Whether simulated chats predict the order of the bots needs {FEWEST_BOTS} rated bots; this "
            f"study has {n_rated}."
        )
    answers = "No question about people can be answered yet."
    if n_compared:
        answers = (
            f"Whether simulated chats resemble those of people can be answered for {n_compared} of {len(bots)} bots."
        )
    lengths = sorted(study_conversations(study).values_list("n_exchanges", flat=True))
    n_exchanges = lengths[len(lengths) // 2] if lengths else DEFAULT_EXCHANGES
    run = study.simulations.filter(state=State.DONE, n_done__gt=0).order_by("-pk").first()
    seconds = cost = None
    if run is not None and run.started_at and run.ended_at:
        share = 100 * len(bots) / run.n_done
        seconds = (run.ended_at - run.started_at).total_seconds() * share
        spent = spending_spent(Spending.Of.RUN, str(run.pk))
        cost = spent * share if spent else None
    return SimulationPlan(answers, tuple(missing), len(bots), n_exchanges, 100 * len(bots) * n_exchanges, seconds, cost)


def realism_of(job: Job) -> RealismResult | None:
    """Return a job's stored result, or None."""
    if job.state != State.DONE or not job.result:
        return None
    try:
        return RealismResult.from_json(job.result)
    except (KeyError, TypeError, ValueError):
        return None


def realism_newest(study: Study, **params: Any) -> tuple[Job, RealismResult] | None:
    """Return a study's newest comparison, optionally of a run and participant."""
    jobs = Job.objects.filter(kind=REALISM_KIND, study=study, state=State.DONE).order_by("-pk")
    for job in jobs.filter(**{f"payload__{name}": value for name, value in params.items()}):
        if (comparison := realism_of(job)) is not None:
            return job, comparison
    return None


def realism_compute(run: SelfPlayRun, participant: str) -> RealismResult:
    """Compare the run with participants, and with self-play if available."""
    from evaluation.metrics.text_cache import TextCache
    from evaluation.simulation.realism.compare import realism

    assert run.study is not None
    shared = TextCache(settings.CONFAB_DEVICE, store=text_store())
    people = people_study(run.study, shared)
    simulated = simulated_study(run, participant, shared)
    played, selfplay = run_with_metrics(people.bots, FEWEST_PLAYED), None
    if played is not None:
        rows = measurable(study=None, run=played).filter(selfplay__partner_bot_id="")
        selfplay = _study(str(played), rows, shared, source="selfplay", is_selfplay=True)
    return realism(people, simulated, selfplay)


def people_study(study: Study, shared: TextCache) -> NotebookStudy:
    """Return a study's completed chats with ratings, in notebook format."""
    ratings = study_ratings(study)
    answers: dict[str, list[RecordRating]] = defaultdict(list)
    for i, conversation in enumerate(ratings.conversation):
        scores = {name: float(column[i]) for name, column in ratings.answers.items() if column[i] == column[i]}
        answers[conversation].append(RecordRating(scores, ratings.rater[i] or ""))
    return _study(
        study.key,
        study_conversations(study),
        shared,
        ratings=answers,
        scale={
            dimension.key: (dimension.low, dimension.high) for dimension in ratings.dimensions if not dimension.inferred
        }
        or None,
        reversed=tuple(dimension.key for dimension in ratings.dimensions if dimension.reversed),
        controls=tuple(sorted(ratings.controls)),
    )


def simulated_study(run: SelfPlayRun, participant: str, shared: TextCache) -> NotebookStudy:
    """Return a simulated participant's completed conversations.

    Those based on real chats have the ids of these chats.
    """
    rows = _of_participant(run, participant)
    within = rows.filter(bot__bot_id__in=list(run.plan["n_of_bot"])).values_list("pk", "selfplay__sources")
    names = {str(pk): str(sources[0]) for pk, sources in within}
    return _study(participant, rows, shared, names=names, source=SOURCE)


def _of_participant(run: SelfPlayRun, participant: str) -> QuerySet[Conversation]:
    return measurable(study=None, run=run).filter(selfplay__partner_bot_id=PARTICIPANT + participant)


def _study(
    name: str,
    rows: QuerySet[Conversation],
    shared: TextCache,
    *,
    names: Mapping[str, str] | None = None,
    source: str = "",
    ratings: dict[str, list[RecordRating]] | None = None,
    **study_fields: Any,
) -> NotebookStudy:
    """Return conversations in notebook format.

    Args:
        names: ids to use instead for some conversations.
    """
    rows, names = rows.order_by("created_at", "pk"), names or {}
    bot_and_person = {
        str(pk): (bot, str(person or "")) for pk, bot, person in rows.values_list("pk", "bot__bot_id", "participant")
    }
    chats = list(conversations_for_metrics(rows))
    dialogues = tuple(
        StudyDialogue(
            replace(chat, id=names.get(chat.id, chat.id)),
            bot_and_person[chat.id][0],
            source,
            tuple((ratings or {}).get(chat.id, ())),
            person=bot_and_person[chat.id][1],
        )
        for chat in chats
    )
    notebook_study = NotebookStudy(name, dialogues, device=settings.CONFAB_DEVICE, **study_fields)
    notebook_study.__dict__["shared"] = shared
    for name, table in _stored_metrics(rows, [chat.id for chat in chats]).items():
        notebook_study._computed[name] = replace(table, conversations=table.conversations.rename(index=names))
    return notebook_study


def _stored_metrics(rows: QuerySet[Conversation], ids: list[str]) -> dict[str, MetricTable]:
    """Return stored metric tables that cover every conversation.

    Other metrics are computed on access.
    """
    import pandas as pd

    metrics = metrics_find()
    versions = versions_current(metrics)
    names = {version.pk: name for name, version in versions.items()}
    values_by_metric: dict[str, dict[str, dict[str, float | None]]] = defaultdict(dict)
    results = MetricResult.objects.filter(conversation__in=rows, metric__in=list(names))
    for version, conversation, values in results.values_list("metric", "conversation", "values").iterator():
        values_by_metric[names[version]][str(conversation)] = values
    tables = {}
    for metric in metrics:
        if len(stored := values_by_metric[metric.name]) == len(ids):
            table = pd.DataFrame([stored[pk] for pk in ids], index=pd.Index(ids, name="conversation"))
            table = table.reindex(columns=column_names([metric])).astype(float)
            tables[metric.name] = MetricTable(pd.DataFrame(), table, {})
    return tables
