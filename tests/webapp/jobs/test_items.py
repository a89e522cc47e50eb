"""Items drawn from conversations: which places, whose replies, and that drawing again changes nothing."""

from __future__ import annotations

import json

import pytest
from django.core.management import call_command

from chatbots import Conversation as Talk
from evaluation.items import ContextFilters, context_spans
from tests.builders import exchange, make_conversation, make_rating, make_study
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.jobs.engine import run_job
from webapp.jobs.services.jobs import job_create
from webapp.jobs.services.selfplay import run_create
from webapp.studies.models import Item, Participant, Study
from webapp.studies.privacy import participants_erase
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
    with pytest.raises(Refused, match="name two bots or more"):
        draw(target, of_study="s")
    made = draw(target, of_study="s", n_contexts=5, bots=["eliza", "parrot"])
    assert made["items"] == 5
    for item in target.items.all():
        assert [reply["model"] for reply in item.responses] == ["eliza", "parrot"]
        assert item.responses[1]["text"] == item.context[-1], "parrots say what was said last"
        assert set(item.origin["bots"]) == {"eliza", "parrot"}
    study_edit(study=target, state=Study.State.COLLECTING)


def test_every_two_of_three_bots_and_no_pair_of_the_same_reply(target: Study) -> None:
    chats(n=1)
    study_edit(study=target, protocol="pairwise")
    made = draw(target, of_study="s", n_contexts=1, bots=["eliza", "parrot", "generic"], n_utterances=1)
    assert made["items"] + made["same_replies"] == 3
    for item in target.items.all():
        first, second = (reply["text"] for reply in item.responses)
        assert first != second


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
    made = draw(target, run=run.pk, n_contexts=4, more_than_tokens=0, n_utterances=2)
    assert made["items"] + made["alike"] == 4
    assert set(target.items.values_list("conversation__source", flat=True)) == {"selfplay"}


def test_what_cannot_be_drawn_is_said(target: Study) -> None:
    chats(n=1)
    for asked, words in (
        ({"of_study": "nowhere"}, "no study 'nowhere'"),
        ({}, "of_study or run must be given"),
        ({"of_study": "s", "run": 1}, "of_study or run must be given"),
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
