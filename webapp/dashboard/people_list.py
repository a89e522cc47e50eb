"""List of a study's participants: filters, rows, and details.

A row is a visit: platforms may send a participant several times, and each visit is paid separately.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Sum
from django.http import QueryDict

from webapp.conversations.models import Conversation
from webapp.core.language import plural
from webapp.insights.data_quality import reports_of_person
from webapp.pay.models import Decision
from webapp.pay.services import visits_of_all_parts
from webapp.pay.submission_search import codes_shown, submissions_searched
from webapp.pay.submissions import (
    APPROVED,
    GONE,
    INSIDE,
    LEFT,
    SCREENED_OUT,
    SETTLED,
    Submission,
    SubmissionKey,
    Submissions,
)
from webapp.pay.submissions import REJECTED as REJECTED_THERE
from webapp.ratings.flag_selectors import Flag
from webapp.ratings.models import Rating
from webapp.ratings.selectors import BotInfo
from webapp.studies.models import Outcome, ParticipantMessage, Study, Task
from webapp.studies.protocols.base import protocols
from webapp.studies.recruitment.completion import money_text
from webapp.studies.selectors import condition_said

PAGE = 50
EVERYBODY, DONE, FLAGGED, REPORTED, WROTE = "", "done", "flagged", "reported", "wrote"
APPROVE, LOOK, OURS = "approve", "look", "ours"
SEND, FAILED, PAID, REJECTED, NOTHING = "send", "failed", "paid", "rejected", "nothing"
_OF_ALL = {
    EVERYBODY: "Everybody",
    INSIDE: "Not finished",
    DONE: "Done",
    LEFT: "Left",
    FLAGGED: "Flagged",
    REPORTED: "Reported",
    WROTE: "Message waiting",
}
_OF_PAY = {
    APPROVE: "To approve",
    LOOK: "To review",
    OURS: "Our fault",
    SEND: "To send",
    FAILED: "Not sent",
    PAID: "Paid",
    REJECTED: "Rejected",
}
_ALWAYS = (EVERYBODY, INSIDE, DONE, FLAGGED, APPROVE)
_OUTCOMES: dict[str, tuple[str, str]] = {
    Outcome.RATED: ("Done", "good"),
    Outcome.BOT_FAILED: ("Bot failed", "warn"),
    Outcome.FAILED_CHECK: ("Failed the check", "warn"),
    Outcome.SCREENED_OUT: ("Screened out", ""),
    Outcome.WITHDRAWN: ("Withdrew", "info"),
    Outcome.NO_CONSENT: ("Did not agree", ""),
    Outcome.LATE: ("Too late", "warn"),
    LEFT: ("Left", ""),
    INSIDE: ("Not finished", "info"),
}
_NEXT = {
    APPROVE: "Approve",
    OURS: "Approve",
    LOOK: "Look",
    SEND: "To send",
    FAILED: "Could not be sent",
    PAID: "Paid",
    REJECTED: "Rejected",
}
_APPROVED = Decision.Action.APPROVE.value
_RATED = Outcome.RATED.value
_FAILED_CHECK = Outcome.FAILED_CHECK.value
_NOT_SENT = frozenset((Decision.State.FAILED.value, Decision.State.UNSURE.value))
_TO_SEND = frozenset((Decision.State.DECIDED.value, Decision.State.SENDING.value))
NO_FLAGS: list[Flag] = []

Flags = Mapping[SubmissionKey, list[Flag]]


@dataclass(frozen=True, slots=True)
class PeopleFilters:
    """Filters of the list.

    They are group, kind of flag, search words, page, and whether to include scripted participants.
    """

    show: str = EVERYBODY
    flag: str = ""
    words: str = ""
    page: int = 1
    synthetic: bool = False

    @classmethod
    def from_query(cls, query: QueryDict, *, pays: bool) -> PeopleFilters:
        """Parse an address; invalid values are ignored.

        Args:
            pays: whether the user may filter by decisions about pay.
        """
        show, page = query.get("show", ""), query.get("page", "")
        return cls(
            show=show if show in (_OF_ALL | _OF_PAY if pays else _OF_ALL) else EVERYBODY,
            flag=query.get("flag", "")[:50],
            words=" ".join(query.get("words", "").replace("\x00", "").split())[:200],
            page=max(1, int(page)) if page.isascii() and page.isdigit() and len(page) < 7 else 1,
            synthetic=query.get("synthetic") == "1",
        )

    def query(self, **changed: Any) -> str:
        """Return the query string of these filters, with changes."""
        params = {"show": self.show, "flag": self.flag, "words": self.words, "page": self.page}
        params |= {"synthetic": "1" if self.synthetic else "", **changed}
        if params["page"] == 1:
            params["page"] = ""
        return urlencode({name: value for name, value in params.items() if value})


def state_of(visit: Submission, flags: Sequence[Flag]) -> str:
    """Return the state of a visit's pay, by the action that it needs."""
    if visit.is_synthetic:
        return NOTHING
    if visit.verdict is not None or visit.bonuses:
        states = {decision.state for decision in visit.decisions}
        if states & _NOT_SENT:
            return FAILED
        # A waiting bonus must not hide participants whose work still needs approval.
        is_approved_first = visit.verdict is None and visit.earns and visit.can_be_approved
        if states & _TO_SEND and not is_approved_first:
            return SEND
        if visit.verdict is not None:
            return PAID if visit.verdict.action == _APPROVED else REJECTED
    if visit.status in SETTLED:  # decided on the platform itself
        return {APPROVED: PAID, SCREENED_OUT: PAID, REJECTED_THERE: REJECTED}.get(visit.status, NOTHING)
    if visit.fault:
        return OURS
    if visit.outcome == _FAILED_CHECK or (flags and visit.earns):
        return LOOK
    return APPROVE if visit.earns or (visit.owes and visit.pay.text) else NOTHING


