"""Importing into the database: idempotent, with a study and a rubric made from what is found."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

import confab
from evaluation.analysis.bot_means import bot_means
from tests.builders import make_study
from tests.conftest import ROOT
from webapp.conversations.models import Conversation, Turn
from webapp.core.errors import Refused
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_ratings
from webapp.studies.models import Participant, Rubric, Study
from webapp.transfer.import_file import import_conversations

pytestmark = pytest.mark.django_db


def record(n: int, *ratings: dict[str, Any], bot: str = "alpha", **more: Any) -> dict[str, Any]:
    turns = [{"speaker": "human", "text": f"hi {n}"}, {"speaker": "bot", "text": "yes", "vote": -1}]
    return {"dialogue_id": f"d{n}", "bot": bot, "turns": turns, "ratings": list(ratings), **more}


def write(path: Path, *records: dict[str, Any] | str) -> Path:
    lines = [item if isinstance(item, str) else json.dumps(item) for item in records]
    path.write_text("\n".join(lines) + "\n")
    return path


def run(path: Path, *args: str) -> dict[str, Any]:
    """Return the report of an import; one that read nothing must fail."""
    out = StringIO()
    failed = False
    try:
        call_command("import_conversations", str(path), "--json", *args, stdout=out, stderr=StringIO())
    except CommandError:
        if not out.getvalue():
            raise
        failed = True
    report = json.loads(out.getvalue())
    assert not (failed and (report["conversations"] or report["ratings"]))
    return report


def counts() -> tuple[int, ...]:
    models = (Conversation, Turn, Rating, Participant, Rubric)
    return tuple(model.objects.count() for model in models)


def test_a_study_is_made_with_a_rubric_of_the_dimensions_found(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.jsonl",
        record(1, {"rater": "ann", "overall": 5, "fun": 1}, source="s"),
        record(2, {"rater": "ann", "overall": 2}, {"rater": "bob", "overall": 4, "fun": 3}),
        "{not json",
        record(3, bot="beta"),
    )
    result = run(path, "--study", "made")
    assert (result["conversations"], result["ratings"]) == (3, 3)
    assert [skipped["line"] for skipped in result["skipped"]] == [3]
    study = Study.objects.get(key="made")
    assert study.is_imported
    assert study.state == Study.State.ENDED
    assert study.bots == ["alpha", "beta"]
    assert study.rubric.scale_inferred
    assert {d.key: d.scale for d in study.rubric.dimensions.all()} == {"overall": (2, 5), "fun": (1, 3)}
    assert Participant.objects.count() == 2
    rating = Rating.objects.get(participant__platform_ids__external_id="bob")
    assert rating.answers == {"overall": 4, "fun": 3}
    assert rating.conversation.external_id == "d2"
    assert rating.conversation.n_exchanges == 1
    assert Conversation.objects.get(external_id="s/d1").bot.params == {"source": "s"}


def test_twice_is_once(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.jsonl",
        record(1, {"quality": 5}, {"quality": 6}, {"rater": "a", "quality": 4}),
        record(2, {"rater": "a", "quality": 4}, {"rater": "a", "quality": 5}),
        record(2, {"rater": "a", "quality": 4}, {"rater": "b", "quality": 1}),
    )
    assert run(path, "--study", "k")["ratings"] == 6
    before = counts()
    assert run(path, "--study", "k") == {"conversations": 0, "ratings": 0, "skipped": []}
    assert counts() == before
    assert before[:3] == (2, 4, 6)


def test_ratings_of_one_conversation_in_several_lines_are_kept_or_told(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.jsonl",
        record(1, {"quality": 5}, {"quality": 5}, {"rater": "a", "quality": 4}),
        record(1, {"quality": 6}, {"quality": 5}, {"rater": "a", "quality": 4}),
        record(1, {"rater": "a", "quality": 3}),
    )
    for n in (4, 0):
        result = run(path, "--study", "k")
        text = "rater 'a' has already rated dialogue_id 'd1' of bot 'alpha' with different answers"
        assert result["ratings"] == n
        assert result["skipped"] == [{"line": 3, "reason": text}]
    given = Rating.objects.values_list("rater", "answers__quality")
    assert sorted(given) == [("", 5), ("", 5), ("", 6), ("a", 4)]


def test_an_id_that_stands_for_something_else_is_told(tmp_path: Path) -> None:
    other = record(1) | {"turns": [{"speaker": "bot", "text": "something else"}]}
    path = write(tmp_path / "x.jsonl", record(1, {"quality": 2}), other, record(2))
    result = run(path, "--study", "k")
    assert result["conversations"] == 2
    text = "dialogue_id 'd1' of bot 'alpha' has other turns in line 1 than in line 2"
    assert result["skipped"] == [{"line": 2, "reason": text}]
    later = write(tmp_path / "y.jsonl", other)
    text = "dialogue_id 'd1' of bot 'alpha' is already in the study, with different turns"
    assert run(later, "--study", "k")["skipped"] == [{"line": 1, "reason": text}]


def test_bots_may_number_their_conversations_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / "tests" / "cases" / "read_ids_restart_per_bot.jsonl"
    monkeypatch.setattr("webapp.transfer.import_file.BATCH", 3)  # one bot's in several batches
    result = run(path, "--study", "k")
    assert result == {"conversations": 8, "ratings": 8, "skipped": []}
    assert run(path, "--study", "k") == {"conversations": 0, "ratings": 0, "skipped": []}
    given = Rating.objects.values_list("conversation__bot__bot_id", "answers__quality")
    assert sorted(given) == [("a", 5)] * 4 + [("b", 1)] * 4
    out = tmp_path / "again.jsonl"
    call_command(
        "export", "--study", "k", "--what", "conversations", "--format", "jsonl", "--output", out,
        stdout=StringIO(), stderr=StringIO(),
    )  # fmt: skip
    assert run(out, "--study", "k") == {"conversations": 0, "ratings": 0, "skipped": []}
    same = [record(1, {"rater": "ann", "fun": n}, bot=bot) for n, bot in enumerate("xy")]
    assert run(write(tmp_path / "same.jsonl", *same), "--study", "same")["conversations"] == 2
    given = Rating.objects.filter(answers__has_key="fun")
    assert set(given.values_list("conversation__bot__bot_id", "answers__fun")) == {("x", 0), ("y", 1)}


def test_ratings_apart_go_to_the_conversation_of_their_bot(tmp_path: Path) -> None:
    run(write(tmp_path / "x.jsonl", record(1, bot="a"), record(1, bot="b")), "--study", "k")
    rated = tmp_path / "chat_ratings.csv"
    rows = [("d1", "b", "s"), ("d1", "", "s"), ("d1", "c", "s"), ("d2", "a", "s")]
    rated.write_text(
        "Chat ID,Chatbot ID,User Session Key,Datetime,Quality\n"
        + "".join(f"{chat},{bot},{who},2019-05-29T21:36:04+00:00,4\n" for chat, bot, who in rows)
    )
    result = run(rated, "--study", "k")
    assert result["ratings"] == 1
    assert Rating.objects.get().conversation.bot.bot_id == "b"
    assert [skipped["reason"] for skipped in result["skipped"]] == [
        "several bots have a conversation 'd1': a, b; name the bot",
        "the study has no conversation 'd1' of bot 'c' to rate",
        "the study has no conversation 'd2' of bot 'a' to rate",
    ]


def test_an_answer_beyond_its_scale_is_told_and_its_conversation_stays(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.jsonl",
        record(1, {"rater": "a", "quality": 5, "fun": 1, "depth": 4}),
        record(2, {"rater": "a", "quality": 9, "fun": 2, "depth": 3}),
        record(3, {"rater": "a", "quality": 0}),
    )
    result = run(path, "--study", "k", "--scale", "1:7", "--scale", "fun=0:1")
    assert (result["conversations"], result["ratings"]) == (3, 2)
    text = "which is not on the scale from"
    assert result["skipped"] == [
        {"line": 2, "reason": f"ratings[0].quality is 9, {text} 1 to 7"},
        {"line": 2, "reason": f"ratings[0].fun is 2, {text} 0 to 1"},
        {"line": 3, "reason": f"ratings[0].quality is 0, {text} 1 to 7"},
    ]
    study = Study.objects.get(key="k")
    assert not study.rubric.scale_inferred
    scales = {d.key: d.scale for d in study.rubric.dimensions.all()}
    assert scales == {"quality": (1, 7), "fun": (0, 1), "depth": (1, 7)}
    assert {rating.conversation.external_id: rating.answers for rating in Rating.objects.all()} == {
        "d1": {"quality": 5, "fun": 1, "depth": 4},
        "d2": {"depth": 3},
    }
    read = confab.read(path, scale={"": (1, 7), "fun": (0, 1)})
    assert len(read) == 3
    assert [(one.line, one.reason.partition(": ")[2]) for one in read.skipped] == [
        (one["line"], one["reason"]) for one in result["skipped"]
    ]
    # A later file without a scale is held against those that are known.
    later = write(tmp_path / "y.jsonl", record(4, {"quality": 8, "new": 3}))
    again = run(later, "--study", "k")
    assert [one["reason"] for one in again["skipped"]] == [f"ratings[0].quality is 8, {text} 1 to 7"]
    study = Study.objects.get(key="k")
    inferred = study.rubric.dimensions.filter(scale_inferred=True)
    assert [one.key for one in inferred] == ["new"]
    assert study.rubric.scale_inferred


def test_only_a_scale_that_is_known_bounds_intervals(tmp_path: Path) -> None:
    lines = [record(n, {"rater": f"r{n}", "quality": 5, "fun": 1 - (n == 3)}) for n in range(4)]
    path = write(tmp_path / "x.jsonl", *lines, record(9, {"rater": "r9", "quality": 4, "fun": 1}))
    run(path, "--study", "k", "--scale", "fun=0:1")
    for ratings in (study_ratings(Study.objects.get(key="k")), confab.read(path, scale={"fun": (0, 1)}).answers):
        means = bot_means(ratings).rows
        # Four of five say 5, the highest answer seen; nobody knows that 6 cannot be.
        quality, fun = means["alpha", "quality"].interval, means["alpha", "fun"].interval
        assert quality.high > 5
        assert 0 < fun.low < fun.high < 1
    # Both ways of leaving the scale out agree; and a package keeps what is known of each scale.
    assert study_ratings(Study.objects.get(key="k")).bounds("quality") is None


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        (["fum=0:1"], "a scale is given for 'fum'; rated questions: fun, quality"),
        (["fun=0:1", "fun=0:2"], "fun is given twice"),
        (["fun=1:1"], "the first must be below the second"),
    ],
)
def test_a_scale_of_no_question_is_told(tmp_path: Path, scales: list[str], message: str) -> None:
    path = write(tmp_path / "x.jsonl", record(1, {"quality": 5, "fun": 1}))
    with pytest.raises(CommandError, match=message):
        run(path, "--study", "k", *(part for scale in scales for part in ("--scale", scale)))
    assert not Study.objects.exists()


@pytest.mark.parametrize("scale", ["7", "5:1", "a:b", "1:2:3", "nan:3"])
def test_a_scale_that_is_none_is_wrong_usage(tmp_path: Path, scale: str) -> None:
    path = write(tmp_path / "x.jsonl", record(1))
    with pytest.raises(CommandError) as error:
        run(path, "--study", "k", "--scale", scale)
    assert error.value.returncode == 2


def table(path: Path) -> Path:
    rows = ("c1,alice,Good day,hi,5,x", "c1,alice,How are you?,fine,5,y", "c2,bert,Hello,yes,2,z")
    path.write_text("\n".join(["talk,System,they said,it said,prompt,note", *rows]) + "\n")
    return path


def test_columns_are_named_by_their_role(tmp_path: Path) -> None:
    named = ["conversation=talk", "bot=System", "human=they said", "reply=it said", "question=prompt", "=note"]
    path = table(tmp_path / "x.csv")
    with pytest.raises(CommandError, match="is in an unknown format"):
        run(path, "--study", "k")
    result = run(path, "--study", "k", *(part for one in named for part in ("--column", one)))
    assert result == {"conversations": 2, "ratings": 2, "skipped": []}
    assert sorted(Conversation.objects.values_list("bot__bot_id", "n_exchanges")) == [("alice", 2), ("bert", 1)]
    assert sorted(Rating.objects.values_list("answers__prompt", flat=True)) == [2, 5]
    turns = Turn.objects.filter(conversation__bot__bot_id="bert").order_by("index")
    assert list(turns.values_list("text", flat=True)) == ["Hello", "yes"]


def test_a_named_column_takes_the_role_from_the_one_that_seems_to_have_it(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("conversation,bot,arm,user,reply\nc1,v2,ours,hi,yes\n")
    assert run(path, "--study", "k", "--column", "bot=arm")["conversations"] == 1
    assert Conversation.objects.get().bot.bot_id == "ours"


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (["bot=Sys", "human=me"], "x.csv has no column 'Sys', 'me'; it has 'talk', 'System', 'they said'"),
        (["bot=System", "bot=note"], "columns 'System' and 'note' are both “bot”"),
        (["bot=System"], "no column identifies the conversation"),
    ],
)
def test_columns_that_make_no_table_are_refused(tmp_path: Path, named: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message) as error:
        run(table(tmp_path / "x.csv"), "--study", "k", *(part for one in named for part in ("--column", one)))
    assert error.value.returncode == 1
    assert not Study.objects.exists()


@pytest.mark.parametrize("named", [["bot"], ["bot="], ["robot=System"], ["bot=System", "text=System"]])
def test_a_column_without_a_role_is_wrong_usage(tmp_path: Path, named: list[str]) -> None:
    with pytest.raises(CommandError, match=r"--column: .*(use ROLE=NAME|is listed twice)") as error:
        run(table(tmp_path / "x.csv"), "--study", "k", *(part for one in named for part in ("--column", one)))
    assert error.value.returncode == 2


def test_columns_of_a_file_that_is_no_csv_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"x\.jsonl is not a CSV file, so its columns cannot be named"):
        run(write(tmp_path / "x.jsonl", record(1)), "--study", "k", "--column", "bot=bot")


def test_a_second_file_widens_the_rubric_of_an_imported_study(tmp_path: Path) -> None:
    run(write(tmp_path / "x.jsonl", record(1, {"overall": 2}), record(2, {"overall": 3})), "--study", "k")
    run(write(tmp_path / "y.jsonl", record(3, {"overall": 5, "fun": 1}, bot="beta")), "--study", "k")
    study = Study.objects.get(key="k")
    assert study.bots == ["alpha", "beta"]
    assert study.rubric.version == 2
    assert {d.key: d.scale for d in study.rubric.dimensions.all()}["overall"] == (2, 5)
    assert set(Rating.objects.values_list("rubric", flat=True)) == {study.rubric.pk}


def test_a_live_study_is_not_changed_by_an_import(tmp_path: Path) -> None:
    study = make_study("live")
    rubric = study.rubric
    fits = write(tmp_path / "a.jsonl", record(1, {"quality": 7, "fluency": 1}))
    assert import_conversations(fits, study_key="live").ratings == 1
    with pytest.raises(Refused, match="rates 'overall', but study 'live' asks for quality"):
        import_conversations(write(tmp_path / "b.jsonl", record(2, {"overall": 3})), study_key="live")
    with pytest.raises(Refused, match="from 8 to 8, but study 'live' uses a scale from 1 to 7"):
        import_conversations(write(tmp_path / "c.jsonl", record(3, {"quality": 8})), study_key="live")
    study.refresh_from_db()
    assert study.rubric == rubric
    assert study.bots == ["eliza", "parrot"]


def test_names_that_are_nobody_make_no_participant(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", record(1, {"rater": "slot1", "q": 1}, {"rater": "unknown", "q": 2}))
    run(path, "--study", "k")
    assert Participant.objects.count() == 0
    assert set(Rating.objects.values_list("rater", flat=True)) == {"slot1", "unknown"}


def test_one_transaction_per_batch_whatever_the_number_of_raters(
    tmp_path: Path, django_assert_max_num_queries: Any
) -> None:
    records = [record(n, {"rater": f"w{n}", "quality": n % 7}) for n in range(400)]
    path = write(tmp_path / "x.jsonl", *records)
    with django_assert_max_num_queries(96):
        assert import_conversations(path, study_key="k").conversations == 400


def test_a_missing_file_and_a_bad_key_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="there is no file") as error:
        run(tmp_path / "nothing.jsonl", "--study", "k")
    assert error.value.returncode == 1
    with pytest.raises(CommandError, match="use letters, digits, - and _"):
        run(write(tmp_path / "x.jsonl", record(1)), "--study", "no good")


def test_a_file_without_a_good_record_makes_no_study(tmp_path: Path) -> None:
    result = run(write(tmp_path / "x.jsonl", "{", '{"bot": 1}'), "--study", "k")
    assert [s["line"] for s in result["skipped"]] == [1, 2]
    assert not Study.objects.exists()


@pytest.mark.parametrize(
    ("case", "n", "reasons"),
    [
        ("array_of_conversations.json", 2, []),
        ("conversations_utf16.jsonl", 2, []),
        ("conversations_lone_cr.jsonl", 2, []),
        ("rec_semicolon.csv", 1, []),
        ("foreign_chats.jsonl", 3, []),
        ("rec_excel_dates.csv", 0, ["5/29/2019 21:36", "29.05.2019 21:36", "21:36:04 UTC"]),
    ],
)
def test_files_of_other_makes_are_read_or_named(case: str, n: int, reasons: list[str]) -> None:
    result = run(ROOT / "tests" / "cases" / case, "--study", "k")
    assert result["conversations"] == n
    for skipped, reason in zip(result["skipped"], reasons, strict=True):
        assert reason in skipped["reason"]


def test_a_data_package_keeps_which_scales_were_read_off(tmp_path: Path) -> None:
    answers = [{"rater": "a", "quality": 4, "fun": 1}, {"rater": "b", "quality": 6, "fun": 1}]
    path = write(tmp_path / "x.jsonl", *(record(n, *answers) for n in (1, 2)))
    run(path, "--study", "k", "--scale", "fun=0:1")
    packed = tmp_path / "k.zip"
    call_command("export", "--study", "k", "--what", "package", "--output", str(packed), stdout=StringIO())
    run(packed, "--study", "again")
    study = Study.objects.get(key="again")
    read_off = {"fun": False, "quality": True}
    assert study.rubric.scale_inferred
    assert {dimension.key: dimension.scale_inferred for dimension in study.rubric.dimensions.all()} == read_off
    for result in (study_ratings(study), confab.read(packed).answers):
        assert {dimension.key: dimension.inferred for dimension in result.dimensions} == read_off
        assert {dimension.key: (dimension.low, dimension.high) for dimension in result.dimensions} == {
            "quality": (4, 6),
            "fun": (0, 1),
        }
        means = {row.dimension: row.interval for row in bot_means(result).rows.values()}
        assert (means["fun"].high, means["quality"].high > 6) == (1, True)


@pytest.mark.postgres  # writers on SQLite in memory do not wait for each other
@pytest.mark.django_db(transaction=True)
def test_two_imports_of_a_file_at_once_store_it_once(tmp_path: Path) -> None:
    records = [record(n, {"rater": "ann", "overall": 1 + n % 5}, {"overall": 3}) for n in range(600)]
    path = write(tmp_path / "x.jsonl", record(0, {"rater": "ann", "overall": 1}, {"overall": 5}))
    import_conversations(path, study_key="twice")
    write(path, *records)

    def work(_number: int) -> int:
        try:
            return import_conversations(path, study_key="twice").conversations
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(work, range(2))) == 599
    assert counts()[:3] == (600, 1200, 1201)
    chats = Conversation.objects.order_by("created_at", "id").values_list("external_id", flat=True)
    assert list(chats)[1:5] == ["d1", "d2", "d3", "d4"]


def test_the_times_of_messages_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    times = ("2020-01-02T03:04:05+00:00", "2020-01-02T03:04:09+00:00")
    rows = [f"c1,b,{speaker},Hi,{time}" for speaker, time in zip(("human", "bot"), times, strict=True)]
    path.write_text("\n".join(["conversation,bot,speaker,text,time", *rows]) + "\n")
    before = timezone.now() - timedelta(minutes=1)
    import_conversations(path, study_key="timed")
    turns = Turn.objects.order_by("index").values_list("created_at", flat=True)
    assert tuple(time.isoformat() for time in turns) == times
    assert Conversation.objects.get().created_at > before
    path.write_text("conversation,bot,speaker,text\nc2,b,human,Hi\nc2,b,bot,Ho\n")
    import_conversations(path, study_key="timed")
    assert all(time > before for time in turns.filter(conversation__external_id="c2"))
