"""Data packages read back: the numbers agree, damage is named, and nothing is written outside."""

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
from chatbots import Identity
from evaluation.data import package as opening
from evaluation.data.package import PackageError, package_open
from tests.builders import BLUE, QUIZ, exchange, make_annotated, make_arena, make_participant, make_staff, make_study
from tests.webapp.dashboard.test_pair_pages import make_compared
from tests.webapp.participant.test_error_spans import make_errors_study
from tests.webapp.participant.test_judge import judge_all, make_dialogues
from tests.webapp.participant.test_turns import make_marking
from tests.webapp.ratings.test_attention_results import ATTENTIVE, IN_CHAT
from tests.webapp.transfer.test_package import NASTY, opened, packed, rate, rows, study
from webapp.conversations.attention_checks import chat_check_answer, chat_check_due
from webapp.conversations.models import ChatCheckAnswer, Conversation, ReplyMark, ReplyReport, Turn
from webapp.conversations.services import reply_report
from webapp.conversations.task_start import task_chats, task_start
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.jobs.models import MetricResult, MetricVersion
from webapp.ratings.error_spans import spans_stored
from webapp.ratings.models import Rating
from webapp.ratings.paired_comparisons import study_judgements
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.selectors import study_ratings
from webapp.ratings.services import comparison_submit, flags_make, rating_add, rating_submit
from webapp.results.compute import study_answers, study_comparisons
from webapp.results.item_results import study_pairs
from webapp.results.study_data import study_data
from webapp.search.models import Note
from webapp.search.services import note_add, star_set, tag_add
from webapp.studies.assignment.capacity import keeps_always_valid
from webapp.studies.attention_checks import quiz_digest
from webapp.studies.items import gold_store
from webapp.studies.models import Participant, QuestionAnswers, QuizAttempt, Slot, Study, StudyVersion, Task
from webapp.studies.pre_task import question_answers_store, quiz_attempt_store
from webapp.studies.ready_made import DEFAULT_QUESTIONS
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit
from webapp.transfer.import_file import import_conversations

__all__ = ["study"]  # a fixture
pytestmark = pytest.mark.django_db


def written(study: Study, folder: Path, **options: bool) -> Path:
    path = folder / "study.zip"
    path.write_bytes(packed(study, **options))
    return path


def again(study: Study, folder: Path, **options: bool) -> Study:
    report = import_conversations(written(study, folder, **options), study_key="again")
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
    for key, answer in mine.answers.items():
        np.testing.assert_array_equal(answer, read.answers[key])


def test_a_study_of_chats_comes_back_with_its_people_texts_and_numbers(study: Study, tmp_path: Path) -> None:
    for number in range(2, 8):
        rate(study, number)
    study = study_edit(study=study, state=Study.State.ENDED)  # one that collects is tested otherwise
    spoken = Conversation.objects.filter(study=study).order_by("pk").first()
    Conversation.objects.filter(pk=spoken.pk).update(language="pt-br")
    trace = [{"kind": "tool", "name": "f", "arguments": "", "text": NASTY, "failed": True, "seconds": 0.25}]
    spoken.turns.filter(index=1).update(trace=trace)
    read = again(study, tmp_path, include_private=True)
    assert Turn.objects.get(conversation__study=read, conversation__language="pt-br", index=1).trace == trace
    assert Conversation.objects.get(study=read, language="pt-br").external_id == str(spoken.pk)
    assert (read.state, read.is_imported, read.protocol) == ("ended", False, "chat")
    assert_same_ratings(study, read)
    both = []
    for one in (study, read):
        data = study_data(one)
        result = study_comparisons(data)
        answers = json.dumps(study_answers(data).to_json(), sort_keys=True)
        told = json.dumps(result.means.to_json(), sort_keys=True)
        both.append((data.facts, told, result.to_json(), answers))
    assert both[0] == both[1]
    assert [v.values.texts.minutes for v in read.versions.order_by("number")] == [8, 9]
    assert read.version.values.after == study.version.values.after
    first = Rating.objects.filter(conversation__study=read).order_by("pk")[0]
    assert (first.comment, first.other_answers) == (NASTY, {"why": "'=1+1"})
    texts = [turn.text for turn in first.conversation.turns.order_by("index")]
    assert texts[:2] == [NASTY, "reply 0"]
    people = read.participants.filter(consent__isnull=False, consented_at__isnull=False)
    assert people.count() == 8
    met = [
        sorted((row["bots"], row["n_chats"]) for row in rows(opened(packed(one)), "participants"))
        for one in (study, read)
    ]
    assert met[0] == met[1]
    given = QuestionAnswers.objects.filter(participant__study=read)
    assert [one.answers for one in given] == [{"age": "it's 20+"}] * 8

    stored = (Participant, Task, Slot, Conversation, Turn, Rating, QuestionAnswers, StudyVersion)
    before = [table.objects.count() for table in stored]
    twice = import_conversations(tmp_path / "study.zip", study_key="again")
    assert [table.objects.count() for table in stored] == before
    assert (twice.conversations, twice.ratings, twice.skipped) == (0, 0, [])
    with pytest.raises(Refused, match="not made from this package"):
        import_conversations(tmp_path / "study.zip", study_key="shop")


