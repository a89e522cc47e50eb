"""Best-worst scaling: four replies of an item, of which the best and the worst are chosen."""

import random
import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from evaluation.analysis.pairs import judge_pairs
from tests.builders import make_items, make_participant, make_study, signed_in
from tests.webapp.participant.conftest import post, shown, started
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.selectors import models_progress
from webapp.ratings.models import Rating
from webapp.ratings.paired_comparisons import pairs_counted, study_judgements, study_pair_items
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.services import rating_add
from webapp.studies.assignment.counterbalance import replies_balanced
from webapp.studies.models import Item, Study, Task
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions, table_of

pytestmark = pytest.mark.django_db


def make_best_worst(key: str = "a", *, models: str = "abcd", n_items: int = 3, **fields: Any) -> Study:
    """Make a collecting study whose items hold a reply of each of these models."""
    study = make_study(key, protocol="best_worst", bots=[], state=Study.State.DRAFT, n_items=n_items, **fields)
    make_items(study, n_items, responses=[{"model": model, "text": f"reply of {model}"} for model in models])
    return study_edit(study=study, state=Study.State.COLLECTING)


def order_on(page: str) -> list[str]:
    return re.findall(r"reply of ([a-h])", page.partition("<main")[2])


def choose(task: Task, wanted: str = "abcdefgh") -> None:
    """Choose everywhere in the task the best and the worst by this order of models."""
    for one in requested_ratings(task):
        numbers = sorted(
            task.payload["shown"][str(one.slots[0].item_id)],
            key=lambda n: wanted.index(one.slots[0].item.responses[n]["model"]),
        )
        names = ("best", "between_1", "between_2", "worst")
        rating_add(task=task, target=one.target, answers=dict(zip(names, numbers, strict=True)))


def test_the_best_and_the_worst_are_stored_by_their_place_in_the_item(browser: Client) -> None:
    make_best_worst(n_items=2)
    entry = browser.get("/s/a/")
    assert "2 questions about each text" in shown(entry)
    address = started(browser, "a")
    page = shown(browser.get(address))
    order = order_on(page)
    assert "Comparison 1 of 2" in page
    assert "Then choose the best and the worst: two different texts." in page
    assert sorted(order) == list("abcd")
    assert page.count('aria-label="Reply D"') == page.count('name="best"') // 2 == 2
    assert 'name="quality"' not in page

    best, worst = (chr(ord("a") + order.index(model)) for model in "cb")
    assert post(browser, address, _n="1", best=best, worst=worst).status_code == 302

    rating = Rating.objects.get()
    assert rating.answers == {"best": 2, "worst": 1, "between_1": 0, "between_2": 3}
    again = shown(browser.get(f"{address}?n=1"))
    assert order_on(again) == order
    assert re.search(rf'id="best-{best}" value="{best}"[^>]* checked', again)
    assert re.search(rf'id="worst-{worst}" value="{worst}"[^>]* checked', again)
    assert post(browser, address, _n="2", best="a", worst="d").url.endswith("/done/")
    assert Task.objects.get().outcome == "rated"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({}, ["2 answers are missing", "Please choose the best text.", "Please choose the worst text.", "#best-a"]),
        ({"best": "b"}, ["1 answer is missing", "Please choose the worst text.", "#worst-a"]),
        ({"best": "b", "worst": "b"}, ["1 answer is missing or not valid.", "You chose this text as the best one"]),
        ({"best": "b", "worst": "e"}, ["Please choose the worst text."]),
    ],
)
def test_what_is_missing_or_alike_is_said(browser: Client, sent: dict[str, str], words: list[str]) -> None:
    make_best_worst()
    address = started(browser, "a")
    page = shown(post(browser, address, _n="1", **sent))
    for each in words:
        assert each in page
    assert not Rating.objects.exists()


