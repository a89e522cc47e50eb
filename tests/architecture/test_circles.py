"""No circles between modules: each can be read, and tested, after those it imports."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import networkx
import pytest

from tests.architecture.source import Module, modules, parse


def circles(result: Collection[Module]) -> Iterator[list[str]]:
    """Yield the names of modules that import one another, those imported for types alone included."""
    names = {module.name for module in result}
    graph = networkx.DiGraph()
    for module in result:
        for imported in module.imports:
            target = imported.name
            while target and target not in names:  # `a.b.c` may be a name in module `a.b`
                target = target.rpartition(".")[0]
            if target and target != module.name:
                graph.add_edge(module.name, target)
    for together in networkx.strongly_connected_components(graph):
        if len(together) > 1:
            yield sorted(together)


def test_no_modules_import_one_another() -> None:
    assert list(circles(modules())) == []


@pytest.mark.parametrize("second", ["import a.x", "from a.x import f", "def f():\n    from a import x"])
def test_a_circle_is_found(second: str, tmp_path: Path) -> None:
    first = "if TYPE_CHECKING:\n    from a.y import g"
    results = [parse("a.x", first, tmp_path / "x.py"), parse("a.y", second, tmp_path / "y.py")]
    assert list(circles(results)) == [["a.x", "a.y"]]


def test_one_direction_is_no_circle(tmp_path: Path) -> None:
    results = [parse("a.x", "import a.y", tmp_path / "x.py"), parse("a.y", "", tmp_path / "y.py")]
    assert list(circles(results)) == []