@pytest.mark.parametrize(("level", "is_sequential"), [(None, True), (0.99, False)])
def test_a_study_comes_back_with_its_level_and_deciding_test(
    study: Study, tmp_path: Path, level: float | None, is_sequential: bool
) -> None:
    study = study_edit(study=study, level=level, state=Study.State.ENDED)
    Study.objects.filter(pk=study.pk).update(is_sequential=is_sequential)
    study.refresh_from_db()
    read = again(study, tmp_path)
    assert [version.values.quotas.level for version in read.versions.order_by("number")][-1] == level
    assert (keeps_always_valid(study), keeps_always_valid(read)) == (is_sequential, is_sequential)


NAMES = {"conversation", "study", "rater", "participant", "task"}
"""Columns in which two studies with the same data differ."""


def assert_same_tables(one: Study, other: Study, *names: str) -> None:
    both = [opened(packed(study, include_failed=True)) for study in (one, other)]
    for name in names:
        results = [
            sorted(
                [{k: v for k, v in row.items() if k not in NAMES} for row in rows(files, name)],
                key=lambda row: json.dumps(row, sort_keys=True),
            )
            for files in both
        ]
        assert results[0] == results[1], name
        assert results[0], name


def of_checked_chats() -> Study:
    """Return a study of chats with checks before, in and after them, a quiz, and a reported reply that a filter
    marked.
    """
    study = make_study(
        "checked", questions=[BLUE], after=[*DEFAULT_QUESTIONS, ATTENTIVE], chat_checks=[IN_CHAT],
        quiz_questions=QUIZ, misses_allowed=0,
    )  # fmt: skip
    for colour, word in (("Blue", "yes"), ("Red", "no")):
        task = task_start(participant=make_participant(study))
        for attempt, answers in ((1, ["Two", "Both"]), (2, ["Five", "A computer program"])):
            quiz_attempt_store(
                task=task, quiz=quiz_digest(study.values.checking.quiz_questions), attempt=attempt, answers=answers
            )  # fmt: skip
        question_answers_store(task=task, answers={"colour": colour})
        [chat] = task_chats(task=task)
        for number in range(3):
            exchange(chat, "hello", f"reply {number}")
        chat.refresh_from_db()
        due = chat_check_due(chat, study.version)
        chat_check_answer(conversation=chat, check=due.digest, answer=word)
        reply = chat.turns.get(index=1)
        reply_report(participant=task.participant, turn=reply, reason="other", words=NASTY)
        ReplyMark.objects.create(
            turn=reply, filter="phrases", identity={"name": "phrases"}, found=["re"], reason="It says re."
        )
        rating_submit(
            conversation=chat,
            participant=task.participant,
            answers={**{question.key: 5 for question in DEFAULT_QUESTIONS}, "attentive": "2"},
        )
    return study


def of_gold() -> Study:
    """Return a study whose people judge items, one of them with a known answer, which one of two misses."""
    study = make_annotated("gold", n_gold=1)
    gold_store(item=study.items.get(key="i0"), expected={"quality": [1]})
    for answer in (1, 4):
        task = task_open(participant=make_participant(study))
        for one in requested_ratings(task):
            answers = {d.key: answer for d in study.rubric.dimensions.all()}
            rating_add(task=task, target=one.target, answers=answers)
    return study


