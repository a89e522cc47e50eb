"""Forms of the stock admin, as a browser sends them."""

from __future__ import annotations

from typing import Any

from django.test import Client


def form_of(client: Client, address: str) -> dict[str, Any]:
    """Return the fields of an admin form as a browser would send them back."""
    form = client.get(address).context["adminform"].form
    data = {}
    for name, field in form.fields.items():
        value = form.get_initial_for_field(field, name)
        if value is not None and value is not False:
            data[name] = value
    return {name: value.replace("\n", "\r\n") if isinstance(value, str) else value for name, value in data.items()}
