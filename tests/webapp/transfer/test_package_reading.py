"""Data packages read back: the numbers agree, damage is named, and nothing is written outside."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command

import confab
from evaluation import package as opening
from evaluation.package import PackageError, package_open
from tests.builders import exchange, make_annotated, make_arena, make_participant
from tests.webapp.dashboard.test_pair_pages import make_compared
from tests.webapp.participant.test_dialogues import judge_all, make_dialogues
from tests.webapp.participant.test_turns import make_marking
from tests.webapp.transfer.test_package import NASTY, opened, packed, rate, rows, study
from webapp.conversations.entering import task_chats, task_start
from webapp.core.errors import Refused
from webapp.ratings.comparing import comparison_submit
from webapp.ratings.judging import judgements_of
from webapp.ratings.models import Rating
from webapp.ratings.pairs import study_judgements
from webapp.ratings.selectors import study_ratings
from webapp.ratings.services import rating_add
from webapp.results.making import study_answers, study_comparisons
from webapp.results.pairs import study_pairs
from webapp.results.study_data import study_data
from webapp.studies.models import QuestionAnswers, Study
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit
from webapp.transfer.jobs import import_conversations

__all__ = ["study"]  # a fixture
pytestmark = pytest.mark.django_db


def written(study: Study, folder: Path, **options: bool) -> Path:
    path = folder / "study.zip"
    path.write_bytes(packed(study, **options))
    return path


def again(study: Study, folder: Path) -> Study:
    report = import_conversations(written(study, folder), study_key="again")
    assert report.skipped == []
    return Study.objects.get(key="again")


def alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Tell whether two columns of names split their rows in the same way."""
    return len({*zip(one, other, strict=True)}) == len({*one}) == len({*other})


def assert_same_ratings(one: Study, other: Study) -> None:
    mine, read = study_ratings(one), study_ratings(other)
    assert len(mine) == len(read) > 0
    assert mine.bot.tolist() == read.bot.tolist()
    assert alike(mine.rater, read.rater)
    assert alike(mine.conversation, read.conversation)
    assert mine.headline == read.headline
    assert [d.key for d in mine.dimensions] == [d.key for d in read.dimensions]
    for key, given in mine.answers.items():
        np.testing.assert_array_equal(given, read.answers[key])


def test_a_study_of_chats_comes_back_with_its_people_texts_and_numbers(
    study: Study, tmp_path: Path
) -> None:
    for number in range(2, 8):
        rate(study, number)
    study = study_edit(
        study=study, state=Study.State.ENDED
    )  # one that collects is tested otherwise
    read = again(study, tmp_path)
    assert (read.state, read.is_imported, read.protocol) == ("ended", False, "chat")
    assert_same_ratings(study, read)
    both = []
    for one in (study, read):
        data = study_data(one)
        assert data is not None
        found = study_comparisons(data)
        answers = json.dumps(study_answers(data).to_json(), sort_keys=True)
        told = json.dumps(found.means.to_json(), sort_keys=True)
        both.append((data.facts, told, found.to_json(), answers))
    assert both[0] == both[1]
    assert [v.values.texts.minutes for v in read.versions.order_by("number")] == [8, 9]
    assert read.version.values.after == study.version.values.after
    first = Rating.objects.filter(conversation__study=read).order_by("pk")[0]
    assert (first.comment, first.other_answers) == (NASTY, {"why": "'=1+1"})
    said = [turn.text for turn in first.conversation.turns.order_by("index")]
    assert said[:2] == [NASTY, "reply 0"]
    people = read.participants.filter(consent__isnull=False, consented_at__isnull=False)
    assert people.count() == 8
    given = QuestionAnswers.objects.filter(participant__study=read)
    assert [one.answers for one in given] == [{"age": "it's 20+"}] * 8

    twice = import_conversations(tmp_path / "study.zip", study_key="again")
    assert (twice.conversations, twice.ratings, twice.skipped) == (0, 0, [])
    with pytest.raises(Refused, match="not made of this package"):
        import_conversations(tmp_path / "study.zip", study_key="shop")


def of_arena() -> Study:
    study = make_arena("arena")
    for person in range(4):
        task = task_start(participant=make_participant(study))
        while task.state == "open":
            chats = task_chats(task=task)
            for chat in chats:
                exchange(chat, "hello", f"word {'more ' * person}of {chat.bot.bot_id}")
            first, second = (chat.slot for chat in chats)
            choice = "a" if first.bot_id < second.bot_id else "equal"
            comparison_submit(task=task, slots=(first, second), choice=choice)
            task.refresh_from_db()
    return study


def of_dialogues() -> Study:
    study = make_dialogues()
    for answer in (1, -1, 1):
        judge_all(task_open(participant=make_participant(study)), answer)
    return study


