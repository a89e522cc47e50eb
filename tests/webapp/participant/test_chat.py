"""The chat page and the ways out of a chat."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.builders import fail_reply
from tests.webapp.participant.conftest import begin, post
from webapp.conversations.models import Conversation
from webapp.studies.models import Study
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


def test_pay_is_promised_only_where_the_study_does(study: Study, browser: Client) -> None:
    study_edit(study=study, pay_each=2, promises_pay_on_failure=False)
    conversation = begin(browser)
    page = browser.get(f"/chat/{conversation.pk}/").content.decode()
    assert "paid" not in page
    assert "Finish early with pay" not in page


@pytest.mark.parametrize("page", ["swap/", "finish/"])
def test_ways_out_only_after_a_failure(study: Study, browser: Client, page: str) -> None:
    conversation = begin(browser)
    response = post(browser, f"/chat/{conversation.pk}/{page}")
    assert response.status_code == 302
    assert response.url == f"/chat/{conversation.pk}/?note=not_failed"
    assert "still running" in browser.get(response.url).content.decode()
    conversation.refresh_from_db()
    assert conversation.state == Conversation.State.OPEN


def test_swap_keeps_the_failed_chat_and_opens_another(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    fail_reply(conversation)
    response = post(browser, f"/chat/{conversation.pk}/swap/")
    conversation.refresh_from_db()
    assert conversation.state == Conversation.State.FAILED
    assert conversation.turns.count() == 1
    other = Conversation.objects.exclude(pk=conversation.pk).get()
    assert response.url == f"/chat/{other.pk}/"
    assert other.bot_id != conversation.bot_id
    # The old address leads on, and pressing again does no harm.
    assert browser.get(f"/chat/{conversation.pk}/").url == f"/chat/{other.pk}/"
    assert post(browser, f"/chat/{conversation.pk}/swap/").url == f"/chat/{other.pk}/"
    assert Conversation.objects.count() == 2


def test_swap_without_another_bot_says_so_and_changes_nothing(study: Study, browser: Client) -> None:
    study_edit(study=study, bots=["parrot"])
    conversation = begin(browser)
    fail_reply(conversation)
    response = post(browser, f"/chat/{conversation.pk}/swap/")
    assert response.url.startswith(f"/chat/{conversation.pk}/?note=")
    assert "finish early" in browser.get(response.url).content.decode()
    conversation.refresh_from_db()
    assert conversation.state == Conversation.State.OPEN
    assert conversation.due_error


def test_ways_out_are_posts(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    for page in ("swap/", "finish/", "withdraw/"):
        assert browser.get(f"/chat/{conversation.pk}/{page}").status_code == 405
