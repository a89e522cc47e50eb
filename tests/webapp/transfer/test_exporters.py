"""Tables: what is in them, what never is, participants and their pay, and exports that can be imported again."""

import csv
import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from evaluation.data.formats.tables import unescape_cell
from tests.builders import (
    BY_PROLIFIC,
    exchange,
    fail_reply,
    make_conversation,
    make_participant,
    make_rating,
    make_study,
)
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.services import conversation_finish_failed, conversation_swap, conversation_withdraw, vote_set
from webapp.conversations.task_start import conversation_start
from webapp.ratings.models import Rating
from webapp.studies.items import item_add
from webapp.studies.models import Dimension, Study
from webapp.studies.rubrics import rubric_create
from webapp.studies.services import participant_enter
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions, exporter_get, exporter_list
from webapp.transfer.import_file import import_conversations

pytestmark = pytest.mark.django_db


def export(study: Study, what: str, path: Path, *args: str) -> dict[str, Any]:
    out = StringIO()
    file_format = path.suffix[1:]
    call_command(
        "export", "--study", study.key, "--what", what, "--format", file_format, "--output",
        str(path), "--json", *args, stdout=out, stderr=StringIO(),
    )  # fmt: skip
    return json.loads(out.getvalue())


def rows_of(study: Study, what: str, **options: bool) -> list[dict[str, Any]]:
    asked = ExportOptions(**options)
    exporter = exporter_get(what)
    names = [column.name for column in exporter.columns(study, asked)]
    return [dict(zip(names, row, strict=True)) for row in exporter.rows(study, asked)]


@pytest.fixture
def study() -> Study:
    return make_study("shop", bots=["eliza", "parrot", "generic", "retrieval"])


def test_a_rating_tells_the_code_that_the_person_was_shown(study: Study) -> None:
    study = study_edit(study=study, **{**BY_PROLIFIC, "code_rated": "C1RATED"})
    codes = {}
    for platform in ("prolific", "mturk"):
        conversation = make_conversation(study, n_exchanges=3, platform=platform, external_id="p")
        codes[platform] = make_rating(conversation).task.completion_code
    rows = rows_of(study, "ratings", include_private=True)
    shown = {row["platform"]: row["completion_code"] for row in rows}
    assert shown == {"prolific": "C1RATED", "mturk": codes["mturk"]}


def test_ratings_and_messages(study: Study) -> None:
    conversation = make_conversation(study, n_exchanges=3, platform="prolific", external_id="secret-id")
    vote_set(conversation_id=conversation.pk, turn_index=3, value=-1)
    outcome = make_rating(conversation, quality=6, empathy=2)
    (rating,) = rows_of(study, "ratings")
    assert rating["conversation"] == str(conversation.pk)
    assert (rating["quality"], rating["empathy"], rating["fluency"]) == (6, 2, 4)
    assert rating["rater"] == str(conversation.participant_id)
    assert "secret-id" not in str(rating)
    (private,) = rows_of(study, "ratings", include_private=True)
    assert private["external_id"] == "secret-id"
    assert private["completion_code"] == outcome.task.completion_code
    messages = rows_of(study, "messages")
    assert [row["turn"] for row in messages] == list(range(6))
    assert [row["vote"] for row in messages] == [0, 0, 0, -1, 0, 0]
    assert messages[2]["text"] == "message 1"


def test_answers_to_an_older_rubric_keep_their_column(study: Study) -> None:
    make_rating(make_conversation(study, n_exchanges=3), quality=6)
    # Rubrics were exchanged before studies had versions.
    study.version.rubric = rubric_create(name="other", dimensions=[Dimension(key="rating", title="R", question="R?")])
    study.version.save()
    (row,) = rows_of(study, "ratings")
    assert row["quality"] == 6
    assert row["answer_rating"] is None  # `rating` is the number of the row


@pytest.mark.parametrize("what", ["ratings", "messages", "conversations", "chatrecords", "chat_ratings"])
def test_what_was_withdrawn_failed_or_scripted_is_left_out(study: Study, what: str) -> None:
    def rated(**fields: Any) -> Conversation:
        conversation = make_conversation(study, n_exchanges=3, **fields)
        make_rating(conversation)
        return conversation

    rated()
    n_usual = len(rows_of(study, what))
    assert n_usual > 0
    rated(is_synthetic=True)
    failed = rated()
    Conversation.objects.filter(pk=failed.pk).update(state=Conversation.State.FAILED)
    conversation_withdraw(conversation=make_conversation(study, n_exchanges=3))
    assert len(rows_of(study, what)) == n_usual
    assert len(rows_of(study, what, include_synthetic=True)) == 2 * n_usual
    assert len(rows_of(study, what, include_failed=True)) == 2 * n_usual


