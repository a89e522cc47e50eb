"""Pseudonyms of a study's participants."""

from __future__ import annotations

from django.utils.crypto import salted_hmac

from webapp.studies.models import Study


def pseudonym(study: Study, name: str) -> str:
    """Return the name of a person in what leaves the study: always the same, and it tells nobody who they are.

    Args:
        name: as exports have it: an imported rater's, or the participant's random id.
    """
    digest = salted_hmac("confab.package", f"{study.key}\n{name}", algorithm="sha256")
    return f"p{digest.hexdigest()[:16]}"
