"""Files of profiles, and their mistakes by file, line or entry, and field."""

from pathlib import Path

import pytest

from chatbots.participants.base import ParticipantProfile
from chatbots.participants.profiles import profiles_read
from chatbots.validation import ValuesError

WANTED = [ParticipantProfile(persona="A nurse.", mood="tired"), ParticipantProfile(goal="Learn.")]


def test_both_formats_give_the_same_profiles(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("- {persona: A nurse., mood: tired}\n- goal: Learn.\n")
    (tmp_path / "p.jsonl").write_text('{"persona": "A nurse.", "mood": "tired"}\n\n{"goal": "Learn."}\n')
    assert profiles_read(tmp_path / "p.yaml") == profiles_read(str(tmp_path / "p.jsonl")) == WANTED


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("p.yaml", "- {persona: A nurse.}\n- {mood: 3}\n", ("p.yaml", "entry 2", "mood is 3")),
        ("p.yaml", "persona: A nurse.\n", ("p.yaml", "list")),
        ("p.yaml", "[]", ("p.yaml", "no profile")),
        ("p.jsonl", '{"goal": "Learn."}\n{"gaol": "Learn."}\n', ("p.jsonl", "line 2", "gaol", "did you mean goal")),
        ("p.jsonl", "{", ("p.jsonl", "line 1", "JSON")),
        ("p.jsonl", "", ("p.jsonl", "no profile")),
    ],
)
def test_a_mistake_is_named_by_its_place(tmp_path: Path, name: str, text: str, words: tuple[str, ...]) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValuesError) as caught:
        profiles_read(tmp_path / name)
    for word in words:
        assert word in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for name in ("none.yaml", "none.jsonl"):
        with pytest.raises(ValuesError, match=name):
            profiles_read(tmp_path / name)
