"""Items drawn from conversations, and the command that has a language model judge pairs."""

import csv
import json
import math
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from chatbots import Conversation as Talk
from evaluation.data.items import ContextFilters, context_spans
from evaluation.metrics.judge import PAIRS_WEIGHTED
from evaluation.metrics.registry import configured_metrics
from tests.builders import exchange, make_arena, make_conversation, make_participant, make_rating, make_study
from tests.tiny_models import save_model
from webapp.conversations.models import Conversation
from webapp.conversations.task_start import task_chats, task_start
from webapp.core.errors import Refused
from webapp.jobs.engine import run_job
from webapp.jobs.services.jobs import job_create
from webapp.jobs.services.selfplay import run_create
from webapp.ratings.services import comparison_submit, rating_add
from webapp.studies.items import item_add
from webapp.studies.models import Item, Participant, Study
from webapp.studies.privacy import participants_erase
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


LONG = "today I would like to tell you a story about {n}"


def chats(key: str = "s", n: int = 4) -> Study:
    """Make a study of rated chats, over two bots in turn."""
    study = make_study(key)
    for number in range(n):
        chat = make_conversation(study, entry_nonce=f"{key}{number}")
        for at in range(3):
            exchange(chat, LONG.format(n=f"{number} {at}"), f"that is reply {at} of {number}, thank you")
        chat.refresh_from_db()
        make_rating(chat)
    return study


def draw(study: Study, **asked: object) -> dict[str, int]:
    job = job_create(kind="items", study=study, payload={"study": study.key, **asked}, enqueue=False)
    run_job(job)
    job.refresh_from_db()
    return job.result


@pytest.fixture
def target() -> Study:
    return make_study("t", protocol="annotate", bots=[], state="draft")


def test_filters_are_those_of_the_papers() -> None:
    def taken(*texts: str, **filters: object) -> list[int]:
        talk = Talk.from_texts(texts)
        return [place.turn for place in context_spans(talk, ContextFilters(**{"n_utterances": 1, **filters}))]

    assert taken("hello there", "hi", "how are you", "fine") == [1, 3]
    assert taken("a b c d e f g h i j", "hi", more_than_tokens=10) == []
    assert taken("a b c d e f g h i j k", "hi", more_than_tokens=10) == [1]
    assert taken("what is <unk> then", "hi") == []
    assert taken("what is <unk> then", "hi", unknown=True) == [1]
    assert taken("what are unkind words", "hi") == [1]
    assert taken("one two three four", "hi", most_mean_words=3) == []
    assert taken("hello", "hi", n_utterances=2) == []
    assert taken("hello", "hi", "how are you", "fine", n_utterances=3) == [3]


def test_replies_as_they_were_given_evenly_over_bots(target: Study) -> None:
    chats()
    assert draw(target, of_study="s", n_contexts=6)["items"] == 6
    items = list(target.items.select_related("conversation__bot"))
    by_bot = [item.responses[0]["model"] for item in items]
    assert sorted(by_bot) == ["eliza"] * 3 + ["parrot"] * 3
    for item in items:
        turns = list(item.conversation.turns.order_by("index"))
        at = item.origin["turn"]
        assert item.context == [turn.text for turn in turns[at - 3 : at]]
        assert item.responses == [{"model": item.conversation.bot.bot_id, "text": turns[at].text}]
        assert item.origin["bots"] == {item.conversation.bot.bot_id: item.conversation.bot.key}
        assert (item.origin["seed"], item.origin["of_study"]) == (0, "s")
    again = draw(target, of_study="s", n_contexts=6)
    assert (again["items"], again["unchanged"]) == (0, 6)
    other = draw(target, of_study="s", n_contexts=6, seed=1)
    assert other["unchanged"] < 6


def test_two_bots_reply_to_one_context(target: Study) -> None:
    chats()
    study_edit(study=target, protocol="pairwise")
    with pytest.raises(Refused, match="name at least 2 bots"):
        draw(target, of_study="s")
    result = draw(target, of_study="s", n_contexts=5, bots=["eliza", "parrot"])
    assert result["items"] == 5
    for item in target.items.all():
        assert [reply["model"] for reply in item.responses] == ["eliza", "parrot"]
        assert item.responses[1]["text"] == item.context[-1], "parrots say what was said last"
        assert set(item.origin["bots"]) == {"eliza", "parrot"}
    study_edit(study=target, state=Study.State.COLLECTING)


def test_every_two_of_three_bots_and_no_pair_of_the_same_reply(target: Study) -> None:
    chats(n=1)
    study_edit(study=target, protocol="pairwise")
    result = draw(target, of_study="s", n_contexts=1, bots=["eliza", "parrot", "generic"], n_utterances=1)
    assert result["items"] + result["same_replies"] == 3
    for item in target.items.all():
        first, second = (reply["text"] for reply in item.responses)
        assert first != second


