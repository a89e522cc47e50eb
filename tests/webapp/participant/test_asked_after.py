"""What a version asks after a task: every kind of question on the forms, stored, exported, read and erased."""

import csv
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from tests.builders import make_annotated, make_staff, make_study
from tests.webapp.participant.conftest import begin, chat, post, shown, started
from tests.webapp.transfer.test_exporters import rows_of
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.participant.question_view import questions_ordered
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_ratings
from webapp.ratings.services import rating_submit
from webapp.studies.models import Participant, Study
from webapp.studies.privacy import participants_erase
from webapp.studies.questions import Question
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db
AFTER: list[dict[str, Any]] = [
    {
        "key": "overall",
        "title": "How good was it?",
        "kind": "scale",
        "low": 1,
        "high": 5,
        "labels": {1: "bad", 3: "neither", 5: "good"},
    },
    {
        "key": "dull",
        "title": "How dull was it?",
        "kind": "scale",
        "low": 0,
        "high": 100,
        "reversed": True,
        "required": False,
    },
    {"key": "again", "title": "Again?", "kind": "choice", "options": ["Yes", "No"], "help": "With <b>this</b> one."},
    {"key": "wrong", "title": "What was wrong?", "kind": "choices", "options": ["Facts", "Tone"], "required": False},
    {"key": "why", "title": "Why?", "kind": "text"},
]
SENT = {"overall": "4", "dull": "", "again": "Yes", "wrong": ["Tone", "Facts"], "why": " So. "}
OTHERS = {"again": "Yes", "wrong": ["Facts", "Tone"], "why": "So."}


@pytest.fixture
def asking(db: None) -> Study:
    """Make a study of chats that asks five questions of all kinds after each."""
    return make_study("s", after=AFTER)


def test_the_form_shows_every_kind_with_its_words(asking: Study, browser: Client) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    page = shown(browser.get(f"/chat/{conversation.pk}/rate/"))
    assert "5 questions." in page
    assert re.findall(r'aria-label="(\d[^"]*)"', page) == [*("1, bad", "2", "3, neither", "4", "5, good")]
    assert '<small dir="auto">neither</small>' in page
    assert 'type="number" inputmode="numeric" name="dull"' in page
    assert 'min="0" max="100"' in page
    assert page.count('type="radio" name="again"') == 2
    assert page.count('type="checkbox" name="wrong"') == 2
    assert 'aria-describedby="again-help"' in page
    assert "With &lt;b&gt;this&lt;/b&gt; one." in page
    assert 'name="comments"' in page
    study_edit(study=asking, asks_comment=False)
    page = shown(browser.get(f"/chat/{conversation.pk}/rate/"))
    assert 'name="comments"' in page, "whoever agreed before keeps the form that they agreed to"
    browser = Client(enforce_csrf_checks=True)
    later = begin(browser)
    chat(later, 3)
    assert 'name="comments"' not in shown(browser.get(f"/chat/{later.pk}/rate/"))


