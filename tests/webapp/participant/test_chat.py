"""The chat page, “Report this reply”, the rating form and the done page."""

import json
import uuid
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.builders import fail_reply, make_annotated, make_arena, make_pairwise, make_study
from tests.webapp.participant.conftest import ANSWERS, KEYS, begin, chat, csrf, entry_field, policy, post
from webapp.conversations.models import Conversation, ReplyReport
from webapp.conversations.services import reply_claim, reports_see, turn_add_bot, turn_add_human
from webapp.ratings.models import Rating
from webapp.studies.models import Study, Task
from webapp.studies.selectors import participant_token
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


def test_pay_is_promised_only_where_the_study_does(study: Study, browser: Client) -> None:
    study_edit(study=study, pay_each=2, promises_pay_on_failure=False)
    conversation = begin(browser)
    page = browser.get(f"/chat/{conversation.pk}/").content.decode()
    assert "paid" not in page
    assert "Finish early and get paid" not in page


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


def rated(browser: Client, key: str = "s", query: str = "") -> Conversation:
    """Go the whole way."""
    conversation = begin(browser, key, query)
    chat(conversation, 3)
    assert post(browser, f"/chat/{conversation.pk}/rate/", **ANSWERS).status_code == 302
    conversation.refresh_from_db()
    return conversation