@dataclass(frozen=True, slots=True)
class PersonRow:
    """Visit in the list, formatted for display.

    Attributes:
        name: the platform's id, shortened, or our own if the user may not see that; `id` is the full id.
        step: latest step; empty once the task has ended.
        bots: bots that were assigned.
        reports: numbers of reported replies and of unseen reports.
        state, next: state of the pay, and the next action.
        owed: amount owed for the visit; empty for nothing.
        error: why a decision could not be sent.
    """

    visit: Submission
    name: str
    id: str
    outcome: str
    pill: str
    step: str
    bots: list[BotInfo]
    code: str
    flags: list[Flag]
    reports: tuple[int, int]
    state: str
    next: str
    owed: str
    error: str


def visit_filter(visit: Submission) -> dict[str, Any]:
    """Return the filter of a visit's tasks and decisions."""
    return {"participant": visit.key.participant, "submission": visit.key.submission}


@dataclass(frozen=True, slots=True)
class PeopleList:
    """Page of the list with its counts.

    Attributes:
        groups: groups to choose from: name, title, number of visits.
        first, last, total: positions of the rows, from 1, and their total number.
        n_open: visits that wait for approval or submission, by state.
        n_by_api, n_by_file: decided but unsent visits from Prolific and from Mechanical Turk.
        n_by_hand: decided but unsent visits whose platform cannot pay this amount.
        n_bot_failed, n_server_failed: visits that ended through a failure of a bot, or of the server.
        newest: number of the newest decision in effect; 0 without one.
        to_pay: formatted amount still to be paid; empty if unknown.
        n_all_parts: participants who completed all parts and have not got the bonus for it.
    """

    rows: list[PersonRow]
    groups: list[tuple[str, str, int]]
    first: int
    last: int
    total: int
    n_open: dict[str, int]
    n_by_api: int
    n_by_file: int
    n_by_hand: int
    n_bot_failed: int
    n_server_failed: int
    newest: int
    to_pay: str
    n_all_parts: int


