"""Files of a study: in and out, every mistake at once with its place; the researcher's own table of bots."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from chatbots.validation import ValuesError
from tests.builders import make_annotated, make_conversation, make_participant, make_study
from webapp.core.errors import Refused
from webapp.studies.bot_columns import BotColumns, bot_columns_read
from webapp.studies.lifecycle import study_import
from webapp.studies.models import Item, Study
from webapp.studies.rubrics import rubric_default
from webapp.studies.study_file import MOST_INLINE, items_lines, study_file_of, study_file_read, study_file_text
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


FILE = """
confab_study: 1
key: talk
name: Everyday talk
protocol: chat
bots: [eliza, parrot]
questions:
  - {key: age, title: "How old are you?", kind: choice, options: [18 to 29, 30 or older]}
after:
  - {key: quality, title: "How good was it?", kind: scale, labels: {1: bad, 7: good}}
  - {key: again, title: "Again?", kind: choice, options: [Yes, No]}
texts:
  title: Talk a little
  minutes: 6
chat: {min_exchanges: 3}
"""


def told(wrong: pytest.ExceptionInfo[ValuesError]) -> dict[str, str]:
    return {mistake.path: mistake.message for mistake in wrong.value.mistakes}


def imported(text: str = FILE, **more: Any) -> Study:
    return study_import(file=study_file_read(text), **more).study


def command(*words: str) -> dict[str, Any]:
    out = StringIO()
    call_command(*words, "--json", stdout=out)
    return json.loads(out.getvalue())


def test_commands_make_change_and_write_a_study(tmp_path: Path) -> None:
    path, out = tmp_path / "s.yaml", tmp_path / "out.yaml"
    path.write_text(FILE)
    assert command("import_study", str(path)) == {
        "study": "talk",
        "version": 1,
        "state": "draft",
        "is_new": True,
        "items": 0,
        "changes": [],
    }
    assert command("export_study", "--study", "talk", "--output", str(out)) == {
        "study": "talk",
        "version": 1,
        "state": "draft",
    }
    # A new study has a level of its own, which its file names.
    assert study_file_read(out.read_text()) == study_file_read(FILE + "quotas: {level: 0.95}\n")
    assert command("import_study", str(out))["changes"] == []
    again = command("import_study", str(out), "--key", "second", "--open")
    assert (again["study"], again["is_new"], again["state"]) == ("second", True, "collecting")
    make_participant(Study.objects.get(key="talk"))
    path.write_text(FILE.replace("minutes: 6", "minutes: 9").replace("[eliza, parrot]", "[eliza]"))
    changed = command("import_study", str(path))
    assert (changed["version"], changed["state"]) == (2, "draft")
    assert [change["words"] for change in changed["changes"]] == [
        "Bots: gone: parrot",
        "Texts, Duration in minutes: 6 → 9",
    ]
    assert Study.objects.get(key="talk").versions.get(number=1).values.texts.minutes == 6


def test_every_mistake_is_told_at_once_with_its_place() -> None:
    wrong = """
confab_study: 2
key: no key
protocol: caht
rule: balance
minutes: 3
bots: eliza
colour: red
questions:
  - {key: Age, title: "How old?", kind: choise, options: [a, b]}
after:
  - {key: q, title: "Q?", kind: scale, low: 5, high: 1}
  - {key: r, title: "R?", kind: choice, options: [a]}
texts: {titel: T, minutes: -1, contact: nobody}
chat: {min_exchanges: none}
recruitment: {link_rated: nowhere}
judging: {raters_wanted: 2, raters_least: 3}
items:
  - {id: a, context: [Hi]}
