"""A study by the key a person typed."""

from __future__ import annotations

from chatbots.names import nearest_names
from chatbots.storable import quote
from webapp.studies.models import Study
from webapp.studies.selectors import study_by_key


def study_named(key: str) -> Study:
    """Return the study with this key.

    Raises:
        LookupError: there is none; the message names the nearest keys.
    """
    try:
        return study_by_key(key)
    except Study.DoesNotExist:
        near = nearest_names(key, list(Study.objects.values_list("key", flat=True)))
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise LookupError(f"there is no study {quote(key)}{hint}") from None
