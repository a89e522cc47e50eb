"""Completion: outcomes of tasks, codes and links for pay, and amounts.

A recruitment platform pays by codes that the researcher agreed with it, one for each outcome of a visit. Such a code is
shown instead of Confab's own. The code that a participant was shown is stored with their task: a later correction
applies to later participants only. Pages and exports both use this module, so that they agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from urllib.parse import quote

from django.db.models import QuerySet

from chatbots.text import sanitise_input
from webapp.studies.models import Outcome, Participant, Study, Task
from webapp.studies.recruitment.settings import PLACEHOLDER, RecruitmentValues, completion_link
from webapp.studies.settings import StudyValues


@dataclass(frozen=True, slots=True)
class Completion:
    """Code and return link shown to a participant; empty without one."""

    code: str = ""
    link: str = ""


def completion_now(*, study: Study, participant: Participant, outcome: str, own_code: str) -> Completion:
    """Return the code and link for this outcome under the current settings.

    Placeholders in the link are not filled in, so that no platform id is stored with it.

    Args:
        own_code: earned code of Confab itself; empty if none.
    """
    settings = study.values.recruitment
    platform = participant.platform
    if not _is_for(settings, platform):
        return Completion(own_code)
    code = settings.code(outcome)
    if code and "prolific" in (platform, settings.platform):
        return Completion(code, completion_link(code))
    # Mechanical Turk workers return through a form.
    link = settings.link(outcome) if platform != "mturk" else ""
    if not code and (not link or "{code}" in link):
        code = own_code
    return Completion(code, link)


def link_filled(
    completion: Completion, *, participant: Participant, outcome: str, submission: str, conversation: str = ""
) -> str:
    """Return the link with the participant's values filled in.

    Args:
        submission: the platform's id of the visit; empty if there is none.
        conversation: id of the task's first chat; empty if there is none.
    """
    known = {
        **participant.recruitment,
        "code": completion.code,
        "id": participant.external_id,
        "session": submission,
        "outcome": outcome,
        "conversation": conversation,
    }
    return PLACEHOLDER.sub(lambda match: _filled(known, match[1]), completion.link)


def _is_for(settings: RecruitmentValues, platform: str) -> bool:
    """Return True if the study's codes and links fit this platform.

    Participants from another platform cannot use them.
    """
    return platform in ("", settings.platform) or settings.platform in ("link", "links")


def _filled(known: dict[str, str], name: str) -> str:
    return quote(known.get(name, ""), safe="")


@dataclass(frozen=True, slots=True)
class TaskEnding:
    """Outcome of one task, with its code and link.

    Attributes:
        outcome: a value of `Outcome`.
        code: the code that the participant is shown; empty if there is none.
        link_template: link back to the platform with placeholders; empty if there is none. Workers of Mechanical Turk
            go back by a form instead.
    """

    task: Task
    outcome: str
    code: str
    link_template: str
    ended_at: datetime | None

    @property
    def link(self) -> str:
        """Link with the participant's values; `{conversation}` takes a query, which lists of endings do not need."""
        return link_filled(
            Completion(self.code, self.link_template),
            participant=self.task.participant,
            outcome=self.outcome,
            submission=self.task.submission,
            conversation=_first_chat(self.task) if "{conversation}" in self.link_template else "",
        )


ENDING_READS = ("participant__study__version", "participant__platform_ids", "version")
"""Related rows that `ending_of` reads in addition to the task."""


def tasks_with_endings(tasks: QuerySet[Task]) -> QuerySet[Task]:
    """Return the tasks with everything that `ending_of` reads, in the same query."""
    return tasks.select_related(*ENDING_READS)


def ending_of(task: Task) -> TaskEnding | None:
    """Return the task's outcome.

    None while it is open, or if it has none (swapped, left).
    """
    if not task.outcome:
        return None
    completion = shown_completion_of(task)
    return TaskEnding(task, task.outcome, completion.code, completion.link, task.ended_at)


def _first_chat(task: Task) -> str:
    chat = task.slots.filter(chat__isnull=False).order_by("order").values_list("chat__pk", flat=True).first()
    return str(chat or "")


def shown_completion_of(task: Task) -> Completion:
    """Return the code and link shown for an ended task.

    If none are stored yet, those of the study now.
    """
    if task.told:
        return Completion(task.told["code"], task.told["link"])
    return completion_now(
        study=task.participant.study,
        participant=task.participant,
        outcome=task.outcome,
        own_code=task.completion_code or "",
    )


def store_shown_completion(*, task: Task) -> None:
    """Store the code and link of a task that has just ended.

    Stored ones do not change.
    """
    completion = shown_completion_of(task)
    Task.objects.filter(pk=task.pk, told={}).update(told={"code": completion.code, "link": completion.link})


def has_earned(participant: Participant) -> bool:
    """Return True if the participant has done a paid task.

    Tasks in which a chatbot failed count.
    """
    earned = (Outcome.RATED, Outcome.BOT_FAILED)
    return participant.tasks.filter(outcome__in=earned).exists()


def endings_of(participant: Participant) -> list[TaskEnding]:
    """Return the participant's endings, oldest first."""
    tasks = tasks_with_endings(participant.tasks.order_by("created_at", "pk"))
    return [ending for ending in map(ending_of, tasks) if ending is not None]


CURRENCY_SIGNS = {"GBP": "£", "USD": "$", "EUR": "€", "JPY": "¥", "INR": "₹"}


def money_text(value: float | Decimal, currency: str) -> str:
    """Write an amount with its currency.

    Large whole amounts have no decimals.
    """
    digits = f"{value:,.0f}" if value >= 100 and value == int(value) else f"{value:,.2f}"
    sign = CURRENCY_SIGNS.get(currency)
    return f"{sign}{digits}" if sign else f"{digits} {currency}"


def money_about(value: float, currency: str) -> str:
    """Write a rough amount with its currency, without pennies."""
    sign = CURRENCY_SIGNS.get(currency)
    return f"{sign}{value:,.0f}" if sign else f"{value:,.0f} {currency}"


def pay_of_task(values: StudyValues, sitting: str = "") -> float | None:
    """Return the pay for a task, or for the part with this key.

    None if the study does not set it.
    """
    part_pay = next((part.pay for part in values.sittings.parts if part.key == sitting), None)
    return values.recruitment.pay_each if part_pay is None else part_pay


def pay_in_all(values: StudyValues) -> float | None:
    """Return a participant's total pay.

    It is for one task, or for all parts with the bonus; None if not set.
    """
    parts = values.sittings.parts
    amounts = [pay_of_task(values, part.key) for part in parts] or [values.recruitment.pay_each]
    known = [pay for pay in amounts if pay is not None]
    return sum(known) + (values.sittings.pay_for_all or 0) * bool(parts) if known else None


def pay_text(values: StudyValues) -> str:
    """Return the first page's text about pay.

    It is the study's own, or the amount; empty without pay.
    """
    text, amount = sanitise_input(values.texts.payment), pay_in_all(values)
    return text or (money_text(amount, values.recruitment.currency) if amount else "")


def is_paid(values: StudyValues) -> bool:
    """Return True if the study pays participants."""
    return bool(pay_text(values))


def promises_pay(values: StudyValues) -> bool:
    """Return True if participants are paid when a chatbot fails.

    Unpaid studies promise nothing.
    """
    return is_paid(values) and values.texts.promises_pay_on_failure