@pytest.mark.parametrize(
    ("make", "tables", "kinds"),
    [
        (of_checked_chats, ["checks", "reports", "reply_marks"], {"quiz", "before", "after", "chat"}),
        (of_gold, ["checks"], {"gold"}),
    ],
)
def test_checks_reports_and_marks_come_back(
    make: Callable[[], Study], tables: list[str], kinds: set[str], tmp_path: Path
) -> None:
    study = make()
    path = written(study, tmp_path, include_failed=True)
    report = import_conversations(path, study_key="again")
    assert report.skipped == []
    read = Study.objects.get(key="again")
    assert {row["kind"] for row in rows(opened(packed(read)), "checks")} == kinds
    assert_same_tables(study, read, *tables)
    assert flags_make(study=read).n_tasks == 0, "how people worked is not in a package"
    n_rows = [model.objects.count() for model in BESIDE]
    import_conversations(path, study_key="again")
    assert [model.objects.count() for model in BESIDE] == n_rows


def test_what_readers_left_comes_back_once(study: Study, tmp_path: Path) -> None:
    study = study_edit(study=study, state=Study.State.ENDED)
    author = make_staff(Right.READ)
    first, second = study.conversations.order_by("created_at")
    star_set(conversation=first, is_starred=True, author=author)
    for chat in (first, second):
        tag_add(conversation=chat, text="-off topic", author=author)
        note_add(conversation=chat, text="=SUM(A1)\nLook again, \u202eagain.", author=author)
    note_add(conversation=first, text="Look again.", author=author)
    emptied = note_add(conversation=first, text="A name.", author=author)
    Note.objects.filter(pk=emptied.pk).update(text="")  # as a retention does
    read = again(study, tmp_path)
    assert_same_tables(study, read, "reader_notes")
    left = Note.objects.filter(conversation__study=read)
    n_left, somewhen = left.count(), left.filter(text="Look again.").get()
    assert n_left == 7
    assert not left.exclude(author=None).exists()
    Note.objects.filter(pk=somewhen.pk).update(text="")
    import_conversations(tmp_path / "study.zip", study_key="again")
    assert left.count() == n_left

    changed = changed_cell(study, tmp_path, "reader_notes", b",star,", b",heart,")
    with pytest.raises(PackageError, match=r"reader_notes.csv, row \d: kind 'heart' is unknown"):
        import_conversations(changed, study_key="third")


BESIDE = (ReplyReport, ReplyMark, QuizAttempt, ChatCheckAnswer, Rating, Slot, Task)


def test_metrics_come_back_with_their_reasons_and_are_not_computed_again(study: Study, tmp_path: Path) -> None:
    first, second = study.conversations.order_by("created_at")
    left_out = {"code": "other_language", "language": "de", "holds": ["en"]}
    words, other = (
        MetricVersion.objects.create(key=Identity(name, "1", {"n": 2}).key, name=name, version="1", params={"n": 2})
        for name in ("words", "other")
    )
    MetricResult.objects.create(
        conversation=first, metric=words, values={"n_words": 3, "share": 0.1 + 0.2},
        turns={"long": [None, 1.5, None, 2, None, 1e-9]},
    )  # fmt: skip
    MetricResult.objects.create(
        conversation=second, metric=words, values={"n_words": 0, "share": None},
        turns={"long": [None] * 6}, reasons={"share": "no words"},
    )  # fmt: skip
    MetricResult.objects.create(
        conversation=second, metric=other, values={"empathy": None}, turns={"empathic": []},
        reasons={"empathy": left_out, "empathic": left_out}, language="de",
    )  # fmt: skip
    read = again(study_edit(study=study, state=Study.State.ENDED), tmp_path)
    assert_same_tables(study, read, "metrics", "turn_metrics", "undefined")
    stored = MetricResult.objects.filter(conversation__study=read)
    assert stored.get(language="de").reasons == {"empathy": left_out, "empathic": left_out}
    n_before = stored.count()
    assert n_before == 3
    import_conversations(tmp_path / "study.zip", study_key="again")
    assert stored.count() == n_before


