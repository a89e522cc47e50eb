"""Every extension point is one: its registry, folder, decorator and contract belong together, and none is missing."""

import ast
import importlib
import inspect

import pytest

from chatbots.extension_points import EXTENSION_POINTS as OF_CHATBOTS
from chatbots.extension_points import ExtensionPoint
from chatbots.yaml_registry import YamlEntryKind
from evaluation.extension_points import EXTENSION_POINTS as OF_EVALUATION
from tests.architecture.source import ROOT, modules
from webapp.extension_points import EXTENSION_POINTS as OF_WEBAPP

POINTS = (*OF_CHATBOTS, *OF_EVALUATION, *OF_WEBAPP)


@pytest.fixture(params=POINTS, ids=lambda point: point.name)
def point(request: pytest.FixtureRequest) -> ExtensionPoint:
    return request.param


def test_every_registry_has_its_extension_point() -> None:
    registries = [
        getattr(importlib.import_module(module.name), node.target.id)
        for module in modules()
        if "Registry[" in module.text
        for node in module.tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and ast.unparse(node.annotation).startswith("Registry[")
    ]
    assert len(registries) == len(POINTS)
    assert {id(registry) for registry in registries} == {id(point.registry) for point in POINTS}


def test_its_folder_is_searched(point: ExtensionPoint) -> None:
    assert point.registry.packages[0] == point.folder.replace("/", ".")
    assert (ROOT / point.folder / "__init__.py").is_file()


def test_its_decorator_registers_there(point: ExtensionPoint) -> None:
    name = "extension-point-sample"
    members = {"name": name, "kind": name, "usual_title": "Sample", "options_type": None, "__init__": lambda self: None}
    cls = type("Sample", (point.contract,), members)
    cls.__abstractmethods__ = frozenset()
    takes_name = "name" in inspect.signature(point.decorator).parameters
    decorate = point.decorator(name) if takes_name else point.decorator
    try:
        assert decorate(cls) is cls
        assert name in point.registry
    finally:
        for one in POINTS:
            one.registry.discard(name)
    assert name not in point.registry


def test_what_is_registered_follows_its_contract(point: ExtensionPoint) -> None:
    entries = list(point.registry)
    assert entries
    for entry in entries:
        if isinstance(entry, YamlEntryKind):
            assert issubclass(entry.make, point.contract)
        elif inspect.isabstract(point.contract):
            assert isinstance(entry, point.contract), entry
        else:
            missing = [member for member in _members(point.contract) if not hasattr(entry, member)]
            assert missing == [], entry.name


def _members(contract: type) -> list[str]:
    """Return the public methods and attributes that a protocol names."""
    named = {*vars(contract), *vars(contract).get("__annotations__", {})}
    return sorted(member for member in named if not member.startswith("_"))