def test_not_open_before_enough_messages(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    chat(conversation, 2)
    path = f"/chat/{conversation.pk}/rate/"
    for response in (browser.get(path), post(browser, path, **ANSWERS)):
        assert response.url == f"/chat/{conversation.pk}/?note=too_early"
    assert "at least 3 messages" in browser.get(response.url).content.decode()
    assert not Rating.objects.exists()


def message(conversation: Conversation, text: str = "one more") -> None:
    turn_add_human(conversation_id=conversation.pk, client_id=uuid.uuid4(), text=text)


def test_while_a_reply_is_under_way_the_form_waits_and_loses_nothing(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    path = f"/chat/{conversation.pk}/rate/"
    assert browser.get(path).status_code == 200
    message(conversation)  # in another window
    response = browser.get(path)
    assert response.url == f"/chat/{conversation.pk}/?note=waiting_for_reply"
    assert "still answering" in browser.get(response.url).content.decode()
    sent = post(browser, path, **{**ANSWERS, "comments": "Kept."})
    page = browser.get(sent.url).content.decode()
    assert "Save again in a moment" in page
    assert page.count(" checked") == len(KEYS)
    assert "Kept." in page
    assert not Rating.objects.exists()
    answer(conversation)
    page = browser.get(sent.url).content.decode()
    assert "Save again in a moment" not in page
    assert page.count(" checked") == len(KEYS)
    assert post(browser, path, **ANSWERS).url == f"/chat/{conversation.pk}/done/"


def answer(conversation: Conversation) -> None:
    lease = uuid.uuid4()
    assert reply_claim(conversation_id=conversation.pk, lease=lease, lease_s=30)
    assert turn_add_bot(conversation_id=conversation.pk, lease=lease, text="Here I am.")


def test_a_reply_that_never_comes_does_not_hold_the_form_back(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    message(conversation)
    Conversation.objects.update(due_since=timezone.now() - timedelta(hours=1))
    path = f"/chat/{conversation.pk}/rate/"
    assert browser.get(path).status_code == 200
    assert post(browser, path, **ANSWERS).url == f"/chat/{conversation.pk}/done/"


def test_missing_answers_are_named_and_the_others_kept(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    values = {**ANSWERS, "comments": "<b>Kept</b>"}
    del values["quality"], values["empathy"]
    path = f"/chat/{conversation.pk}/rate/"
    response = post(browser, path, **values)
    assert response.status_code == 302, "a page that answered a form could not be reloaded"
    for _ in range(2):
        page = browser.get(response.url).content.decode()
        assert "2 answers are missing." in page
        assert page.count("Please choose a number from 1 to 7.") == 2
        assert 'href="#quality-1"' in page
        assert page.count(" checked") == 3
        assert "&lt;b&gt;Kept&lt;/b&gt;" in page
    # By Back, by the chat, in another tab: the answers are there, the errors were said.
    page = browser.get(path).content.decode()
    assert page.count(" checked") == 3
    assert "Kept" in page
    assert "missing" not in page
    assert "Please choose" not in page
    assert not Rating.objects.exists()


def test_a_comment_of_which_nothing_is_seen_is_none(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    post(browser, f"/chat/{conversation.pk}/rate/", **{**ANSWERS, "comments": "\u200b\u2800"})
    assert Rating.objects.get().comment == ""


def test_without_cookies_what_was_sent_is_kept_too(study: Study) -> None:
    conversation = begin(Client())
    chat(conversation, 3)
    token = participant_token(conversation.participant)
    path = f"/chat/{conversation.pk}/rate/"
    sent = Client(enforce_csrf_checks=True).post(path, {"quality": "3", "comments": "a", "_t": token})
    page = Client().get(sent.url).content.decode()
    assert "4 answers are missing." in page
    assert 'id="quality-3" value="3" aria-label="3" checked' in " ".join(page.split())


@pytest.mark.parametrize("end", ["rate", "withdraw", "finish"])
def test_what_was_kept_of_a_rating_goes_with_the_chat(study: Study, browser: Client, end: str) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    path = f"/chat/{conversation.pk}"
    post(browser, f"{path}/rate/", quality="3", comments="half a sentence")
    conversation.refresh_from_db()
    assert conversation.rating_draft == {"quality": "3", "comments": "half a sentence"}
    if end == "finish":
        fail_reply(conversation)
    assert post(browser, f"{path}/{end}/", **ANSWERS).url == f"{path}/done/"
    conversation.refresh_from_db()
    assert conversation.rating_draft == {}
    # A form that comes late, from another tab, brings nothing back.
    post(browser, f"{path}/rate/", quality="3", comments="late")
    conversation.refresh_from_db()
    assert conversation.rating_draft == {}


@pytest.mark.parametrize("value", ["0", "8", "4.5", "nan", "inf", "many", "1e400", "", "²"])
def test_what_is_not_on_the_scale_is_refused_beside_its_question(study: Study, browser: Client, value: str) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    sent = post(browser, f"/chat/{conversation.pk}/rate/", **{**ANSWERS, "fluency": value})
    page = browser.get(sent.url).content.decode()
    assert 'id="fluency-error"' in page
    assert 'id="quality-error"' not in page
    assert not Rating.objects.exists()


def test_double_submission_is_one_rating_and_one_code(study: Study, browser: Client) -> None:
    conversation = rated(browser)
    path = f"/chat/{conversation.pk}/rate/"
    code = Task.objects.get().completion_code
    again = post(browser, path, **{**ANSWERS, "quality": "1"})
    assert again.url == f"/chat/{conversation.pk}/done/"
    assert browser.get(path).url == again.url
    assert browser.get(f"/chat/{conversation.pk}/").url == again.url
    rating = Rating.objects.get()
    assert rating.answers == dict.fromkeys(KEYS, 5)
    assert rating.comment == "Nice."
    for _ in range(2):
        assert code in browser.get(again.url).content.decode()
    assert Task.objects.get().completion_code == code


def test_done_before_rating_leads_back(study: Study, browser: Client) -> None:
    conversation = begin(browser)
    assert browser.get(f"/chat/{conversation.pk}/done/").url == f"/chat/{conversation.pk}/"


def test_way_back_to_mechanical_turk(browser: Client) -> None:
    make_study("m", auto_return=True)
    query = "?workerId=w&assignmentId=a%22%3E1&turkSubmitTo=https://workersandbox.mturk.com"
    conversation = rated(browser, "m", query)
    response = browser.get(f"/chat/{conversation.pk}/done/")
    page = response.content.decode()
    assert 'action="https://workersandbox.mturk.com/mturk/externalSubmit"' in page
    assert 'name="assignmentId" value="a&quot;&gt;1"' in page
    assert 'data-auto-s="10"' in page
    assert policy(response)["form-action"] == ["'self'", "https://workersandbox.mturk.com/mturk/externalSubmit"]
    entry = Client().get("/s/m/")
    assert policy(entry)["form-action"] == ["'self'"], "on the done page only"


@pytest.mark.parametrize(
    "to",
    [
        "https://evil.example",
        "http://www.mturk.com",
        "https://www.mturk.com.evil.example",
        "https://www.mturk.com@evil.example",
        "javascript:alert(1)",
        "https://[",
    ],
)
def test_other_places_to_submit_to_are_ignored(browser: Client, to: str) -> None:
    make_study("m")
    conversation = rated(browser, "m", f"?workerId=w&assignmentId=a&turkSubmitTo={to}")
    response = browser.get(f"/chat/{conversation.pk}/done/")
    assert "externalSubmit" not in response.content.decode()
    assert policy(response)["form-action"] == ["'self'"]


def test_another_chatbot_while_there_is_one(study: Study, browser: Client) -> None:
    first = rated(browser)
    assert "another chatbot" in browser.get(f"/chat/{first.pk}/done/").content.decode()
    second = rated(browser)
    assert second.participant_id == first.participant_id
    assert second.bot_id != first.bot_id
    assert "another chatbot" not in browser.get(f"/chat/{second.pk}/done/").content.decode()


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
    assert reports_see(study=study, reports=None, user_name="lee") == 1
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
    text = stored.item.responses[stored.response]["text"]
    shown = [one for one in ("reply of a", "reply of b") if one in page]
    second = max(shown, key=page.index)
    assert text == second == ("reply of a" if is_flipped else "reply of b")
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
