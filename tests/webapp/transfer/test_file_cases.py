"""Files of the field, read by the command and in notebooks: read right, or left out by name, and alike in both."""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

import confab
from evaluation.data.formats.base import BadRecord
from tests.builders import make_staff
from tests.conftest import ROOT
from webapp.conversations.models import Conversation, Turn
from webapp.core.rights import Right
from webapp.ratings.models import Rating

pytestmark = pytest.mark.django_db
CASES = ROOT / "tests" / "cases"


def import_file(path: Path, *args: str) -> tuple[dict[str, Any], str]:
    """Return the report of an import, and its error if it ends with 1."""
    out = StringIO()
    try:
        call_command("import_conversations", str(path), "--json", "--study", "k", *args, stdout=out, stderr=StringIO())
    except CommandError as error:
        assert error.returncode == 1
        return json.loads(out.getvalue() or "{}"), str(error)
    return json.loads(out.getvalue()), ""


def stored() -> dict[str, Any]:
    """Return the conversations and ratings of the database, as `seen` has those of a notebook."""
    turns = Turn.objects.order_by("conversation__external_id", "index").values_list("conversation__external_id", "text")
    ratings = Rating.objects.values_list("conversation__external_id", "conversation__bot__bot_id", "answers")
    return {
        "bots": sorted(set(Conversation.objects.values_list("bot__bot_id", flat=True))),
        "turns": sorted(turns),
        "ratings": sorted((name, bot, sorted(answers.items())) for name, bot, answers in ratings),
    }


def seen(study: confab.Study) -> dict[str, Any]:
    """Return the conversations and ratings of a notebook's study."""
    dialogues = study.dialogues
    return {
        "bots": sorted(study.bots),
        "turns": sorted(
            (dialogue.conversation.id, turn.text) for dialogue in dialogues for turn in dialogue.conversation.turns
        ),
        "ratings": sorted(
            (dialogue.conversation.id, dialogue.bot, sorted(rating.answers.items()))
            for dialogue in dialogues
            for rating in dialogue.ratings
        ),
    }


READ: dict[str, tuple[int, int, list[float], str]] = {
    # conversations, turns, answers, and a note
    "csv_bot_names_nfc.csv": (2, 4, [1, 5], "Columns read as answers to questions: 'quality'"),
    "csv_joined_by_message.csv": (1, 2, [2, 4, 5], "each message is read once"),
    "csv_joined_by_rater.csv": (1, 2, [2, 4, 5], "each message is read once"),
    "csv_likert_labels.csv": (3, 6, [2, 4, 5], "'Disagree' = 2, 'Agree' = 4, 'Strongly agree' = 5"),
    "csv_number_with_label.csv": (2, 4, [4, 5], "'4 - good' is read as 4"),
    "csv_one_excel_na.csv": (31, 62, [1, 2, 3, 4, 5] * 6, "1 cell with '#N/A' counted as missing"),
    "csv_pipe.csv": (2, 4, [], "Cells are separated by |"),
    "csv_read_turn_and_rater.csv": (2, 4, [2, 4], "'quality'"),
    "csv_sep_line.csv": (1, 2, [], "Cells are separated by ;"),
    "csv_thousands.csv": (3, 6, [980, 1000, 1250], "1,250 is read as 1250"),
    "csv_true_false.csv": (2, 4, [0, 1], "'FALSE' = 0, 'TRUE' = 1"),
    "csv_turn_shared.csv": (1, 4, [], ""),
    "csv_two_blank_headers.csv": (2, 4, [4, 5], "'Quality'"),
    "messages.csv": (8, 16, [], ""),
    "messages_semicolon.csv": (8, 16, [], "Cells are separated by ;"),
    "messages_turn_as_float.csv": (8, 16, [], ""),
    "rec_semicolon.csv": (1, 2, [5], ";"),
    "array_of_conversations.json": (2, 4, [1, 3], ""),
}


