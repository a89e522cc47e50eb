"""Hybrid fits within conditions: by command, page and program."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError
from django.urls import reverse

from tests.builders import make_study, signed_in
from tests.webapp.api.programs import Program
from tests.webapp.jobs.test_fits import FEATURES, compute, fit
from webapp.conversations.models import Conversation
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.jobs.kinds.base import kind_of
from webapp.jobs.models import HybridFit, SelfPlayRun
from webapp.jobs.selectors.fits import fit_leading, fits_newest
from webapp.jobs.services.selfplay import run_create
from webapp.ratings.models import Rating
from webapp.studies.models import Study
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db
FACTORS: list[dict[str, Any]] = [
    {"key": "scenario", "label": "Scenario", "levels": [{"key": "trip", "goal": "x"}, {"key": "refund", "goal": "y"}]},
    {"key": "told", "levels": [{"key": "all", "disclosure": "A program."}, {"key": "nothing", "is_control": True}]},
]
TRIP = ("--condition", "scenario=trip")


@pytest.fixture
def study(rated_study: Callable[..., Study]) -> Study:
    """Make a study of four bots and four conditions, of which refunds are rated lower."""
    made = study_edit(study=rated_study("k"), factors=FACTORS)
    for n, rating in enumerate(Rating.objects.order_by("pk").select_related("conversation")):
        condition = {"scenario": "trip" if n % 2 else "refund", "told": "all" if n % 4 < 2 else "nothing"}
        Conversation.objects.filter(pk=rating.conversation_id).update(condition=condition)
        rating.answers["quality"] = rating.answers["quality"] + (1 if n % 2 else 0)
        rating.save()
    compute(study=made)
    return made


def played(study: Study, n: int = 4) -> SelfPlayRun:
    run = run_create(bots=["eliza"], n_conversations=n, n_turns=6, study=study, enqueue=False)
    run_job(run)
    compute(run=run)
    return run


def test_ratings_and_self_play_are_those_of_the_condition(study: Study) -> None:
    run = played(make_study("p", bots=["eliza"], factors=FACTORS))
    everything = fit("--study", "k", "--run", str(run.pk))
    within = fit("--study", "k", "--run", str(run.pk), *TRIP)
    assert (everything["n_conversations"], within["n_conversations"]) == (48, 24)
    for bot, result in within["bots"].items():
        mine = Rating.objects.filter(conversation__bot__bot_id=bot, conversation__condition__scenario="trip")
        expected = [rating.answers["quality"] for rating in mine]
        assert result["n"] == len(expected)
        assert result["human_mean"] == (pytest.approx(np.mean(expected)) if expected else None)
    assert within["bots"]["eliza"]["predicted_selfplay"] is not None
    assert within["bots"]["eliza"] != everything["bots"]["eliza"]
    first, second = HybridFit.objects.order_by("pk")
    assert "condition" not in first.request
    assert second.request["condition"] == {"scenario": "trip"}
    assert kind_of(second).job_title(second) == f"Hybrid metric for {study.name}, scenario=trip"
    assert {"code": "several_conditions", "n_conditions": 4} in everything["cautions"]
    mixed = {"code": "several_conditions", "n_conditions": 2}
    assert within["cautions"][-2:] == [{"code": "within_condition", "levels": "scenario=trip"}, mixed]
    alone = fit("--study", "k", *TRIP, "--condition", "told=all")
    assert "several_conditions" not in {caution["code"] for caution in alone["cautions"]}
    assert alone["n_conversations"] == 12
    assert fit_leading(study) == fits_newest(study)[0] == first


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["scenario=trap"], "no condition 'scenario=trap' in study k; there are: scenario=trip, scenario=refund, told"),
        (["scenario=trip\0"], "no condition 'scenario=trip"),
        (["scenario=trip", "scenario=refund"], "one level of each factor"),
    ],
)
def test_an_unknown_condition_is_named_with_those_there_are(study: Study, asked: list[str], told: str) -> None:
    with pytest.raises(CommandError, match=told) as error:
        fit("--study", "k", *(word for one in asked for word in ("--condition", one)))
    assert error.value.returncode == 2
    refused = Program(Right.READ, Right.RUN).post("studies/k/fits", {"condition": asked})
    assert refused.status_code == 400
    assert not HybridFit.objects.exists()


def test_what_has_not_the_condition_is_refused(study: Study) -> None:
    make_study("plain")
    with pytest.raises(CommandError, match="'scenario=trip' in study plain; it has no factors"):
        fit("--study", "k", "--train-study", "plain", *TRIP)
    run = run_create(bots=["eliza"], n_conversations=1, n_turns=2, enqueue=False)
    with pytest.raises(CommandError, match=f"run {run.pk} has no self-play with scenario=trip; it has: no conditions"):
        fit("--study", "k", "--run", str(run.pk), *TRIP)
    assert not HybridFit.objects.exists()
    run = played(make_study("p", bots=["eliza"], factors=FACTORS), n=1)
    result = fit("--study", "k", "--run", str(run.pk), "--condition", "scenario=refund")
    assert result["bots"]["bot3"]["reasons"] == [{"code": "no_selfplay_features"}]
    Conversation.objects.filter(bot__bot_id__in=["bot0", "bot1"]).update(condition={"scenario": "refund"})
    with pytest.raises(CommandError, match="leave-bot-out needs at least"):
        fit("--study", "k", *TRIP)


def test_a_page_and_a_program_fit_within_a_condition(study: Study) -> None:
    sent = {"targets": ["quality"], "preset": "paper", "features": FEATURES.split(","), "condition": ["scenario=trip"]}
    answer = Program(Right.READ, Right.RUN).post("studies/k/fits", sent)
    assert answer.status_code == 202, answer.content
    result = HybridFit.objects.get()
    assert result.request["condition"] == {"scenario": "trip"}
    run_job(result)
    client, address = signed_in(Right.READ, Right.RUN), reverse("dashboard:study_prediction", args=["k"])
    page = client.get(address)
    assert page.status_code == 200
    assert "</span>, scenario=trip. <a" in " ".join(page.content.decode().split())
    assert "Only conversations with scenario=trip are included" in page.context["view"].because
    assert "The fit pools conversations of 2 conditions" in page.context["view"].because
    form = {"targets": ["quality"], "preset": "paper", "intercept": "common", "condition_told": "told=all"}
    started = client.post(address, form)
    newest = HybridFit.objects.order_by("-pk")[0]
    assert (started.status_code, started.headers["Location"]) == (302, f"{address}?fit={newest.pk}")
    assert newest.request["condition"] == {"told": "all"}
    HybridFit.objects.filter(pk=newest.pk).update(state="failed", error="needs at least 3 bots")
    assert "needs at least 3 bots" in client.get(started.headers["Location"]).content.decode()
    assert client.post(address, form | {"condition_told": "told=some"}).status_code == 400
