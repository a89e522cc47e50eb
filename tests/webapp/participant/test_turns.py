"""Replies of stored conversations are marked one after another, each with labels or with none of them."""

import re
from contextlib import nullcontext
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from tests.builders import (
    exchange,
    fail_reply,
    make_conversation,
    make_participant,
    make_rating,
    make_staff,
    make_study,
)
from tests.webapp.participant.conftest import begin as begin_chat
from tests.webapp.participant.conftest import chat, csrf, entry_field, post, shown, started
from webapp.conversations.models import Conversation, Turn
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.jobs.models import SelfPlayConversation, SelfPlayRun
from webapp.ratings.models import Rating
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.selectors import study_bots, study_ratings
from webapp.ratings.services import rating_add
from webapp.ratings.turn_annotation import annotation_request, chat_end_to_mark, marks_given, reply_mark
from webapp.results.bot_means import bot_summary
from webapp.studies.models import Study, Task
from webapp.studies.selectors import conversations_given, conversations_unseen, rehearsal_token, study_refusal
from webapp.studies.services import task_open
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db
KEYS = ("ignores", "contradicts", "invents", "nonsense", "repeats", "feeling", "asks")


def make_marking(n_chats: int = 1, **fields: Any) -> Study:
    """Make a study whose people mark the three replies of each chat of another study."""
    talked = make_study("talked")
    for number in range(n_chats):
        make_rating(make_conversation(talked, n_exchanges=3, entry_nonce=f"n{number}"))
    return make_study("a", protocol="turns", bots=[], conversations_of="talked", **fields)


def send(browser: Client, address: str, n: int, *marks: str) -> Any:
    sent = {"_n": str(n), "marks": list(marks), "csrfmiddlewaretoken": csrf(browser)}
    return browser.post(address, sent)


def test_every_reply_is_marked_in_its_conversation(browser: Client) -> None:
    make_marking()
    address = started(browser, "a")
    page = shown(browser.get(address))
    assert "Reply 1 of 3" in page
    assert page.count('aria-current="true"') == 1
    assert page.index("reply 0") < page.index("You are marking this one") < page.index("message 1")
    assert page.count('name="marks"') == 8
    assert page.count("Not marked yet") == 2
    assert "eliza" not in page.lower()
    assert "parrot" not in page.lower()
    assert send(browser, address, 1, "ignores", "asks").status_code == 302
    page = shown(browser.get(address))
    assert "Reply 2 of 3" in page
    assert "Ignores what was said</span>, <span" in page, "what was said of the one before"
    assert send(browser, address, 2, "_none").status_code == 302
    assert send(browser, address, 3, "feeling").url.endswith("/done/")
    assert Task.objects.get(kind="judge").outcome == "rated"
    first, second, third = Rating.objects.filter(turn__isnull=False).order_by("pk")
    assert first.answers == {key: int(key in ("ignores", "asks")) for key in KEYS}
    assert second.answers == dict.fromkeys(KEYS, 0)
    assert [one.turn.index for one in (first, second, third)] == [1, 3, 5]


def test_none_of_these_is_an_answer_and_stands_alone(browser: Client) -> None:
    make_marking()
    address = started(browser, "a")
    assert "Tick what is true of this reply" in shown(send(browser, address, 1))
    page = shown(send(browser, address, 1, "_none", "asks"))
    assert "“None of these” cannot be combined with others" in page
    assert page.count(" checked") == 2, "both are still there to choose between"
    assert "Tick what is true" in shown(send(browser, address, 1, "nothing"))
    send(browser, address, 1, "_none")
    page = shown(browser.get(f"{address}?n=1"))
    assert re.search(r'value="_none" checked', page)


def test_chosen_replies_are_drawn_and_stay(browser: Client) -> None:
    study = make_marking(n_replies_marked=2)
    task = task_open(participant=make_participant(study))
    [[_chat, indexes]] = task.payload["turns"].items()
    assert len(indexes) == 2
    assert set(indexes) < {1, 3, 5}
    assert [rating.turn.index for rating in requested_ratings(task)] == indexes
    [left_out] = {1, 3, 5} - set(indexes)
    other = requested_ratings(task)[0].turn.conversation.turns.get(index=left_out)
    with pytest.raises(Refused, match="not part of the task"):
        rating_add(task=task, target=other, answers=dict.fromkeys(KEYS, 0))