def test_all_bots_reply_to_a_context_of_best_and_worst(target: Study) -> None:
    chats(n=1)
    study_edit(study=target, protocol="best_worst")
    bots = ["eliza", "parrot", "generic", "retrieval"]
    with pytest.raises(Refused, match="name 4 to 8 bots"):
        draw(target, of_study="s", bots=bots[:3])
    result = draw(target, of_study="s", n_contexts=1, bots=bots)
    assert result["items"] == 1
    assert [reply["model"] for reply in target.items.get().responses] == bots


def test_self_play_gives_items_too(target: Study) -> None:
    run = run_create(
        bots=["parrot", "eliza"],
        n_conversations=2,
        n_turns=6,
        seed=1,
        enqueue=False,
        openers=["I would like to talk about the sea and its many fish and ships today"],
    )
    run_job(run)
    result = draw(target, run=run.pk, n_contexts=4, more_than_tokens=0, n_utterances=2)
    assert result["items"] + result["alike"] == 4
    assert set(target.items.values_list("conversation__source", flat=True)) == {"selfplay"}


def test_what_cannot_be_drawn_is_said(target: Study) -> None:
    chats(n=1)
    for asked, words in (
        ({"of_study": "nowhere"}, "no study 'nowhere'"),
        ({}, "give either of_study or run"),
        ({"of_study": "s", "run": 1}, "give either of_study or run"),
        ({"of_study": "s", "bots": ["elisa"]}, "eliza"),
        ({"of_study": "s", "bots": ["eliza", "eliza"]}, "twice"),
    ):
        with pytest.raises(Refused, match=words):
            draw(target, **asked)
    job = job_create(kind="items", payload={"study": "t", "of_study": "s", "more_than_tokens": 1000}, enqueue=False)
    run_job(job)
    job.refresh_from_db()
    assert job.state == "failed"
    assert "passes the filters" in job.error


def test_items_go_with_the_person_whose_words_they_hold(target: Study) -> None:
    chats(n=2)
    draw(target, of_study="s", n_contexts=4)
    person = Participant.objects.filter(conversations__items__isnull=False).first()
    theirs = Item.objects.filter(conversation__participant=person).count()
    assert theirs
    participants_erase(participants=Participant.objects.filter(pk=person.pk))
    assert Item.objects.count() == 4 - theirs
    assert Conversation.objects.count() == 1


def test_the_command_says_what_it_made(target: Study, capsys: pytest.CaptureFixture[str]) -> None:
    chats(n=2)
    call_command("make_items", "--study", "t", "--from-study", "s", "--contexts", "2", "--inline", "--json")
    assert json.loads(capsys.readouterr().out) == {"items": 2, "unchanged": 0, "alike": 0, "same_replies": 0}


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
    document: dict[str, Any] = json.loads(out.getvalue())
    return document


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
        "another pair has the same id": 1,
        "it has no second reply to compare with": 1,
        "the line is not an item": 1,
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
    with pytest.raises(CommandError, match="not a metric of kind judge"):
        told("--data", str(file), "--judge", "bleu")


def test_a_study_s_pairs_are_judged_too(judge: str) -> None:
    study = make_study("pairs")
    two = [{"model": "p", "text": "cats"}, {"model": "q", "text": "dogs"}]
    item_add(study=study, key="a", context=["hi"], responses=two)
    item_add(study=study, key="b", context=["hi"], responses=two[:1])
    result = told("--study", "pairs", "--judge", judge)
    assert (result["n"], result["n_requests"]) == (1, 2)
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
    assert "human quality with greater length (Spearman): 1.00" in out.getvalue()
    assert "human answers to 'quality': 6 about 3 pairs by 2 raters" in out.getvalue()
    metrics = ["--study", "compared", "--metrics", "words_bot,bleu", "--judged", str(output)]
    out = StringIO()
    call_command("evaluate_metrics", *metrics, "--json", stdout=out, stderr=StringIO())
    document = json.loads(out.getvalue())
    assert document["words_bot"]["counts"]["same"] == 3
    assert document["words_bot"]["counts"]["people_tied"] == 1
    assert document["words_bot"]["counts"]["both_tied"] == 2
    assert document["bleu"]["skipped"] == {"there is no reference": 3}
    assert document[f"{judge} (pairs)"]["counts"] == beside["counts"]
    out = StringIO()
    call_command("evaluate_metrics", *metrics, stdout=out, stderr=StringIO())
    # Two people and two contexts, all agreed: Wilson's limit of 2 of 2, n / (n + t²), with Student's t of one degree
    # of freedom.
    t = math.tan(0.475 * math.pi)
    low = f"{2 / (2 + t**2):.2f}".removeprefix("0")
    assert f"the same reply if both chose one: 1.00 [{low}, 1.00]" in out.getvalue()
    other = tmp_path / "other.csv"
    other.write_text("a,b\n")
    with pytest.raises(CommandError, match="not a file of judged pairs"):
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
    result = told(*asked)
    assert (result["n"], result["n_requests"], result["unanswered"]) == (3, 6, 0)
    beside = result["people"]["better"]
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
    with pytest.raises(CommandError, match="belongs to another judge"):
        told("--data", str(replies), "--judge", judge, "--output", str(output))
