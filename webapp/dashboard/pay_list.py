"""List of visits on the pay page, and one visit's details."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Sum
from django.http import QueryDict

from webapp.conversations.models import Conversation
from webapp.pay.models import Decision
from webapp.pay.submissions import (
    APPROVED,
    GONE,
    INSIDE,
    LEFT,
    SETTLED,
    Submission,
    SubmissionKey,
    Submissions,
    codes_shown,
    submissions_searched,
)
from webapp.pay.submissions import REJECTED as REJECTED_THERE
from webapp.ratings.flag_selectors import Flag
from webapp.ratings.models import Rating
from webapp.studies.models import Outcome, Study

PAGE = 50
EVERYBODY, APPROVE, LOOK, OURS = "", "approve", "look", "ours"
SEND, FAILED, PAID, REJECTED, NOTHING = "send", "failed", "paid", "rejected", "nothing"
_SHOWN = (
    (EVERYBODY, "Everybody"),
    (APPROVE, "To approve"),
    (LOOK, "To look at"),
    (OURS, "Fault of ours"),
    (SEND, "To send"),
    (FAILED, "Not sent"),
    (PAID, "Paid"),
    (REJECTED, "Rejected"),
)
_ALWAYS = (EVERYBODY, APPROVE, LOOK, OURS, PAID)
_OUTCOMES: dict[str, tuple[Any, str]] = {
    Outcome.RATED: ("Done", "good"),
    Outcome.BOT_FAILED: ("Bot failed", "warn"),
    Outcome.FAILED_CHECK: ("Failed the check", "warn"),
    Outcome.SCREENED_OUT: ("Screened out", ""),
    Outcome.WITHDRAWN: ("Withdrew", "info"),
    Outcome.NO_CONSENT: ("Did not agree", ""),
    LEFT: ("Left", ""),
    INSIDE: ("Not finished", "info"),
}
_APPROVED = Decision.Action.APPROVE.value
_FAILED_CHECK = Outcome.FAILED_CHECK.value
_NOT_SENT = frozenset((Decision.State.FAILED.value, Decision.State.UNSURE.value))
_TO_SEND = frozenset((Decision.State.DECIDED.value, Decision.State.SENDING.value))
_SYMBOLS = {"GBP": "£", "USD": "$", "EUR": "€"}


@dataclass(frozen=True, slots=True)
class PayFilters:
    """Filters of the visits shown: state, search words, and page."""

    show: str = EVERYBODY
    words: str = ""
    page: int = 1

    @classmethod
    def of(cls, query: QueryDict) -> PayFilters:
        """Read from an address; what is not understood is left out."""
        show = query.get("show", "")
        page = query.get("page", "")
        return cls(
            show=show if show in dict(_SHOWN) else EVERYBODY,
            words=" ".join(query.get("words", "").replace("\x00", "").split())[:200],
            page=max(1, int(page)) if page.isascii() and page.isdigit() and len(page) < 7 else 1,
        )

    def query(self, **changed: Any) -> str:
        """Return the address part that keeps these filters, but for what is changed."""
        found = {"show": self.show, "words": self.words, "page": self.page, **changed}
        if found["page"] == 1:
            found["page"] = ""
        return urlencode({name: value for name, value in found.items() if value})


def state_of(visit: Submission, flags: Sequence[Flag]) -> str:
    """Return the state of a visit in the pay list: the action that it needs."""
    if visit.verdict is not None or visit.bonuses:
        states = {one.state for one in visit.decisions}
        if states & _NOT_SENT:
            return FAILED
        # A bonus that waits to be sent hides nobody whose work is still to be approved.
        is_approved_first = visit.verdict is None and visit.earns and visit.can_be_approved
        if states & _TO_SEND and not is_approved_first:
            return SEND
        if visit.verdict is not None:
            return PAID if visit.verdict.action == _APPROVED else REJECTED
    if visit.status in SETTLED:  # decided on the platform itself
        return {APPROVED: PAID, REJECTED_THERE: REJECTED}.get(visit.status, NOTHING)
    if visit.fault:
        return OURS
    if visit.outcome == _FAILED_CHECK or (flags and visit.earns):
        return LOOK
    return APPROVE if visit.earns else NOTHING


@dataclass(frozen=True, slots=True)
class PayRow:
    """One visit of the list, in words.

    Attributes:
        name: the platform's id, shortened, or where it may not be seen our own.
        id: the whole of it.
        next: what is to be done.
        error: why a decision could not be sent.
    """

    visit: Submission
    name: str
    id: str
    outcome: Any
    pill: str
    code: str
    flags: list[Flag]
    state: str
    next: str
    error: str


@dataclass(frozen=True, slots=True)
class PayList:
    """The list and the numbers beside it.

    Attributes:
        rows: of the page shown.
        shown: the states to choose from: name, title, number of visits.
        first, last, total: which rows of how many these are, from 1.
        n_open: how many visits wait for an approval, by state.
        n_by_api: how many visits of Prolific's people are decided and not sent.
        n_by_file: the same of Mechanical Turk's.
        n_bot_failed: how many of those that are our fault have the code for it.
        n_server_failed: how many of them went away after a page that our server could not make.
        newest: the number of the newest decision that stands; 0 where none does.
        to_pay: what is still to be paid, without bonuses and with them; empty where the study does not say what it
            pays and nobody is owed a bonus.
    """

    rows: list[PayRow]
    shown: list[tuple[str, Any, int]]
    first: int
    last: int
    total: int
    n_open: dict[str, int]
    n_by_api: int
    n_by_file: int
    n_bot_failed: int
    n_server_failed: int
    newest: int
    to_pay: str

    @property
    def has_more(self) -> bool:
        """True if there is a later page."""
        return self.last < self.total


def pay_list(
    visits: Submissions,
    flags: Mapping[SubmissionKey, list[Flag]],
    filters: PayFilters,
    codes: Any,
    *,
    with_ids: bool,
) -> PayList:
    """Return the page of the list that the filters ask for.

    Args:
        codes: a function from visits to the codes they were shown.
        with_ids: whether the platform's ids may be seen and searched.
    """
    none: list[Flag] = []
    states = [state_of(visit, flags.get(visit.key, none)) for visit in visits.all]
    counts = Counter(states)
    ours = [v for v, state in zip(visits.all, states, strict=True) if state == OURS]
    waiting: dict[str, list[Submission]] = {SEND: [], FAILED: []}
    for visit, state in zip(visits.all, states, strict=True):
        if state == FAILED or _is_to_send(visit):
            waiting[FAILED if state == FAILED else SEND].append(visit)
    found = visits.all
    if filters.show == OURS:
        found = [visit for visit in found if visit.fault]
    elif filters.show == SEND:
        found = waiting[SEND]
    elif filters.show:
        found = [v for v, state in zip(found, states, strict=True) if state == filters.show]
    found = submissions_searched(visits, filters.words, among=found, by_id=with_ids)
    n_pages = max(1, -(-len(found) // PAGE))
    page = min(filters.page, n_pages)
    some = found[(page - 1) * PAGE : page * PAGE]
    shown_codes = codes(some)
    numbers = {**counts, EVERYBODY: len(visits.all), OURS: sum(bool(v.fault) for v in visits.all)}
    numbers[SEND] = len(waiting[SEND])
    return PayList(
        rows=[
            row_of(
                visits.study,
                visit,
                flags.get(visit.key, []),
                state_of(visit, flags.get(visit.key, none)),
                shown_codes.get(visit.key, ""),
                with_ids=with_ids,
            )
            for visit in some
        ],
        shown=[
            (name, title, numbers.get(name, 0))
            for name, title in _SHOWN
            if name in _ALWAYS or numbers.get(name) or name == filters.show
        ],
        first=(page - 1) * PAGE + 1 if some else 0,
        last=(page - 1) * PAGE + len(some),
        total=len(found),
        n_open={state: counts[state] for state in (APPROVE, OURS, LOOK, FAILED)} | {SEND: len(waiting[SEND])},
        n_by_api=sum(visit.platform == "prolific" for visit in waiting[SEND]),
        n_by_file=sum(visit.platform == "mturk" for some in waiting.values() for visit in some),
        n_bot_failed=sum(visit.outcome == Outcome.BOT_FAILED for visit in ours),
        n_server_failed=sum(visit.fault == "server" for visit in ours),
        newest=max((one.pk for visit in visits.all for one in visit.decisions), default=0),
        to_pay=to_pay_said(visits),
    )


def to_pay_said(visits: Submissions) -> str:
    """Return in words what is still to be paid for all visits, without bonuses and with them."""
    currency = visits.study.values.recruitment.currency
    found = visits.to_pay
    bonuses = money(found.bonuses, currency)
    if found.work is None or found.with_bonuses is None:
        return f"{bonuses} of bonuses to pay" if found.bonuses else ""
    work = money(found.work, currency)
    if not found.bonuses:
        return f"{work} to pay, no bonuses"
    return f"{work} to pay, {money(found.with_bonuses, currency)} with bonuses"


def _is_to_send(visit: Submission) -> bool:
    return any(one.state in _TO_SEND for one in visit.decisions)


def row_of(study: Study, visit: Submission, flags: list[Flag], state: str, code: str, *, with_ids: bool) -> PayRow:
    """Return a visit in words."""
    own = visit.key.participant.hex
    name = visit.external_id if with_ids and visit.external_id else own
    outcome, pill = _OUTCOMES[visit.outcome]
    if visit.fault == "server":
        outcome = f"Our server failed ({visit.reference})"
    elif visit.fault and visit.outcome == LEFT:
        outcome = "Lost a chat"
    return PayRow(
        visit=visit,
        name=name if len(name) <= 10 else f"{name[:4]}…{name[-4:]}",
        id=name,
        outcome=outcome,
        pill="warn" if visit.is_ours else pill,
        code=code,
        flags=flags,
        state=state,
        next=_next(study, visit, state),
        error=" ".join(one.error for one in visit.decisions if one.error),
    )


def _next(study: Study, visit: Submission, state: str) -> str:
    settings = study.values.recruitment
    if state == NOTHING and visit.outcome == Outcome.SCREENED_OUT and settings.pay_screened_out is not None:
        return money(settings.pay_screened_out, settings.currency)
    words = {
        APPROVE: "Approve",
        OURS: "Approve",
        LOOK: "Look",
        SEND: "To send",
        FAILED: "Could not be sent",
        PAID: "Paid",
        REJECTED: "Rejected",
        NOTHING: "–" if visit.outcome == INSIDE else "No pay",
    }
    if state == NOTHING and visit.status in GONE:
        return "Returned" if visit.status == GONE[0] else "Timed out"
    return words[state]


def money(amount: Any, currency: str) -> str:
    """Write an amount with its currency's sign, or its letters where we know none."""
    sign = _SYMBOLS.get(currency)
    return f"{sign}{amount:,.2f}" if sign else f"{currency} {amount:,.2f}"