HEADERS_2019 = {
    "chatrecords": "ID,Chat ID,Datetime,Chatbot ID,Message,Response,Bot Input,Study Key,User Session Key,"
    "Response Rating,Chat Rating Quality,Chat Rating Fluency,Chat Rating Coherency,Chat Rating Diversity,"
    "Chat Rating Contingency,Chat Rating Empathy,Chat Rating Comments",
    "chat_ratings": "ID,Chat ID,Datetime,Chatbot ID,User Session Key,Quality,Coherency,Fluency,Diversity,"
    "Contingency,Empathy,Comments,Chat Length,MTurk Code,MTurk User ID,Study Key",
}


@pytest.mark.parametrize("what", list(HEADERS_2019))
def test_the_2019_headers_are_exact(study: Study, what: str, tmp_path: Path) -> None:
    make_rating(make_conversation(study, n_exchanges=3))
    export(study, what, tmp_path / "x.csv")
    first, *rest = (tmp_path / "x.csv").read_bytes().split(b"\r\n")
    assert first.decode() == HEADERS_2019[what]
    assert len(rest) == (4 if what == "chatrecords" else 2)


def test_the_2019_layout_joins_runs_and_comes_back(study: Study, tmp_path: Path) -> None:
    turns = [("bot", "=welcome"), ("human", "a"), ("human", "b"), ("bot", "c"), ("bot", "d"), ("human", "e")]
    data = {
        "dialogue_id": "x1",
        "bot": "alpha",
        "turns": [{"speaker": s, "text": t, **({"vote": 1} if t == "d" else {})} for s, t in turns],
        "ratings": [{"rater": "r", "quality": 3, "empathy": 5}],
    }
    (tmp_path / "in.jsonl").write_text(json.dumps(data))
    import_conversations(tmp_path / "in.jsonl", study_key="in", scale=(1, 7))
    export(Study.objects.get(key="in"), "chatrecords", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(unescape_cell(row["Message"]), unescape_cell(row["Response"])) for row in rows] == [
        ("", "=welcome"),
        ("a\nb", "c\nd"),
        ("e", ""),
    ]
    assert [row["Response Rating"] for row in rows] == ["0", "1", "0"]
    assert [json.loads(row["Bot Input"]) for row in rows] == [
        [],
        ["=welcome", "a\nb"],
        ["=welcome", "a\nb", "c\nd", "e"],
    ]
    assert {(row["Chat Rating Quality"], row["Chat Rating Empathy"]) for row in rows} == {("3", "5")}
    report = import_conversations(tmp_path / "out.csv", study_key="again", scale=(1, 7))
    assert (report.conversations, report.ratings, report.skipped) == (1, 1, [])
    again = Turn.objects.filter(conversation__study__key="again").order_by("index")
    assert [(t.speaker, t.text, t.vote) for t in again] == [
        ("bot", "=welcome", 0),
        ("human", "a\nb", 0),
        ("bot", "c\nd", 1),
        ("human", "e", 0),
    ]
    original = Turn.objects.filter(conversation__study__key="in").order_by("index").last()
    last = again.last()
    assert last.created_at == original.created_at  # the file's time, not that of the import
    ratings = export(Study.objects.get(key="in"), "chat_ratings", tmp_path / "r.csv")
    assert ratings["rows"] == 1
    assert import_conversations(tmp_path / "r.csv", study_key="again", scale=(1, 7)).ratings == 0
    assert Rating.objects.filter(conversation__study__key="again").count() == 1


