"""Lengths of fields in templates, taken from where the code enforces them."""

from __future__ import annotations

import pkgutil

from django import template
from django.apps import apps

register = template.Library()


@register.simple_tag
def limit(place: str) -> int:
    """Return a constant.

    Args:
        place: module and name, such as "webapp.search.fields:LONGEST".
    """
    return int(pkgutil.resolve_name(place))


@register.simple_tag
def field_limit(model: str, field: str) -> int:
    """Return the maximum length of a model's field.

    Args:
        model: app and model, such as "reading.SavedSearch".
    """
    return int(apps.get_model(model)._meta.get_field(field).max_length)
