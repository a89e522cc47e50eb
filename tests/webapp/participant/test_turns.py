"""Replies of stored conversations are marked one after another, each with labels or with none of them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from tests.builders import make_conversation, make_participant, make_rating, make_staff, make_study
from tests.webapp.participant.conftest import csrf
from tests.webapp.participant.test_judge import begin, shown
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.ratings.judging import judgements_of
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_ratings
from webapp.ratings.services import rating_add
from webapp.ratings.summary import bot_summary
from webapp.studies.models import Study, Task
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
    address = begin(browser)
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
    address = begin(browser)
    assert "Tick what is true of this reply" in shown(send(browser, address, 1))
    page = shown(send(browser, address, 1, "_none", "asks"))
    assert "“None of these” stands alone" in page
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
    assert [one.turn.index for one in judgements_of(task)] == indexes
    [left_out] = {1, 3, 5} - set(indexes)
    other = judgements_of(task)[0].turn.conversation.turns.get(index=left_out)
    with pytest.raises(Refused, match="not part of the task"):
        rating_add(task=task, target=other, answers=dict.fromkeys(KEYS, 0))


def test_a_study_without_conversations_does_not_open() -> None:
    with pytest.raises(ValidationError) as refused:
        make_study("b", protocol="turns", bots=[])
    assert "no completed conversation" in refused.value.message_dict["conversations_of"][0]


def test_labels_are_counted_for_each_bot_and_exported(client: Client) -> None:
    study = make_marking(2)
    for _person in range(2):
        task = task_open(participant=make_participant(study))
        for judgement in judgements_of(task):
            rating_add(
                task=task,
                target=judgement.target,
                answers={**dict.fromkeys(KEYS, 0), "asks": 1},
            )
    ratings = study_ratings(study)
    assert len(ratings) == 6
    assert ratings.n_conversations in (3, 6), "every reply is a thing of its own"
    summary = bot_summary(study)
    assert {bot.intervals["asks"].mean for bot in summary.bots if bot.n_ratings} == {1.0}
    names = [column.name for column in exporter_get("ratings").columns(study, ExportOptions())]
    rows = [
        dict(zip(names, row, strict=True))
        for row in exporter_get("ratings").rows(study, ExportOptions())
    ]
    assert [row["target"] for row in rows] == ["turn"] * 6
    assert {row["asks"] for row in rows} == {1}
    talked = Study.objects.get(key="talked")
    own = list(exporter_get("ratings").rows(talked, ExportOptions()))
    assert len(own) == 2, "the marks belong to the study that asked for them"
    client.force_login(make_staff(Right.READ))
    for name in ("study", "study_bots", "study_agreement", "study_statistics"):
        assert client.get(reverse(f"dashboard:{name}", args=[study.key])).status_code == 200