def test_an_exported_study_can_be_imported_again(study: Study, tmp_path: Path) -> None:
    for n in range(3):
        conversation = make_conversation(study, n_exchanges=3)
        vote_set(conversation_id=conversation.pk, turn_index=1, value=1)
        make_rating(conversation, quality=n + 1)
    assert export(study, "conversations", tmp_path / "x.jsonl") == {"rows": 3, "file": str(tmp_path / "x.jsonl")}
    report = import_conversations(tmp_path / "x.jsonl", study_key="again", scale=(1, 7))
    assert (report.conversations, report.ratings, report.n_skipped) == (3, 3, 0)
    again = Study.objects.get(key="again")
    first, second = rows_of(study, "conversations"), rows_of(again, "conversations")
    for key in ("dialogue_id", "bot", "source", "turns", "ratings", "n_exchanges"):
        assert [row[key] for row in first] == [row[key] for row in second], key


@pytest.mark.parametrize("name", ["x.csv", "x.JSONL", "x.parquet", "x.old.csv"])
def test_the_format_is_that_of_the_file_s_ending(study: Study, tmp_path: Path, name: str) -> None:
    asked = ["export", "--study", study.key, "--what", "bots", "--output"]
    call_command(*asked, str(tmp_path / name))
    file_format = name.rpartition(".")[2].lower()
    call_command(*asked, str(tmp_path / "plain"), "--format", file_format)
    assert (tmp_path / name).read_bytes() == (tmp_path / "plain").read_bytes()
    call_command(*asked, str(tmp_path / name), "--format", file_format)


@pytest.mark.parametrize(
    ("what", "name", "file_format", "says"),
    [
        ("bots", "x.csv", "jsonl", "x.csv ends in .csv, but --format is jsonl"),
        ("bots", "x.xlsx", None, "x.xlsx ends in .xlsx; a table must end in .csv, .jsonl, .parquet"),
        ("bots", "x.txt", "csv", "x.txt ends in .txt; a table must end in"),
        ("bots", "x.zip", None, "x.zip ends in .zip; a table must end in"),
        ("bots", "x", None, "use a name ending in .csv, .jsonl, .parquet, or add --format"),
        ("package", "x.csv", None, "x.csv ends in .csv; a data package must end in .zip"),
    ],
)
def test_an_ending_that_says_another_format_is_refused(
    study: Study, tmp_path: Path, what: str, name: str, file_format: str | None, says: str
) -> None:
    asked = ["export", "--study", study.key, "--what", what, "--output", str(tmp_path / name)]
    with pytest.raises(CommandError, match=re.escape(says)) as error:
        call_command(*asked, *(["--format", file_format] if file_format else []))
    assert error.value.returncode == 2
    assert not list(tmp_path.iterdir())


def test_an_unknown_study_or_folder_is_one_line(study: Study, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="there is no study 'nope'") as error:
        call_command("export", "--study", "nope", "--what", "ratings", "--format", "csv", "--output", "x")
    assert error.value.returncode == 1
    with pytest.raises(CommandError, match=r"there is no folder .*missing; create it first"):
        export(study, "ratings", tmp_path / "missing" / "x.csv")


def test_the_dictionary_describes_every_column_of_every_table(study: Study) -> None:
    results = {(row["table"], row["column"]) for row in rows_of(study, "dictionary")}
    for exporter in exporter_list():
        for column in exporter.columns(study, ExportOptions()):
            assert (exporter.name, column.name) in results


def test_raters_elsewhere_get_words_that_tell_no_bot(study: Study) -> None:
    chat = make_conversation(study, n_exchanges=3)
    make_rating(chat)
    [row] = rows_of(study, "for_raters")
    assert row["conversation"] == str(chat.pk)
    assert row["turns"][:2] == [{"speaker": "human", "text": "message 0"}, {"speaker": "bot", "text": "reply 0"}]
    assert chat.bot.bot_id not in json.dumps(row)

    judged = make_study("judged", protocol="pairwise", bots=[], state=Study.State.DRAFT)
    two = [{"model": "hred-ei", "text": "Good."}, {"model": "vhred", "text": "Fine."}]
    for number in range(9):
        name = f"hred-ei against vhred, {number}"
        item_add(study=judged, key=name, context=["hi"], responses=two)
    shown = rows_of(judged, "for_raters")
    assert "hred" not in json.dumps(shown)
    known = {row["code"]: row for row in rows_of(judged, "items")}
    assert [row["code"] for row in shown] == sorted(known)
    firsts = set()
    for row in shown:
        item = known[row["code"]]
        codes = dict(zip(item["reply_codes"], item["responses"], strict=True))
        assert {reply["code"]: reply["text"] for reply in row["replies"]} == codes
        firsts.add(row["replies"][0]["text"])
    assert firsts == {"Good.", "Fine."}  # neither stands on one side always


