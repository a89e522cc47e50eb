"""Three replies of an item, put in order."""

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
from evaluation.number_format import figure, span
from tests.builders import make_items, make_participant, make_study, signed_in
from tests.webapp.participant.conftest import post, shown, started
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.builder.item_sources import ItemDrawForm
from webapp.ratings.models import Rating, RatingRevision
from webapp.ratings.paired_comparisons import study_judgements, study_pair_items
from webapp.ratings.rating_tasks import requested_ratings
from webapp.ratings.services import rating_add
from webapp.studies.models import Item, Study, Task
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions, table_of

pytestmark = pytest.mark.django_db
RANKS = ("rank_1", "rank_2", "rank_3")


def make_ranking(key: str = "a", *, models: str = "abc", n_items: int = 3, **fields: Any) -> Study:
    """Make a collecting study whose items hold a reply of each of these models."""
    study = make_study(key, protocol="rank_three", bots=[], state=Study.State.DRAFT, n_items=n_items, **fields)
    make_items(study, n_items, responses=[{"model": model, "text": f"reply of {model}"} for model in models])
    return study_edit(study=study, state=Study.State.COLLECTING)


def order_on(page: str) -> list[str]:
    return re.findall(r"reply of ([a-h])", page.partition("<main")[2])


def rank(task: Task, wanted: str = "abcdefgh") -> None:
    """Put the replies of every item of the task in this order of models."""
    for requested in requested_ratings(task):
        responses = requested.slots[0].item.responses
        numbers = sorted(
            task.payload["shown"][str(requested.slots[0].item_id)],
            key=lambda number: wanted.index(responses[number]["model"]),
        )
        rating_add(task=task, target=requested.target, answers=dict(zip(RANKS, numbers, strict=True)))


def test_the_order_is_stored_by_the_replies_places_in_the_item(browser: Client) -> None:
    make_ranking(n_items=2)
    entry = shown(browser.get("/s/a/"))
    assert "You read three texts at a time and put them in order." in entry
    assert "2 comparisons" in entry
    address = started(browser, "a")
    page = shown(browser.get(address))
    order = order_on(page)
    assert sorted(order) == list("abc")
    assert "Comparison 1 of 2" in page
    assert 'name="quality"' not in page
    assert page.count('name="rank_1"') == page.count('name="rank_3"') == 3

    sides = {model: "abc"[order.index(model)] for model in order}
    sent = {"rank_1": sides["c"], "rank_2": sides["a"], "rank_3": sides["b"]}
    assert post(browser, address, _n="1", **sent).status_code == 302
    rating = Rating.objects.get()
    assert rating.answers == {"rank_1": 2, "rank_2": 0, "rank_3": 1}
    again = shown(browser.get(f"{address}?n=1"))
    assert order_on(again) == order
    for name, side in sent.items():
        assert re.search(rf'id="{name}-{side}" value="{side}"[^>]* checked', again)
    changed = {"rank_1": sides["a"], "rank_2": sides["c"], "rank_3": sides["b"]}
    post(browser, address, _n="1", **changed)
    assert Rating.objects.get().answers == {"rank_1": 0, "rank_2": 2, "rank_3": 1}
    assert RatingRevision.objects.get().answers == rating.answers
    assert post(browser, address, _n="2", rank_1="a", rank_2="b", rank_3="c").url.endswith("/done/")
    assert Task.objects.get().outcome == "rated"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({}, ["1 answer is missing.", "Put the texts in order, or keep the order shown.", "#ranking"]),
        ({"rank_1": "b", "rank_2": "a"}, ["1 answer is missing.", "Put the texts in order"]),
        (
            {"rank_1": "b", "rank_2": "b", "rank_3": "a"},
            ["1 answer is missing or invalid.", "Choose a different text for each place."],
        ),
        ({"rank_1": "b", "rank_2": "d", "rank_3": "a"}, ["Put the texts in order"]),
    ],
)
def test_an_order_with_gaps_is_refused_with_a_sentence(browser: Client, sent: dict[str, str], words: list[str]) -> None:
    make_ranking()
    address = started(browser, "a")
    page = shown(post(browser, address, _n="1", **sent))
    for sentence in words:
        assert sentence in page
    assert not Rating.objects.exists()


