"""Amounts in words, and what people read that they are paid."""

from __future__ import annotations

from webapp.studies.values import StudyValues

_SIGNS = {"GBP": "£", "USD": "$", "EUR": "€", "JPY": "¥", "INR": "₹"}


def amount(value: float, currency: str) -> str:
    """Write an amount with its currency; without pennies where it is large."""
    digits = f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"
    sign = _SIGNS.get(currency)
    return f"{sign}{digits}" if sign else f"{digits} {currency}"


def pay_said(values: StudyValues) -> str:
    """Return what the first page says of pay: the study's own words, or the amount; empty where nobody is paid."""
    recruitment = values.recruitment
    own = values.texts.payment.strip()
    return own or (
        amount(recruitment.pay_each, recruitment.currency) if recruitment.pay_each else ""
    )