@pytest.mark.parametrize("protocol", ["turns", "error_spans"])
def test_the_opening_of_a_stored_chat_is_no_reply(browser: Client, protocol: str) -> None:
    levels = [{"key": key, "opening": "Welcome, what brings you here?"} for key in ("one", "two")]
    talked = make_study("talked", factors=[{"key": "greeting", "levels": levels}], min_exchanges=2, max_exchanges=4)
    talk = make_conversation(talked)
    exchange(talk, "hi", "first reply")
    exchange(talk, "so", "second reply")
    make_rating(talk)
    make_study("a", protocol=protocol, bots=[], conversations_of="talked")

    page = shown(browser.get(started(browser, "a")))

    assert "Reply 1 of 2" in page
    assert page.index("Welcome, what brings you here?") < page.index("first reply") < page.index("second reply")
    assert Task.objects.get(kind="judge").payload["turns"] == {str(talk.pk): [2, 4]}


def test_a_study_without_conversations_does_not_open() -> None:
    with pytest.raises(ValidationError) as refused:
        make_study("b", protocol="turns", bots=[])
    assert "no completed conversation" in refused.value.message_dict["conversations_of"][0]


@pytest.mark.parametrize("protocol", ["turns", "error_spans"])
def test_a_draft_can_be_rehearsed_over_the_chats_of_a_rehearsal(browser: Client, protocol: str) -> None:
    talked = make_study("talked")
    scripted_chat = make_conversation(talked, n_exchanges=3, is_synthetic=True)
    make_rating(scripted_chat)
    study = make_study("a", protocol=protocol, bots=[], state="draft", conversations_of="talked")
    assert not conversations_given(study).exists()
    assert "not open yet" in shown(Client().get("/s/a/"))
    page = shown(browser.get(started(browser, "a", f"?rehearsal={rehearsal_token(study)}")))
    assert "Reply 1 of 3" in page
    assert Task.objects.get(kind="judge").participant.is_synthetic
    person = make_participant(study)
    assert study_refusal(study, person).code == "draft"  # type: ignore[union-attr]
    assert not conversations_unseen(study, person).exists()
    assert study_bots(study).keys() == {scripted_chat.bot.bot_id}


def test_labels_are_counted_for_each_bot_and_exported(client: Client) -> None:
    study = make_marking(2)
    for _person in range(2):
        task = task_open(participant=make_participant(study))
        for judgement in requested_ratings(task):
            rating_add(task=task, target=judgement.target, answers={**dict.fromkeys(KEYS, 0), "asks": 1})
    ratings = study_ratings(study)
    assert len(ratings) == 6
    assert ratings.n_conversations in (3, 6), "every reply is a thing of its own"
    summary = bot_summary(study)
    assert {bot.intervals["asks"].mean for bot in summary.bots if bot.n_ratings} == {1.0}
    names = [column.name for column in exporter_get("ratings").columns(study, ExportOptions())]
    rows = [dict(zip(names, row, strict=True)) for row in exporter_get("ratings").rows(study, ExportOptions())]
    assert [row["target"] for row in rows] == ["turn"] * 6
    assert {row["asks"] for row in rows} == {1}
    talked = Study.objects.get(key="talked")
    own = list(exporter_get("ratings").rows(talked, ExportOptions()))
    assert len(own) == 2, "the marks belong to the study that asked for them"
    client.force_login(make_staff(Right.READ))
    for name in ("study", "study_results", "study_why"):
        assert client.get(reverse(f"dashboard:{name}", args=[study.key])).status_code == 200


def make_marked_chat(**fields: Any) -> Study:
    """Make a study whose people mark the replies of their own chat."""
    return make_study("own", protocol="marked_chat", min_exchanges=2, max_exchanges=4, **fields)