@dataclass(frozen=True, slots=True)
class PayDetails:
    """One visit in full.

    Attributes:
        key: of the visit, as forms send it.
        n_messages: that they wrote; None where they chatted with nobody.
        n_ratings: that they gave.
        chats: the visit's conversations, oldest first.
        history: all that was ever decided, oldest first, with its words.
    """

    row: PayRow
    key: str
    platform: str
    submission: str
    n_messages: int | None
    n_ratings: int
    chats: list[Any]
    history: list[tuple[Decision, str]]

    @property
    def can_be_decided(self) -> bool:
        """True if the visit can be approved or rejected now."""
        return self.row.visit.can_be_approved


def pay_details(study: Study, visit: Submission, flags: list[Flag], *, with_ids: bool) -> PayDetails:
    """Read what the page of one visit shows.

    Args:
        with_ids: whether the platform's ids may be seen.
    """
    own = {
        "slot__task__participant": visit.key.participant,
        "slot__task__submission": visit.key.submission,
    }
    chats = list(Conversation.objects.filter(**own).order_by("created_at", "pk"))
    written = Conversation.objects.filter(**own).aggregate(n=Sum("n_exchanges"))["n"]
    decisions = (
        Decision.objects.filter(participant=visit.key.participant, submission=visit.key.submission)
        .select_related("decided_by", "closed_by")
        .order_by("pk")
    )
    settings = study.values.recruitment
    return PayDetails(
        row=row_of(
            study,
            visit,
            flags,
            state_of(visit, flags),
            codes_shown([visit]).get(visit.key, ""),
            with_ids=with_ids,
        ),
        key=str(visit.key),
        platform=visit.platform,
        submission=visit.key.submission if with_ids else "",
        n_messages=written if chats else None,
        n_ratings=Rating.objects.filter(
            task__participant=visit.key.participant, task__submission=visit.key.submission
        ).count(),
        chats=chats,
        history=[(one, money(one.amount, settings.currency) if one.amount is not None else "") for one in decisions],
    )
