"""The filter `reply_at`: the address at which the reply at a place of a page is reported."""

from __future__ import annotations

from django import template

from webapp.participant.reply_reports import report_address

register = template.Library()


@register.filter
def reply_at(address: str, place: int) -> str:
    """Return the address of a page's reports for the reply at this place of it."""
    return report_address(address, place=place)