"""
    with pytest.raises(ValuesError) as error:
        study_file_read(wrong)
    said = told(error)
    for path, words in {
        "confab_study": "confab_study is 2; it must be 1",
        "key": "letters, digits, - and _",
        "name": "name is missing; it must be a text",
        "protocol": "did you mean chat?",
        "rule": "did you mean balanced?",
        "minutes": "minutes is an unknown key; it belongs in texts: write texts.minutes",
        "bots": "it must be a list",
        "colour": "colour is an unknown key",
        "questions[0].key": "lower-case letters",
        "questions[0].kind": "did you mean choice?",
        "after[0].low": "it must be below high",
        "after[1].options": "options must be two or more",
        "texts.titel": "did you mean title?",
        "texts.minutes": "it must be a whole number",
        "texts.contact": "it must be an e-mail address",
        "chat.min_exchanges": "it must be a whole number",
        # What does not fit together in a section that can be read is told as well.
        "judging.raters_least": "The minimum of 3 raters is above the 2 wanted",
    }.items():
        assert words in said[path], (path, said.get(path))
    assert any(path.startswith("items") for path in said)
    assert any(path.startswith("recruitment.link_rated") for path in said)
    assert not Study.objects.exists()


def test_what_cannot_be_together_is_told_with_its_place_too(tmp_path: Path) -> None:
    text = FILE.replace("chat: {min_exchanges: 3}", "chat: {min_exchanges: 9, max_exchanges: 4}")
    text += "recruitment: {frame_ancestors: nonsense}\n"
    with pytest.raises(ValuesError) as error:
        imported(text.replace("[eliza, parrot]", "[elisa]"), opens=True)
    assert told(error).keys() == {"chat.min_exchanges", "recruitment.frame_ancestors", "bots"}
    path = tmp_path / "s.yaml"
    path.write_text(text)
    out, err = StringIO(), StringIO()
    with pytest.raises(CommandError, match=r"2 mistakes in .*; nothing was changed") as refused:
        call_command("import_study", str(path), stdout=out, stderr=err)
    assert refused.value.returncode == 1
    assert err.getvalue().count("\n- ") + 1 == 2
    with pytest.raises(CommandError):
        call_command("import_study", str(path), "--json", stdout=out)
    errors = json.loads(out.getvalue())["errors"]
    assert {error["path"] for error in errors} == {"chat.min_exchanges", "recruitment.frame_ancestors"}
    assert not Study.objects.exists()


@pytest.mark.parametrize(
    ("change", "paths", "opens"),
    [
        # Of the parts that can be read the checks of the whole are told, in one round.
        (("minutes: 6", "minutes: none"), {"texts.minutes", "assignment.bot_quotas"}, False),
        (("minutes: 6", "colour: red"), {"texts.colour", "assignment.bot_quotas"}, False),
        (("kind: choice, options: [18", "kind: choise, options: [18"),
         {"questions[0].kind", "assignment.bot_quotas", "after[1].key"}, False),
        (("name: Everyday talk\n", ""), {"name", "assignment.bot_quotas"}, False),
        (("min_exchanges: 3", "min_exchanges: x"),
         {"chat.min_exchanges", "assignment.bot_quotas", "recruitment.code_rated"}, True),
        # Nothing is told that may come from a part that cannot be read.
        (("[eliza, parrot]", "[eliza, 3]"), {"bots[1]"}, True),
        (("protocol: chat", "protocol: caht"), {"protocol"}, False),
    ],
)  # fmt: skip
def test_mistakes_of_the_whole_are_told_with_those_of_parts(
    tmp_path: Path, change: tuple[str, str], paths: set[str], opens: bool
) -> None:
    text = FILE + "assignment: {bot_quotas: {cleo: 3}}\n"
    if "recruitment.code_rated" in paths:
        text += "recruitment: {platform: prolific}\n"
    if "after[1].key" in paths:
        text = text.replace("key: again", "key: quality")
    path = tmp_path / "s.yaml"
    path.write_text(text.replace(*change))
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("import_study", str(path), "--json", *(["--open"] if opens else []), stdout=out)
    result = {error["path"] for error in json.loads(out.getvalue())["errors"]}
    assert {one for one in result if not one.startswith("recruitment")} == {
        path for path in paths if not path.startswith("recruitment")
    }
    assert paths <= result


def test_what_people_have_agreed_to_is_not_undone_by_a_file() -> None:
    study = imported(opens=True)
    make_conversation(study)
    with pytest.raises(ValuesError) as error:
        imported(FILE.replace("{1: bad, 7: good}", "{1: bad, 5: good}").replace("scale,", "scale, high: 5,"))
    assert "1 participant has already consented" in told(error)["after"]
    with pytest.raises(ValuesError) as error:
        imported(FILE.replace("protocol: chat", "protocol: annotate"))
    assert "protocol" in told(error)
    study.refresh_from_db()
    assert (study.protocol, study.version.number, study.state) == ("chat", 1, "collecting")


def test_a_study_that_asks_a_rubric_goes_out_and_in_without_a_change() -> None:
    study = make_study("s")
    text = study_file_text(study_file_of(study))
    assert "key: contingency" in text
    done = study_import(file=study_file_read(text))
    assert (done.changes, done.study.version_id) == ([], study.version_id)
    assert done.study.rubric == rubric_default()
    assert study_file_text(study_file_of(done.study)) == text


def test_what_a_file_does_not_ask_is_not_asked() -> None:
    lines = FILE.split("after:")[0] + "texts: {title: T}\n"
    study = imported(lines)
    assert not study.rubric.dimensions.exists()
    assert study_file_read(study_file_text(study_file_of(study))).after == ()


def test_few_items_stand_in_the_file_and_many_beside_it(tmp_path: Path) -> None:
    study = make_annotated(n_items=3)
    path = tmp_path / "a.yaml"
    call_command("export_study", "--study", "a", "--output", str(path))
    assert path.read_text().count("- id:") == 3
    call_command("import_study", str(path), "--key", "b")
    assert Item.objects.filter(study__key="b").count() == 3
    for number in range(MOST_INLINE):
        Item.objects.create(
            study=study,
            key=f"m{number}",
            context=["é"],
            responses=[{"model": "x", "text": "one"}, {"model": "y", "text": "two"}],
            panel={"persona": ["I ski."]},
            reference_score=2.5,
        )
    assert command("export_study", "--study", "a", "--output", str(path))["items"] == ("a.items.jsonl")
    beside = tmp_path / "a.items.jsonl"
    assert "items: a.items.jsonl" in path.read_text()
    assert len(beside.read_text().splitlines()) == MOST_INLINE + 3
    assert command("import_study", str(path), "--key", "c")["items"] == MOST_INLINE + 3
    copied = Study.objects.get(key="c")
    assert list(items_lines(copied)) == list(items_lines(study))
    assert command("import_study", str(path), "--key", "c")["items"] == 0
    fields = ("key", "context", "responses", "reference", "reference_score", "task", "panel")
    rows = [list(one.items.order_by("pk").values_list(*fields)) for one in (study, copied)]
    assert rows[0][3:] == rows[1][3:]


def test_items_of_the_import_format_are_read_and_wrong_ones_told(tmp_path: Path) -> None:
    text = FILE.replace("protocol: chat", "protocol: annotate").replace("bots: [eliza, parrot]", "items: mine.jsonl")
    mine = tmp_path / "mine.jsonl"
    line = {"id": 7, "source": "corpus", "context": ["Hi"], "response": "Hello", "model": "m"}
    mine.write_text(json.dumps({**line, "ratings": [{"coherence": 3}]}) + "\n")
    study = imported(text, folder=tmp_path)
    item = study.items.get()
    assert (item.key, item.responses) == ("corpus/7", [{"model": "m", "text": "Hello"}])
    pair = {**line, "id": 8, "second_response": "Hi", "second_model": "n"}
    mine.write_text(json.dumps(pair) + "\n")
    imported(text, folder=tmp_path)
    assert study.items.get(key="corpus/8").responses == [{"model": "m", "text": "Hello"}, {"model": "n", "text": "Hi"}]
    for content, words in (
        (json.dumps({**line, "response": "Another"}), "id 'corpus/7' is already in the study with different texts"),
        (json.dumps({"id": "x"}), "line 1: response is missing"),
        ("{", "line 1"),
    ):
        mine.write_text(content + "\n")
        with pytest.raises(ValuesError) as error:
            imported(text, folder=tmp_path)
        [message] = told(error).values()
        assert words in message
    for name in ("../mine.jsonl", "none.jsonl"):
        with pytest.raises(ValuesError, match="in the study file"):
            imported(text.replace("mine.jsonl", name), folder=tmp_path)
    with pytest.raises(ValuesError, match="write the items in"):
        imported(text)


def test_a_studys_own_items_need_not_come_with_its_file() -> None:
    study = make_annotated(n_items=MOST_INLINE + 1)
    text = study_file_text(study_file_of(study)).replace("minutes: 8", "minutes: 9")
    assert imported(text).values.texts.minutes == 9
    with pytest.raises(ValuesError, match="write the items in"):
        imported(text.replace("key: a\n", "key: b\n"))


def test_a_file_that_is_none_is_refused_in_one_sentence(tmp_path: Path) -> None:
    for text, words in (
        ("- a\n- b", "must contain keys and values"),
        ("", "must contain keys and values"),
        ("a: &b 1\nc: *b", "anchors"),
        ("key: !!python/name:os.system", "cannot be read"),
    ):
        with pytest.raises(ValuesError, match=words):
            study_file_read(text)
    with pytest.raises(CommandError, match="there is no file"):
        call_command("import_study", str(tmp_path / "none.yaml"))
    with pytest.raises(CommandError, match="there is no study 'none'"):
        call_command("export_study", "--study", "none", "--output", str(tmp_path / "x.yaml"))
    with pytest.raises(CommandError, match="caht"):
        call_command("study_example", "caht")


def test_a_version_goes_out_as_people_wrote_it_whatever_they_wrote() -> None:
    study = imported()
    nasty = "yes\n\n  - 2026-01-01: #no\n\ttab “quotes” 'and' \"more\" 🦊\n\u2028 end "
    study = study_edit(study=study, consent_text=nasty, payment="£1: 50%", organisation="null")
    text = study_file_text(study_file_of(study))
    values = study_file_read(text).values
    assert (values.texts.consent_text, values.texts.payment) == (nasty, "£1: 50%")
    assert values == study.values


HOSTILE = {
    "hexadecimal": "0x" + "f" * 6000,
    "decimal": "7" * 6000,
    "negative": "-" + "7" * 6000,
    "list": "[0x" + "f" * 6000 + "]",
    "nested": "[" * 5000 + "]" * 5000,
    "mappings": "{a: " * 5000 + "}" * 5000,
    "long": '"' + "x" * 100_000 + '"',
    "surrogate": '"\\ud800"',
    "nul": '"\\0"',
    "key": "{? 0x" + "f" * 6000 + ": 1}",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("place", ["confab_study: 1", "key: talk", "minutes: 6", "min_exchanges: 3", "protocol: chat"])
def test_a_file_with_any_value_is_refused_in_one_sentence(name: str, place: str, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(FILE.replace(place, f"{place.partition(':')[0]}: {HOSTILE[name]}"))
    err = StringIO()
    with pytest.raises(CommandError, match=r"mistakes? in .*s\.yaml; nothing was changed") as raised:
        call_command("import_study", str(path), stderr=err)
    assert raised.value.returncode == 1
    text = err.getvalue()
    assert text.startswith("- ")
    assert len(text) < 2000
    assert "sys." not in text


BOTS = ["eliza", "parrot", "hred-ei"]


def test_numbers_words_and_controls() -> None:
    content = (
        b"\xef\xbb\xbfbot, ppl ,corpus,control\r\neliza,,cornell,no\r\n"
        b'"parrot",36.5,reddit,YES\r\n\r\nhred-ei,-1e1,,\r\n'
    )
    result = bot_columns_read(content, BOTS, "bots.csv")
    assert result.metrics == {"ppl": {"parrot": 36.5, "hred-ei": -10.0}}
    assert result.factors == {"corpus": {"eliza": "cornell", "parrot": "reddit"}}
    assert result.control == {"parrot"}
    assert BotColumns.from_json(result.to_json()) == result


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"name,ppl\nx,1\n", "one column must be called 'bot'"),
        (b"bot;ppl\neliza;1\n", "separate the columns by commas"),
        (b"bot\neliza\n", "the only column is 'bot'"),
        (b"bot,ppl\n", "no row below the header"),
        (b"bot,ppl\nelisa,1\n", "line 2: the study has no bot 'elisa'; did you mean eliza"),
        (b"bot,ppl\nzzz,1\n", "it has eliza, hred-ei, parrot"),
        (b"bot,ppl\neliza,1\neliza,2\n", "line 3: bot 'eliza' is listed twice"),
        (b"bot,ppl\neliza,1,2\n", "line 2 has 3 cells; the header has 2"),
        (b"bot,ppl\neliza,1\nparrot,high\n", "line 3: ppl of parrot is 'high'"),
        (b"bot,ppl\neliza,1\nparrot,nan\n", "enter a finite number or leave the cell empty"),
        (b"bot,ppl,ppl\neliza,1,2\n", "column 'ppl' is listed twice"),
        (b"bot,,ppl\neliza,1,2\n", "column 2 has no name"),
        (b"bot,ppl\neliza,\n", "column 'ppl' is empty"),
        (b"bot,control\neliza,perhaps\n", "control of eliza is 'perhaps'; it must be yes or no"),
        (b"bot,ppl\neliza,\xff\n", "not UTF-8"),
        (b"PK\x03\x04\x00\x00", "the file is not text"),
        (b'bot,ppl\n"eliza,1\n', "line 2: unexpected end of data"),
        (b"bot,ppl\n" + b" " * 1_000_000, "the limit is 1,000,000"),
    ],
)
def test_refusals_name_the_value_and_what_is_right(content: bytes, message: str) -> None:
    with pytest.raises(Refused) as caught:
        bot_columns_read(content, BOTS)
    assert message in str(caught.value)
    assert caught.value.code == "bad_csv"
