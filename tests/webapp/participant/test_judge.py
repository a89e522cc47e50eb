"""The step `judge`: items, stored conversations and pairs, one page after another, each answer stored at once."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from pytest_django.fixtures import DjangoAssertNumQueries

from tests.builders import (
    make_annotated,
    make_conversation,
    make_items,
    make_pairwise,
    make_participant,
    make_rating,
    make_study,
)
from tests.webapp.participant.conftest import KEYS, entry_field, post
from tests.webapp.ratings.test_judging import Pairs
from webapp.ratings.models import Rating
from webapp.studies.models import Study, Task
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import participant_token
from webapp.studies.services import task_close, task_open
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db
ANSWERS = dict.fromkeys(KEYS, "5")


def begin(browser: Client, key: str = "a") -> str:
    """Agree and start; the address that this leads to."""
    page = browser.get(f"/s/{key}/")
    started = post(browser, f"/s/{key}/start/", consent="on", _entry=entry_field(page))
    assert started.status_code == 302, started.content[:500]
    return started.url


def shown(page) -> str:
    return re.sub(r"\s+", " ", page.content.decode())


def test_who_goes_back_may_change_an_answer_and_the_first_one_is_kept(browser: Client) -> None:
    make_annotated()
    address = begin(browser)
    for n in ("1", "2"):
        post(browser, address, _n=n, **ANSWERS)
    first = Rating.objects.order_by("pk")[0]
    changed = post(browser, address, _n="1", **{**ANSWERS, "quality": "2"})
    assert changed.url == f"{address}?n=2", "the next one, which is answered too"
    now = Rating.objects.get(pk=first.pk)
    [before] = now.revisions.all()
    assert (before.answers["quality"], now.answers["quality"]) == (5, 2)
    assert before.submitted_at == first.submitted_at < now.submitted_at
    page = post(browser, address, _n="1", **{**ANSWERS, "quality": "9"})
    assert "9 is not on the scale from 1 to 7" in shown(page)
    post(browser, address, _n="3", **ANSWERS)
    post(browser, address, _n="1", **ANSWERS)
    now.refresh_from_db()
    assert now.answers["quality"] == 2, "a finished task takes no changes"
    assert now.revisions.count() == 1


def test_what_is_missing_is_said_and_the_rest_kept(browser: Client) -> None:
    make_annotated()
    address = begin(browser)
    page = post(browser, address, _n="1", quality="6")
    assert page.status_code == 200
    text = shown(page)
    assert "4 answers are missing" in text
    assert re.search(r'name="quality"[^>]*value="6"[^>]* checked', text)
    assert not Rating.objects.exists()


def test_back_shows_what_was_saved_and_nothing_is_skipped(browser: Client) -> None:
    make_annotated()
    address = begin(browser)
    assert browser.get(f"{address}?n=2").url == address, "the first comes first"
    post(browser, address, _n="1", **ANSWERS)
    assert f"{address}?n=1" in shown(browser.get(address))
    page = shown(browser.get(f"{address}?n=1"))
    assert "Your answer is saved" in page
    assert page.count(" checked") == page.count("<fieldset") == 5
    assert "2 of 3" in shown(browser.get(f"{address}?n=three"))
    assert post(browser, address, _n="3", **ANSWERS).url == address
    assert Rating.objects.count() == 1


def test_only_who_took_the_task_on_opens_it(browser: Client) -> None:
    study = make_annotated()
    mine = task_open(participant=make_participant(study))
    theirs = task_open(participant=make_participant(study))
    token = participant_token(mine.participant)
    for task, query, status in (
        (mine, f"?t={token}", 200),
        (theirs, f"?t={token}", 404),
        (mine, f"?t={token[:-1]}", 404),
        (mine, "", 404),
    ):
        assert browser.get(f"/task/{task.public_id}/judge/{query}").status_code == status
    sent = {"_n": "1", "_t": token, **ANSWERS}
    frame = Client(enforce_csrf_checks=True)
    assert frame.post(f"/task/{theirs.public_id}/judge/", sent).status_code == 404
    answered = frame.post(f"/task/{mine.public_id}/judge/", sent)
    assert unquote(answered.url).endswith(f"/judge/?t={token}")
    assert Rating.objects.get().task == mine


def test_texts_are_shown_as_texts_and_say_nothing_of_where_they_are_from(browser: Client) -> None:
    study = make_study("a", protocol="annotate", bots=[], state="draft", n_items=1, show_reference=True)
    make_items(
        study,
        1,
        context=["<script>a()</script>"],
        responses=[{"model": "gpt-secret", "text": "<b>c</b>\u202e"}],
        reference="<i>d</i>",
    )
    study_edit(study=study, state=Study.State.COLLECTING)
    page = shown(browser.get(begin(browser)))
    for markup in ("<script>a()", "<b>c</b>", "<i>d</i>", "gpt-secret"):
        assert markup not in page
    # The item's key, as a word: the page's random tokens may hold the same two characters.
    assert not re.search(r"\bi0\b", page)
    for text in ("&lt;script&gt;a()", "&lt;b&gt;c&lt;/b&gt;", "&lt;i&gt;d&lt;/i&gt;"):
        assert text in page


def test_the_reference_is_shown_where_the_study_says_so(browser: Client) -> None:
    study = make_study("a", protocol="annotate", bots=[], state="draft", n_items=1)
    make_items(study, 1, reference="a known reply")
    study_edit(study=study, state=Study.State.COLLECTING)
    assert "a known reply" not in shown(browser.get(begin(browser)))


@pytest.fixture
def pairs(db: None) -> Study:
    """Make a study of three rated chats and an item, judged in pairs."""
    protocols.add(Pairs())
    study = make_study("a")
    for number in range(3):
        make_rating(make_conversation(study, n_exchanges=3, entry_nonce=f"n{number}"))
    make_items(study, 1)
    Study.objects.filter(pk=study.pk).update(protocol="pairs")
    yield study
    protocols.discard("pairs")


def test_a_pair_is_one_page_and_one_answer(pairs: Study, browser: Client) -> None:
    address = begin(browser)
    page = shown(browser.get(address))
    assert "1 of 2" in page
    assert "Conversation A" in page
    assert "Conversation B" in page
    assert page.count("message 0") == 2
    assert "eliza" not in page
    post(browser, address, _n="1", **ANSWERS)
    [left, right, alone] = Task.objects.order_by("pk").last().slots.order_by("order")
    rating = Rating.objects.get(first__isnull=False)
    assert (rating.first, rating.second) == (left, right)
    assert "reply 0" in shown(browser.get(address))
    assert post(browser, address, _n="2", **ANSWERS).url.endswith("/done/")
    assert Rating.objects.filter(item=alone.item).count() == 1


def test_a_task_that_is_closed_meanwhile_takes_nothing(browser: Client) -> None:
    make_annotated()
    address = begin(browser)
    task = Task.objects.get()
    task_close(task=task, state=Task.State.EXPIRED)
    assert browser.get(address).url == "/s/a/"
    assert post(browser, address, _n="1", **ANSWERS).url == "/s/a/"
    assert not Rating.objects.exists()
    assert browser.get(f"/task/{task.public_id}/done/").url == "/s/a/"


def test_who_comes_again_gets_other_items_and_then_is_told_that_there_are_no_more(browser: Client) -> None:
    make_annotated(n_items=4)
    address = begin(browser)
    assert address in shown(browser.get("/s/a/")), "the way back to what is open"
    for n in ("1", "2", "3"):
        done = post(browser, address, _n=n, **ANSWERS)
    page = browser.get(done.url)
    assert "Rate some more" in shown(page)
    again = {"consent": "on", "_entry": entry_field(page)}
    address = post(browser, "/s/a/start/", **again).url
    assert "1 of 1" in shown(browser.get(address))
    assert Task.objects.order_by("pk").last().slots.count() == 1
    done = post(browser, address, _n="1", **ANSWERS)
    assert "Rate some more" not in shown(browser.get(done.url))
    refused = post(browser, "/s/a/start/", **again)
    assert refused.status_code == 409
    assert "rated everything" in shown(refused)


def test_pages_take_the_same_queries_however_many_items_there_are(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    study = make_annotated(n_items=40)
    study_edit(study=study, n_items=40)
    task = task_open(participant=make_participant(study))
    client = Client()
    token = participant_token(task.participant)
    with django_assert_max_num_queries(12):
        client.get(f"/task/{task.public_id}/judge/?t={token}")
    for n in range(1, 40):
        client.post(f"/task/{task.public_id}/judge/", {"_n": str(n), "_t": token, **ANSWERS})
    with django_assert_max_num_queries(35):
        client.post(f"/task/{task.public_id}/judge/", {"_n": "40", "_t": token, **ANSWERS})
    assert Task.objects.get().completion_code


def test_a_study_of_items_opens_when_it_has_some() -> None:
    with pytest.raises(ValidationError, match="no items yet"):
        make_study("a", protocol="annotate", bots=[])


def test_a_pair_of_replies_is_compared_and_stored_by_model_whatever_side_it_stood_on(browser: Client) -> None:
    make_pairwise("a", n_items=3)
    address = begin(browser)
    task = Task.objects.get()
    asked = ("quality", "fluency", "relatedness", "empathy")
    for n, slot in enumerate(task.slots.order_by("order"), start=1):
        page = shown(browser.get(address))
        assert f"Comparison {n} of 3" in page
        left, right = ("b", "a") if slot.is_flipped else ("a", "b")
        assert page.index(f"reply of {left}") < page.index(f"reply of {right}")
        side_of_a = "b" if slot.is_flipped else "a"
        given = {**dict.fromkeys(asked, "same"), "quality": side_of_a}
        if n == 3:
            incomplete = shown(post(browser, address, _n="3", quality=side_of_a))
            assert "3 answers are missing" in incomplete
            assert '<a href="#fluency-a">Go to question 2</a>' in incomplete
            assert "not on the scale" not in incomplete
            assert "Please choose A, B" in shown(post(browser, address, _n="3", **{**given, "quality": "5"}))
        post(browser, address, _n=str(n), **given)
        if n < 3:
            again = shown(browser.get(f"{address}?n={n}"))
            assert f'id="quality-{side_of_a}" value="{side_of_a}"' in again
            assert re.search(rf'id="quality-{side_of_a}"[^>]* checked', again)
    ratings = Rating.objects.filter(task=task)
    stored = {"quality": 1, "fluency": 0, "relatedness": 0, "empathy": 0}
    assert [rating.answers for rating in ratings] == [stored] * 3
    assert ratings.count() == 3
