"""Two stored conversations side by side: a choice without a tie, and a reason of three words."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from tests.builders import make_conversation, make_participant, make_rating, make_staff, make_study
from tests.webapp.participant.conftest import post
from tests.webapp.participant.test_judge import begin, shown
from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation, Turn
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.jobs.models import SelfPlayConversation, SelfPlayRun
from webapp.ratings.models import Rating
from webapp.ratings.paired_comparisons import study_judgements
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.selectors import study_bots
from webapp.ratings.services import rating_add
from webapp.studies.models import Slot, Study, Task
from webapp.studies.services import task_open

pytestmark = pytest.mark.django_db
REASON = "It asks me things"


def make_dialogues(n_chats: int = 4, **fields: Any) -> Study:
    """Make a study that compares the chats of another one with eliza and parrot."""
    talked = make_study("talked")
    for number in range(n_chats):
        make_rating(make_conversation(talked, n_exchanges=3, entry_nonce=f"n{number}"))
    return make_study("a", protocol="dialogues", bots=[], dialogues_of="talked", **fields)


def pairs_of(task: Task) -> list[tuple[Slot, ...]]:
    return [one.slots for one in requested_ratings(task)]


def judge_all(task: Task, answer: int) -> None:
    for one in requested_ratings(task):
        rating_add(task=task, target=one.target, answers={"preference": answer}, comment=REASON)


def test_pairs_are_read_and_one_is_chosen_with_a_reason(browser: Client) -> None:
    make_dialogues()
    assert "<strong>4 pairs</strong>" in shown(browser.get("/s/a/"))
    address = begin(browser)
    page = shown(browser.get(address))
    assert "Pair 1 of 2" in page
    assert page.count('role="group" tabindex="0"') == 2
    assert "Chatbot A" in page
    assert "Chatbot B" in page
    assert "not read yet" in page
    in_form = page.partition("<main")[2].partition("</main>")[0]
    assert in_form.count('type="radio"') == 2, "there is no tie"
    for name in ("eliza", "parrot", "talked"):
        assert name not in page.lower()
    refused = shown(post(browser, address, _n="1", comments="because yes"))
    assert "2 answers are missing" in refused
    assert "Please choose A or B." in refused
    assert refused.count("Please say why, in at least 3 words.") == 1
    assert "because yes" in refused
    assert "Please choose A or B." in shown(post(browser, address, _n="1", preference="same", comments=REASON))
    assert not Rating.objects.filter(first__isnull=False).exists()
    assert post(browser, address, _n="1", preference="b", comments=REASON).status_code == 302
    back = shown(browser.get(f"{address}?n=1"))
    assert 'value="b" checked' in back
    assert REASON in back
    assert 'data-opened="yes"' in back
    last = post(browser, address, _n="2", preference="a", comments=REASON)
    assert last.url.endswith("/done/")
    first, second = Rating.objects.filter(first__isnull=False).order_by("pk")
    assert (first.answers, second.answers) == ({"preference": -1}, {"preference": 1})
    assert (first.comment, first.first.side, first.second.side) == (REASON, "A", "B")


@pytest.mark.parametrize("reason", ["so so", "so so \u200b \u2800"])
def test_neither_a_tie_nor_a_short_reason_is_stored(reason: str) -> None:
    task = task_open(participant=make_participant(make_dialogues()))
    target = requested_ratings(task)[0].target
    with pytest.raises(Refused) as refused:
        rating_add(task=task, target=target, answers={"preference": 0}, comment=reason)
    assert set(refused.value.details["errors"]) == {"preference", "comments"}


def test_each_pair_has_two_bots_and_nobody_reads_a_conversation_twice() -> None:
    study = make_dialogues(8, n_dialogues=3)
    sides: Counter[tuple[str, str]] = Counter()
    for number in range(4):
        person = make_participant(study, entry_nonce=f"r{number}")
        task = task_open(participant=person)
        seen = [slot.conversation for pair in pairs_of(task) for slot in pair]
        assert len({chat.pk for chat in seen}) == len(seen) == 6
        for a, b in pairs_of(task):
            assert (a.side, b.side) == ("A", "B")
            assert a.conversation.bot.bot_id != b.conversation.bot.bot_id
            sides[a.conversation.bot.bot_id, "A"] += 1
        judge_all(task, 1)
        assert len(pairs_of(task_open(participant=person))) == 1, "one of each bot is left"
        judge_all(person.tasks.get(state="open"), 1)
        with pytest.raises(Refused, match="already rated"):
            task_open(participant=person)
    assert sides.total() == 12
    loads = Counter(str(slot.conversation_id) for slot in Slot.objects.filter(side__in="AB"))
    assert set(loads.values()) == {4}, "every conversation is read as often"
    on_a = Counter(slot.conversation.bot.bot_id for slot in Slot.objects.filter(side="A"))
    assert on_a["eliza"] == on_a["parrot"] == 8


def test_a_pair_that_is_begun_is_given_to_as_many_people_as_are_wanted() -> None:
    study = make_dialogues(8, n_dialogues=1, raters_each_pair=2)
    given = []
    for number in range(4):
        task = task_open(participant=make_participant(study, entry_nonce=f"r{number}"))
        [(a, b)] = pairs_of(task)
        given.append((str(a.conversation_id), str(b.conversation_id)))
    counted = Counter(frozenset(pair) for pair in given)
    assert sorted(counted.values()) == [2, 2]
    assert len(set(given)) == 4, "each conversation of a pair was A once"


def test_conversations_of_a_self_play_run_are_compared() -> None:
    run = SelfPlayRun.objects.create(plan={})
    for name in ("left", "right"):
        bot = BotVersion.objects.create(key=name, bot_id=name, title="", kind="", version="")
        chat = Conversation.objects.create(source="selfplay", state="completed", bot=bot)
        Turn.objects.create(conversation=chat, index=0, speaker="human", text="hi")
        Turn.objects.create(conversation=chat, index=1, speaker="bot", text="hello")
        SelfPlayConversation.objects.create(run=run, bot_id=name, ordinal=0, conversation=chat)
    study = make_study("a", protocol="dialogues", bots=[], dialogues_run=run.pk)
    [(a, b)] = pairs_of(task_open(participant=make_participant(study)))
    assert {a.conversation.bot.bot_id, b.conversation.bot.bot_id} == {"left", "right"}
    with pytest.raises(ValidationError) as refused:
        make_study("b", protocol="dialogues", bots=[], dialogues_run=run.pk + 1)
    assert "no completed conversations" in refused.value.message_dict["dialogues_run"][0]


@pytest.mark.parametrize("of", ["", "nothing", "one-bot"])
def test_a_study_opens_with_conversations_of_two_bots(of: str) -> None:
    one = make_study("one-bot", bots=["eliza"])
    make_rating(make_conversation(one, n_exchanges=3))
    with pytest.raises(ValidationError) as refused:
        make_study("b", protocol="dialogues", bots=[], dialogues_of=of)
    assert (of or "b") in refused.value.message_dict["dialogues_of"][0]


def test_choices_are_judgements_of_pairs_of_bots(client: Client) -> None:
    study = make_dialogues(4, n_dialogues=2)
    for number in range(2):
        task = task_open(participant=make_participant(study, entry_nonce=f"r{number}"))
        for one in requested_ratings(task):
            is_eliza = one.slots[0].conversation.bot.bot_id == "eliza"
            answers = {"preference": 1 if is_eliza else -1}
            rating_add(task=task, target=one.target, answers=answers, comment=REASON)
    found = study_judgements(study)
    assert found is not None
    assert len(found.item) == 4
    won = found.answers["preference"] * [1 if bot == "eliza" else -1 for bot in found.first]
    assert set(won) == {1.0}
    client.force_login(make_staff(Right.READ))
    for name in ("study", "study_results", "study_why"):
        assert client.get(reverse(f"dashboard:{name}", args=[study.key])).status_code == 200
    page = client.get(reverse("dashboard:study_results", args=[study.key])).content.decode()
    titles = [bot.title for bot in study_bots(study).values()]
    assert len(titles) == 2
    assert all(title in page for title in titles)