@pytest.mark.parametrize("case", READ)
def test_a_file_reads_the_same_by_the_command_and_in_a_notebook(case: str) -> None:
    n_conversations, n_turns, answers, note = READ[case]
    report, error = import_file(CASES / case)
    assert (report["conversations"], report["ratings"], report["skipped"], error) == (
        n_conversations,
        len(answers),
        [],
        "",
    )
    assert note in "\n".join(report.get("notes", [""]))
    study = confab.read(CASES / case)
    assert list(study.notes) == report.get("notes", [])
    assert seen(study) == stored()
    assert len(stored()["turns"]) == n_turns
    assert sorted(value for _, _, given in stored()["ratings"] for _, value in given) == sorted(answers)
    again, error = import_file(CASES / case)
    assert (again["conversations"], again["ratings"], error) == (0, 0, "")


def test_names_in_two_normal_forms_are_one_bot() -> None:
    import_file(CASES / "csv_bot_names_nfc.csv")
    assert stored()["bots"] == ["Zoë"]


def test_ratings_of_single_replies_are_left_out_with_what_to_do() -> None:
    report, _error = import_file(CASES / "csv_per_reply_ratings.csv")
    assert (report["conversations"], report["ratings"]) == (1, 0)
    [skipped] = report["skipped"]
    assert "rater 'r1' answers quality with 1 in line 3 and 5 in line 5" in skipped["reason"]
    assert "average them first" in skipped["reason"]


def test_an_id_rounded_by_a_spreadsheet_merges_no_chats() -> None:
    report, error = import_file(CASES / "csv_ids_rounded.csv")
    assert error == "no record of csv_ids_rounded.csv could be read"
    assert [one["line"] for one in report["skipped"]] == [2, 3, 4]
    assert "'1.23457E+15', an id that a spreadsheet has rounded" in report["skipped"][0]["reason"]


def test_a_header_without_rows_is_said() -> None:
    report, error = import_file(CASES / "csv_header_only.csv")
    assert (report, "The file has a header but no rows" in error) == ({}, True)
    with pytest.raises(ValueError, match="The file has a header but no rows"):
        confab.read(CASES / "csv_header_only.csv")


def test_header_rows_of_qualtrics_are_no_ratings(tmp_path: Path) -> None:
    chats = tmp_path / "chats.csv"
    chats.write_text("conversation,bot,user,response\nc1,a,hi,yo\nc2,a,bye,see you\n")
    import_file(chats)
    report, error = import_file(CASES / "csv_qualtrics_rows.csv")
    assert (report["ratings"], error) == (2, "")
    assert [one["line"] for one in report["skipped"]] == [2, 3]
    assert len(confab.read(chats, CASES / "csv_qualtrics_rows.csv").ratings) == 2


@pytest.mark.parametrize(
    ("case", "title", "n_conversations", "n_ratings", "n_skipped"),
    [
        ("ds_arena_battles.json", "Chatbot Arena battles", 2, 2, 1),
        ("ds_convai2_export.json", "ConvAI2, ConvAI", 1, 1, 0),
        ("ds_fed.json", "FED", 2, 10, 0),
        ("ds_hh.jsonl", "HH-RLHF and other chosen and rejected pairs", 2, 2, 0),
        ("ds_labelstudio.json", "Label Studio (JSON)", 1, 2, 0),
        ("ds_oasst_thread.jsonl", "OpenAssistant threads", 1, 0, 0),
        ("ds_usr.json", "USR (Topical-Chat, Persona-Chat)", 1, 3, 0),
        ("ds_wildchat.jsonl", "WildChat", 2, 0, 0),
    ],
)
def test_public_sets_are_read_alike_by_the_command_and_in_a_notebook(
    case: str, title: str, n_conversations: int, n_ratings: int, n_skipped: int
) -> None:
    report, error = import_file(CASES / case)
    counts = (report["conversations"], report["ratings"], len(report["skipped"]))
    assert (counts, error) == ((n_conversations, n_ratings, n_skipped), "")
    study = confab.read(CASES / case)
    assert list(study.notes) == report["notes"]
    assert f"Recognised: {title}" in study.notes
    assert len(study) == n_conversations
    again, _error = import_file(CASES / case)
    assert (again["conversations"], again["ratings"]) == (0, 0)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({"mapping": {}, "title": "x"}, "ChatGPT's data export"),
        ({"personality": [], "utterances": []}, "PersonaChat"),
        ({"instruction": "x", "output": "y"}, "Alpaca"),
        ({"conversation_id": "x", "model": "m", "conversation": []}, "LMSYS-Chat"),
    ],
)
def test_unknown_records_name_the_nearest_format_and_the_page(data: dict[str, Any], name: str) -> None:
    from evaluation.data.formats.jsonl import record_of

    with pytest.raises(BadRecord, match=re.escape(name)) as error:
        record_of(data, line=1)
    assert "on the page Import" in str(error.value)


