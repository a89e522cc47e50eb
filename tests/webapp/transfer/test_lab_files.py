"""Files as labs have them: workbooks, wide tables, separate ratings, Excel's CSV, saved mappings, Potato's state."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from openpyxl import Workbook

import confab
from tests.builders import make_staff
from tests.webapp.transfer.test_file_cases import seen, stored
from webapp.conversations.models import Conversation
from webapp.core.rights import Right
from webapp.ratings.models import Rating
from webapp.studies.models import Study
from webapp.transfer.import_mappings import get_mapping

pytestmark = pytest.mark.django_db


def run(path: Path, *args: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command("import_conversations", str(path), "--json", "--study", "k", *args, stdout=out, stderr=io.StringIO())
    report: dict[str, Any] = json.loads(out.getvalue())
    return report


def workbook(path: Path, rows: list[list[Any]]) -> Path:
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    for row in rows:
        sheet.append(row)
    book.create_sheet("notes").append(["not read"])
    book.save(path)
    return path


def table(path: Path, rows: list[list[Any]], delimiter: str = ",", encoding: str = "utf-8") -> Path:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerows(rows)
    path.write_bytes(text.getvalue().encode(encoding))
    return path


PER_MESSAGE: list[list[Any]] = [
    ["conversation", "bot", "speaker", "text", "quality"],
    *([f"c{n}", bot, who, text, 2 + n] for n, bot in enumerate("ab") for who, text in (("user", "Hi"), ("bot", "Yo"))),
]


def test_a_workbook_reads_like_its_csv(tmp_path: Path) -> None:
    book = workbook(tmp_path / "x.xlsx", PER_MESSAGE)
    report = run(book)
    assert (report["conversations"], report["ratings"]) == (2, 2)
    study = confab.read(book)
    assert seen(study) == stored()
    assert seen(study) == seen(confab.read(table(tmp_path / "x.csv", PER_MESSAGE)))
    assert sorted(study.ratings["quality"]) == [2, 3]
    renamed = tmp_path / "renamed.csv"
    renamed.write_bytes(book.read_bytes())
    assert seen(confab.read(renamed)) == seen(study)


def test_a_workbook_with_a_broken_row_names_it(tmp_path: Path) -> None:
    book = workbook(tmp_path / "x.xlsx", [*PER_MESSAGE, ["c9", "a", None, "no speaker", 1]])
    report = run(book)
    assert report["conversations"] == 2
    assert [skipped["line"] for skipped in report["skipped"]] == [6]


WIDE: dict[str, list[list[Any]]] = {
    "letters": [
        ["id", "model", "u1", "s1", "u2", "s2", "fun"],
        ["x", "a", "Hi", "Hello", "Bye", "Ciao", 4],
        ["y", "b", "Hi", "Yo", "", "", 2],
    ],
    "words": [
        ["fun", "user_2", "bot_2", "user_1", "bot_1", "bot", "conversation", "note"],
        [4, "Bye", "Ciao", "Hi", "Hello", "a", "x", "extra"],
        [2, "", "", "Hi", "Yo", "b", "y", ""],
    ],
}


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_a_row_per_chat_is_read_in_the_order_of_its_numbers(name: str, ending: str, tmp_path: Path) -> None:
    path = (table if ending == "csv" else workbook)(tmp_path / f"x.{ending}", WIDE[name])
    run(path)
    study = confab.read(path)
    assert seen(study) == stored()
    turns = {d.conversation.id: [(t.speaker, t.text) for t in d.conversation.turns] for d in study.dialogues}
    assert turns == {
        "x": [("human", "Hi"), ("bot", "Hello"), ("human", "Bye"), ("bot", "Ciao")],
        "y": [("human", "Hi"), ("bot", "Yo")],
    }
    assert study.bots == ("a", "b")
    assert sorted(study.ratings["fun"]) == [2, 4]


def test_ratings_in_a_file_of_their_own_join_their_conversations(tmp_path: Path) -> None:
    chats = table(tmp_path / "chats.csv", [row[:4] for row in PER_MESSAGE])
    ratings = table(
        tmp_path / "ratings.csv",
        [["conversation", "rater", "quality"], ["c0", "ann", 4], ["c1", "ann", 2], ["c1", "bob", 1], ["c7", "bob", 5]],
    )
    with pytest.raises(CommandError, match="Import the messages into the same study first"):
        run(ratings)
    run(chats)
    report = run(ratings)
    assert (report["conversations"], report["ratings"]) == (0, 3)
    assert [skipped["line"] for skipped in report["skipped"]] == [5]
    assert "no conversation 'c7'" in report["skipped"][0]["reason"]
    assert len(confab.read(chats, ratings).ratings) == 3
    assert run(ratings)["ratings"] == 0


def test_ratings_joined_to_every_message_are_read_once(tmp_path: Path) -> None:
    rows = [
        [*row, rater, score]
        for rater, score in (("ann", 4), ("bob", 2))
        for row in (["c0", "a", "user", "Hi"], ["c0", "a", "bot", "Yo"])
    ]
    path = table(tmp_path / "x.csv", [["conversation", "bot", "speaker", "text", "rater", "quality"], *rows])
    report = run(path)
    assert (report["conversations"], report["ratings"]) == (1, 2)
    assert seen(confab.read(path)) == stored()


def test_the_three_header_rows_of_qualtrics_are_no_chats(tmp_path: Path) -> None:
    rows = [
        ["StartDate", "ResponseId", "conversation", "bot", "user", "response", "Q1"],
        ["Start Date", "Response ID", "conversation", "bot", "user", "response", "How good was the reply?"],
        *[['{"ImportId":"startDate"}', '{"ImportId":"_recordId"}', *[f'{{"ImportId":"QID{n}"}}' for n in range(5)]]],
        ["2026-01-01 10:00:00", "R_1", "c1", "a", "Hi", "Hello", 5],
        ["2026-01-01 10:05:00", "R_2", "c2", "b", "Hi", "Yo", 2],
    ]
    path = table(tmp_path / "x.csv", rows)
    report = run(path, "--column", "question=Q1", "--column", "rater=ResponseId")
    assert (report["conversations"], report["ratings"]) == (2, 2)
    assert set(Conversation.objects.values_list("external_id", flat=True)) == {"c1", "c2"}
    assert set(Rating.objects.values_list("rater", flat=True)) == {"R_1", "R_2"}


GERMAN = [
    ["Gespräch", "System", "Nutzer", "Antwort", "Prüfer", "Verständlich"],
    ["g1", "Zoë", "Grüß dich", "Schön – “ja”", "Jürgen", "4,5"],
    ["g2", "Böt", "Tschüss", "Übermorgen", "Jürgen", "2,0"],
]
ROLES = {"conversation": "Gespräch", "bot": "System", "human": "Nutzer", "reply": "Antwort", "rater": "Prüfer"}


def test_the_csv_of_a_german_excel_is_read(tmp_path: Path) -> None:
    path = table(tmp_path / "x.csv", GERMAN, ";", "cp1252")
    columns = [part for role, name in ROLES.items() for part in ("--column", f"{role}={name}")]
    report = run(path, *columns, "--column", "question=Verständlich")
    assert (report["conversations"], report["ratings"], report["skipped"]) == (2, 2, [])
    notes = "\n".join(report["notes"])
    assert "Windows-1252" in notes
    assert "4,5 is read as 4.5" in notes
    assert stored()["bots"] == ["Böt", "Zoë"]
    assert ("g1", "Schön – “ja”") in stored()["turns"]
    assert [value for _, _, answers in stored()["ratings"] for _, value in answers] == [4.5, 2]


@pytest.mark.parametrize(
    ("names", "first"),
    [((0, 1), "human"), (("A", "B"), "human"), (("Nutzer", "Luna"), "human"), (("System", "Nutzer"), "bot")],
)
def test_speakers_are_guessed_shown_and_corrected(
    names: tuple[Any, Any], first: str, tmp_path: Path, client: Client
) -> None:
    chats = [{"id": "a", "talk": [{"who": names[0], "text": "Hi"}, {"who": names[1], "text": "Yo"}]}]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(chats))
    turns = confab.read(path).dialogues[0].conversation.turns
    assert [turn.speaker for turn in turns] == [first, "bot" if first == "human" else "human"]
    client.force_login(make_staff(Right.READ, Right.RUN))
    preview = client.post(
        reverse("dashboard:imports"), {"file": SimpleUploadedFile("x.json", path.read_bytes())}, follow=True
    )
    fields = {field.label: field.initial for field in preview.context["mapping"].speakers}
    assert fields == {str(names[0]): turns[0].speaker, str(names[1]): turns[1].speaker}
    address = preview.redirect_chain[-1][0]
    speakers = {f"speaker:{names[0]}": turns[1].speaker, f"speaker:{names[1]}": turns[0].speaker}
    client.post(address, {"study": "k", "_import": "1", "bot": "luna", **speakers})
    chat = Conversation.objects.get()
    assert chat.bot.bot_id == "luna"
    assert [turn.speaker for turn in chat.turns.order_by("index")] == [turns[1].speaker, turns[0].speaker]


def test_a_saved_mapping_reads_another_file_with_its_scales(tmp_path: Path, client: Client) -> None:
    client.force_login(make_staff(Right.READ, Right.RUN))

    def preview(rows: list[list[Any]]) -> tuple[str, Any]:
        data = table(tmp_path / "x.csv", rows, ";", "cp1252").read_bytes()
        response = client.post(reverse("dashboard:imports"), {"file": SimpleUploadedFile("x.csv", data)}, follow=True)
        return response.redirect_chain[-1][0], response

    address, _shown = preview(GERMAN)
    roles = {name: role for role, name in ROLES.items()} | {"Verständlich": "question"}
    columns = {f"column-{n}": roles[name] for n, name in enumerate(GERMAN[0])}
    [key] = client.post(address, {**columns, "_again": "1"}).context["form"].proposals
    values = {f"low-{key}": "1", f"high-{key}": "7", f"reversed-{key}": "off", "study": "first", "save_as": "lab"}
    again = client.post(address, {**columns, **values, "_again": "1"})
    entered = {name: again.context["form"][name].value() for name in (f"low-{key}", f"high-{key}", f"reversed-{key}")}
    assert entered == {f"low-{key}": "1", f"high-{key}": "7", f"reversed-{key}": "off"}
    client.post(address, {**columns, **values, "_import": "1"})
    assert get_mapping("lab").questions == {key: {"scale": [1, 7], "reversed": False}}

    other = [GERMAN[0][::-1], *[["3,0", "Ada", f"Antwort {n}", "Hallo", "Neu", f"h{n}"] for n in range(3)]]
    address, _shown = preview(other)
    applied = client.post(address, {"_apply": "1", "saved": "lab"})
    assert applied.context["contents"].n_conversations == 3
    form = applied.context["form"]
    assert [form[name].value() for name in (f"low-{key}", f"high-{key}", f"reversed-{key}")] == [1, 7, "off"]
    path = table(tmp_path / "other.csv", other, ";", "cp1252")
    out = io.StringIO()
    call_command("import_conversations", str(path), "--study", "second", "--mapping", "lab", "--json", stdout=out)
    assert json.loads(out.getvalue())["conversations"] == 3
    row = Study.objects.get(key="second").rubric.dimensions.get()
    assert (row.scale, row.reversed, row.scale_inferred) == ((1, 7), False, False)

    unrated = table(tmp_path / "unrated.csv", [other[0], *[["", *row[1:]] for row in other[1:]]], ";", "cp1252")
    out = io.StringIO()
    call_command("import_conversations", str(unrated), "--study", "third", "--mapping", "lab", "--json", stdout=out)
    assert json.loads(out.getvalue())["ratings"] == 0


POTATO: dict[str, dict[str, Any]] = {
    "pairs": {
        "user_id": "ann",
        "instance_id_ordering": ["c0", "c1"],
        "instance_id_to_label_to_value": {
            "c0": [
                [{"schema": "fun", "name": "2"}, True],
                [{"schema": "fun", "name": "4"}, "true"],
                [{"schema": "likes", "name": "scale_3"}, "3"],
                [{"schema": "why", "name": "text_box"}, "Nice."],
            ],
            "c9": [[{"schema": "fun", "name": "1"}, True]],
        },
    },
    "objects": {
        "instance_id_to_label_to_value": {
            "c0": {"fun": {"4": "true"}, "likes": {"scale_3": "3"}, "why": {"text_box": "Nice."}},
            "c9": {"fun": {"1": True}},
        },
        "user_id": "ann",
        "phase": "done",
    },
}


@pytest.mark.parametrize("name", POTATO)
def test_the_state_of_potato_rates_conversations_of_the_study(name: str, tmp_path: Path) -> None:
    run(table(tmp_path / "chats.csv", [row[:4] for row in PER_MESSAGE]))
    path = tmp_path / "user_state.json"
    path.write_text(json.dumps(POTATO[name], indent=2))
    report = run(path)
    assert report["ratings"] == 1
    assert ["'c9'" in skipped["reason"] for skipped in report["skipped"]] == [True]
    rating = Rating.objects.get()
    assert (rating.rater, rating.answers, rating.comment) == ("ann", {"fun": 4, "likes": 3}, "Nice.")
    assert run(path)["ratings"] == 0


@pytest.mark.parametrize(
    ("data", "nearest"),
    [
        ({"q": "Hi", "a": "Hello"}, "the nearest format is a table with a header"),
        ({"model_a": "x", "model_b": "y", "verdict": "a"}, "the nearest format is Chatbot Arena battles"),
        ({"fields": {"text": "x"}, "answers": []}, r"the nearest format is Argilla \(JSON\)"),
        ({"lines": [{"x": "Hi"}]}, "no known format has such keys"),
    ],
)
def test_an_unknown_file_names_the_nearest_format_and_the_page(data: Any, nearest: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(data) + "\n")
    with pytest.raises(ValueError, match=f"{nearest}.*on the page Import"):
        confab.read(path)


def test_the_columns_of_unknown_json_objects_can_be_assigned(client: Client) -> None:
    client.force_login(make_staff(Right.READ, Right.RUN))
    rows = [{"nr": f"c{n}", "they": "Hi", "it": f"Hello {n}", "sys": "luna", "mark": n} for n in range(3)]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    response = client.post(reverse("dashboard:imports"), {"file": SimpleUploadedFile("x.jsonl", data)}, follow=True)
    columns = response.context["columns"].fields
    assert [field.label for field in columns.values()] == ["nr", "they", "it", "sys", "mark"]
    roles = dict(zip(columns, ("conversation", "human", "reply", "bot", "question"), strict=True))
    client.post(response.redirect_chain[-1][0], {**roles, "study": "k", "_import": "1"})
    assert stored()["bots"] == ["luna"]
    assert sorted(value for _, _, given in stored()["ratings"] for _, value in given) == [0, 1, 2]
