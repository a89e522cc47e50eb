"""The coherence survey: five items and a check that nobody can tell from them; who misses it is set apart."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from pytest_django.fixtures import DjangoAssertNumQueries

from tests.builders import make_items, make_participant, make_study
from tests.webapp.participant.conftest import KEYS, post
from tests.webapp.participant.test_judge import begin, shown
from webapp.ratings.attention_results import excluded_work
from webapp.ratings.models import Rating
from webapp.ratings.selectors import ratings_counted, study_ratings
from webapp.results.bot_means import bot_summary
from webapp.studies.models import Item, Study, Task, TaskCount
from webapp.studies.ready_made import DEFAULT_QUESTIONS
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions, exporter_get

pytestmark = pytest.mark.django_db
CHECK = {
    "context": ["I am thinking of painting my kitchen.", "Nice. Which colour?"],
    "response": "A soft yellow. This one checks that replies are being read: choose 2 below.",
    "expected": {"quality": [2]},
}


def make_survey(key: str = "a", *, n_items: int = 6, **fields: Any) -> Study:
    study = make_study(
        key,
        after=DEFAULT_QUESTIONS,
        protocol="survey",
        bots=[],
        state="draft",
        **{"attention_checks": [CHECK], **fields},
    )
    make_items(study, n_items)
    return study_edit(study=study, state=Study.State.COLLECTING)


def go_through(browser: Client, address: str, *, of_check: str) -> list[str]:
    """Answer every page, the check with `of_check`; the pages that were shown."""
    pages = []
    for n in range(1, 7):
        page = shown(browser.get(address))
        pages.append(page)
        given = of_check if "checks that replies" in page else "5"
        post(browser, address, _n=str(n), **dict.fromkeys(KEYS, given))
    return pages


def test_the_check_looks_like_any_other_and_counts_among_them(browser: Client) -> None:
    make_survey()
    pages = go_through(browser, begin(browser), of_check="2")
    assert all(f"Reply {n} of 6" in page for n, page in enumerate(pages, start=1))
    [at] = [n for n, page in enumerate(pages) if "checks that replies" in page]
    texts = [*CHECK["context"], CHECK["response"], "hi", "hello, how are you?"]
    texts += [f"reply {n}" for n in range(6)]
    bare = []
    for page in pages:
        page = re.sub(r'name="csrfmiddlewaretoken" value="[^"]*"', "", page)
        for text in sorted(texts, key=len, reverse=True):
            page = page.replace(text, "…")
        bare.append(re.sub(r"\d+", "0", page).replace(' class="on"', ""))
    assert "check" not in re.sub(r'type="checkbox"|icon-check|#check\b', "", bare[at])
    middle = bare[1] if at != 1 else bare[2]
    last_button = ("Save and finish", "Next")
    back = re.compile(r'<a class="button" href="[^"]*">Back</a>')
    left = re.compile(r"about 0 minutes? left")
    for page in (bare[at], middle):
        assert page
    same = [" ".join(left.sub("", back.sub("", page.replace(*last_button))).split()) for page in (bare[at], middle)]
    assert same[0] == same[1]


def test_who_passes_is_paid_as_usual_and_the_check_rates_nobody(browser: Client) -> None:
    study = make_survey()
    address = begin(browser)
    go_through(browser, address, of_check="2")
    task = Task.objects.get()
    assert (task.state, task.outcome) == ("completed", "rated")
    assert Rating.objects.count() == 6
    assert ratings_counted(study).count() == len(study_ratings(study)) == 5
    assert [bot.bot.bot_id for bot in bot_summary(study).bots] == ["a", "b"]
    rows = list(exporter_get("ratings").rows(study, ExportOptions()))
    assert len(rows) == 5
    [row] = exporter_get("checks").rows(study, ExportOptions())
    columns = [column.name for column in exporter_get("checks").columns(study, ExportOptions())]
    said = dict(zip(columns, row, strict=True))
    assert (said["passed"], said["outcome"], said["expected"]) == (True, "rated", {"quality": [2]})
    items = list(exporter_get("items").rows(study, ExportOptions()))
    assert [row[0] for row in items] == [f"i{n}" for n in range(6)]


def test_who_misses_it_is_set_apart_and_the_places_reopen(browser: Client) -> None:
    study = make_survey()
    address = begin(browser)
    pages = go_through(browser, address, of_check="5")
    assert not any("missed" in page for page in pages), "told at the end alone"
    task = Task.objects.get()
    assert (task.state, task.outcome) == ("ended", "failed_check")
    assert not TaskCount.objects.filter(item__isnull=False, n_completed__gt=0).exists()
    assert ratings_counted(study).count() == len(study_ratings(study)) == 0
    assert ratings_counted(study, include_failed=True).count() == 5
    assert (excluded_work(study).n_tasks, excluded_work(study).n_ratings) == (1, 5)
    options = ExportOptions()
    assert not list(exporter_get("ratings").rows(study, options))
    assert len(list(exporter_get("ratings").rows(study, ExportOptions(include_failed=True)))) == 5
    [row] = exporter_get("checks").rows(study, options)
    assert "failed_check" in row
    again = task_open(participant=make_participant(study))
    judged = {slot.item.key for slot in again.slots.all() if slot.item.purpose == ""}
    assert len(judged) == 5


def test_whoever_comes_again_gets_another_check_first(django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    checks = [{**CHECK, "response": f"choose 2 below, please ({n})"} for n in range(3)]
    study = make_survey(n_items=40, attention_checks=checks)
    person = make_participant(study)
    drawn, places = [], set()
    for number in range(3):
        with django_assert_max_num_queries(26):
            task = task_open(participant=person)
        Task.objects.filter(pk=task.pk).update(state="expired")
        slots = list(task.slots.order_by("order"))
        [at] = [n for n, slot in enumerate(slots) if slot.item.purpose == Item.Purpose.CHECK]
        assert len(slots) == 6, number
        drawn.append(slots[at].item.pk)
        places.add(at)
    assert len(set(drawn)) == 3
    assert Item.objects.filter(purpose="check").count() == 3, "stored once"
    spread = set()
    for _person in range(100):  # one place is missed in 7 of 100 million runs
        slots = task_open(participant=make_participant(study)).slots.order_by("order")
        spread |= {n for n, slot in enumerate(slots) if slot.item.purpose == "check"}
    assert spread == set(range(6)), "at every place"


def test_the_first_answer_to_a_check_may_be_mended_while_the_task_is_open(browser: Client) -> None:
    make_survey()
    address = begin(browser)
    for n in range(1, 6):
        post(browser, address, _n=str(n), **dict.fromkeys(KEYS, "5"))
    for rating in Rating.objects.filter(item__purpose="check"):
        n = rating.task.slots.get(item=rating.item).order + 1
        post(browser, f"{address}?n={n}", _n=str(n), **dict.fromkeys(KEYS, "2"))
    is_last = not Rating.objects.filter(item__purpose="check").exists()
    post(browser, address, _n="6", **dict.fromkeys(KEYS, "2" if is_last else "5"))
    assert Task.objects.get().outcome == "rated"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"attention_checks": []}, "needs an attention check"),
        ({"n_checks": 0}, "needs an attention check"),
        ({"attention_checks": [{**CHECK, "expected": {"wit": [1]}}]}, "none of quality"),
        ({"attention_checks": [{**CHECK, "expected": {"quality": [9]}}]}, "1 to 7"),
    ],
)
def test_checks_that_cannot_be_passed_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        make_survey(**fields)
    assert words in " ".join(refused.value.message_dict["attention_checks"])


def test_other_protocols_of_items_may_have_checks_and_need_none() -> None:
    for protocol in ("annotate", "aspects", "majority"):
        study = make_study(protocol, protocol=protocol, bots=[], state="draft", after=DEFAULT_QUESTIONS)
        make_items(study, 6)
        study = study_edit(study=study, state=Study.State.COLLECTING)
        assert task_open(participant=make_participant(study)).slots.count() == 5
        study = study_edit(study=study, attention_checks=[CHECK])
        assert task_open(participant=make_participant(study)).slots.count() == 6
