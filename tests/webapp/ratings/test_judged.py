"""Judged replies and items: the same numbers, comparisons and pages from the database, the file, a notebook."""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

import confab
from evaluation.agreement.metric_agreement import judge, judgements_of
from evaluation.analysis.bot_means import bot_means
from evaluation.analysis.comparisons import compare
from evaluation.data.items import judged_read
from tests.builders import make_annotated, make_conversation, make_participant, make_rating, make_study, signed_in
from tests.conftest import ROOT
from tests.markup import flat
from webapp.conversations.services import conversation_withdraw, vote_set
from webapp.core.rights import Right
from webapp.ratings.paired_comparisons import study_judged
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.rating_tasks import requested_ratings as asked_of
from webapp.ratings.selectors import ratings_counted, study_ratings
from webapp.ratings.services import rating_add
from webapp.results.bot_means import bot_summary
from webapp.studies.items import item_add
from webapp.studies.models import Study
from webapp.studies.services import task_open, task_withdraw
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db


WORDS = ("no", "well, I think so", "maybe, who can tell after all", "yes it is", "I do", "fine day")
AFTER = [
    {"key": "overall", "title": "All in all?", "kind": "scale", "low": 1, "high": 5},
    {"key": "dull", "title": "Is it dull?", "kind": "scale", "low": 1, "high": 7, "reversed": True},
]


def json_of(*arguments: Any) -> Any:
    out = StringIO()
    call_command(*arguments, "--json", stdout=out, stderr=StringIO())
    return json.loads(out.getvalue())


