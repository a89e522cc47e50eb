"""Routes, API, commands and constraints, as an outsider finds them."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.core.management import get_commands, load_command_class
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from tests.outside.snapshots import as_text, compare, steady

pytestmark = pytest.mark.usefixtures("ids_by_seed_again")


def routes(patterns: list[Any], prefix: str = "", name: str = "") -> Iterator[tuple[str, str, Any]]:
    for pattern in patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            below = f"{name}{pattern.namespace}:" if pattern.namespace else name
            yield from routes(pattern.url_patterns, path, below)
        elif isinstance(pattern, URLPattern):
            yield path, f"{name}{pattern.name or ''}", pattern.callback


def rights_of(view: Any) -> str:
    rights = getattr(view, "rights", None)
    if rights is None:
        return ""
    return "; ".join(f"{method} {' '.join(sorted(map(str, needed)))}" for method, needed in rights.items())


def test_every_route_with_its_name_and_rights() -> None:
    results = [
        f"/{path}  {name}  {rights_of(view)}".rstrip()
        for path, name, view in routes(get_resolver().url_patterns)
        if not path.startswith("admin/")
    ]
    compare("routes.txt", "\n".join(sorted(results)))


@pytest.mark.django_db
def test_what_a_route_answers_to_a_stranger(client: Client) -> None:
    rows = []
    for path, _name, _view in sorted(routes(get_resolver().url_patterns), key=lambda one: one[0]):
        if path == "healthz" or "<" in path or path.startswith("admin/") or "\\" in path or "^" in path:
            continue
        statuses = (getattr(client, method)(f"/{path}").status_code for method in ("get", "post"))
        rows.append(f"/{path} {' '.join(map(str, statuses))}")
    compare("strangers.txt", "\n".join(rows))


@pytest.mark.django_db
def test_the_api_describes_itself_as_before(staff: Client) -> None:
    answer = staff.get("/api/v1/openapi.json")
    assert answer.status_code == 200
    compare("openapi.json", as_text(answer.json()))


def test_the_help_of_every_command() -> None:
    texts = []
    for name, app in sorted(get_commands().items()):
        if not str(app).startswith("webapp"):
            continue
        parser = load_command_class(app, name).create_parser("manage.py", name)
        texts.append(f"== {name}\n{parser.format_help()}")
    compare("help.txt", steady("\n".join(texts)))


def test_the_columns_and_constraints_of_every_table() -> None:
    rows = set()
    for model in apps.get_models(include_auto_created=True):
        table = model._meta.db_table
        if table.startswith(("auth_", "django_", "axes_")) or not model._meta.managed:
            continue
        for field in model._meta.local_concrete_fields:
            parts = [field.get_internal_type(), "null" if field.null else "required"]
            parts += ["unique"] * field.unique
            parts += [f"at most {field.max_length}"] * bool(field.max_length)
            if field.remote_field:
                target = field.remote_field.model._meta.db_table
                parts.append(f"to {target}, on delete {field.remote_field.on_delete.__name__}")
            rows.add(f"{table}.{field.column}: {', '.join(parts)}")
        for constraint in model._meta.constraints:
            _path, arguments, values = constraint.deconstruct()
            values.pop("name", None)
            meant = ", ".join(f"{key} {value}" for key, value in sorted(values.items()))
            rows.add(f"{table} {type(constraint).__name__}: {', '.join(map(str, arguments))}{meant}")
    compare("constraints.txt", "\n".join(sorted(rows)))


def test_a_notebook_finds_the_same_names() -> None:
    import confab

    rows = []
    for name in sorted(confab.__all__):
        one = getattr(confab, name)
        rows.append(f"{name}{inspect.signature(one) if inspect.isroutine(one) else ''}")
    compare("notebook.txt", "\n".join(rows))