@dataclass(frozen=True)
class PeopleReader:
    """Reader of visits as rows, with the user's rights and shared data.

    Attributes:
        pays: whether the study pays, and the user may decide about pay and see codes.
        with_ids: whether the user may see and search the platform's ids.
        messages: numbers of unanswered messages, by participant.
        reports: numbers of reported and of unseen replies, by participant.
    """

    visits: Submissions
    flags: Flags
    reports: Mapping[UUID, tuple[int, int]]
    bots: Mapping[str, BotInfo]
    pays: bool
    with_ids: bool
    messages: Mapping[UUID, int]

    @property
    def study(self) -> Study:
        """Study of the visits."""
        return self.visits.study

    def page(self, filters: PeopleFilters) -> PeopleList:
        """Return the page of the list that the filters select."""
        # Each flag is looked up once: the hash of a key is made in Python, which counts for 10,000 visits.
        flagged = [(visit, self.flags.get(visit.key, NO_FLAGS)) for visit in self.visits.all]
        states = [state_of(visit, flags) for visit, flags in flagged]
        groups = [
            (visit, tuple(self._groups(visit, flags, state)))
            for (visit, flags), state in zip(flagged, states, strict=True)
        ]
        counts = Counter(chain.from_iterable(names for _visit, names in groups))
        open_counts = Counter(states) if self.pays else Counter[str]()
        matching_visits = self._matching(filters, [visit for visit, names in groups if filters.show in names])
        page = min(filters.page, max(1, -(-len(matching_visits) // PAGE)))
        some = matching_visits[(page - 1) * PAGE : page * PAGE]
        ours = [visit for visit, state in zip(self.visits.all, states, strict=True) if state == OURS]
        to_send = [visit for visit, names in groups if SEND in names]
        return PeopleList(
            rows=self.rows(some),
            groups=[
                (name, title, counts[name])
                for name, title in (_OF_ALL | _OF_PAY if self.pays else _OF_ALL).items()
                if name in _ALWAYS or counts[name] or name == filters.show
            ],
            first=(page - 1) * PAGE + 1 if some else 0,
            last=(page - 1) * PAGE + len(some),
            total=len(matching_visits),
            n_open={name: open_counts[name] for name in (APPROVE, OURS, LOOK, FAILED)} | {SEND: counts[SEND]},
            n_by_api=sum(visit.platform == "prolific" for visit in to_send),
            n_by_file=sum(v.platform == "mturk" for v, names in groups if SEND in names or FAILED in names),
            n_by_hand=sum(visit.is_to_be_paid and visit.is_paid_by_hand for visit in to_send),
            n_bot_failed=sum(visit.outcome == Outcome.BOT_FAILED for visit in ours),
            n_server_failed=sum(visit.fault == "server" for visit in ours),
            newest=max((decision.pk for visit in self.visits.all for decision in visit.decisions), default=0),
            to_pay=to_pay_said(self.visits) if self.pays else "",
            n_all_parts=len(visits_of_all_parts(self.visits)) if self.pays else 0,
        )

    def _matching(self, filters: PeopleFilters, visits: Sequence[Submission]) -> list[Submission]:
        """Return those of the visits that have the filters' flag and words."""
        if filters.flag:
            visits = [v for v in visits if any(f.name == filters.flag for f in self.flags.get(v.key, NO_FLAGS))]
        return submissions_searched(self.visits, filters.words, among=visits, by_id=self.with_ids, by_code=self.pays)

    def neighbours(self, visit: Submission, filters: PeopleFilters) -> list[Submission | None]:
        """Return the visits before and after this one in the filtered list; None at its ends."""
        shown = []
        for each in self.visits.all:
            flags = self.flags.get(each.key, NO_FLAGS)
            if (filters.synthetic or visit.is_synthetic or not each.is_synthetic) and filters.show in self._groups(
                each, flags, state_of(each, flags)
            ):
                shown.append(each)
        listed = [None, *self._matching(filters, shown), None]
        place = next((i for i, each in enumerate(listed) if each is not None and each.key == visit.key), None)
        return [None, None] if place is None else [listed[place - 1], listed[place + 1]]

    def _groups(self, visit: Submission, flags: list[Flag], state: str) -> Iterator[str]:
        """Look up each flag only once: hashing keys in Python is slow for 10,000 visits."""
        yield EVERYBODY
        yield DONE if visit.outcome == _RATED else visit.outcome
        if flags:
            yield FLAGGED
        if self.reports and visit.key.participant in self.reports:
            yield REPORTED
        if visit.key.participant in self.messages:
            yield WROTE
        if self.pays:
            if state not in (OURS, SEND):
                yield state
            if visit.fault and not visit.is_synthetic:
                yield OURS
            if state != FAILED and any(decision.state in _TO_SEND for decision in visit.decisions):
                yield SEND

    def rows(self, visits: Sequence[Submission]) -> list[PersonRow]:
        """Return these visits, formatted, in a constant number of queries."""
        codes = codes_shown(visits) if self.pays else {}
        steps = {step.name: step.heading for step in protocols.get(self.study.protocol).steps}
        step_of: dict[tuple[UUID, str], str] = {}
        bots_of: dict[tuple[UUID, str], dict[str, None]] = {}
        tasks = Task.objects.filter(participant__in={visit.key.participant for visit in visits})
        columns = ("participant", "submission", "whereabouts__step", "slots__bot_id")
        for person, submission, step, bot_id in tasks.order_by("pk", "slots__order").values_list(*columns):
            step_of[person, submission] = str(steps.get(step, ""))
            if bot_id:
                bots_of.setdefault((person, submission), {})[bot_id] = None
        return [
            self._row(
                visit,
                codes.get(visit.key, ""),
                step_of.get(visit.key, "") if visit.outcome in (INSIDE, LEFT) else "",
                [self.bots.get(bot_id) or BotInfo(bot_id, bot_id, 0, False) for bot_id in bots_of.get(visit.key, ())],
            )
            for visit in visits
        ]

    def _row(self, visit: Submission, code: str, step: str, bots: list[BotInfo]) -> PersonRow:
        flags = self.flags.get(visit.key, NO_FLAGS)
        name = visit.external_id if self.with_ids and visit.external_id else visit.key.participant.hex
        outcome, pill = _OUTCOMES[visit.outcome]
        if visit.fault == "server":
            outcome = f"Server failed ({visit.reference})"
        elif visit.fault and visit.outcome == LEFT:
            outcome = "Lost a chat"
        state = state_of(visit, flags)
        return PersonRow(
            visit=visit,
            name=name if len(name) <= 10 else f"{name[:4]}…{name[-4:]}",
            id=name,
            outcome=outcome,
            pill="warn" if visit.is_ours else pill,
            step=step,
            bots=bots,
            code=code,
            flags=flags,
            reports=self.reports.get(visit.key.participant, (0, 0)),
            state=state,
            next=self._next(visit, state),
            owed=visit.pay.text if visit.owes else "",
            error=" ".join(decision.error for decision in visit.decisions if decision.error),
        )

    def _next(self, visit: Submission, state: str) -> str:
        if state == APPROVE and visit.is_paid_by_hand:
            return "Pay by hand"
        if state != NOTHING:
            return _NEXT[state]
        if visit.is_synthetic:
            return "–"
        if visit.status in GONE:
            return "Returned" if visit.status == GONE[0] else "Timed out"
        return "–" if visit.outcome == INSIDE else "No pay"

    def details(self, visit: Submission) -> PersonDetails:
        """Return the details of a visit."""
        task_key = visit_filter(visit)
        chats = Conversation.objects.filter(**{f"slot__task__{name}": value for name, value in task_key.items()})
        decisions = Decision.objects.filter(**task_key).select_related("decided_by", "closed_by").order_by("pk")
        currency = self.study.values.recruitment.currency
        [row] = self.rows([visit])
        ordered_chats = list(chats.select_related("bot").order_by("created_at", "pk"))
        levels: dict[str, dict[str, None]] = {}
        for chat in ordered_chats:
            for factor, level in condition_said(self.study, chat.condition):
                levels.setdefault(factor, {})[level] = None
        return PersonDetails(
            row=row,
            submission=visit.key.submission if self.with_ids else "",
            n_messages=chats.aggregate(n=Sum("n_exchanges"))["n"],
            n_ratings=Rating.objects.filter(**{f"task__{name}": value for name, value in task_key.items()}).count(),
            chats=ordered_chats,
            history=[
                (decision, money_text(decision.amount, currency) if decision.amount is not None else "")
                for decision in decisions
            ]
            if self.pays
            else [],
            reports=reports_of_person(visit.key.participant),
            messages=list(ParticipantMessage.objects.filter(participant=visit.key.participant)),
            other_visits=[
                other_visit
                for other_visit in self.visits.get_visits(visit.key.participant)
                if other_visit.key != visit.key
            ],
            conditions=[(factor, ", ".join(names)) for factor, names in levels.items()],
            timeline=self._timeline(visit, row, ordered_chats),
        )

    def _timeline(self, visit: Submission, row: PersonRow, chats: Sequence[Conversation]) -> list[VisitEvent]:
        """Return the events of a participant's visit, in order of time."""
        events = [VisitEvent(visit.began_at, "Started the task")]
        titles = {bot.bot_id: bot.title for bot in self.bots.values()}
        for chat in chats:
            name = titles.get(chat.bot.bot_id, chat.bot.bot_id)
            events.append(VisitEvent(chat.created_at, f"Started a chat with {name}", chat.pk))
            if chat.ended_at is not None:
                n = plural(chat.n_exchanges, "1 exchange", "%(n)d exchanges") % {"n": chat.n_exchanges}
                state = Conversation.State(chat.state).label.lower()
                events.append(VisitEvent(chat.ended_at, f"Ended the chat after {n}: {state}", chat.pk))
        tasks = {f"task__{name}": value for name, value in visit_filter(visit).items()}
        for at, chat_id in Rating.objects.filter(**tasks).values_list("submitted_at", "conversation"):
            events.append(VisitEvent(at, "Submitted a rating", chat_id))
        for message in ParticipantMessage.objects.filter(participant=visit.key.participant):
            events.append(VisitEvent(message.created_at, "Wrote to the researchers"))
        for report, _text, _bot in reports_of_person(visit.key.participant):
            events.append(VisitEvent(report.created_at, f"Reported a reply: {report.get_reason_display()}"))
        if visit.ended_at is not None:
            events.append(VisitEvent(visit.ended_at, f"Ended the visit: {row.outcome.lower()}"))
        ordered = sorted(events, key=lambda event: event.at)
        return [replace(event, since_s=(event.at - ordered[0].at).total_seconds()) for event in _merge_equal(ordered)]


@dataclass(frozen=True, slots=True)
class VisitEvent:
    """Event of a visit.

    Attributes:
        chat: id of the conversation that it belongs to.
        since_s: seconds since the first event.
        count: number of equal events within a second, such as ratings of one form.
    """

    at: datetime
    words: str
    chat: UUID | None = None
    since_s: float = 0.0
    count: int = 1


def _merge_equal(events: Sequence[VisitEvent]) -> list[VisitEvent]:
    """Join equal events of the same second, such as the ratings of one form."""
    merged: list[VisitEvent] = []
    for event in events:
        last = merged[-1] if merged else None
        if (
            last
            and (last.words, last.chat) == (event.words, event.chat)
            and (event.at - last.at) < timedelta(seconds=1)
        ):
            merged[-1] = replace(last, count=last.count + 1)
        else:
            merged.append(event)
    return merged


@dataclass(frozen=True, slots=True)
class PersonDetails:
    """Details of a visit.

    Attributes:
        n_messages: messages that the participant wrote; None without a chat.
        n_ratings: ratings that the participant gave.
        chats: the visit's conversations, oldest first.
        history: all decisions with their amounts, oldest first.
        reports: reported replies: report, text, and bot or model.
        messages: messages to the researchers, oldest first.
        other_visits: other visits of the participant.
        conditions: factors with the levels of the chats, without duplicates, in order.
        timeline: events of the visit, oldest first.
    """

    row: PersonRow
    submission: str
    n_messages: int | None
    n_ratings: int
    chats: list[Conversation]
    history: list[tuple[Decision, str]]
    reports: list[tuple[Any, str, str]]
    messages: list[ParticipantMessage]
    other_visits: list[Submission]
    conditions: list[tuple[str, str]]
    timeline: list[VisitEvent]


def to_pay_said(visits: Submissions) -> str:
    """Return the amount due for all visits, without and with bonuses.

    It is formatted.
    """
    currency = visits.study.values.recruitment.currency
    amounts = visits.to_pay
    by_words = f", {visits.n_unknown_amounts} by hand without an amount" if visits.n_unknown_amounts else ""
    bonuses = money_text(amounts.bonuses, currency)
    if amounts.work is None or amounts.with_bonuses is None:
        return f"{bonuses} of bonuses to pay{by_words}" if amounts.bonuses else by_words.removeprefix(", ")
    work = money_text(amounts.work, currency)
    if not amounts.bonuses:
        return f"{work} to pay, no bonuses{by_words}"
    return f"{work} to pay, {money_text(amounts.with_bonuses, currency)} with bonuses{by_words}"
