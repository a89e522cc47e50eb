"""A judge helps a study: the builder's setting, draws, ratings, leaderboard and export, through HTTP."""

import csv
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.urls import reverse

from tests.builders import make_participant, make_study, signed_in
from tests.webapp.dashboard.test_build import form_of
from tests.webapp.participant.conftest import KEYS, post, shown, started
from tests.webapp.studies.assignment.test_helped_draws import SETTINGS, import_judge
from tests.webapp.transfer.test_package import packed
from webapp.core.rights import Right
from webapp.ratings.models import Rating
from webapp.ratings.services import rating_add
from webapp.results.helped_means import study_helped
from webapp.results.study_data import study_data
from webapp.studies.models import Item, Outcome, Slot, Study, Task
from webapp.studies.rubrics import rubric_default
from webapp.studies.services import task_close, task_open
from webapp.studies.study_file import study_file_of
from webapp.studies.versions import study_edit
from webapp.transfer.package.import_package import package_import

pytestmark = pytest.mark.django_db


@pytest.fixture
def draft(db: None, tmp_path: Path) -> Study:
    """Make a draft of 600 items, 580 of them with a score by `gpt`."""
    study = make_study(
        "h",
        protocol="annotate",
        bots=[],
        state="draft",
        n_items=4,
        rubric=rubric_default(),
        max_conversations_per_participant=1,
        pay_each=2,
        contact="lab@example.org",
    )
    replies = {f"i{n}": {"model": "ab"[n % 2], "text": f"reply {n}"} for n in range(600)}
    Item.objects.bulk_create(Item(study=study, key=key, responses=[reply]) for key, reply in replies.items())
    import_judge(study, tmp_path, 580)
    return study


def rate_tasks(study: Study, n: int, **fields: Any) -> None:
    """Let participants rate their tasks: the score of the judge and noise, one point more for model `a`."""
    rng = np.random.default_rng(n)
    for _number in range(n):
        task = task_open(participant=make_participant(study, **fields))
        for slot in task.slots.select_related("item"):
            assert slot.item is not None
            score = 1 + int(slot.item.key[1:]) % 5
            value = int(np.clip(score + (slot.item.responses[0]["model"] == "a") + rng.integers(0, 2), 1, 7))
            rating_add(task=task, target=slot.item, answers=dict.fromkeys(KEYS, value))


def rate_online(browser: Client, key: str) -> Task:
    """Rate a task through the pages."""
    address = started(browser, key)
    for n in range(1, 5):
        post(browser, address, _n=str(n), **dict.fromkeys(KEYS, str(n)))
    return Task.objects.get(public_id=address.split("/")[2])


def test_a_study_is_set_up_rated_and_reported_with_a_judge(draft: Study) -> None:
    staff = signed_in(*Right)
    builder = reverse("dashboard:study_build_step", args=["h", "bots"])
    page = shown(staff.get(builder))
    assert "Let a judge help" in page
    assert '<option value="gpt">gpt</option>' in page
    data = {**form_of(staff, builder), "helper": "gpt", "helper_uncertainty": "doubt"}
    assert staff.post(builder, data).status_code == 302
    assert "Items without a value: 20 of 600." in shown(staff.get(builder))
    study = study_edit(study=Study.objects.get(key="h"), state="collecting")
    assert study_file_of(study).helping.model_dump() == {"helper": "gpt", "helper_uncertainty": "doubt"}

    rate_tasks(study, 9)
    results = reverse("dashboard:study_results", args=["h"])
    assert "Helper not used: 9 of 15 raters." in shown(staff.get(results))
    rate_tasks(study, 7)
    tasks = [rate_online(Client(enforce_csrf_checks=True), "h") for _n in range(2)]
    for task in tasks:
        assert task.state == Task.State.COMPLETED
        assert task.slots.exclude(helper=None).count() == 4
    page = shown(staff.get(results))
    assert re.search(r"72 ratings with “gpt” are worth about \d+ without it: \d+ ratings saved, or £[\d.]+\.", page)
    assert "20 of 600 items have no score." in page
    assert "Report the means below" in page

    lines = list(
        csv.DictReader(
            io.StringIO(
                staff.post(reverse("dashboard:study_export", args=["h"]), {"what": "ratings", "format": "csv"})
                .getvalue()
                .decode("utf-8-sig")
            )
        )
    )
    assert len(lines) == 72
    slots = {(str(slot.task_id), slot.item.key): slot for slot in Slot.objects.select_related("item", "helper")}
    for line in lines:
        slot = slots[line["task"], line["item"]]
        assert float(line["probability"]) == pytest.approx(slot.probability)
        assert line["helper"] == (slot.helper.identity if slot.helper else "")
    assert {line["helper"] for line in lines} == {"", "gpt@1 / doubt@1"}


