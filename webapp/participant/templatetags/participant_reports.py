"""The filter `reply_at`: address for reporting a reply at a place."""

from __future__ import annotations

from django import template

from webapp.participant.reply_reports import report_address

register = template.Library()


@register.filter
def reply_at(address: str, place: int) -> str:
    """Return the address for reporting the reply at this place."""
    return report_address(address, place=place)
