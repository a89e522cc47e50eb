"""Texts of a condition: on the page of a chat, of its rating, of a pair and of a rater."""

from typing import Any

import pytest
from django.test import Client

from tests.builders import FACTORS, make_arena, make_conversation, make_rating, make_study
from tests.webapp.participant.conftest import ANSWERS, begin, chat, post, started
from webapp.conversations.models import Conversation
from webapp.studies.models import Task

pytestmark = pytest.mark.django_db

SECRET = {"key": "one", "scenario": "You are <b>lost</b>.", "bot_prompt": "Be rude.", "instructions": "Ask.\nThank."}


def one_scenario(*, other: str = "You are at home.") -> list[dict[str, Any]]:
    return [{"key": "scenario", "varies": "within", "levels": [SECRET, {"key": "two", "scenario": other}]}]


def texts_on(browser: Client, address: str) -> str:
    page = browser.get(address)
    assert page.status_code == 200
    return page.content.decode()


def test_two_chats_of_a_row_show_their_own_scenario_also_in_a_fresh_browser(browser: Client) -> None:
    make_study("row", factors=FACTORS[:1], bots=["eliza", "parrot"], bots_in_a_row=2, min_exchanges=1)
    link = "?PROLIFIC_PID=p1&STUDY_ID=st1&SESSION_ID=se1"
    scenarios = {level["key"]: level["scenario"] for level in FACTORS[0]["levels"]}
    conversation, seen = begin(browser, "row", link), []
    for number in (1, 2):
        fresh = Client(enforce_csrf_checks=True)
        again = begin(fresh, "row", link)
        assert again.pk == conversation.pk
        scenario = conversation.condition["scenario"]
        [other] = {*scenarios} - {scenario}
        for page in (texts_on(one, f"/chat/{conversation.pk}/") for one in (browser, fresh)):
            assert scenarios[scenario] in page
            assert scenarios[other] not in page
            assert page.count('id="condition" open') == 1
        chat(conversation, 1)
        later = texts_on(fresh, f"/chat/{conversation.pk}/")
        assert scenarios[scenario] in later
        assert 'id="condition" open' not in later
        assert scenarios[scenario] in texts_on(fresh, f"/chat/{conversation.pk}/rate/")
        assert post(fresh, f"/chat/{conversation.pk}/rate/", **ANSWERS).status_code == 302
        seen.append(scenario)
        browser = fresh
        if number == 1:
            conversation = Conversation.objects.get(state=Conversation.State.OPEN)
    assert sorted(seen) == sorted(scenarios)
    assert Task.objects.get().state == Task.State.COMPLETED


def test_a_study_without_conditions_and_a_control_show_no_panel(browser: Client) -> None:
    make_study("s")
    control = [{"key": "told", "levels": [{"key": "no", "is_control": True}, {"key": "off", "is_control": True}]}]
    make_study("control", factors=control)
    for key in ("s", "control"):
        conversation = begin(browser, key)
        assert 'id="condition"' not in texts_on(browser, f"/chat/{conversation.pk}/")


def test_an_arena_shows_the_condition_of_both_sides_once(browser: Client) -> None:
    study = make_arena("a", factors=one_scenario(other=SECRET["scenario"]))
    browser.get("/s/a/")
    response = post(browser, "/s/a/start/", consent="on")
    assert response.status_code == 302
    assert texts_on(browser, response.url).count("You are &lt;b&gt;lost&lt;/b&gt;.") == 1
    first, second = study.conversations.all()[:2]
    assert first.condition == second.condition != {}


@pytest.mark.parametrize(
    ("protocol", "of", "n_shown"), [("turns", "conversations_of", 1), ("dialogues", "dialogues_of", 2)]
)
def test_raters_read_the_scenario_but_no_instructions(browser: Client, protocol: str, of: str, n_shown: int) -> None:
    talked = make_study("talked", factors=one_scenario(), bots=["eliza", "parrot"])
    for number in range(2):
        make_rating(make_conversation(talked, n_exchanges=3, entry_nonce=f"n{number}"))
    Conversation.objects.update(condition={"scenario": "one"})
    make_study("a", protocol=protocol, bots=[], **{of: "talked"})
    shown = texts_on(browser, started(browser, "a"))
    assert shown.count("You are &lt;b&gt;lost&lt;/b&gt;.") == n_shown
    assert "Thank." not in shown
    assert "Be rude." not in shown
