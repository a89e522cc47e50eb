"""Consent: the texts and promises of a study's version that participants agree to; pseudonyms."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django.utils.crypto import salted_hmac

from webapp.studies.models import Study
from webapp.studies.recruitment.completion import pay_text
from webapp.studies.settings import Rights, StudyValues

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


AGREED_KEYS = (*AGREED_TEXTS, *Rights.model_fields)
"""Names of the values that participants agree to."""


def shows_only_form(values: StudyValues) -> bool:
    """Return True if participants consent by the study's own form only.

    Without consent points or Confab's sentences.
    """
    return values.texts.consent_layout == "form" and bool(values.texts.consent_text.strip())


def points_agreed_to(values: StudyValues) -> str:
    """Return the consent points.

    They include human partners, if these are disclosed before consent.
    """
    points = "" if shows_only_form(values) else values.texts.consent_points
    notice = values.people.people_notice if values.people.disclosure == "before" else ""
    return "\n".join(filter(None, [points, notice]))


def consent_texts(values: StudyValues) -> dict[str, Any]:
    """Return the exact texts and promises that a participant consents to."""
    of_texts = {**dict(values.texts), **dict(values.comfort), "typing_notice": values.typing.agreed_notice}
    of_texts["consent_points"] = points_agreed_to(values)
    agreed_texts = {name: _stripped(of_texts[name]) for name in AGREED_TEXTS} | {"payment": pay_text(values)}
    parts = {"parts": values.sittings.model_dump_json(exclude_defaults=True)} if values.sittings.parts else {}
    return {**agreed_texts, **dict(values.rights), **parts}


def consent_version(values: StudyValues) -> str:
    """Return a digest of everything that a participant consents to."""
    return terms_digest(consent_texts(values))


def terms_digest(texts: Mapping[str, Any]) -> str:
    """Return the digest of consented texts."""
    text = json.dumps(texts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _stripped(value: Any) -> Any:
    """Return a text without surrounding spaces, which browsers' forms remove as well."""
    return value.strip() if isinstance(value, str) else value


def pseudonym(study: Study, name: str) -> str:
    """Return a participant's name in exports: stable, and not identifying.

    Args:
        name: name as in exports: an imported rater's, or the participant's random id.
    """
    digest = salted_hmac("confab.package", f"{study.key}\n{name}", algorithm="sha256")
    return f"p{digest.hexdigest()[:16]}"