@pytest.fixture
def study() -> Study:
    """Make a study whose six people judged three items each: long replies are good and dull."""
    study = make_study("lab", protocol="annotate", bots=[], state=Study.State.DRAFT, n_items=3, after=AFTER)
    for number, text in enumerate(WORDS):
        item_add(
            study=study, key=f"convai2/{number}", context=["hi", "hello"],
            responses=[{"model": "ab"[number % 2], "text": text}],
            reference="so it is", panel={"emotion": "glad"},
        )  # fmt: skip
    study = study_edit(study=study, state=Study.State.COLLECTING)
    for _person in range(6):
        task = task_open(participant=make_participant(study))
        for judgement in asked_of(task):
            n = len(judgement.slots[0].item.responses[0]["text"])
            rating_add(task=task, target=judgement.target, answers={"overall": 1 + n % 5, "dull": min(7, 1 + n // 3)})
    return study


def test_items_are_judged_alike_from_the_study_its_file_and_its_package(study: Study, tmp_path: Path) -> None:
    file, package = tmp_path / "judged.jsonl", tmp_path / "lab.zip"
    metrics = "words_bot,bleu_1"
    for what, form, path in (("judged", "jsonl", file), ("package", "csv", package)):
        json_of("export", "--study", "lab", "--what", what, "--format", form, "--output", str(path))
    here = json_of("evaluate_metrics", "--study", "lab", "--metrics", metrics, "--target", "dull")
    for result in (
        json_of("evaluate_metrics", "--data", str(file), "--metrics", metrics, "--target", "dull"),
        {
            name: one.to_json()
            for name, one in confab.judge(confab.read(package), metrics.split(","), target="dull").items()
        },
    ):
        assert result == here
    assert here["words_bot"]["n"] == 6
    assert here["words_bot"]["pearson"]["r"] < -0.9, "what is dull is bad: the question is reversed"
    assert here["words_bot"]["models"].keys() == {"a", "b"}
    [first, *_rest] = judged_read(file)
    assert (first.reference, first.emotion, first.source) == ("so it is", "glad", "lab")
    assert first.scales == {"overall": (1, 5), "dull": (1, 7)}
    assert first.reversed == ("dull",)
    people = {rating["rater"] for item in judged_read(file) for rating in item.ratings}
    known = {str(pk) for pk in study.participants.values_list("pk", flat=True)}
    assert len(people) == 6
    assert not people & known


def test_votes_are_judgements_of_replies_and_none_is_none(tmp_path: Path) -> None:
    study = make_study("talk")
    chats = [make_conversation(study, n_exchanges=3) for _ in range(3)]
    for number, chat in enumerate(chats):
        vote_set(conversation_id=chat.pk, turn_index=3, value=1 if number else -1)
        if number < 2:
            make_rating(chat)
    conversation_withdraw(conversation=chats[2])
    down, up = study_judged(study)
    assert down.context == ("message 0", "reply 0", "message 1")
    assert (down.response, down.model) == ("reply 1", chats[0].bot.bot_id)
    assert down.scores("vote")[0][0][1] == -1
    assert up.scores("vote")[0][0][1] == 1
    file = tmp_path / "c.jsonl"
    json_of("export", "--study", "talk", "--what", "conversations", "--format", "jsonl", "--output", str(file))
    read = confab.read(file).judged
    assert sorted((item.response, item.ratings[0]["vote"]) for item in read.items) == [("reply 1", -1), ("reply 1", 1)]


def test_marked_replies_are_judged_on_every_label() -> None:
    make_rating(make_conversation(make_study("talked"), n_exchanges=3))
    study = make_study("marks", protocol="turns", bots=[], conversations_of="talked")
    for ticked in (0, 1):
        task = task_open(participant=make_participant(study))
        for judgement in asked_of(task):
            keys = ("ignores", "contradicts", "invents", "nonsense", "repeats", "feeling", "asks")
            answers = {**dict.fromkeys(keys, 0), "asks": 1, "ignores": ticked}
            rating_add(task=task, target=judgement.target, answers=answers)
    results = list(study_judged(study))
    assert [result.response for result in results] == ["reply 0", "reply 1", "reply 2"]
    assert [value for _, value in results[0].scores("asks")[0]] == [1, 1]
    assert sorted(value for _, value in results[0].scores("ignores")[0]) == [0, 1]
    told = judge(judgements_of(results), ["words_bot", "length"], target="asks")
    assert told["length"].unavailable == "it does not describe single replies"
    by_words = told["words_bot"].to_json()
    assert by_words["n"] == 3
    assert by_words["pearson"]["r"] is None, "everybody said the same of every reply"


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    make_study("empty")
    for arguments, told in (
        (["--study", "empty"], "no single replies with human scores"),
        (["--study", "emty"], "did you mean empty"),
        (["--data", str(tmp_path / "x.jsonl"), "--without", "fast"], "need --study"),
    ):
        with pytest.raises(CommandError, match=told):
            call_command("evaluate_metrics", *arguments, "--metrics", "words_bot")


@pytest.mark.parametrize(
    ("case", "line"), [("judged_context_is_text.jsonl", "line 1"), ("judged_array_context_text.json", "line 14")]
)
def test_lines_that_cannot_be_read_are_told_with_the_error(case: str, line: str) -> None:
    path = ROOT / "tests" / "cases" / case
    text = f"{line}: .*context is "
    with pytest.raises(CommandError, match=text):
        call_command("evaluate_metrics", "--data", str(path), "--metrics", "words")
    with pytest.raises(ValueError, match=text):
        confab.judge(path, ["words"])


def test_lines_left_out_are_told_with_the_result(tmp_path: Path) -> None:
    good = [{"id": k, "context": ["hi"], "response": "yes " * (k + 1), "ratings": [{"a": k}]} for k in range(4)]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, [*good, {**good[0], "id": 9, "context": "hi"}])))
    text = "line 5: context is 'hi'; it must be a list"
    assert confab.judge(path, ["words_bot"])["words_bot"].to_json()["skipped_lines"] == [text]
    err = StringIO()
    asked = ["--data", str(path), "--metrics", "words_bot", "--json"]
    call_command("evaluate_metrics", *asked, stdout=StringIO(), stderr=err)
    assert err.getvalue().count(text) == 1


def test_a_file_in_another_language_is_told_with_the_metrics_that_do_not_hold_for_it(tmp_path: Path) -> None:
    texts = ["Hallo, wie war dein Tag heute? Ich war mit dem Hund im Park.", "Das ist schön."]
    rows = [
        {"id": k, "source": "lab", "context": texts, "response": f"Ja, {k} Mal.", "reference": "Ja.",
         "ratings": [{"a": k}]}
        for k in range(4)
    ]  # fmt: skip
    (tmp_path / "de.jsonl").write_text("\n".join(map(json.dumps, rows)))
    err = StringIO()
    asked = ["--data", str(tmp_path / "de.jsonl"), "--metrics", "bleu,rouge,rouge_1"]
    call_command("evaluate_metrics", *asked, "--json", stdout=StringIO(), stderr=err)
    assert (
        "the replies of lab appear to be in German, for which these metrics are not valid: rouge, rouge_1\n"
        in err.getvalue()
    )