def test_weighted_means_agree_with_an_independent_calculation(draft: Study) -> None:
    study = study_edit(study=draft, state="collecting", **SETTINGS)
    rate_tasks(study, 30)
    data = study_data(study)
    assert data is not None
    helped = study_helped(data)
    assert helped.means is not None
    assert (helped.n_items, helped.n_unscored, helped.n_unknown, helped.n_unrated) == (600, 20, 0, 0)
    assert helped.n_helped == 15 * 4
    low, high = 0, 0
    for bot, mean in helped.means.bots.items():
        slots = Slot.objects.filter(item__responses__0__model=bot).select_related("item")
        values = {
            (rating.task_id, rating.item_id): rating.answers["quality"]
            for rating in Rating.objects.filter(item__responses__0__model=bot)
        }
        # Horvitz–Thompson: each of a bot's items counts by the inverse of its probability.
        estimates = [
            sum(values[slot.task_id, slot.item_id] / slot.probability for slot in slots if slot.task_id == task) / 300
            for task in sorted({slot.task_id for slot in slots})
        ]
        assert mean.plain_mean == pytest.approx(np.mean(estimates), abs=0.15)
        low, high = low + (mean.plain_high - mean.plain_low), high + (mean.high - mean.low)
    assert high < 0.8 * low, "scores that agree with the ratings make intervals narrower"
    assert helped.means.slope == pytest.approx(1, abs=0.25), "ratings are the scores and noise"
    assert helped.means.saved is not None
    assert helped.means.saved > 0.3


def test_what_is_left_out_and_not_rated_is_counted(draft: Study) -> None:
    plain = study_edit(study=draft, state="collecting")
    rate_tasks(plain, 2)
    study = study_edit(study=plain, **SETTINGS)
    rate_tasks(study, 16)
    left = task_open(participant=make_participant(study))
    item = left.slots.first().item
    assert isinstance(item, Item)
    rating_add(task=left, target=item, answers=dict.fromkeys(KEYS, 3))
    data = study_data(study)
    assert data is not None
    helped = study_helped(data)
    assert (helped.n_unknown, helped.n_unrated, helped.n_helped) == (8, 3, 4 * 3 + 1)
    assert helped.means is not None
    assert helped.means.n_ratings == 65
    assert helped.to_json()["n_unrated"] == 3
    page = shown(signed_in(Right.READ).get(reverse("dashboard:study_results", args=["h"]) + "?part=helped"))
    assert "8 ratings without a known probability left out" in page
    assert "3 items drawn but not rated" in page
    changed = study_edit(study=study_edit(study=study, state="paused"), helper="doubt", helper_uncertainty="")
    assert study_helped(study_data(changed)).helper == "gpt", "the newest frozen scores are still those"
    task_close(task=left, state=Task.State.EXPIRED)
    Task.objects.filter(pk=left.pk).update(outcome=Outcome.FAILED_CHECK)
    strict, lenient = (study_helped(study_data(changed, include_failed=failed)) for failed in (False, True))
    assert (strict.n_unknown, lenient.n_unknown) == (8, 8), "the probabilities of failed participants are known"
    assert (strict.means.n_ratings, lenient.means.n_ratings) == (64, 65)


def test_items_added_to_an_open_study_are_counted_where_the_means_are_read(draft: Study) -> None:
    study = study_edit(study=draft, state="collecting", **SETTINGS)
    rate_tasks(study, 2)
    assert study_helped(study_data(study)).n_added == 0
    added = [Item(study=study, key=f"new{n}", responses=[{"model": "a", "text": f"late {n}"}]) for n in range(7)]
    Item.objects.bulk_create(added)
    study = study_edit(study=study_edit(study=study, state="paused"), state="collecting")
    assert study_helped(study_data(study)).n_added == 7, "also if new scores are frozen since"
    page = shown(signed_in(Right.READ).get(reverse("dashboard:study_results", args=["h"]) + "?part=helped"))
    assert "7 items added after the first participants had started" in page


def test_a_package_says_that_it_keeps_no_probabilities(draft: Study, tmp_path: Path) -> None:
    study = study_edit(study=draft, state="collecting", **SETTINGS)
    rate_tasks(study, 1)
    file = tmp_path / "package.zip"
    file.write_bytes(packed(study))
    report = package_import(file, study_key="again")
    [note] = report.notes
    assert note.startswith("4 ratings of items drawn with a judge’s help: their probabilities")
    assert Rating.objects.filter(task__participant__study__key="again").count() == 4
