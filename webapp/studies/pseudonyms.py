"""Pseudonyms of a study's participants."""

from __future__ import annotations

from django.utils.crypto import salted_hmac

from webapp.studies.models import Study


def pseudonym(study: Study, name: str) -> str:
    """Return a participant's name in exported data: always the same, and it does not identify them.

    Args:
        name: name as in exports: an imported rater's, or the participant's random id.
    """
    digest = salted_hmac("confab.package", f"{study.key}\n{name}", algorithm="sha256")
    return f"p{digest.hexdigest()[:16]}"