def test_answers_that_name_other_replies_are_refused() -> None:
    task = task_open(participant=make_participant(make_ranking()))
    target = requested_ratings(task)[0].target
    for answers, wrong in (
        ({"rank_1": 0, "rank_2": 0, "rank_3": 1}, {"rank_1"}),
        ({"rank_1": 8, "rank_2": 1, "rank_3": 0}, {"rank_1"}),
        ({"rank_1": 0, "rank_2": 1, "rank_3": 2, "quality": 1}, {"quality"}),
    ):
        with pytest.raises(Refused) as refused:
            rating_add(task=task, target=target, answers=answers)
        assert set(refused.value.details["errors"]) == wrong


def test_the_draw_of_replies_is_balanced() -> None:
    study = make_ranking(models="abcdef", n_items=1)
    drawn = []
    for _person in range(40):
        task = task_open(participant=make_participant(study))
        drawn += task.payload["shown"].values()
        rank(task)
    assert all(len(three) == len(set(three)) == 3 for three in drawn)
    times = Counter(number for three in drawn for number in three)
    assert set(times.values()) == {20}, "each of six in half of 40 tasks"
    together = Counter(frozenset(pair) for three in drawn for pair in combinations(three, 2))
    assert len(together) == 15
    places = Counter(place for three in drawn for place in enumerate(three))
    assert len(places) == 18
    assert max(places.values()) - min(places.values()) <= 2


def test_results_exports_and_package(tmp_path: Path) -> None:
    study = make_ranking(n_items=2)
    rng = random.Random(3)
    for _person in range(8):
        rank(task_open(participant=make_participant(study)), "".join(rng.sample("abc", 3)))

    judged = study_judgements(study)
    assert (len(judged), len(set(judged.rater))) == (48, 8)
    assert {item.id for item in study_pair_items(study)} >= set(judged.item)
    results = judge_pairs(judged)
    assert {bot.bot: bot.n_shown for bot in results.choices.bots} == {"a": 16, "b": 16, "c": 16}
    page = shown(signed_in(*Right).get(reverse("dashboard:study_results", args=["a"]), {"part": "pairs"}))
    assert "8 people put three replies in order 16 times, which implies 48 judgements of" in page
    assert "Ranked replies by bot" in page
    assert "Plackett–Luce strength with" in page
    for bot in results.choices.bots:
        assert page.count(figure(bot.strength.mean)) >= 2, "on the board and in the table"
        assert span(bot.strength.low, bot.strength.high) in page

    ratings = table_of(study, "ratings", ExportOptions())
    names = [column.name for column in ratings.columns]
    rows = [dict(zip(names, row, strict=True)) for row in ratings.rows]
    stored = Rating.objects.order_by("pk").values_list("answers", flat=True)
    assert [{name: row[name] for name in RANKS} for row in rows] == list(stored)
    assert {row["bot"] for row in rows} == {"a b c"}
    call_command("export", "--study", "a", "--what", "package", "--output", str(tmp_path / "a.zip"))
    call_command("import_conversations", str(tmp_path / "a.zip"), "--study", "b")
    back = study_judgements(Study.objects.get(key="b"))
    assert judge_pairs(back).choices.bots == results.choices.bots
    assert back.item.tolist() == judged.item.tolist()


@pytest.mark.parametrize("models", ["ab", "abcdefghi"])
def test_items_hold_three_to_eight_replies(models: str) -> None:
    with pytest.raises(ValidationError, match="do not have 3 to 8 replies each"):
        make_ranking(models=models)


def test_items_with_other_replies_than_were_judged_are_left_out() -> None:
    study = make_ranking(n_items=1)
    rank(task_open(participant=make_participant(study)))
    Item.objects.update(responses=[{"model": "a", "text": "x"}] * 2)
    assert len(study_judgements(study)) == 0


def test_the_builder_describes_rankings() -> None:
    staff = signed_in(*Right)
    assert "Participants read two, three or four replies to the same message." in shown(
        staff.get(reverse("dashboard:study_new"))
    )
    study = make_study("a", protocol="rank_three", bots=[], state=Study.State.DRAFT, n_items=1)
    help_text = ItemDrawForm(study=study).fields["bots"].help_text
    assert help_text.startswith("3 or more: each person sees 3 of the replies. None: each item has 3 whole chats")
