"""Texts about the parts of a study: opening times, and pay."""

from __future__ import annotations

from math import ceil

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from webapp.studies.recruitment.completion import money_text, pay_of_task
from webapp.studies.settings import StudyValues


def sitting_lines(values: StudyValues) -> list[str]:
    """Return a line for each part of a study.

    It has the gap and, if any part is paid, the pay. None without parts.
    """
    parts, recruitment = values.sittings.parts, values.recruitment
    pays = [pay_of_task(values, part.key) for part in parts]
    lines = list[str]()
    for part, pay in zip(parts, pays, strict=True):
        when = _gap_said(part.gap.least, part.gap.most) if lines else _("Now")
        amount = money_text(pay, recruitment.currency) if pay else _("no pay for this part")
        lines.append(f"{when} · {amount}" if any(pays) else when)
    return lines


def _gap_said(minimum: float, maximum: float | None) -> str:
    if maximum is not None:
        template = ngettext(
            "%(least)s to %(n)s day after the previous part",
            "%(least)s to %(n)s days after the previous part",
            ceil(maximum),
        )
        return template % {"least": f"{minimum:g}", "n": f"{maximum:g}"}
    if not minimum:
        return _("right after the previous part")
    template = ngettext(
        "%(n)s day after the previous part, or later", "%(n)s days after the previous part, or later", ceil(minimum)
    )
    return template % {"n": f"{minimum:g}"}


def all_parts_pay(values: StudyValues) -> str:
    """Return the bonus for all parts, as shown on pages.

    Empty if there is none.
    """
    amount = values.sittings.pay_for_all
    return money_text(amount, values.recruitment.currency) if amount else ""
