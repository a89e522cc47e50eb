"""The terms that people agreed to: what of a study they are made of, and what of it stays as it is.

A study has no versions yet. So once somebody has agreed, what they were promised and what makes their
conversations comparable cannot change; a copy of the study can.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

if TYPE_CHECKING:
    from webapp.studies.models import Study

# Read by a person before they agree.
AGREED = (
    "title",
    "minutes",
    "payment",
    "promises_pay_on_failure",
    "organisation",
    "contact",
    "consent_points",
    "consent_text",
    "instructions_text",
)
# Fixed by the first agreement. Beside them pay may rise and its promise be added; whom to write to, state,
# name, quotas, caps, thanks, seed and the ways to a recruitment platform can change: nobody is worse off.
_FIXED = (
    "key",
    "bots",
    "protocol",
    "rule",
    "rubric_id",
    "min_exchanges",
    "max_exchanges",
    "max_message_chars",
    "typing_chars_per_s",
    "title",
    "minutes",
    "organisation",
    "consent_points",
    "consent_text",
    "instructions_text",
)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")


def consent_texts(study: Study) -> dict[str, Any]:
    """The exact texts and promises that somebody agrees to now."""
    return {field: _value(study, field) for field in AGREED}


def consent_version(study: Study) -> str:
    """A digest of all that a participant agrees to."""
    text = json.dumps(consent_texts(study), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def changes_refused(before: Study, after: Study, *, n_agreed: int) -> dict[str, str]:
    """What cannot change after `n_agreed` people agreed: a sentence for each field, empty if nothing."""
    if not n_agreed:
        return {}
    fields = [field for field in _FIXED if _value(before, field) != _value(after, field)]
    if before.payment != after.payment and not _is_raised(before.payment, after.payment):
        fields.append("payment")
    if before.promises_pay_on_failure and not after.promises_pay_on_failure:
        fields.append("promises_pay_on_failure")
    sentence = ngettext(
        "%(n)d person has agreed to take part as it was, so it cannot change. End this study, copy it "
        "(in the list of studies, “Copy”), and change the copy.",
        "%(n)d people have agreed to take part as it was, so it cannot change. End this study, copy it "
        "(in the list of studies, “Copy”), and change the copy.",
        n_agreed,
    ) % {"n": n_agreed}
    more = {"payment": " " + _("A higher amount in the same words is possible.")}
    return {
        field.removesuffix("_id"): sentence + more.get(field, "") for field in dict.fromkeys(fields)
    }


def _value(study: Study, field: str) -> Any:
    """A field's value; texts without the ends of lines, and around them, that a browser's form changes."""
    value = getattr(study, field)
    return value.replace("\r\n", "\n").strip() if isinstance(value, str) else value


def _is_raised(before: str, after: str) -> bool:
    """Whether a payment reads as before with no number lower, or where none was promised."""
    if not before:
        return True
    amounts = [
        [float(number.replace(",", ".")) for number in _NUMBER.findall(text)]
        for text in (before, after)
    ]
    return _NUMBER.sub("#", before) == _NUMBER.sub("#", after) and all(
        old <= new for old, new in zip(*amounts, strict=True)
    )