@pytest.mark.parametrize("make", [of_arena, of_dialogues, lambda: make_compared(n_items=4)])
def test_judgements_of_pairs_come_back(make: Callable[[], Study], tmp_path: Path) -> None:
    study = make()
    read = again(study, tmp_path)
    mine, other = study_judgements(study), study_judgements(read)
    assert mine is not None
    assert other is not None
    assert mine.first.tolist() == other.first.tolist()
    assert mine.second.tolist() == other.second.tolist()
    assert alike(mine.rater, other.rater)
    assert alike(mine.item, other.item)
    for key, given in mine.answers.items():
        np.testing.assert_array_equal(given, other.answers[key])
    for name, values in mine.controls.items():
        np.testing.assert_allclose(values, other.controls[name])
    before, after = (study_pairs(one).results for one in (study, read))
    assert before is not None
    assert after is not None
    strengths = [{b.bot: b.strength for b in one.strengths.bots} for one in (before, after)]
    assert strengths[0] == pytest.approx(strengths[1])


def of_items() -> Study:
    study = make_annotated(n_items=30)
    for _person in range(2):
        task = task_open(participant=make_participant(study))
        for place, one in enumerate(judgements_of(task)):
            answers = {d.key: 1 + place for d in study.rubric.dimensions.all()}
            rating_add(task=task, target=one.target, answers=answers)
    return study


def of_turns() -> Study:
    study = make_marking()
    task = task_open(participant=make_participant(study))
    for place, one in enumerate(judgements_of(task)):
        answers = {d.key: float(place == 1) for d in study.rubric.dimensions.all()}
        rating_add(task=task, target=one.target, answers=answers)
    return study


@pytest.mark.parametrize("make", [of_items, of_turns])
def test_ratings_of_items_and_of_turns_come_back(make: Callable[[], Study], tmp_path: Path) -> None:
    study = make()
    assert_same_ratings(study, again(study, tmp_path))


def packed_as(tmp_path: Path, files: dict[str, bytes], *, repeat: str = "") -> Path:
    path = tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        if repeat:
            archive.writestr(repeat, b"x")
    return path


def verify(path: Path) -> dict[str, Any]:
    out = io.StringIO()
    try:
        call_command("verify", str(path), "--json", stdout=out, stderr=io.StringIO())
    except CommandError as error:
        assert error.returncode == 1
        assert "not as it was made" in str(error)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def test_verify_names_what_changed_is_missing_or_was_added(study: Study, tmp_path: Path) -> None:
    whole = verify(written(study, tmp_path))
    assert whole["whole"]
    assert whole["versions"] == []
    files = opened(packed(study))
    del files["load.R"]
    files["README.md"] += b"changed"
    files["note.txt"] = b"mine"
    files["versions.json"] = files["versions.json"].replace(b'"python": "3', b'"python": "2')
    path = packed_as(tmp_path, files)
    found = verify(path)
    assert not found["whole"]
    assert found["changed"] == ["README.md", "versions.json"]
    assert (found["missing"], found["extra"]) == (["load.R"], ["note.txt"])
    assert [one["what"] for one in found["versions"]] == ["Python"]
    with pytest.raises(PackageError, match=r"README.md has changed, .*load.R is missing"):
        import_conversations(path, study_key="again")
    assert not Study.objects.filter(key="again").exists()


def test_a_zip_that_would_do_harm_is_not_unpacked(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("../evil.csv", "/etc/evil", "C:/evil", "a\\..\\evil"):
        path = packed_as(tmp_path, {name: b"x"})
        with pytest.raises(PackageError, match="leads out of it"):
            confab.read(path)
        with pytest.raises(PackageError, match="leads out of it"):
            import_conversations(path, study_key="again")
    with pytest.warns(UserWarning, match="Duplicate"):
        twice = packed_as(tmp_path, {"a": b"x"}, repeat="a")
    with pytest.raises(PackageError, match="'a' twice"), package_open(twice):
        pass
    monkeypatch.setattr(opening, "MOST_BYTES", 1000)
    with pytest.raises(PackageError, match="at most 1,000"):
        import_conversations(written(study, tmp_path), study_key="again")
    (tmp_path / "no.zip").write_bytes(b"PK nothing")
    with pytest.raises(PackageError, match="is no zip"), package_open(tmp_path / "no.zip"):
        pass


def test_a_row_that_cannot_be_read_is_named(study: Study, tmp_path: Path) -> None:
    files = opened(packed(study))
    files["data/bots.csv"] = files["data/bots.csv"].replace(b",eliza,", b",other,")
    sums = io.StringIO()
    for name, data in files.items():
        if name != "SHA256SUMS":
            sums.write(f"{hashlib.sha256(data).hexdigest()}  {name}\n")
    files["SHA256SUMS"] = sums.getvalue().encode()
    with pytest.raises(PackageError, match="is not the key of bot 'other'"):
        import_conversations(packed_as(tmp_path, files), study_key="again")


def test_a_notebook_gets_the_exported_tables(study: Study, tmp_path: Path) -> None:
    read = confab.read(written(study, tmp_path))
    assert set(read.tables) >= {"participants", "turns", "ratings", "bots", "conversations"}
    files = opened(packed(study))
    for name, table in read.tables.items():
        exported = rows(files, name)
        assert len(table) == len(exported), name
        if exported:
            assert list(table.columns) == list(exported[0])
    ratings = read.tables["ratings"]
    assert ratings["with"].tolist() == [4.0, 4.0]
    assert ratings["comment"].tolist() == [NASTY] * 2
    assert read.reversed == ("dull",)
    assert read.ratings["with"].tolist() == [4.0, 4.0]
    assert len(read.messages) == 12
    assert set(read.dimensions) == {"with", "dull"}