def write(path: Path, *lines: str, encoding: str = "utf-8") -> Path:
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return path


HEADER = "conversation,bot,user,response,rater"


def test_a_cell_that_is_no_answer_costs_itself_and_is_named(tmp_path: Path) -> None:
    cells = ["5", "4", "3", "five", "-", ".", "n.a.", "2", "1", "5"]
    rows = [f"c{n},a,hi,yo,r{n},{cell}" for n, cell in enumerate(cells)]
    report, _error = import_file(write(tmp_path / "x.csv", f"{HEADER},quality", *rows))
    assert (report["conversations"], report["ratings"]) == (10, 6)
    reason = "quality is 'five'; it must be a number or a word of the scale; this answer is skipped"
    assert report["skipped"] == [{"line": 5, "reason": reason}]
    assert "3 cells with '-', '.', 'n.a.' counted as missing" in report["notes"][0]


def test_every_column_that_is_not_used_is_named_with_its_first_odd_cell(tmp_path: Path) -> None:
    rows = [f"c{n},a,hi,yo,r{n},{n % 5},{30 + n},17000000{n}0,x{n},{n}.5" for n in range(9)]
    path = write(tmp_path / "x.csv", f"{HEADER},fun,Age,when_ts,remark,duration_s", *rows)
    report, _error = import_file(path)
    text = "\n".join(report["notes"])
    assert "Columns read as answers to questions: 'fun'\n" in text
    for column, first in (("Age", "30"), ("when_ts", "1700000000"), ("remark", "x0"), ("duration_s", "0.5")):
        assert f"Column {column!r} is not used" in text
        assert first in text
    assert confab.read(path).dimensions == ("fun",)
    chosen = confab.read(path, columns={"Age": "question"})
    assert set(chosen.dimensions) == {"age", "fun"}
    assert confab.read(path, columns={"question": ["Age"], "": "fun"}).dimensions == ("age",)


@pytest.mark.parametrize(
    ("cells", "delimiter", "values", "left_out"),
    [
        (["3,5", "1,250", "2"], ";", [3.5, 1.25, 2], 0),
        (["1,250,000", "1,250", "2"], ";", [1250000, 1250, 2], 0),
        (["1,250", "4", "2"], ";", [4, 2], 1),
        (['"1,250"', '"3,5"', "2"], ",", [1.25, 3.5, 2], 0),
        (["1.250,5", "1.250", "2"], ";", [1250.5, 1250, 2], 0),
        (["1'250", "2", "3"], ",", [1250, 2, 3], 0),
        (["1 - bad", "2", "5 - good"], ",", [1, 2, 5], 0),
        (["bad (1)", "2", "good (5)"], ",", [1, 2, 5], 0),
        (["4/5", "3/5", "1/5"], ",", [4, 3, 1], 0),
        (["yes", "no", "maybe"], ",", [1, 0], 1),
        (["stimme zu", "stimme gar nicht zu", "teils/teils"], ",", [4, 1, 3], 0),
        (["very good", "poor", "3"], ",", [5, 2, 3], 0),
    ],
)
def test_numbers_in_other_clothes(
    tmp_path: Path, cells: list[str], delimiter: str, values: list[float], left_out: int
) -> None:
    rows = [f"c{n},a,hi,yo,r{n}".replace(",", delimiter) + delimiter + cell for n, cell in enumerate(cells)]
    path = write(tmp_path / "x.csv", f"{HEADER},score".replace(",", delimiter), *rows)
    study = confab.read(path)
    assert study.ratings["score"].dropna().tolist() == values
    assert len(study.skipped) == left_out
    assert len(study) == 3