def test_answers_that_name_other_replies_are_refused() -> None:
    task = task_open(participant=make_participant(make_best_worst()))
    target = requested_ratings(task)[0].target
    for answers, wrong in (
        ({"best": 0, "worst": 0}, {"worst"}),
        ({"best": 8, "worst": 1}, {"best"}),
        ({"best": 1, "worst": 0, "quality": 1}, {"quality"}),
    ):
        with pytest.raises(Refused) as refused:
            rating_add(task=task, target=target, answers=answers)
        assert set(refused.value.details["errors"]) == wrong


def test_the_draw_of_replies_is_balanced() -> None:
    study = make_best_worst(models="abcdef", n_items=1)
    given = []
    for _person in range(30):
        task = task_open(participant=make_participant(study))
        [four] = task.payload["shown"].values()
        given.append(four)
        choose(task)
    times = Counter(number for four in given for number in four)
    assert set(times.values()) == {20}, "each of six in two thirds of 30 tasks"
    together = Counter(frozenset(pair) for four in given for pair in combinations(four, 2))
    assert len(together) == 15
    assert max(together.values()) - min(together.values()) <= 3
    places = Counter(place for four in given for place in enumerate(four))
    assert len(places) == 24
    assert max(places.values()) - min(places.values()) <= 2


def test_replies_that_were_shown_least_come_next_in_new_places() -> None:
    given = [[0, 1, 2, 3], [0, 1, 2, 4]]
    four = replies_balanced(6, given, 4, random.Random(1))
    assert {3, 4, 5} < set(four), "of the others each was shown twice"
    twice = replies_balanced(4, [[0, 1, 2, 3]] * 3, 4, random.Random(1))
    assert all(number != place for place, number in enumerate(twice))


def test_results_exports_and_package(client: Client, tmp_path: Path) -> None:
    study = make_best_worst(n_items=2)
    for wanted in ("abcd", "acbd", "bacd", "abdc", "abcd"):
        choose(task_open(participant=make_participant(study)), wanted)

    judged = study_judgements(study)
    assert (pairs_counted(study).count(), len(judged), len(set(judged.rater))) == (10, 50, 5)
    assert {item.id for item in study_pair_items(study)} >= set(judged.item)
    results = judge_pairs(judged)
    scores = {one.bot: (one.n_shown, one.n_best, one.n_worst) for one in results.best_worst.scores}
    assert scores == {"a": (10, 8, 0), "b": (10, 2, 0), "c": (10, 0, 2), "d": (10, 0, 8)}
    progress = {one.title: (one.n_items, one.n_ratings) for one in models_progress(study)}
    assert progress == dict.fromkeys("abcd", (2, 10))

    page = signed_in(*Right).get(reverse("dashboard:study_results", args=["a"]), {"part": "pairs"})
    assert page.status_code == 200
    words = shown(page)
    assert "5 people chose the best and the worst reply 10 times, which implies 50 judgements of" in words
    assert "How often a bot’s reply was the best or the worst" in words
    assert "split-half reliability of" in words

    ratings = table_of(study, "ratings", ExportOptions())
    names = [column.name for column in ratings.columns]
    first = dict(zip(names, next(iter(ratings.rows)), strict=True))
    assert [first[name] for name in ("item", "bot", "best", "between_1", "between_2", "worst")] == [
        *(first["item"], "a b c d", 0, 1, 2, 3)
    ]
    call_command("export", "--study", "a", "--what", "package", "--output", str(tmp_path / "a.zip"))
    call_command("import_conversations", str(tmp_path / "a.zip"), "--study", "b")
    back = study_judgements(Study.objects.get(key="b"))
    assert judge_pairs(back).best_worst.scores == results.best_worst.scores
    assert back.item.tolist() == judged.item.tolist()


@pytest.mark.parametrize("models", ["abc", "abcdefghi"])
def test_items_hold_four_to_eight_replies(models: str) -> None:
    with pytest.raises(ValidationError, match="do not hold 4 to 8 replies each"):
        make_best_worst(models=models)


def test_items_with_other_replies_than_were_judged_are_left_out() -> None:
    study = make_best_worst(n_items=1)
    choose(task_open(participant=make_participant(study)))
    Item.objects.update(responses=[{"model": "a", "text": "x"}] * 3)
    assert len(study_judgements(study)) == 0