def test_the_replies_of_ones_own_chat_are_marked_after_it(browser: Client, client: Client) -> None:
    study = make_marked_chat(n_own_marked=2)
    talk = begin_chat(browser, "own")
    page = shown(browser.get(f"/chat/{talk.pk}/"))
    assert "then mark the replies" in page
    assert "Finish the chat" in page
    assert "data-marks" not in page
    assert "Rate the chat" not in page
    end = f"/chat/{talk.pk}/end/"
    chat(talk, 1)
    assert post(browser, end).url == f"/chat/{talk.pk}/?note=too_early"
    chat(talk, 2)
    address = post(browser, end).url
    task = Task.objects.get()
    assert address == f"/task/{task.public_id}/judge/"
    assert post(browser, end).url == address, "sent twice it ends once"
    [[chat_id, chosen]] = task.payload["turns"].items()
    assert (chat_id, len(chosen)) == (str(talk.pk), 2)
    page = shown(browser.get(address))
    assert "Reply 1 of 2" in page
    assert '<p class="said-who"> You </p>' in page
    assert "eliza" not in page.lower()
    assert send(browser, address, 1, "asks").url == address
    assert send(browser, address, 2, "_none").url.endswith("/done/")
    task.refresh_from_db()
    assert (task.outcome, Conversation.objects.get().state) == ("rated", "completed")
    assert task.completion_code in shown(browser.get(f"/task/{task.public_id}/done/"))
    ratings = study_ratings(study)
    assert list(ratings.answers["asks"]) == [1, 0]
    assert [bot.n_ratings for bot in bot_summary(study).bots if bot.n_ratings] == [2]
    client.force_login(make_staff(Right.READ))
    for name in ("study", "study_results", "study_why"):
        assert client.get(reverse(f"dashboard:{name}", args=[study.key])).status_code == 200


def test_replies_are_marked_while_people_chat_and_the_rest_afterwards(browser: Client) -> None:
    study = make_marked_chat(marked_when="during")
    talk = begin_chat(browser, "own")
    exchange(talk, "hi", "a")
    exchange(talk, "so", "b")
    page = shown(browser.get(f"/chat/{talk.pk}/"))
    assert 'data-marks="all"' in page
    assert page.count('name="marks"') == 8

    def mark(turn: int, *marks: str) -> None:
        reply_mark(conversation_id=talk.pk, turn_index=turn, marks=marks)

    mark(1, "asks", "feeling")
    mark(3, "_none")
    mark(3)
    assert marks_given(talk.pk) == {1: ["asks", "feeling"]}
    mark(1, "asks")
    for turn, marks in ((0, ["asks"]), (9, ["asks"]), (1, ["other"]), (1, ["_none", "asks"])):
        with pytest.raises(Refused) as refused:
            mark(turn, *marks)
        assert refused.value.code == "bad_frame"
    assert Task.objects.get().state == "open", "marks in a chat complete nothing"
    assert not len(study_ratings(study)), "nor do they count before it has ended"
    address = post(browser, f"/chat/{talk.pk}/end/").url
    page = shown(browser.get(address))
    assert "Reply 2 of 2" in page, "the other one is left"
    assert send(browser, address, 2, "_none").url.endswith("/done/")
    assert list(study_ratings(study).answers["asks"]) == [1, 0]
    with pytest.raises(Refused, match="finished"):
        mark(1, "asks")


def test_a_chat_whose_replies_are_all_marked_ends_at_once_and_no_question_is_left_out() -> None:
    study = make_marked_chat(marked_when="during", n_own_marked=1)
    talk = make_conversation(study, n_exchanges=2)
    [turn] = annotation_request(talk).turns
    reply_mark(conversation_id=talk.pk, turn_index=turn, marks=["asks"])
    with pytest.raises(Refused, match="no reply"):
        reply_mark(conversation_id=talk.pk, turn_index=4 - turn, marks=["asks"])
    task = chat_end_to_mark(conversation=talk, participant=talk.participant)
    assert task.outcome == "rated"
    asked = [*study.values.after, {"key": "why", "title": "Why?", "kind": "text"}]
    with pytest.raises(ValidationError) as refused:
        make_study("more", protocol="marked_chat", marked_when="during", after=asked)
    assert "no other question can be asked" in refused.value.message_dict["after"][0]