@pytest.mark.parametrize("broken", ["c1,a,human,one,two", "c1,a,bot", 'c1,a,bot,"hi', "bot,hi"])
def test_a_broken_row_leaves_no_broken_chat(tmp_path: Path, broken: str) -> None:
    rows = ["c0,a,human,x", "c0,a,bot,y", "c1,a,human,hello", broken, "c2,a,human,x", "c2,a,bot,y", "c3,a,human,x"]
    path = write(tmp_path / "x.csv", "conversation,bot,speaker,text", *rows, "c3,a,bot,y")
    report, _error = import_file(path)
    conversations = set(Conversation.objects.values_list("external_id", flat=True))
    assert "c1" not in conversations
    assert "c0" in conversations
    assert any("'c1'" in one["reason"] for one in report["skipped"])
    turns = Turn.objects.values_list("conversation__external_id", "text")
    assert all(sum(name == chat for name, _text in turns) == 2 for chat in conversations)
    assert seen(confab.read(path)) == stored()


def test_joined_rows_without_names_of_raters_are_read_once(tmp_path: Path) -> None:
    rows = [f"c1,a,{who},{text},{n}" for n in (1, 5) for who, text in (("human", "hi"), ("bot", "yo"))]
    study = confab.read(write(tmp_path / "x.csv", "conversation,bot,speaker,text,quality", *rows))
    assert study.conversations["n_turns"].tolist() == [2]
    assert study.ratings["quality"].tolist() == [1, 5]
    plain = [row.rpartition(",")[0] + ",3" for row in rows]
    kept = confab.read(write(tmp_path / "y.csv", "conversation,bot,speaker,text,quality", *plain))
    assert kept.conversations["n_turns"].tolist() == [4]
    assert "repeated messages" in kept.notes[-1]


def test_bots_that_number_their_chats_alike_stay_apart_and_a_wrong_bot_is_named(tmp_path: Path) -> None:
    rows = [f"{n},{bot},hi {n},yo,r{n},{4 if bot == 'a' else 2}" for bot in "ab" for n in range(3)]
    path = write(tmp_path / "x.csv", f"{HEADER},quality", *rows)
    study = confab.read(path)
    assert (len(study), study.ratings.groupby("bot")["quality"].mean().to_dict()) == (6, {"a": 4, "b": 2})
    typo = ["c1,alpha,hi,yo,,", "c1,alpah,more,yes,,", "c1,alpha,bye,bye,,", "c2,alpha,hi,yo,,"]
    study = confab.read(write(tmp_path / "y.csv", f"{HEADER},quality", *typo))
    assert len(study) == 1
    assert "chat 'c1' has more than one bot: alpah, alpha" in study.skipped[0].reason


@pytest.mark.parametrize(
    "before", [["sep=|"], ["# made by a script", "# on Monday"], ["My study"], ["sep=|", "", "# comment"]]
)
def test_lines_above_the_header_are_passed_over(tmp_path: Path, before: list[str]) -> None:
    path = write(tmp_path / "x.csv", *before, "conversation|bot|user|response", "c1|a|hi|yo", "# the end")
    study = confab.read(path)
    assert seen(study)["turns"] == [("c1", "hi"), ("c1", "yo")]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig"])