KEYS = ("quality", "fluency", "diversity", "contingency", "empathy")


def judge_once(study: Study, *, good: str = "a", n: int | None = None, **fields: Any) -> None:
    """Let somebody judge their items; replies of the model `good` get 6, the others 2."""
    task = task_open(participant=make_participant(study, **fields))
    for judgement in requested_ratings(task)[:n]:
        [slot] = judgement.slots
        model = slot.item.responses[0]["model"]
        answers = dict.fromkeys(KEYS, 6.0 if model == good else 2.0)
        rating_add(task=task, target=slot.item, answers=answers)


@pytest.fixture(scope="module")
def judged(rows_of_file: None) -> Study:
    """Make a study in which eight people judged three items each of two models."""
    study = make_annotated()
    for _ in range(8):
        judge_once(study)
    return study


@pytest.fixture
def items_study(judged: Study, db: None) -> Study:
    """Return that study as it is before any test."""
    return Study.objects.get(pk=judged.pk)


def test_ratings_of_items_are_one_table_with_the_model_as_bot(items_study: Study) -> None:
    ratings = study_ratings(items_study)
    assert len(ratings) == 24
    assert set(ratings.bots) == {"a", "b"}
    assert ratings.n_conversations == 6, "items stand where conversations do"
    assert ratings.n_raters == 8
    assert set(ratings.conversation) == {f"i{n}" for n in range(6)}
    assert all(unit.startswith("p ") for unit in ratings.unit), "a person's ratings belong together"
    assert bot_means(ratings).intervals("a")["quality"].mean == 6
    assert len(compare(ratings, plans=False).pairs) == 1


def test_what_was_judged_counts_and_what_was_withdrawn_does_not(items_study: Study) -> None:
    judge_once(items_study, n=1)
    judge_once(items_study, is_synthetic=True)
    left = task_open(participant=make_participant(items_study))
    [first, *_rest] = requested_ratings(left)
    rating_add(task=left, target=first.slots[0].item, answers=dict.fromkeys(KEYS, 3.0))
    assert ratings_counted(items_study).count() == 26
    task_withdraw(task=left)
    assert ratings_counted(items_study).count() == len(study_ratings(items_study)) == 25
    assert ratings_counted(items_study, include_synthetic=True).count() == 28


def test_a_summary_counts_items_and_leads_with_the_better_model(items_study: Study) -> None:
    summary = bot_summary(items_study)
    assert [bot.bot.bot_id for bot in summary.bots] == ["a", "b"]
    assert [bot.n_conversations for bot in summary.bots] == [3, 3]
    assert summary.n_ratings == 24
    assert summary.bots[0].intervals["quality"].mean == 6


def test_models_without_a_name_are_one_bot(items_study: Study) -> None:
    items_study.items.update(responses=[{"text": "x"}])
    assert study_ratings(items_study).bots == ("(no model named)",)
    assert [bot.bot.bot_id for bot in bot_summary(items_study).bots] == ["(no model named)"]


@pytest.mark.parametrize("page", ["", "results/", "results/why/", "results/prediction/", "conversations/", "report/"])
def test_pages_show_it(items_study: Study, page: str) -> None:
    client = signed_in(*Right)
    response = client.get(f"/dashboard/studies/{items_study.key}/{page}")
    assert response.status_code == 200, page


def test_the_overview_counts_items_and_asks_for_no_chatbot(items_study: Study) -> None:
    client = signed_in(*Right)
    overview = flat(client.get(f"/dashboard/studies/{items_study.key}/").content.decode())
    for model in ("a", "b"):
        assert re.search(rf'{model}</th><td class="number">3</td><td class="number">12</td>', overview)
    assert "Participants cannot get a chatbot" not in overview
    assert "cannot give participants a chatbot" not in client.get("/dashboard/").content.decode()


def test_every_kind_of_target_is_exported(items_study: Study) -> None:
    exporter = exporter_get("ratings")
    options = ExportOptions()
    names = [column.name for column in exporter.columns(items_study, options)]
    rows = [dict(zip(names, row, strict=True)) for row in exporter.rows(items_study, options)]
    assert len(rows) == exporter.count(items_study, options) == 24
    for row in rows:
        assert (row["target"], row["conversation"], row["turn"]) == ("item", None, None)
        assert row["quality"] == (6 if row["bot"] == "a" else 2)
        assert row["item"] in {f"i{n}" for n in range(6)}
        assert row["study"] == items_study.key
