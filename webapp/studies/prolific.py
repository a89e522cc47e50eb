"""Prolific's addresses: its completion links and their codes, and the link by which participants arrive."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, quote, urlsplit

from django.utils.translation import gettext as _

_COMPLETION_LINK = "https://app.prolific.com/submissions/complete?cc="
# Prolific fills these in for each person it sends.
_PLACEHOLDERS = "&".join(
    f"{name}={{{{%{name}%}}}}" for name in ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")
)
_CODE = re.compile(r"[A-Za-z0-9_-]{1,50}")


def is_prolific(address: str) -> bool:
    """Return True if an address is one of Prolific's."""
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:  # for example "https://["
        return False
    return host in ("prolific.com", "prolific.co") or host.endswith(
        (".prolific.com", ".prolific.co")
    )


def recruiting_link(participant_link: str) -> str:
    """Return the participants' link as it is pasted into Prolific, with the placeholders it fills in."""
    return f"{participant_link}?{_PLACEHOLDERS}"


def completion_link(code: str) -> str:
    """Return the address where Prolific takes this code from a person."""
    return _COMPLETION_LINK + quote(code, safe="")


def link_code(address: str) -> str:
    """Return the code in a completion link of Prolific; empty for other addresses, and for a placeholder."""
    if not is_prolific(address):
        return ""
    code = parse_qs(urlsplit(address).query).get("cc", [""])[0].strip()
    return code if _CODE.fullmatch(code) else ""


def code_read(text: str) -> str:
    """Return the completion code in what a researcher pasted: the code alone, or Prolific's link with it.

    Raises:
        ValueError: there is no code in it; the message is a sentence for the researcher.
    """
    text = text.strip()
    code = link_code(text) if "/" in text else text
    if text and not _CODE.fullmatch(code):
        raise ValueError(
            _(
                "There is no completion code in “%(text)s”. Paste the code, for example C1A2B3C4, or "
                "Prolific's whole link: %(link)sC1A2B3C4"
            )
            % {"text": text, "link": _COMPLETION_LINK}
        )
    return code
