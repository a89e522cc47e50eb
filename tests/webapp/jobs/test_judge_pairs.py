"""The command that has a language model judge pairs: of a file and of a study's items, and what it leaves out."""

from __future__ import annotations

import csv
import json
import math
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from evaluation.metrics.judge import PAIRS_WEIGHTED
from evaluation.metrics.registry import configured_metrics
from tests.builders import exchange, make_arena, make_participant, make_study
from tests.tiny_models import save_model
from webapp.conversations.task_start import task_chats, task_start
from webapp.ratings.services import comparison_submit, rating_add
from webapp.studies.items import item_add
from webapp.studies.models import Study
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def judge(tmp_path_factory: Any) -> Any:
    folder = tmp_path_factory.mktemp("judge")
    save_model(folder / "m", "gpt2", width=16, n_layers=1, n_positions=600)
    entries = folder / "metrics.yaml"
    entries.write_text(f"[{{id: small_judge, kind: judge, params: {{model: {folder / 'm'}}}}}]")
    configured_metrics.register(entries)
    yield "small_judge"
    configured_metrics.register(folder / "none.yaml")


def told(*args: str) -> dict[str, Any]:
    out = StringIO()
    call_command("judge_pairs", *args, "--json", stdout=out, stderr=StringIO())
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def test_a_file_is_judged_as_far_as_the_cap_and_gone_on_with(judge: str, tmp_path: Path) -> None:
    pairs = [
        {"id": "1", "response": "cats", "model": "p", "second_response": "dogs", "second_model": "q"},
        {"id": "2", "response": "cats cats", "model": "p", "second_response": "no", "second_model": "q"},
        {"id": "2", "response": "again", "second_response": "no"},
        {"id": "3", "response": "alone"},
        {"id": "4"},
    ]  # fmt: skip
    file, output = tmp_path / "pairs.jsonl", tmp_path / "judged.csv"
    file.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    asked = ["--data", str(file), "--judge", judge, "--output", str(output)]
    first = told(*asked, "--max-requests", "3")
    assert (first["n"], first["n_requests"], first["refused"]) == (1, 2, 1)
    assert first["left_out"] == {
        "a pair of this id came before": 1,
        "it has no second reply to compare with": 1,
        "the line is no item": 1,
    }
    assert first["kinds"] == {PAIRS_WEIGHTED: 1}
    second = told(*asked)
    assert (second["n"], second["n_requests"], second["refused"]) == (2, 2, 0)
    rows = list(csv.DictReader(output.open()))
    assert [(row["item"], row["first"], row["second"], row["judged_by"]) for row in rows] == [
        ("1", "p", "q", judge),
        ("2", "p", "q", judge),
    ]
    out = StringIO()
    call_command("judge_pairs", *asked, stdout=out, stderr=StringIO())
    assert "2 pairs judged in both orders, 0 requests in this run" in out.getvalue()
    with pytest.raises(CommandError, match="no metric of the kind judge"):
        told("--data", str(file), "--judge", "bleu")


def test_a_study_s_pairs_are_judged_too(judge: str) -> None:
    study = make_study("pairs")
    two = [{"model": "p", "text": "cats"}, {"model": "q", "text": "dogs"}]
    item_add(study=study, key="a", context=["hi"], responses=two)
    item_add(study=study, key="b", context=["hi"], responses=two[:1])
    found = told("--study", "pairs", "--judge", judge)
    assert (found["n"], found["n_requests"]) == (1, 2)
    out = StringIO()
    call_command("judge_pairs", "--study", "pairs", "--judge", judge, stdout=out, stderr=StringIO())
    assert f"1 pairs: {PAIRS_WEIGHTED}" in out.getvalue()