def test_metrics_under_a_key_that_is_not_theirs_are_refused(study: Study, tmp_path: Path) -> None:
    version = MetricVersion.objects.create(key="made up", name="words", version="1")
    chat = study.conversations.first()
    MetricResult.objects.create(conversation=chat, metric=version, values={"n_words": 3})
    with pytest.raises(PackageError, match="'made up' is not the key of metric 'words'"):
        import_conversations(written(study, tmp_path), study_key="again")


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
    assert mine.first.tolist() == other.first.tolist()
    assert mine.second.tolist() == other.second.tolist()
    assert alike(mine.rater, other.rater)
    assert alike(mine.item, other.item)
    for key, answer in mine.answers.items():
        np.testing.assert_array_equal(answer, other.answers[key])
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
        for place, one in enumerate(requested_ratings(task)):
            answers = {d.key: 1 + place for d in study.rubric.dimensions.all()}
            rating_add(task=task, target=one.target, answers=answers)
    return study


def of_turns() -> Study:
    study = make_marking()
    task = task_open(participant=make_participant(study))
    for place, one in enumerate(requested_ratings(task)):
        answers = {d.key: float(place == 1) for d in study.rubric.dimensions.all()}
        rating_add(task=task, target=one.target, answers=answers)
    return study


def of_errors() -> Study:
    study = make_errors_study()
    task = task_open(participant=make_participant(study))
    for one, spans in zip(
        requested_ratings(task), (["0:4:accuracy:major", "5:10:style:minor"], ["_none"]), strict=True
    ):
        rating_add(task=task, target=one.target, answers={"spans": spans})
    return study


def test_errors_marked_in_replies_come_back(tmp_path: Path) -> None:
    study = of_errors()
    read = again(study, tmp_path)
    before, after = (
        [spans_stored(rating) for rating in Rating.objects.filter(task__participant__study=of).order_by("turn__index")]
        for of in (study, read)
    )
    assert [len(one) for one in before] == [2, 0]
    assert after == before


@pytest.mark.parametrize("make", [of_items, of_turns, of_errors])
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
        assert "has changed" in str(error)
    document: dict[str, Any] = json.loads(out.getvalue())
    return document


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
    result = verify(path)
    assert not result["whole"]
    assert result["changed"] == ["README.md", "versions.json"]
    assert (result["missing"], result["extra"]) == (["load.R"], ["note.txt"])
    assert [version["what"] for version in result["versions"]] == ["Python"]
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
    monkeypatch.setattr(opening, "DOUBTED_BYTES", 1000)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data/turns.csv", b"0" * 10**6)
    with pytest.raises(PackageError, match=r"would unpack to 1,000,000, which is implausible"):
        confab.read(tmp_path / "bomb.zip")
    monkeypatch.setattr(opening, "MOST_BYTES", 1000)
    with pytest.raises(PackageError, match="the maximum is 1,000"):
        import_conversations(written(study, tmp_path), study_key="again")
    (tmp_path / "no.zip").write_bytes(b"PK nothing")
    with pytest.raises(PackageError, match="is not a zip"), package_open(tmp_path / "no.zip"):
        pass


def changed_cell(study: Study, tmp_path: Path, table: str, old: bytes, new: bytes) -> Path:
    """Pack a study with another text in one of its tables, and the digests of that."""
    files = opened(packed(study))
    files[f"data/{table}.csv"] = files[f"data/{table}.csv"].replace(old, new)
    sums = io.StringIO()
    for name, data in files.items():
        if name != "SHA256SUMS":
            sums.write(f"{hashlib.sha256(data).hexdigest()}  {name}\n")
    files["SHA256SUMS"] = sums.getvalue().encode()
    return packed_as(tmp_path, files)


def test_a_row_that_cannot_be_read_is_named(study: Study, tmp_path: Path) -> None:
    path = changed_cell(study, tmp_path, "bots", b",eliza,", b",other,")
    with pytest.raises(PackageError, match="is not the key of bot 'other'"):
        import_conversations(path, study_key="again")
    Turn.objects.filter(conversation__study=study).update(trace=[{"kind": "dance"}])
    with pytest.raises(PackageError, match=r"kind is 'dance'"):
        import_conversations(written(study, tmp_path), study_key="again")
