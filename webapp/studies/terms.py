"""Terms that participants agree to: the texts and promises of a study's version that are shown before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from webapp.studies.money import pay_said
from webapp.studies.rights import Rights
from webapp.studies.values import StudyValues

AGREED_TEXTS = (
    "title",
    "minutes",
    "payment",
    "promises_pay_on_failure",
    "organisation",
    "contact",
    "consent_points",
    "consent_text",
    "instructions_text",
    "content_notice",
    "content_notice_ticked",
    "typing_notice",
)
AGREED = (*AGREED_TEXTS, *Rights.model_fields)
"""Names of the values that participants agree to."""


def consent_texts(values: StudyValues) -> dict[str, Any]:
    """Return the exact texts and promises that a participant agrees to."""
    counted = values.typing.typing_notice if values.typing.is_agreed_to else ""
    of_texts = {**dict(values.texts), **dict(values.comfort), "typing_notice": counted}
    said = {name: _stripped(of_texts[name]) for name in AGREED_TEXTS} | {
        "payment": pay_said(values)
    }
    return {**said, **dict(values.rights)}


def consent_version(values: StudyValues) -> str:
    """Return a digest of all that a participant agrees to."""
    return digest_of(consent_texts(values))


def digest_of(texts: Mapping[str, Any]) -> str:
    """Return the digest of texts that a participant agreed to."""
    text = json.dumps(texts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _stripped(value: Any) -> Any:
    """Return a text without the blanks around it, which a browser's form takes away too."""
    return value.strip() if isinstance(value, str) else value
