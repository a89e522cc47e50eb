"""Counts on dashboard pages: studies, and progress of bots and metrics.

Every page makes a constant number of queries.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Avg, Count, Exists, F, Max, OuterRef, Q, QuerySet
from django.db.models.functions import TruncDate
from django.utils import timezone

from chatbots.registry import title_of
from webapp.bots.models import BotVersion
from webapp.bots.selectors import bot_entry_list
from webapp.conversations.heartbeats import heartbeat_bots
from webapp.conversations.models import Conversation, PartnerSeat, Turn
from webapp.core.clock import database_now
from webapp.core.language import plural
from webapp.insights.bots import bot_state
from webapp.jobs.models import SELF_PLAY, MetricVersion, SelfPlayRun
from webapp.jobs.selectors.metrics import measurable, metrics_all, results_counted
from webapp.ratings.attention_results import ExcludedWork, excluded_work
from webapp.ratings.flag_selectors import left_out
from webapp.ratings.paired_comparisons import answers_counted
from webapp.ratings.selectors import NO_MODEL, most_replies, raters_count, study_bots, study_conversations
from webapp.search.index_statistics import rated_totals
from webapp.studies.assignment.capacity import bots_beyond_cap
from webapp.studies.models import ClosedBy, Outcome, Participant, Study, Task
from webapp.studies.protocols.base import get_protocol, protocols
from webapp.studies.selectors import items_given

_PILLS = {Study.State.DRAFT: "", Study.State.COLLECTING: "good", Study.State.PAUSED: "warn", Study.State.ENDED: "info"}
_DURATIONS = 2000
"""Number of newest conversations used for the median time."""

MOST_TO_COMPARE = 60
"""Maximum number of other studies offered for comparison, the newest ones."""


@dataclass(frozen=True, slots=True)
class StudyRow:
    """A study in the list.

    Attributes:
        latest: time of the latest activity in words; `latest_at` is the time.
        activity: completed chats, or tasks, of people on each of the last `ACTIVITY_DAYS` days, today last.
    """

    study: Study
    protocol: str
    pill: str
    state: str
    n_completed: int
    n_wanted: int
    n_bots: int
    latest: str
    latest_at: datetime
    activity: list[int]


ACTIVITY_DAYS = 14
"""Days of activity in the list of studies."""


@dataclass(frozen=True, slots=True)
class ItemCards:
    """Counts for studies in which participants rate items.

    They replace the length and duration of chats.

    Attributes:
        n_rated: items with a rating, out of `n_items`.
        set_apart: tasks excluded because the participant missed an attention check.
    """

    n_items: int
    n_rated: int
    n_ratings: int
    set_apart: ExcludedWork


@dataclass(frozen=True, slots=True)
class StudyCards:
    """Numbers above a study's pages; None if one does not apply.

    Attributes:
        n_completed: completed chats, or tasks if there are no chats (`of_tasks`).
        n_ratings, n_raters: ratings that count (`answers_counted`), and the participants who gave them.
        n_left: tasks that participants left, of `n_over` ended ones.
    """

    n_completed: int
    n_wanted: int
    n_people: int
    n_ratings: int
    n_raters: int
    left_early: float | None
    mean_exchanges: float | None
    median_s: float | None
    items: ItemCards | None = None
    of_tasks: bool = False
    n_left: int = 0
    n_over: int = 0


def study_state(study: Study) -> tuple[str, str]:
    """Return the state in a word, and its colour."""
    if study.is_imported:
        return "Imported", "info"
    return study.get_state_display(), _PILLS[Study.State(study.state)]


_KEPT = Q(archived_at=None)
STUDY_STATES = {
    "": ("All", _KEPT),
    **{state.value: (str(state.label), _KEPT & Q(state=state, is_imported=False)) for state in Study.State},
    "imported": ("Imported", _KEPT & Q(is_imported=True)),
    "archived": ("Archived", ~_KEPT),
}
"""Tabs of the list of studies by name: title and condition. Only the last tab has archived studies."""


def studies_found(state: str = "", words: str = "") -> QuerySet[Study]:
    """Return the studies of a tab that match these words, newest first.

    Names and keys are searched.
    """
    studies = Study.objects.filter(STUDY_STATES[state][1]).order_by("-created_at")
    return studies.filter(Q(name__icontains=words) | Q(key__icontains=words)) if words else studies


def study_counts() -> dict[str, int]:
    """Count the studies of each tab."""
    by_tab = {name or "all": Count("pk", filter=condition) for name, (_title, condition) in STUDY_STATES.items()}
    counts = Study.objects.aggregate(**by_tab)
    return {name: counts[name or "all"] for name in STUDY_STATES}


def study_rows(studies: QuerySet[Study]) -> list[StudyRow]:
    """Return rows of the list of studies, in the given order."""
    listed = list(studies)
    chat_counts: dict[int, dict[str, Any]] = {
        row["study"]: row  # type: ignore[misc]
        # These are studies of the project, so their chats need no check, one by one.
        for row in Conversation._base_manager.filter(study__in=listed)
        .exclude(source__in=Conversation.WITHOUT_PEOPLE)
        .values("study")
        .annotate(
            n=Count("pk", filter=Q(state=Conversation.State.COMPLETED, is_synthetic=False)),
            n_bots=Count("bot__bot_id", distinct=True),
            latest=Max("created_at", filter=Q(is_synthetic=False)),
        )
    }
    task_counts: dict[int, dict[str, Any]] = {
        row["study"]: row  # type: ignore[misc]
        for row in Task.objects.filter(participant__study__in=listed)
        .exclude(outcome=Outcome.NO_CONSENT)
        .order_by()
        .values(study=F("participant__study"))
        .annotate(
            n=Count("pk", filter=Q(state=Task.State.COMPLETED, participant__is_synthetic=False)),
            latest=Max("created_at", filter=Q(participant__is_synthetic=False)),
        )
    }
    rows, activity = [], _activity(listed)
    for study in listed:
        counts: dict[str, Any] = chat_counts.get(study.pk, {})
        if not (get_protocol(study).talks_to_bots or study.is_imported):
            counts = {**counts, "latest": None, **task_counts.get(study.pk, {"n": 0})}
        state, pill = study_state(study)
        rows.append(
            StudyRow(
                study=study,
                protocol="Imported ratings" if study.is_imported else title_of(protocols, study.protocol),
                pill=pill,
                state=state,
                n_completed=counts.get("n", 0),
                n_wanted=study.values.quotas.n_conversations_wanted,
                n_bots=max(len(study.bots), counts.get("n_bots", 0)),
                latest=_latest(study, counts.get("latest")),
                latest_at=counts.get("latest") or study.created_at,
                activity=activity[study.pk],
            )
        )
    return rows


def _activity(studies: Sequence[Study]) -> dict[int, list[int]]:
    """Return the completed tasks of people on each of the last days, by study."""
    today = timezone.localdate()
    tasks = Task.objects.filter(
        participant__study__in=studies,
        participant__is_synthetic=False,
        state=Task.State.COMPLETED,
        ended_at__gte=database_now() - timedelta(days=ACTIVITY_DAYS + 1),
    )
    activity = {study.pk: [0] * ACTIVITY_DAYS for study in studies}
    for study, day, n in (
        tasks.order_by()
        .annotate(day=TruncDate("ended_at"))
        .values_list("participant__study", "day")
        .annotate(n=Count("pk"))
    ):
        if 0 <= (days := (today - day).days) < ACTIVITY_DAYS:
            activity[study][-1 - days] = n
    return activity


def tour_study() -> Study | None:
    """Return the study of the guided tour.

    It is the oldest one that collects and can be rehearsed.
    """
    made_here = Study.objects.filter(is_imported=False, archived_at=None)
    return made_here.filter(state=Study.State.COLLECTING).order_by("pk").first()


def closed_sentence(study: Study) -> str:
    """Return when and why a study closed itself; empty if it did not."""
    if not study.closed_by or study.ended_at is None:
        return ""
    moment = timezone.localtime(study.ended_at)
    return f"The study closed itself on {moment.day} {moment:%b %Y, %H:%M}: {ClosedBy(study.closed_by).label}."


def _latest(study: Study, newest: datetime | None) -> str:
    if study.is_imported:
        return f"imported {ago(newest or study.created_at)}"
    chats = get_protocol(study).talks_to_bots
    if newest is None:
        if study.state == Study.State.DRAFT:
            return "not launched"
        return "no chat yet" if chats else "no task yet"
    if study.state == Study.State.PAUSED:
        return f"paused {ago(study.updated_at)}"
    if study.state == Study.State.ENDED:
        return f"ended {ago(study.updated_at)}"
    return ("last chat {when}" if chats else "last task {when}").format(when=ago(newest))


def ago(when: datetime) -> str:
    """Format the time since `when`, or its date after seven days."""
    elapsed = database_now() - when
    if elapsed < timedelta(minutes=1):
        return "just now"
    if elapsed < timedelta(hours=1):
        n = int(elapsed.total_seconds() // 60)
        return f"{n} min ago"
    if elapsed < timedelta(days=1):
        n = int(elapsed.total_seconds() // 3600)
        return f"{n} h ago"
    if elapsed < timedelta(days=7):
        return plural(elapsed.days, "%(n)d day ago", "%(n)d days ago") % {"n": elapsed.days}
    return f"{when.day} {when:%b}" + ("" if when.year == database_now().year else f" {when:%Y}")


def study_cards(
    study: Study, *, include_synthetic: bool = False, without: Sequence[str] = (), n_raters: int | None = None
) -> StudyCards:
    """Count a study's conversations and participants, and measure its chats.

    Args:
        without: names of flags; participants with one of them are excluded.
        n_raters: number of raters, if already known.
    """
    conversations = study_conversations(study, include_synthetic=include_synthetic, without=without)
    chat_totals = conversations.aggregate(n=Count("pk"), mean=Avg("n_exchanges"))
    durations = [
        (ended - started).total_seconds()
        for started, ended in conversations.filter(source=Conversation.Source.CHAT, ended_at__isnull=False)
        .order_by("-created_at")
        .values_list("created_at", "ended_at")[:_DURATIONS]
        if ended is not None
    ]
    # Participants who declined took no part.
    answered_no = Task.objects.filter(participant=OuterRef("pk"), outcome=Outcome.NO_CONSENT)
    declined = Q(consented_at=None) & Exists(answered_no)
    not_excluded = left_out(study, without, way="pk")
    people = Participant.objects.filter(~declined, not_excluded, study=study)
    if not include_synthetic:
        people = people.filter(is_synthetic=False)
    left_states = (Task.State.WITHDRAWN, Task.State.EXPIRED)
    assigned = Task.objects.filter(participant__in=people).aggregate(
        over=Count("pk", filter=~Q(state=Task.State.OPEN) & ~Q(outcome=Outcome.NO_CONSENT)),
        left=Count("pk", filter=Q(state__in=left_states)),
        done=Count("pk", filter=Q(state=Task.State.COMPLETED)),
    )
    of_items = get_protocol(study).judges_items
    of_tasks = of_items or not (get_protocol(study).talks_to_bots or study.is_imported)
    ratings = answers_counted(study, include_synthetic=include_synthetic, without=without)
    if get_protocol(study).compares_pairs:
        n_ratings = ratings.count()
    else:
        n_ratings = rated_totals(study, include_synthetic=include_synthetic, without=without)["n"]
    return StudyCards(
        n_completed=assigned["done"] if of_tasks else chat_totals["n"],
        n_wanted=study.values.quotas.n_conversations_wanted,
        n_people=people.count(),
        n_ratings=n_ratings,
        n_raters=raters_count(ratings) if n_raters is None else n_raters,
        left_early=assigned["left"] / assigned["over"] if assigned["over"] else None,
        mean_exchanges=chat_totals["mean"],
        median_s=statistics.median(durations) if durations else None,
        items=ItemCards(
            n_items=items_given(study).count(),
            n_rated=ratings.values("item").distinct().count(),
            n_ratings=n_ratings,
            set_apart=excluded_work(study, include_synthetic=include_synthetic),
        )
        if of_items
        else None,
        of_tasks=of_tasks,
        n_left=assigned["left"],
        n_over=assigned["over"],
    )


@dataclass(frozen=True, slots=True)
class BotProgress:
    """Conversations of one bot of a study by state.

    Attributes:
        reason: why it is not assigned, or its problem if it is.
        n_by_others: conversations in which a fallback bot, or its second address, gave a reply.
    """

    title: str
    bot_id: str
    slot: int
    is_control: bool
    n_completed: int
    n_open: int
    n_failed: int
    n_withdrawn: int
    reason: str
    is_offered: bool
    n_by_others: int


def bot_progress(study: Study, *, include_synthetic: bool = False) -> list[BotProgress]:
    """Return the progress of each bot of the study."""
    rows = study.conversations.exclude(source__in=Conversation.WITHOUT_PEOPLE)
    if not include_synthetic:
        rows = rows.filter(is_synthetic=False)
    # Group by version, an integer key: grouping by bot names is slow.
    by_version = list(rows.order_by().values_list("bot", "state").annotate(n=Count("pk")))
    versions = BotVersion.objects.filter(pk__in={version for version, _state, _n in by_version})
    names = dict(versions.values_list("pk", "bot_id"))
    counts: dict[tuple[str, str], int] = {}
    for version, state, n in by_version:
        key = names[version], state
        counts[key] = counts.get(key, 0) + n
    entries = {} if study.is_imported else {entry.id: entry for entry in bot_entry_list()}
    beyond = bots_beyond_cap(study)
    states = Conversation.State
    by_others = dict(
        rows.filter(turns__in=Turn.objects.exclude(answered_by=""))
        .values_list("bot__bot_id")
        .annotate(n=Count("pk", distinct=True))
        .order_by()
    )
    reports = {} if study.is_imported else heartbeat_bots()
    progress = []
    for bot in study_bots(study).values():
        entry = entries.get(bot.bot_id)
        reason, is_offered = "", True
        if not study.is_imported and bot.bot_id in study.bots:
            state = bot_state(entry, reports) if entry else None
            reason = state.reason if state else "no bot of this name is registered"
            reason = reason or beyond.get(bot.bot_id, "")
            is_offered = state is not None and state.is_offered and bot.bot_id not in beyond
        progress.append(
            BotProgress(
                bot.title,
                bot.bot_id,
                bot.slot,
                bot.is_control,
                counts.get((bot.bot_id, states.COMPLETED), 0),
                counts.get((bot.bot_id, states.OPEN), 0),
                counts.get((bot.bot_id, states.FAILED), 0),
                counts.get((bot.bot_id, states.WITHDRAWN), 0),
                reason,
                is_offered,
                by_others.get(bot.bot_id, 0),
            )
        )
    return progress


@dataclass(frozen=True, slots=True)
class ModelProgress:
    """Numbers of items with a reply by one model, and of their ratings."""

    title: str
    slot: int
    n_items: int
    n_ratings: int


def models_progress(study: Study, *, include_synthetic: bool = False) -> list[ModelProgress]:
    """Return the progress of each model's items.

    For studies in which participants rate items.
    """
    items = items_given(study).order_by()
    ratings = answers_counted(study, include_synthetic=include_synthetic).order_by()
    n_items, n_ratings = Counter[str](), Counter[str]()
    for number in range(most_replies(study) if get_protocol(study).compares_pairs else 1):
        reply, is_held = f"responses__{number}__model", f"responses__{number}__isnull"
        for model, n in items.filter(**{is_held: False}).values_list(reply).annotate(n=Count("pk")):
            n_items[model or NO_MODEL] += n
        rated = ratings.filter(**{f"item__{is_held}": False}).values_list(f"item__{reply}")
        for model, n in rated.annotate(n=Count("pk")):
            n_ratings[model or NO_MODEL] += n
    return [
        ModelProgress(model.title, model.slot, n_items[bot_id], n_ratings[bot_id])
        for bot_id, model in study_bots(study).items()
        if bot_id in n_items
    ]


@dataclass(frozen=True, slots=True)
class MetricProgress:
    """Progress of one metric over the conversations of a study."""

    name: str
    title: str
    n_done: int
    n_total: int
    n_old: int
    reason: str
    columns: int
    on_request: bool
    n_left_out: int
    """Number of conversations in a language that the metric does not support."""

    @property
    def sort(self) -> str:
        """Order of conversations, highest values first."""
        return f"-{self.name}"


def metrics_progress(study: Study, known_counts: Mapping[str, Counter[str]] | None = None) -> list[MetricProgress]:
    """Return the progress of each metric over the finished conversations.

    Current versions are counted.

    Args:
        known_counts: `results_counted` of the study, if already known.
    """
    metrics = metrics_all()
    n_total = measurable(study=study, run=None).count()
    counts_by_version = results_counted(study=study) if known_counts is None else known_counts
    names = dict(MetricVersion.objects.filter(key__in=list(counts_by_version)).values_list("key", "name"))
    keys = {metric.name: metric.identity.key for metric in metrics}
    counts: dict[str, int] = {}
    old: dict[str, int] = {}
    left_out: dict[str, int] = {}
    for key, by_language in counts_by_version.items():
        name, n = names[key], sum(by_language.values())
        if keys.get(name) == key:
            counts[name], left_out[name] = n, n - by_language[""]
        else:
            old[name] = old.get(name, 0) + n
    return [
        MetricProgress(
            metric.name,
            metric.title,
            counts.get(metric.name, 0),
            n_total,
            old.get(metric.name, 0),
            metric.unavailable_reason() or "",
            len(metric.columns),
            not getattr(metric, "default", True),
            left_out.get(metric.name, 0),
        )
        for metric in metrics
    ]


def imported_studies() -> list[Study]:
    """Return the studies that an import made, newest first, with `n_conversations`."""
    return list(
        Study.objects.filter(is_imported=True)
        .annotate(n_conversations=Count("conversations", distinct=True))
        .order_by("-created_at")[:20]
    )


def study_runs(study: Study) -> list[SelfPlayRun]:
    """Return the newest self-play runs with bots of the study."""
    bots = set(study.bots)
    return [run for run in SelfPlayRun.objects.filter(SELF_PLAY)[:200] if bots & set(run.plan.get("bots", []))]


def studies_talking() -> list[Study]:
    """Return the studies with chats, newest first."""
    studies = Study.objects.filter(is_imported=False).order_by("-created_at")
    return [study for study in studies if study.bots]


def studies_simulated() -> list[Study]:
    """Return active studies with chatbots or participants' chats, newest first."""
    studies = Study.objects.filter(archived_at__isnull=True).order_by("-created_at")
    return [study for study in studies if study.is_imported or study.bots]


def studies_to_compare(study: Study) -> list[Study]:
    """Return the studies comparable with this one: active ones, newest first."""
    other_studies = Study.objects.exclude(pk=study.pk).filter(archived_at__isnull=True)
    return list(other_studies.order_by("-created_at", "-pk")[:MOST_TO_COMPARE])


MOST_STAFF_CHATS = 50
STAFF_CHAT_SHOWN_FOR = timedelta(minutes=10)
"""Chats whose page has been closed for this long are excluded, because nobody reads the reply."""


def staff_seats(study: Study) -> list[PartnerSeat]:
    """Return open chats with a staff partner, the longest wait first."""
    open_seats = PartnerSeat.objects.filter(
        conversation__study=study,
        conversation__bot__params__by="staff",
        conversation__state=Conversation.State.OPEN,
        seen_at__gte=database_now() - STAFF_CHAT_SHOWN_FOR,
    ).exclude(state=PartnerSeat.State.OVER)
    rows = open_seats.select_related("conversation__bot", "conversation__slot__task__version", "staff")
    return list(rows.order_by("conversation__due_since", "created_at")[:MOST_STAFF_CHATS])