def test_answers_are_stored_once_exported_and_read(asking: Study, browser: Client, tmp_path: Path) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    path = f"/chat/{conversation.pk}/rate/"
    assert post(browser, path, **SENT).url == f"/chat/{conversation.pk}/done/"
    post(browser, path, **{**SENT, "again": "No"})
    rating = Rating.objects.get()
    assert rating.answers == {"overall": 4}
    assert rating.other_answers == OTHERS
    [row] = rows_of(asking, "ratings")
    assert (row["overall"], row["again"], row["wrong"], row["why"]) == (*(4, "Yes", "Facts; Tone", "So."),)
    assert row["dull"] is None
    call_command(
        *("export", "--study", "s", "--what", "ratings", "--format", "csv"), *("--output", str(tmp_path / "r.csv"))
    )
    with (tmp_path / "r.csv").open(newline="", encoding="utf-8-sig") as lines:
        [line] = csv.DictReader(lines)
    assert line["wrong"] == "Facts; Tone"
    ratings = study_ratings(asking)
    assert list(ratings.answers) == ["overall", "dull"]
    assert ratings.dimension("dull").reversed
    reader = Client()
    reader.force_login(make_staff(Right.READ))
    page = shown(reader.get(reverse("dashboard:conversation", args=[conversation.pk]), follow=True))
    assert "4 of 5" in page
    assert "Facts; Tone" in page
    assert participants_erase(participants=Participant.objects.all())["ratings"] == 1
    assert not Rating.objects.exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"overall": "6"}, "6 is not on the scale from 1 to 5."),
        ({"overall": "2.5"}, "2.5 is not on the scale from 1 to 5."),
        ({"overall": "x"}, "Please choose a number from 1 to 5."),
        ({"dull": "101"}, "101 is not on the scale from 0 to 100."),
        ({"again": "Maybe"}, "Choose one of the answers shown."),
        ({"wrong": ["Facts", "Smell"]}, "Choose from the answers shown."),
        ({"why": " \u200b "}, "Please answer this question."),
        ({"why": "x" * 1001}, "Write up to 1000 characters; your text has 1001."),
    ],
)
def test_what_cannot_be_taken_is_said_beside_its_question_and_the_rest_kept(
    asking: Study, browser: Client, changed: dict[str, Any], said: str
) -> None:
    conversation = begin(browser)
    chat(conversation, 3)
    [name] = changed
    sent = post(browser, f"/chat/{conversation.pk}/rate/", **{**SENT, **changed})
    for _ in range(2):
        page = unescape(shown(browser.get(sent.url)))
        assert page.count(said) == 1
        assert f'id="{name}-error"' in page
        assert "1 answer is missing or invalid." in page
        if name != "wrong":
            assert len(re.findall(r" checked[ >]", page)) == (3 if name == "overall" else 4) - (name == "again")
    assert not Rating.objects.exists()
    with pytest.raises(Refused) as refused:
        rating_submit(conversation=conversation, participant=Participant.objects.get(), answers={**SENT, **changed})
    assert refused.value.details["errors"] == {name: said}
    assert post(browser, f"/chat/{conversation.pk}/rate/", **SENT).url.endswith("/done/")


def test_items_are_judged_on_every_kind_and_back_shows_what_was_answered(browser: Client) -> None:
    make_annotated(after=AFTER)
    address = started(browser, "a")
    page = shown(post(browser, address, **{**SENT, "_n": "1", "again": ""}))
    assert "1 answer is missing." in page
    assert post(browser, address, **{**SENT, "_n": "1"}).status_code == 302
    page = shown(browser.get(f"{address}?n=1"))
    assert len(re.findall(r" checked[ >]", page)) == 4
    assert "> So.</textarea>" in page
    rating = Rating.objects.get()
    assert rating.item is not None
    assert rating.other_answers == OTHERS
    assert "comments" not in page
    assert post(browser, address, **{**SENT, "_n": "1", "again": "No"}).status_code == 302
    rating.refresh_from_db()
    assert rating.other_answers == {**OTHERS, "again": "No"}
    assert rating.revisions.get().other_answers == OTHERS


def test_shuffled_questions_keep_their_order_for_a_person(browser: Client) -> None:
    keys = [f"k{n}" for n in range(8)]
    after = [{"key": key, "title": key, "kind": "scale"} for key in keys]
    study = make_study("s", after=after, after_order="shuffled")
    orders = []
    for _ in range(4):
        browser = Client(enforce_csrf_checks=True)
        conversation = begin(browser)
        chat(conversation, 3)
        pages = [shown(browser.get(f"/chat/{conversation.pk}/rate/")) for _ in range(2)]
        results = [re.findall(r'id="q-(k\d)"', page) for page in pages]
        assert results[0] == results[1]
        assert sorted(results[0]) == keys
        orders.append(tuple(results[0]))
    assert len(set(orders)) == 4
    fixed = study_edit(study=study, after_order="fixed")
    assert fixed.values.asking.after_order == "fixed"


def test_an_order_is_drawn_from_all_orders_alike() -> None:
    questions = [Question(key=key, title=key, kind="text") for key in "abc"]
    seen: dict[str, int] = {}
    for person in range(1200):
        order = "".join(one.key for one in questions_ordered(questions, "shuffled", person))
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 6
    assert all(140 < n < 260 for n in seen.values()), seen
    assert questions_ordered(questions, "fixed", 1) == questions
