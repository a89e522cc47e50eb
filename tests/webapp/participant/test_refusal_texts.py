"""Refusals at a study's door: each code has a text, and one of a plug-in is shown with its own message."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.source import ROOT
from tests.builders import make_study
from webapp.core.errors import Refused
from webapp.participant.page_texts import REFUSAL_TEXTS, refusal_text

DOORS = (
    *(f"studies/{name}" for name in ("selectors.py", "sitting_tasks.py", "sittings.py", "services.py")),
    *("participant/selectors.py", "participant/entry.py"),
)
SHOWN_ELSEWHERE = {"choice_gone", "no_ids"}
"""Shown on the first page itself, and by a text that depends on the platform."""


def codes() -> Iterator[str]:
    files = [ROOT / "webapp" / name for name in DOORS]
    files += (ROOT / "webapp/studies/assignment").glob("*.py")
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="Refused"), args=[ast.Constant(value=str(code)), *_]):
                    yield code


def test_every_code_has_its_text() -> None:
    found = set(codes())
    assert {"all_rated", "full", "no_bot", "spent"} <= found
    assert found - SHOWN_ELSEWHERE <= REFUSAL_TEXTS.keys()


@pytest.mark.django_db
def test_a_code_without_a_text_is_shown_with_its_message() -> None:
    text = refusal_text(Refused("of_a_plugin", "Come back after noon."), "", make_study())
    assert str(text.body) == "Come back after noon."
    assert str(text.title) != str(REFUSAL_TEXTS["no_bot"].title)
