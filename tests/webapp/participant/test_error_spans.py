"""Raters mark errors in the words of replies: at the page, in the stored answers, and in all that is made of them."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from tests.builders import make_conversation, make_participant, make_rating, make_staff, make_study
from tests.webapp.participant.conftest import csrf, shown, started
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.ratings.models import Rating, RatingRevision
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.selectors import study_ratings
from webapp.ratings.services import rating_add
from webapp.results.item_results import study_items
from webapp.results.study_data import study_data
from webapp.studies.models import Study, Task
from webapp.studies.reply_marks import words_of
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db
KEYS = ("accuracy", "no_answer", "repetition", "fluency", "style", "safety")
REPLY = "Café 👩‍👩‍👧 e\u0301tait là, 你好 and <b>gone</b>"


def make_errors_study(reply: str = REPLY, **fields: Any) -> Study:
    """Make a study whose people mark errors in the two replies of a chat of another study."""
    talked = make_study("talked", min_exchanges=2)
    chat = make_conversation(talked, n_exchanges=2)
    chat.turns.filter(index=1).update(text=reply)
    make_rating(chat)
    return make_study("a", protocol="error_spans", bots=[], conversations_of="talked", **fields)


def send(browser: Client, address: str, n: int, spans: str = "", **sent: str) -> Any:
    return browser.post(address, {"_n": str(n), "spans": spans, "csrfmiddlewaretoken": csrf(browser), **sent})


def test_errors_are_marked_and_scored(browser: Client) -> None:
    make_errors_study()
    address = started(browser, "a")
    page = shown(browser.get(address))
    assert "Mark the errors in the reply" in page
    assert page.count("data-first=") == len(words_of(REPLY)) == 8
    assert "&lt;b&gt;gone&lt;/b&gt;" in page
    assert send(browser, address, 1, "0:4:accuracy:major;5:10:style:minor;0:4:accuracy:major").status_code == 302
    page = shown(browser.get(address))
    assert "Wrong or contradictory</span>, <span" in page, "what was said of the one before"
    assert "Minus the weighted" not in page
    assert send(browser, address, 2, no_error="on").url.endswith("/done/")
    assert Task.objects.get(kind="judge").outcome == "rated"
    first, second = Rating.objects.filter(turn__isnull=False).order_by("pk")
    assert first.answers == {**dict.fromkeys(KEYS, 0), "accuracy": 1, "style": 1, "mqm": -6}
    assert first.other_answers == {
        "spans": [
            {"start": 0, "end": 4, "category": "accuracy", "severity": "major"},
            {"start": 5, "end": 10, "category": "style", "severity": "minor"},
        ]
    }
    assert [REPLY[span["start"] : span["end"]] for span in first.other_answers["spans"]] == ["Café", "👩‍👩‍👧"]
    assert (second.answers["mqm"], second.other_answers) == (0, {"spans": []})


def test_the_page_works_without_scripts(browser: Client) -> None:
    make_errors_study()
    address = started(browser, "a")
    choice = {"_first": "11", "_last": "17", "_category": "fluency", "_severity": "neutral"}
    page = shown(send(browser, address, 1, "0:4:style:minor", _add="1", **choice))
    assert 'name="spans" value="0:4:style:minor;11:17:fluency:neutral"' in page
    assert '<q dir="auto" translate="no">e\u0301tait</q>' in page
    assert not Rating.objects.filter(turn__isnull=False).exists(), "nothing is stored yet"
    page = shown(send(browser, address, 1, "0:4:style:minor;11:17:fluency:neutral", _remove="0:4:style:minor"))
    assert 'name="spans" value="11:17:fluency:neutral"' in page
    page = shown(send(browser, address, 1, "0:4:style:minor", _add="1", **{**choice, "_severity": ""}))
    assert "Choose what is wrong with “e\u0301tait”, and how bad it is." in page
    assert 'name="spans" value="0:4:style:minor"' in page


@pytest.mark.parametrize(
    ("spans", "words"),
    [
        ("", "Mark an error, or choose “No error”."),
        ("4:4:style:minor", "“4:4:style:minor” does not mark any words"),
        ("9:3:style:minor", "“9:3:style:minor” does not mark any words"),
        (f"0:{len(REPLY) + 1}:style:minor", "does not mark any words in this reply"),
        ("-1:3:style:minor", "does not mark any words in this reply"),
        ("4:5:style:minor", "does not mark any words in this reply"),  # a blank
        ("99999999:999999999:style:minor", "does not mark any words in this reply"),
        ("0:4:nothing:minor", "Choose what is wrong with “Café”"),
        ("0:4:mqm:minor", "Choose what is wrong with “Café”"),
        ("0:4:style:terrible", "Choose what is wrong with “Café”"),
        (";".join(f"{n}:{n + 1}:style:minor" for n in range(3)), "You can mark up to 2 errors per reply; you marked"),
    ],
)
def test_what_cannot_be_an_error_is_refused(browser: Client, spans: str, words: str) -> None:
    make_errors_study(n_errors_most=2)
    address = started(browser, "a")
    page = shown(send(browser, address, 1, spans))
    assert words in page
    assert not Rating.objects.filter(turn__isnull=False).exists()


def test_no_error_stands_alone(browser: Client) -> None:
    make_errors_study()
    address = started(browser, "a")
    assert send(browser, address, 1, "0:4\0:style:minor").status_code == 400
    page = shown(send(browser, address, 1, "0:4:style:minor", no_error="on"))
    assert "“No error” cannot be combined with errors" in page
    send(browser, address, 1, no_error="on")
    page = shown(browser.get(f"{address}?n=1"))
    assert 'id="span-none" checked' in page


def test_the_same_errors_twice_change_nothing() -> None:
    task = task_open(participant=make_participant(make_errors_study()))
    [target, _second] = [rating.target for rating in requested_ratings(task)]
    for spans in (["0:4:style:minor", "5:10:style:major"], ["5:10:style:major", "0:4:style:minor"]):
        rating_add(task=task, target=target, answers={"spans": spans})
    assert RatingRevision.objects.count() == 0
    rating_add(task=task, target=target, answers={"spans": ["_none"]})
    assert Rating.objects.get(turn=target).answers["mqm"] == 0
    assert RatingRevision.objects.get().other_answers["spans"][0]["end"] == 4
    with pytest.raises(Refused) as refused:
        rating_add(task=task, target=target, answers={"mqm": -5, "spans": ["_none"], "other": 1})
    assert set(refused.value.details["errors"]) == {"other"}, "the score is computed, whatever is sent"


def test_weights_are_the_studys_and_stay_once_people_have_agreed() -> None:
    agreed = make_errors_study()
    make_participant(agreed)
    with pytest.raises(ValidationError) as refused:
        study_edit(study=agreed, weight_minor=2)
    assert "1 participant has already consented" in refused.value.message_dict["weight_minor"][0]
    with pytest.raises(ValidationError) as refused:
        make_study("d", protocol="error_spans", bots=[], state="draft", weight_minor=9)
    assert "weight_minor is 9; it must not be above weight_major, which is 5" in str(refused.value)
    study = make_study("b", protocol="error_spans", bots=[], state="draft", weight_critical=10, n_errors_most=3)
    assert study.rubric.dimensions.get(key="mqm").scale == (-30, 0)
    after = [{"key": "mqm", "title": "Q", "kind": "scale", "low": 0, "high": 1}]
    with pytest.raises(ValidationError, match="already uses the key “mqm”"):
        make_study("c", protocol="error_spans", bots=[], state="draft", after=after)


def test_errors_are_results_exports_and_lines_of_the_reader(client: Client) -> None:
    study = make_errors_study()
    marked = {"p0": ["0:4:accuracy:major"], "p1": ["2:10:accuracy:minor", "22:25:style:critical"]}
    for name, spans in marked.items():
        task = task_open(participant=make_participant(study, entry_nonce=name))
        first, second = (rating.target for rating in requested_ratings(task))
        rating_add(task=task, target=first, answers={"spans": spans})
        rating_add(task=task, target=second, answers={"spans": ["_none"]})
    ratings = study_ratings(study)
    assert ratings.headline == ("mqm",)
    assert sorted(ratings.values()) == [-26, -5, 0, 0]
    data = study_data(study)
    assert data is not None
    errors = study_items(data).errors
    assert errors is not None
    assert errors.overlap.value == pytest.approx(2 * 2 / (4 + 8 + 3))
    rows = list(exporter_get("error_spans").rows(study, ExportOptions()))
    assert [(row[-5], row[-4], row[-3], row[-2], row[-1]) for row in rows] == [
        (0, 4, "accuracy", "major", "Café"),
        (2, 10, "accuracy", "minor", "fé 👩‍👩‍👧"),
        (22, 25, "style", "critical", REPLY[22:25]),
    ]
    client.force_login(make_staff(*Right))
    page = client.get(reverse("dashboard:study_why", args=[study.key]), {"part": "items"})
    assert page.status_code == 200
    assert "Errors by bot" in page.content.decode()
    chat = first.conversation
    page = client.get(reverse("dashboard:conversation", args=[chat.pk]), follow=True)
    assert page.status_code == 200
    assert "Major error: “Café” (Accuracy)" in page.content.decode()


def test_a_reply_without_words_can_still_be_answered(browser: Client) -> None:
    make_errors_study(reply=" ")
    address = started(browser, "a")
    assert "data-first" not in shown(browser.get(address))
    assert send(browser, address, 1, no_error="on").status_code == 302
