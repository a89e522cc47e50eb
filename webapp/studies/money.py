"""Amounts of money as text, and the text about pay for participants."""

from __future__ import annotations

from chatbots.storable import given_text
from webapp.studies.values import StudyValues

_SIGNS = {"GBP": "£", "USD": "$", "EUR": "€", "JPY": "¥", "INR": "₹"}


def amount(value: float, currency: str) -> str:
    """Write an amount with its currency; without pennies where it is large."""
    digits = f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"
    sign = _SIGNS.get(currency)
    return f"{sign}{digits}" if sign else f"{digits} {currency}"


def pay_said(values: StudyValues) -> str:
    """Return the first page's text about pay: the study's own, or the amount; empty if nobody is paid."""
    recruitment = values.recruitment
    own = given_text(values.texts.payment)
    return own or (
        amount(recruitment.pay_each, recruitment.currency) if recruitment.pay_each else ""
    )


def is_paid(values: StudyValues) -> bool:
    """Check whether the study says that participants are paid."""
    return bool(pay_said(values))


def promises_pay(values: StudyValues) -> bool:
    """Check whether participants are promised their pay when a chatbot fails; an unpaid study promises none."""
    return is_paid(values) and values.texts.promises_pay_on_failure
