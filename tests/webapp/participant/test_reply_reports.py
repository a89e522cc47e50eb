"""“Report this reply”: by whom, of which reply, once, and with which words."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from tests.builders import make_annotated, make_arena, make_pairwise, make_study
from tests.webapp.participant.conftest import begin, chat, csrf, entry_field, post
from webapp.conversations.models import ReplyReport
from webapp.conversations.services import reports_see
from webapp.studies.models import Study, Task

pytestmark = pytest.mark.django_db


def report(browser: Client, address: str, **data: str):
    sent = {"reason": "hurtful", **data, "csrfmiddlewaretoken": csrf(browser)}
    return browser.post(address, sent, headers={"Accept": "application/json"})


def test_a_reply_of_a_chat_is_reported_once_and_may_be_changed(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    chat(conversation, 1)
    address = f"/chat/{conversation.pk}/report/?turn=1"
    page = browser.get(f"/chat/{conversation.pk}/").content.decode()
    assert f'data-report-url="/chat/{conversation.pk}/report/" data-reported=""' in " ".join(page.split())
    for _time in range(2):
        assert json.loads(report(browser, address).content) == {"saved": True, "error": ""}
    stored = ReplyReport.objects.get()
    assert (stored.turn.text, stored.reason, stored.words) == ("reply 0", "hurtful", "")
    assert reports_see(study=study, reports=None, by="lee") == 1
    report(browser, address)
    assert ReplyReport.objects.get().seen_by == "lee"  # the same again is nothing new
    report(browser, address, reason="other", words="It lies. " * 500)
    stored = ReplyReport.objects.get()
    assert (stored.reason, len(stored.words), stored.seen_at) == ("other", 1000, None)
    page = browser.get(f"/chat/{conversation.pk}/").content.decode()
    assert 'data-reported="1"' in page


def test_what_cannot_be_a_report_is_refused_with_what_is_missing(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    chat(conversation, 1)
    address = f"/chat/{conversation.pk}/report/"
    refused = report(browser, f"{address}?turn=1", reason="")
    assert refused.status_code == 400
    assert "Choose what is wrong" in refused.json()["error"]
    for words in ("", "\u200b \u2800"):
        refused = report(browser, f"{address}?turn=1", reason="other", words=words)
        assert (refused.status_code, "in a few words" in refused.json()["error"]) == (400, True)
    for query in ("", "?turn=0", "?turn=7", "?turn=x"):  # none, the person's own, none there
        assert report(browser, f"{address}{query}").status_code == 404, query
    assert Client().post(f"{address}?turn=1", {"reason": "sexual"}).status_code == 404
    assert not ReplyReport.objects.exists()


def test_without_script_a_page_asks_and_thanks(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    chat(conversation, 1)
    address = f"/chat/{conversation.pk}/report/?turn=1"
    assert "reply 0" in browser.get(address).content.decode()
    page = post(browser, address, words="odd").content.decode()
    assert "Choose what is wrong" in page
    assert "odd" in page
    assert "Thank you." in post(browser, address, reason="private").content.decode()
    assert ReplyReport.objects.get().reason == "private"


def test_a_study_may_take_no_reports(browser: Client) -> None:
    make_study("quiet", lets_report=False)
    conversation = begin(browser, "quiet")
    chat(conversation, 1)
    assert "report" not in browser.get(f"/chat/{conversation.pk}/").content.decode().lower()
    assert report(browser, f"/chat/{conversation.pk}/report/?turn=1").status_code == 404


def begin_task(browser: Client, study: Study) -> Task:
    page = browser.get(f"/s/{study.key}/")
    post(browser, f"/s/{study.key}/start/", consent="on", _entry=entry_field(page))
    return Task.objects.get()


@pytest.mark.parametrize("is_flipped", [False, True])
def test_a_judged_reply_is_named_by_its_place_on_the_page(browser: Client, is_flipped: bool) -> None:
    task = begin_task(browser, make_pairwise())
    task.slots.update(is_flipped=is_flipped)
    page = browser.get(f"/task/{task.public_id}/judge/").content.decode()
    address = f"/task/{task.public_id}/report/?n=1&place=1"
    assert f'href="{address.replace("&", "&amp;")}"' in page
    assert report(browser, address).json()["saved"]
    stored = ReplyReport.objects.get()
    said = stored.item.responses[stored.response]["text"]
    shown = [one for one in ("reply of a", "reply of b") if one in page]
    second = max(shown, key=page.index)
    assert said == second == ("reply of a" if is_flipped else "reply of b")
    page = browser.get(f"/task/{task.public_id}/judge/").content.decode()
    assert page.count("is-reported") == 1
    for query in ("?n=9&place=0", "?n=1&place=2", "?n=1", "?n=0&place=0"):
        assert report(browser, f"/task/{task.public_id}/report/{query}").status_code == 404, query


def test_each_reply_that_is_judged_alone_can_be_reported(browser: Client) -> None:
    task = begin_task(browser, make_annotated())
    assert report(browser, f"/task/{task.public_id}/report/?n=2&place=0").json()["saved"]
    second = task.slots.order_by("order")[1]
    assert ReplyReport.objects.get().item_id == second.item_id


def test_both_sides_of_an_arena_have_an_address_of_their_own(browser: Client) -> None:
    task = begin_task(browser, make_arena())
    page = browser.get(f"/task/{task.public_id}/arena/").content.decode()
    chats = [slot.chat for slot in task.slots.order_by("order")[:2]]
    for one in chats:
        assert f'data-report-url="/chat/{one.pk}/report/"' in " ".join(page.split())
