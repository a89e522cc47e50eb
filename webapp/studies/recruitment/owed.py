"""Pay that a participant is owed for an ending.

Participants' pages, the list of people, exports, totals, buttons, the API and platforms all use this module.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from chatbots.text import sanitise_input
from webapp.studies.models import Outcome
from webapp.studies.recruitment.completion import CURRENCY_SIGNS, money_text, pay_of_task
from webapp.studies.settings import StudyValues

PAID_FOR_TIME = (Outcome.SCREENED_OUT.value, Outcome.LATE.value)
"""Outcomes of participants who could not take part, who are paid for their time."""
_AMOUNT = re.compile(r"(\d{1,6})(?:[.,](\d{1,2}))?")


@dataclass(frozen=True, slots=True)
class Pay:
    """Pay announced for an ending.

    Attributes:
        amount: in the study's currency; None if the study does not say it as a number.
        text: the amount as participants and researchers read it; empty for nothing.
        is_for_time: True if it is pay for the time of a participant who could not take part, not for work.
    """

    amount: Decimal | None
    text: str
    is_for_time: bool = False


def pay_for_endings(values: StudyValues, endings: Sequence[tuple[str, str]]) -> Pay:
    """Return the pay for a visit's endings.

    Each is an outcome with the part of the study that it belongs to.
    """
    pays = [pay_for_ending(values, outcome, part) for outcome, part in endings]
    if len(pays) == 1:
        return pays[0]
    amounts = [pay.amount for pay in pays if pay.amount is not None]
    if len(amounts) < len(pays):
        return Pay(None, ", ".join(pay.text for pay in pays if pay.text), all(pay.is_for_time for pay in pays))
    amount = sum(amounts, Decimal())
    return Pay(amount, _amount_text(values, amount), bool(pays) and all(pay.is_for_time for pay in pays))


def pay_for_ending(values: StudyValues, outcome: str, part: str = "") -> Pay:
    """Return the announced pay for one ending; none for participants who declined."""
    if outcome == Outcome.NO_CONSENT:
        return Pay(Decimal(), "")
    if outcome in PAID_FOR_TIME:
        return _pay_for_time(values, outcome)
    pay = pay_of_task(values, part)
    return Pay(None, "") if pay is None else _pay(values, pay)


def _pay_for_time(values: StudyValues, outcome: str) -> Pay:
    recruitment = values.recruitment
    pay = recruitment.pay_screened_out if outcome == Outcome.SCREENED_OUT else recruitment.pay_late
    if pay is not None:
        return _pay(values, pay, is_for_time=True)
    # Earlier versions of studies store pay as text.
    words = sanitise_input(values.checking.screened_out_pay) if outcome == Outcome.SCREENED_OUT else ""
    if not words:
        return Pay(Decimal(), "", is_for_time=True)
    amount = _read_amount(words, recruitment.currency)
    return Pay(None, words, is_for_time=True) if amount is None else _pay(values, amount, is_for_time=True)


def _read_amount(words: str, currency: str) -> Decimal | None:
    """Parse an amount with or without the study's currency.

    None for other texts and currencies.
    """
    rest = words.replace(currency, "").replace(CURRENCY_SIGNS.get(currency, currency), "").strip()
    match = _AMOUNT.fullmatch(rest)
    return Decimal(f"{match[1]}.{match[2] or 0}") if match else None


def _pay(values: StudyValues, amount: float | Decimal, *, is_for_time: bool = False) -> Pay:
    exact = Decimal(str(amount))
    return Pay(exact, _amount_text(values, exact), is_for_time)


def _amount_text(values: StudyValues, amount: Decimal) -> str:
    return money_text(amount, values.recruitment.currency) if amount else ""
