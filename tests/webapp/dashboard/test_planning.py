"""What the planned number of people can show before a study opens: with pay, hours, and a spread from three sources."""

from datetime import timedelta

import numpy as np
import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse
from scipy import stats

from tests.builders import make_conversation, make_rating, make_study
from webapp.core.clock import database_now
from webapp.studies.models import Study, Task
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


def panel(staff: Client, study: Study) -> str:
    page = staff.get(reverse("dashboard:study_build_step", args=[study.key, "pay"]))
    part = BeautifulSoup(page.content, "html.parser").select_one("[data-live-part]")
    assert part is not None
    return " ".join(part.get_text(" ").split())


def draft(**fields: object) -> Study:
    return make_study("s", state="draft", bots=["parrot", "eliza"], n_conversations_wanted=60, minutes=8, **fields)


def power(n: int, difference: float, sd: float) -> float:
    """Return the power of the two-sided t-test of two groups, from the noncentral t distribution."""
    shift, df = difference / (sd * np.sqrt(2 / n)), 2 * n - 2
    limit = stats.t.ppf(0.975, df)
    return float(stats.nct.sf(limit, df, shift) + stats.nct.cdf(-limit, df, shift))


def rate_pilot(n: int, hours_apart: float) -> Study:
    """Make a pilot whose tasks were finished one after another."""
    pilot = make_study("pilot", bots=["parrot", "eliza"])
    for k in range(n):
        make_rating(make_conversation(pilot, n_exchanges=3), quality=1 + (3 * k) % 7, fluency=4)
    for k, task in enumerate(Task.objects.order_by("pk")):
        Task.objects.filter(pk=task.pk).update(ended_at=database_now() - timedelta(hours=hours_apart * k))
    return pilot


def test_a_given_spread_decides_what_the_number_can_show(staff: Client) -> None:
    study = draft(planned_sd=1.4, level=0.95, pay_each=1.5, fee_share=0.33, currency="GBP")
    words = panel(staff, study)
    assert "Uses the standard deviation that you entered, 1.4 points." in words
    difference = float(words.partition("detect a difference of ")[2].partition(" points")[0])
    exact = next(gap for gap in np.arange(0.5, 2, 0.001) if power(30, gap, 1.4) >= 0.8)
    assert difference == pytest.approx(exact, abs=0.051)
    assert "With 30 ratings per bot" in words
    assert "All participants together spend 8 h on it" in words
    assert "= £119.70; £11.25 an hour" in words


def test_several_bots_in_a_row_are_several_ratings_of_a_participant(staff: Client) -> None:
    assert "With 60 ratings per bot" in panel(staff, draft(planned_sd=1.4, bots_in_a_row=2))


def test_a_pilot_gives_its_spread_and_its_pace(staff: Client) -> None:
    rate_pilot(24, hours_apart=0.25)
    words = panel(staff, draft(spread_of="pilot"))
    assert "in pilot (standard deviation" in words
    assert "at the pace of pilot the study takes 15 h" in words


def test_a_pilot_that_is_too_small_is_named(staff: Client) -> None:
    rate_pilot(6, hours_apart=1)
    words = panel(staff, draft(spread_of="pilot"))
    assert "pilot has too few ratings on an equally wide scale to plan from it." in words
    assert "Assumes a standard deviation" in words


def test_an_unknown_study_is_refused(staff: Client) -> None:
    study = draft()
    address = reverse("dashboard:study_build_step", args=["s", "pay"])
    page = BeautifulSoup(staff.get(address).content, "html.parser")
    assert page.select_one("input[type=date][name=closes_on]") is not None
    with pytest.raises(Exception, match="There is no study “nowhere”"):
        study_edit(study=study, spread_of="nowhere")
