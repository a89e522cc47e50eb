"""Refusals at a study's door: each code has a text, and one of a plug-in is shown with its own message."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.source import ROOT
from tests.builders import make_study
from webapp.core.errors import Refused
from webapp.participant.page_texts import refusal_text
from webapp.studies.start_refusals import StartRefusal

DOORS = (
    *(f"studies/{name}" for name in ("selectors.py", "sitting_tasks.py", "sittings.py", "services.py")),
    *("participant/selectors.py", "participant/entry.py", "conversations/task_start.py"),
)
SHOWN_ELSEWHERE = {"choice_gone"}
"""Shown on the first page itself."""


def codes() -> Iterator[str]:
    """Yield the codes that are written as texts rather than as members."""
    files = [ROOT / "webapp" / name for name in DOORS]
    files += (ROOT / "webapp/studies/assignment").glob("*.py")
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="Refused"), args=[ast.Constant(value=str(code)), *_]):
                    yield code


def test_every_code_is_a_member_which_has_its_text() -> None:
    assert set(codes()) == SHOWN_ELSEWHERE
    for refusal in StartRefusal:
        assert str(refusal.text.title)
        assert str(refusal.text.body)
    assert type(Refused(StartRefusal.FULL, "").code) is str
    make_member = StartRefusal._new_member_  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="text"):
        make_member(StartRefusal, "without_text")


@pytest.mark.django_db
def test_a_code_without_a_text_is_shown_with_its_message() -> None:
    text = refusal_text(Refused("of_a_plugin", "Come back after noon."), "", make_study())
    assert str(text.body) == "Come back after noon."
    assert str(text.title) != str(StartRefusal.NO_BOT.text.title)
