"""Doors decide nothing: services and selectors know no door, and views read by selectors."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.arrows import DOORS
from tests.architecture.source import Module, modules, parse

READS = {"filter", "exclude", "annotate", "aggregate", "select_related", "prefetch_related"}


def parts(module: Module) -> set[str]:
    return set(module.name.split("."))


def doors_known(module: Module) -> Iterator[str]:
    """Yield the imports by which a service or selector knows a view, a task or another door."""
    for imported in module.imports:
        if imported.name.startswith("webapp.") and DOORS & set(imported.name.split(".")[2:]):
            yield f"{module.where}:{imported.line}: {imported.name}"


def reads(module: Module) -> Iterator[str]:
    """Yield the queries in a module: its uses of a manager and of querysets' methods."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and node.attr in {"objects", "_default_manager"}:
            yield f"{module.where}:{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READS:
            yield f"{module.where}:{node.lineno}: {ast.unparse(node.func)}"


def test_services_and_selectors_know_no_door() -> None:
    inside = [m for m in modules("webapp") if parts(m) & {"services", "selectors"}]
    assert inside
    assert [line for module in inside for line in doors_known(module)] == []


def test_views_read_by_selectors() -> None:
    views = [m for m in modules("webapp") if parts(m) & {"views", "consumers", "steps"}]
    assert views
    assert [line for module in views for line in reads(module)] == []


@pytest.mark.parametrize("text", ["from webapp.jobs.tasks import wake", "def f():\n    from webapp.jobs import tasks"])
def test_a_door_is_found(text: str, tmp_path: Path) -> None:
    module = parse("webapp.jobs.services.jobs", text, tmp_path / "x.py")
    assert len(list(doors_known(module))) == 1


@pytest.mark.parametrize("text", ["Study.objects.get(key=key)", "study.conversations.filter(is_synthetic=True)"])
def test_a_read_is_found(text: str, tmp_path: Path) -> None:
    assert len(list(reads(parse("webapp.x.views", text, tmp_path / "x.py")))) == 1