def test_other_encodings_are_read_and_cp1252_is_said(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path / "x.csv", "Gespräch;Bot;user;response", "c1;Zoë;grüß dich;schön – “ja”", encoding=encoding)
    text = confab.read(path, columns={"Gespräch": "conversation"})
    assert seen(text)["turns"] == [("c1", "grüß dich"), ("c1", "schön – “ja”")]
    assert any("Windows-1252" in note for note in text.notes) == (encoding == "cp1252")
    report, _error = import_file(path, "--column", "conversation=Gespräch")
    assert report["conversations"] == 1


def test_names_of_roles_may_be_those_of_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "talk,System,they said,it said,mood", "t1,a,hi,yo,x")
    with pytest.raises(ValueError, match=r"it has the columns 'talk', .*--column ROLE=NAME .*the page Import"):
        confab.read(path)
    named = {"user": "they said", "response": "it said", "chat": "talk", "model": "System"}
    report, _error = import_file(
        path, *(part for role, name in named.items() for part in ("--column", f"{role}={name}"))
    )
    assert report["conversations"] == 1
    assert confab.read(path, columns=named).bots == ("a",)
    assert confab.read(path, columns={name: role for role, name in named.items()}).bots == ("a",)
    with pytest.raises(ValueError, match="has no column 'speech'"):
        confab.read(path, columns={"speech": "human"})


def test_records_of_an_array_on_one_line_are_told_apart(tmp_path: Path) -> None:
    good = {"dialogue_id": "1", "bot": "a", "turns": [{"speaker": "human", "text": "hi"}]}
    path = tmp_path / "x.json"
    path.write_text(json.dumps([good, {"bot": "a"}, {"bot": "b"}]))
    report, _error = import_file(path)
    assert [(one["line"], one["reason"][:9]) for one in report["skipped"]] == [(2, "record 2:"), (3, "record 3:")]


def test_the_terminal_groups_equal_reasons_and_json_does_not(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", *[json.dumps({"sender_id": str(n), "events": [n]}) for n in range(30)])
    report, _error = import_file(path)
    assert len(report["skipped"]) == 30
    err = StringIO()
    with pytest.raises(CommandError):
        call_command("import_conversations", str(path), "--study", "k", stdout=StringIO(), stderr=err)
    assert err.getvalue().count("Rasa's tracker") == 1
    assert "(and 29 more like it)" in err.getvalue()


def test_exported_tables_come_in_again_in_every_format(tmp_path: Path) -> None:
    import_file(CASES / "csv_read_turn_and_rater.csv")
    before = stored()
    for what in ("messages", "conversations"):
        for ending in ("csv", "parquet", "jsonl"):
            path = tmp_path / f"{what}.{ending}"
            args = ("--study", "k", "--what", what, "--format", ending, "--output", str(path))
            call_command("export", *args, stdout=StringIO(), stderr=StringIO())
            study = confab.read(path)
            assert [text for _name, text in seen(study)["turns"]] or path
            assert sorted(study.messages["text"]) == sorted(text for _name, text in before["turns"]), path.name
            call_command("import_conversations", str(path), "--study", path.stem, stdout=StringIO(), stderr=StringIO())


def test_the_page_shows_what_was_guessed_and_imports_the_same(client: Client) -> None:
    client.force_login(make_staff(Right.READ, Right.RUN))
    with (CASES / "csv_likert_labels.csv").open("rb") as file:
        preview = client.post(reverse("dashboard:imports"), {"file": file}, follow=True)
    text = preview.content.decode()
    assert "&#x27;Disagree&#x27; = 2, &#x27;Agree&#x27; = 4" in text
    address = preview.redirect_chain[-1][0]
    fields = preview.context["columns"].fields
    roles = {name: field.initial for name, field in fields.items()}
    done = client.post(address, {"study": "k", "_import": "1", **roles}, follow=True).content.decode()
    assert "3 new conversations" in done
    assert "&#x27;Disagree&#x27; = 2" in done
    assert [answers for _, _, answers in stored()["ratings"]] == [[("quality", 4)], [("quality", 5)], [("quality", 2)]]