@pytest.mark.parametrize("marked_when", ["during", "after"])
@pytest.mark.parametrize("n_own_marked", [0, 2])
def test_an_opening_is_no_reply_to_mark(browser: Client, marked_when: str, n_own_marked: int) -> None:
    levels = [{"key": key, "opening": "Hello."} for key in ("one", "two")]
    settings = {"marked_when": marked_when, "n_own_marked": n_own_marked}
    make_marked_chat(factors=[{"key": "greeting", "levels": levels}], **settings)
    talk = begin_chat(browser, "own")
    exchange(talk, "hi", "a")
    exchange(talk, "so", "b")
    if marked_when == "during":
        asked = annotation_request(talk)
        assert [turn for turn in range(5) if asked.asks(turn)] == ([2, 4] if n_own_marked else [1, 2, 3, 4])
        for turn in (0, 2):
            with pytest.raises(Refused, match="no reply") if turn == 0 else nullcontext():
                reply_mark(conversation_id=talk.pk, turn_index=turn, marks=["asks"])
    page = shown(browser.get(post(browser, f"/chat/{talk.pk}/end/").url))
    assert Task.objects.get().payload["turns"] == {str(talk.pk): [2, 4]}
    assert f"Reply {1 + (marked_when == 'during')} of 2" in page


def test_conversations_of_a_self_play_run_are_marked(browser: Client) -> None:
    run = SelfPlayRun.objects.create(plan={}, state="done")
    with pytest.raises(ValidationError) as refused:
        make_study("b", protocol="turns", bots=[], conversations_run=run.pk)
    assert "no completed conversation" in refused.value.message_dict["conversations_run"][0]
    bot = make_conversation(make_study("talked")).bot
    talk = Conversation.objects.create(source="selfplay", state="completed", bot=bot)
    Turn.objects.bulk_create(
        Turn(conversation=talk, index=i, speaker=("human", "bot")[i % 2], text=f"line {i}") for i in range(4)
    )
    SelfPlayConversation.objects.create(run=run, bot_id="eliza", ordinal=0, conversation=talk)
    study = make_study("a", protocol="turns", bots=[], conversations_run=run.pk)
    address = started(browser, "a")
    page = shown(browser.get(address))
    assert "Reply 1 of 2" in page
    assert '<p class="said-who"> Other speaker </p>' in page
    send(browser, address, 1, "asks")
    send(browser, address, 2, "asks")
    assert list(study_ratings(study).answers["asks"]) == [1, 1]


@pytest.mark.parametrize("way", ["swap", "finish"])
def test_marks_of_a_chat_whose_chatbot_failed_count_for_nobody(browser: Client, way: str) -> None:
    study = make_marked_chat(marked_when="during", bots=["eliza", "parrot"])
    talk = begin_chat(browser, "own")
    exchange(talk, "hi", "a")
    reply_mark(conversation_id=talk.pk, turn_index=1, marks=["asks"])
    fail_reply(talk)
    led_to = post(browser, f"/chat/{talk.pk}/{way}/").url
    assert not len(study_ratings(study))
    if way == "finish":
        assert led_to == f"/chat/{talk.pk}/done/"
        assert Task.objects.get().outcome == "bot_failed"
        return
    other = Conversation.objects.get(state="open")
    assert led_to == f"/chat/{other.pk}/"
    assert other.bot.bot_id != talk.bot.bot_id
    chat(other, 2)
    address = post(browser, f"/chat/{other.pk}/end/").url
    assert "Reply 1 of 2" in shown(browser.get(address))
    assert send(browser, address, 1, "asks").url == address
    # Whoever opens the study's link again is led to the reply that is left.
    entry = entry_field(browser.get("/s/own/"))
    assert post(browser, "/s/own/start/", consent="on", _entry=entry).url == address
    assert send(browser, address, 2, "_none").url.endswith("/done/")
    assert list(study_ratings(study).answers["asks"]) == [1, 0]


def test_who_lost_the_place_in_a_marked_chat_ends_it_all_the_same(browser: Client) -> None:
    study = make_marked_chat()
    talk = begin_chat(browser, "own")
    chat(talk, 2)
    Task.objects.update(state=Task.State.EXPIRED)
    address = post(browser, f"/chat/{talk.pk}/end/").url
    task = Task.objects.get()
    assert address == f"/task/{task.public_id}/judge/"
    assert send(browser, address, 1, "asks").url == address
    assert send(browser, address, 2, "_none").url.endswith("/done/")
    task.refresh_from_db()
    assert (task.outcome, bool(task.completion_code)) == ("rated", True)
    assert len(study_ratings(study)) == 2