def test_a_judge_and_metrics_stand_beside_people_s_choices(judge: str, tmp_path: Path) -> None:
    study = make_study("compared", protocol="pairwise", bots=[], state="draft", n_items=3)
    for key, texts in (("a", ("cats", "dogs and cats")), ("b", ("no no no", "yes")), ("c", ("hi", "ho"))):
        two = [{"model": bot, "text": text} for bot, text in zip("pq", texts, strict=True)]
        item_add(study=study, key=key, context=["hi"], responses=two)
    study = study_edit(study=study, state=Study.State.COLLECTING)
    for said in ({"a": -1, "b": 1, "c": 0}, {"a": -1, "b": 0, "c": 0}):
        task = task_open(participant=make_participant(study))
        for slot in task.slots.select_related("item"):
            answers = dict.fromkeys(("fluency", "relatedness", "empathy"), 0)
            quality = {"quality": said[slot.item.key]}
            rating_add(task=task, target=slot.item, answers={**answers, **quality})
    output = tmp_path / "judged.csv"
    asked = ["--study", "compared", "--judge", judge, "--output", str(output)]
    beside = told(*asked)["people"]["quality"]
    assert (beside["n"], beside["n_pairs"], beside["n_raters"]) == (6, 3, 2)
    assert beside["length"]["r"] == pytest.approx(1), "people preferred the longer replies"
    out = StringIO()
    call_command("judge_pairs", *asked, stdout=out, stderr=StringIO())
    assert "people's quality and being longer (Spearman): 1.00" in out.getvalue()
    assert "people's answers to 'quality': 6 of 3 pairs by 2 raters" in out.getvalue()
    metrics = ["--study", "compared", "--metrics", "words_bot,bleu", "--judged", str(output)]
    out = StringIO()
    call_command("evaluate_metrics", *metrics, "--json", stdout=out, stderr=StringIO())
    found = json.loads(out.getvalue())
    assert found["words_bot"]["counts"]["same"] == 3
    assert found["words_bot"]["counts"]["people_tied"] == 1
    assert found["words_bot"]["counts"]["both_tied"] == 2
    assert found["bleu"]["skipped"] == {"there is no reference": 3}
    assert found[f"{judge} (pairs)"]["counts"] == beside["counts"]
    out = StringIO()
    call_command("evaluate_metrics", *metrics, stdout=out, stderr=StringIO())
    # Two people and two contexts, all agreed: Wilson's limit of 2 of 2, n / (n + t²), with Student's t of one degree
    # of freedom.
    t = math.tan(0.475 * math.pi)
    low = f"{2 / (2 + t**2):.2f}".removeprefix("0")
    assert f"the same reply where both chose one: 1.00 [{low}, 1.00]" in out.getvalue()
    other = tmp_path / "other.csv"
    other.write_text("a,b\n")
    with pytest.raises(CommandError, match="no file of judged pairs"):
        call_command("evaluate_metrics", *metrics[:-1], str(other))


def test_whole_chats_of_an_arena_are_judged_and_chosen_between(judge: str, tmp_path: Path) -> None:
    study = make_arena("arena", bots=["eliza", "parrot"], n_comparisons=1)
    for person in range(3):
        task = task_start(participant=make_participant(study))
        first, second = task_chats(task=task)
        for chat in (first, second):
            longer = chat.bot.bot_id == "eliza"
            exchange(chat, "cats", "dogs and cats and books" if longer else "no")
        # Two prefer the longer one, one says that they are equal.
        ahead = "a" if first.bot.bot_id == "eliza" else "b"
        slots = (first.slot, second.slot)
        comparison_submit(task=task, slots=slots, choice=ahead if person else "equal")
    output = tmp_path / "judged.csv"
    asked = ["--study", "arena", "--judge", judge, "--output", str(output)]
    found = told(*asked)
    assert (found["n"], found["n_requests"], found["unanswered"]) == (3, 6, 0)
    beside = found["people"]["better"]
    assert (beside["n"], beside["n_pairs"], beside["n_raters"]) == (3, 3, 3)
    rows = list(csv.DictReader(output.open()))
    assert {(row["words_first"], row["words_second"]) for row in rows} <= {("5", "1"), ("1", "5")}
    assert told(*asked)["n_requests"] == 0, "they stand in the file"
    metrics = ["--study", "arena", "--metrics", "words_bot,bleu", "--judged", str(output)]
    out = StringIO()
    call_command("evaluate_metrics", *metrics, "--json", stdout=out, stderr=StringIO())
    chosen = json.loads(out.getvalue())
    assert chosen["words_bot"]["counts"]["same"] == 2
    assert chosen["words_bot"]["counts"]["people_tied"] == 1
    assert chosen["words_bot"]["people"]["value"] is None, "each pair of chats is one person's"
    assert chosen[f"{judge} (pairs)"]["counts"] == beside["counts"]
    # What was judged of replies is no judgement of chats.
    replies = tmp_path / "replies.jsonl"
    two = {"response": "cats", "model": "p", "second_response": "dogs", "second_model": "q"}
    replies.write_text(json.dumps({"id": "1", **two}) + "\n")
    with pytest.raises(CommandError, match="is of another judge"):
        told("--data", str(replies), "--judge", judge, "--output", str(output))
