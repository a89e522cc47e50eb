"""A least time and a time limit of a chat: what the socket says, what is refused, and how the participant goes on."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db.models import F
from django.test import Client

from tests.builders import answer, exchange, fail_reply, make_arena, make_study
from tests.webapp.participant.conftest import ANSWERS, begin, chat, post
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.selectors import history
from webapp.conversations.services import conversation_swap, turn_add_human
from webapp.core.errors import Refused
from webapp.ratings.models import Rating
from webapp.studies.models import Study, Task

pytestmark = pytest.mark.django_db


def pass_time(seconds: float) -> None:
    """Move every message so far into the past."""
    Turn.objects.update(created_at=F("created_at") - timedelta(seconds=seconds))


def write(conversation: Conversation) -> Turn:
    return turn_add_human(conversation_id=conversation.pk, client_id=uuid.uuid4(), text="hello").turn


def refused(conversation: Conversation) -> str:
    with pytest.raises(Refused) as error:
        write(conversation)
    return error.value.code


def seconds(conversation: Conversation) -> dict[str, Any]:
    time = history(conversation.pk).time
    assert time is not None
    return time.for_page()


def test_time_counts_from_the_first_message(browser: Client) -> None:
    make_study(least_minutes=2, most_minutes=10)
    conversation = begin(browser)
    Conversation.objects.update(created_at=F("created_at") - timedelta(hours=2))  # questions and reading before it
    assert seconds(conversation) == {"least_s": 120, "most_s": 600, "runs": False}
    write(conversation)
    pass_time(30.5)
    left = seconds(conversation)
    assert left["runs"]
    assert 85 <= left["least_s"] <= 90
    assert 565 <= left["most_s"] <= 570
    pass_time(3600)
    assert seconds(conversation) == {"least_s": 0, "most_s": 0, "runs": True}


def test_a_study_without_limits_has_no_time(browser: Client) -> None:
    make_study()
    assert history(begin(browser).pk).time is None


def test_the_rating_opens_after_the_least_time(browser: Client) -> None:
    make_study(least_minutes=2)
    conversation = begin(browser)
    chat(conversation, 3)
    path = f"/chat/{conversation.pk}/rate/"
    assert not history(conversation.pk).can_rate
    for response in (browser.get(path), post(browser, path, **ANSWERS)):
        assert response.status_code == 302
        assert response.url == f"/chat/{conversation.pk}/?note=too_soon"
    assert "Chat a little longer before you rate it." in browser.get(response.url).content.decode()
    assert not Rating.objects.exists()
    pass_time(120)
    assert history(conversation.pk).can_rate
    assert post(browser, path, **ANSWERS).url == f"/chat/{conversation.pk}/done/"
    assert Rating.objects.count() == 1


def test_nobody_waits_after_the_last_message(browser: Client) -> None:
    make_study(least_minutes=2)
    conversation = begin(browser)
    chat(conversation, 5)
    assert refused(conversation) == "closed"
    assert post(browser, f"/chat/{conversation.pk}/rate/", **ANSWERS).url.endswith("/done/")


def test_the_limit_takes_no_more_messages_and_opens_the_rating(browser: Client) -> None:
    make_study(least_minutes=1, most_minutes=2)
    conversation = begin(browser)
    chat(conversation, 1)
    pass_time(118)
    write(conversation)
    pass_time(10)
    answer(conversation, "still answered")
    conversation.refresh_from_db()
    assert conversation.n_exchanges == 2
    assert refused(conversation) == "closed"
    assert history(conversation.pk).can_rate
    assert conversation.turns.count() == 4
    assert post(browser, f"/chat/{conversation.pk}/rate/", **ANSWERS).url == f"/chat/{conversation.pk}/done/"
    assert Task.objects.get().outcome == "rated"


def test_a_message_on_its_way_at_the_limit_is_taken(browser: Client) -> None:
    make_study(most_minutes=1)
    conversation = begin(browser)
    chat(conversation, 1)
    pass_time(62)
    assert write(conversation).index == 2


def test_a_chat_without_a_reply_is_never_rated_and_another_bot_has_its_whole_time(browser: Client) -> None:
    make_study(most_minutes=1)
    conversation = begin(browser)
    fail_reply(conversation)
    pass_time(300)
    state = history(conversation.pk)
    assert (state.can_rate, state.failure and state.failure.can_rate) == (False, False)
    path = f"/chat/{conversation.pk}/rate/"
    assert post(browser, path, **ANSWERS).url == f"/chat/{conversation.pk}/?note=too_early"
    conversation.refresh_from_db()
    assert seconds(conversation_swap(conversation=conversation)) == {"least_s": None, "most_s": 60, "runs": False}


def test_scripted_participants_need_not_wait() -> None:
    study = make_study(least_minutes=5, most_minutes=6)
    browser = Client(enforce_csrf_checks=True)
    conversation = begin(browser)
    Conversation.objects.update(is_synthetic=True)
    conversation.refresh_from_db()
    exchange(conversation, "hello", "hi")
    assert seconds(conversation)["least_s"] is None
    chat(conversation, study.values.chat.min_exchanges - 1)
    assert history(conversation.pk).can_rate


def test_a_pair_is_compared_over_the_same_messages(browser: Client) -> None:
    make_arena("a", min_exchanges=3, least_minutes=1, most_minutes=2)
    browser.get("/s/a/")
    address = post(browser, "/s/a/start/", consent="on").url
    first, second = Conversation.objects.order_by("slot__order")
    for one in (first, second):
        exchange(one, "hello", "hi")
    exchange(first, "more", "well")
    assert "note=too_early" in post(browser, address, _n="1", choice="a").url
    pass_time(600)
    assert "note=waiting_for_reply" in post(browser, address, _n="1", choice="a").url
    assert refused(first) == "closed"
    exchange(second, "more", "yes")  # the message that the other one has
    assert refused(second) == "closed"
    assert post(browser, address, _n="1", choice="a").url == address
    assert Rating.objects.count() == 1


def test_a_pair_waits_for_the_least_time(browser: Client) -> None:
    make_arena("a", min_exchanges=1, least_minutes=1)
    browser.get("/s/a/")
    address = post(browser, "/s/a/start/", consent="on").url
    for conversation in Conversation.objects.all():
        exchange(conversation, "hello", "hi")
    sent = post(browser, address, _n="1", choice="a")
    assert "note=too_soon" in sent.url
    assert "Chat a little longer before you choose." in browser.get(sent.url).content.decode()
    pass_time(60)
    assert post(browser, address, _n="1", choice="a").url == address
    assert Rating.objects.count() == 1


@pytest.mark.parametrize(("fields", "wrong"), [
    ({"least_minutes": 5, "most_minutes": 4, "min_exchanges": 9}, {"least_minutes", "min_exchanges"}),
    ({"most_minutes": 0}, {"most_minutes"}),
    ({"least_minutes": 1441}, {"least_minutes"}),
])  # fmt: skip
def test_limits_that_cannot_be_are_named(fields: dict[str, Any], wrong: set[str]) -> None:
    with pytest.raises(ValidationError) as error:
        make_study(**fields)
    assert error.value.message_dict.keys() == wrong


@pytest.mark.parametrize("make", [make_study, make_arena])
def test_the_first_page_tells_both_limits(browser: Client, make: Callable[..., Study]) -> None:
    make("s", least_minutes=1, most_minutes=10)
    page = " ".join(browser.get("/s/s/").content.decode().split())
    assert "A chat takes at least 1 minute." in page
    assert "A chat ends 10 minutes after your first message. We tell you in advance." in page