@pytest.fixture
def table_study() -> Study:
    return make_study("pay", code_rated="CRATED1", code_bot_failed="CFAIL22")


def row_of(study: Study, conversation: Conversation, **options: bool) -> dict[str, Any]:
    rows = rows_of(study, "participants", **options)
    return next(row for row in rows if row["participant"] == str(conversation.participant_id))


def test_every_ending_has_its_outcome_and_the_code_that_was_shown(table_study: Study) -> None:
    rated = make_conversation(table_study, n_exchanges=3)
    make_rating(rated)
    failed = make_conversation(table_study)
    fail_reply(failed)
    conversation_finish_failed(conversation=failed)
    withdrawn = make_conversation(table_study)
    conversation_withdraw(conversation=withdrawn)
    still_open = make_conversation(table_study)
    swapped = make_conversation(table_study)
    fail_reply(swapped)
    second = conversation_swap(conversation=swapped)
    participant_enter(study=table_study)  # came, and did not agree

    results = {
        name: row_of(table_study, conversation)
        for name, conversation in [
            ("rated", rated),
            ("failed", failed),
            ("withdrawn", withdrawn),
            ("open", still_open),
            ("swapped", swapped),
        ]
    }
    assert len(rows_of(table_study, "participants")) == 5
    told = {name: (row["state"], row["outcome"], row["code"]) for name, row in results.items()}
    assert told == {
        "rated": ("completed", "rated", "CRATED1"),
        "failed": ("completed", "bot_failed", "CFAIL22"),
        "withdrawn": ("withdrawn", "withdrawn", ""),
        "open": ("open", "", ""),
        "swapped": ("open", "", ""),
    }
    assert results["swapped"]["bots"] == f"{swapped.bot.bot_id} {second.bot.bot_id}"
    assert results["swapped"]["n_chats"] == 2
    assert results["open"]["ended_at"] is None
    for name in ("rated", "failed", "withdrawn"):
        row = results[name]
        assert row["entered_at"] <= row["consented_at"] <= row["ended_at"]
    assert {row["study"] for row in results.values()} == {"pay"}
    texts = rows_of(table_study, "consent_texts")
    assert [row["n_participants"] for row in texts] == [5]
    assert {row["consent_version"] for row in results.values()} == {texts[0]["consent_version"]}
    assert texts[0]["consent_points"] == table_study.values.texts.consent_points


def test_a_second_chat_has_its_own_outcome_and_code() -> None:
    study = make_study("own")
    first = make_conversation(study, n_exchanges=3)
    task = make_rating(first).task
    assert first.participant is not None
    second = conversation_start(participant=first.participant)
    for n in range(3):
        exchange(second, f"m {n}", f"r {n}")
    second.refresh_from_db()
    two = make_rating(second).task
    row = row_of(study, first)
    assert row["outcome"] == "rated rated"
    assert row["code"] == f"{task.completion_code} {two.completion_code}"


def test_recruitment_ids_are_private_and_scripts_are_left_out(table_study: Study) -> None:
    sent = {"PROLIFIC_PID": "pid-1", "SESSION_ID": "session-1"}
    person = make_conversation(table_study, platform="prolific", external_id="pid-1", recruitment=sent)
    make_participant(table_study, is_synthetic=True)
    (row,) = rows_of(table_study, "participants")
    assert "pid-1" not in str(row)
    assert "session-1" not in str(row)
    private = row_of(table_study, person, include_private=True)
    assert (private["platform"], private["external_id"]) == ("prolific", "pid-1")
    assert (private["submissions"], private["recruitment"]) == ("session-1", sent)
    both = rows_of(table_study, "participants", include_synthetic=True)
    assert [row["is_synthetic"] for row in both] == [False, True]


def test_more_people_take_no_more_queries(table_study: Study) -> None:
    exporter = exporter_get("participants")

    def n_queries() -> int:
        with CaptureQueriesContext(connection) as queries:
            list(exporter.rows(table_study, ExportOptions(include_private=True)))
        return len(queries)

    make_rating(make_conversation(table_study, n_exchanges=3))
    few = n_queries()
    for _ in range(5):
        make_rating(make_conversation(table_study, n_exchanges=3))
    assert n_queries() == few
