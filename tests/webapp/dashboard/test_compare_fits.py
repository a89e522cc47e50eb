"""Comparison of fits, predictions from self-play, and costs of bots."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains

from chatbots.bots.endpoint import EndpointBot
from chatbots.endpoints.metering import ReplyCost
from chatbots.registry import bots
from tests.builders import make_study
from tests.markup import flat
from tests.webapp.dashboard.analysis.test_one_result import text_of
from tests.webapp.dashboard.test_leaderboard import LEVELS, study_of
from tests.webapp.dashboard.test_pages import hybrid_result
from webapp.bots.models import DeclaredBot, Spending
from webapp.bots.services import Purse, spending_reserve, spending_settle
from webapp.jobs.models import HybridFit, Job, SelfPlayRun
from webapp.studies.models import Study


def fit_of(study: Study, n_bots: int = 8, **fields: object) -> HybridFit:
    """Store a fit with this result."""
    played = fields.pop("played", {})
    run = fields.pop("run", None)
    result = hybrid_result(n_bots) | fields
    for bot, value in played.items():
        unrated = dict.fromkeys(("human_mean", "human_ci90", "predicted", "predicted_ci90"))
        result["bots"].setdefault(bot, {**unrated, "n": 0})
        result["bots"][bot] |= {"predicted_selfplay": value, "predicted_selfplay_ci90": [value - 1, value + 1]}
    return HybridFit.objects.create(
        study=study,
        run=run,
        request={"targets": ["quality"], "intercept": "fold", "preset": "paper"},
        result=result,
        state=Job.State.DONE,
    )


def address(study: Study, query: str = "") -> str:
    return reverse("dashboard:study_prediction", args=[study.key]) + query


def cells_of(page: object, name: str = "fits") -> list[dict[str, str]]:
    return rows_of(page.context[name])


def rows_of(named: Any) -> list[dict[str, str]]:
    """Return the rows of a table by the titles of its columns, the second of one name with a star."""
    table = named.table
    titles: list[str] = []
    for header in table.headers:
        titles.append(header.text + "*" * titles.count(header.text))
    return [{title: cell.text for title, cell in zip(titles, row, strict=True)} for row in table.rows]


@pytest.fixture(scope="module")
def four_bots(rows_of_file: None, tmp_path_factory: pytest.TempPathFactory) -> int:
    """Make a study of four bots, the first two alike; return its primary key."""
    return study_of(tmp_path_factory.mktemp("four"), LEVELS).pk


@pytest.fixture
def study(four_bots: int, db: None) -> Study:
    """Return that study as it is before any test."""
    return Study.objects.get(pk=four_bots)


def test_fits_stand_in_one_table_with_what_chance_and_the_best_rival_reach(staff: Client, study: Study) -> None:
    assertContains(staff.get(address(study)), "There is no finished fit yet.")
    rival = {"code": "rival", "name": "log_words", "error_ratio": 0.71, "ci95": [0.5, 1.1], "passed": None}
    verdict = {"standing": "unsettled", "standing_selfplay": None, "findings": [rival]}
    older = fit_of(study, q2={"value": 0.41, "null95": 0.22}, verdict=verdict)
    few = fit_of(study, 4)
    page = staff.get(address(study))
    rows = cells_of(page)
    assert [row["Fit"] for row in rows] == [str(few.pk), str(older.pk)]
    full = rows[1]
    assert (full["r"], full["95 %"], full["null, 95 %"]) == (".84", "[.34, .97]", ".60")
    assert (full["Q²"], full["null, 95 %*"]) == (".41", ".22")
    result = full["Strongest rival"], full["Error ratio"], full["95 %*"]
    assert result == ("The number of words per message", "0.71", "[0.50, 1.10]")
    assert "r, self-play" not in full  # no fit was applied to any
    # Under five bots no correlation is told, of the rivals neither.
    assert {rows[0][name] for name in ("r", "95 %", "Q²", "Strongest rival", "Error ratio")} == {"–"}
    assert "too few: 4 bots" in text_of(page.content.decode())
    assertContains(page, f'href="{address(study)}?fit={older.pk}"')
    assertContains(page, "The best of several fits looks better than it is")
    assertNotContains(page, "run by run")


def test_runs_are_compared_by_what_they_predict(staff: Client, study: Study) -> None:
    runs = [SelfPlayRun.objects.create(plan={"bots": []}, state=Job.State.DONE) for _ in range(2)]
    level = {"bot_level_selfplay": {"pearson": {"r": 0.7, "p": 0.1, "ci95": [0.1, 0.9]}}}
    first = fit_of(study, run=runs[0], played={"eliza": 2.5, "alpha": 4.0}, **level)
    fit_of(study, run=runs[1], played={"alpha": 4.5}, **level)
    newest = fit_of(study, run=runs[1], played={"alpha": 5.5}, **level)
    page = staff.get(address(study))
    # One bot that people rated has self-play: too few for a correlation, which is said.
    assert cells_of(page)[0]["r, self-play"] == "–"
    assert "too few: 1 bot" in text_of(page.content.decode())
    (table, links) = page.context["played"]
    heads = [header.text for header in table.table.headers]
    assert heads[2:] == [f"run {runs[1].pk}, fit {newest.pk}", f"run {runs[0].pk}, fit {first.pk}"]
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.table.rows}
    assert rows["alpha"] == ["–", "5.50 [4.50, 6.50]", "4.00 [3.00, 5.00]"]
    assert rows["eliza"] == ["2.00", "–", "2.50 [1.50, 3.50]"]
    assert [href for _title, href in links] == [reverse("dashboard:run", args=[run.pk]) for run in reversed(runs)]


@pytest.mark.parametrize("route", ["results/", "compare/"])
def test_the_same_bots_stand_in_several_studies(staff: Client, study: Study, tmp_path: Path, route: str) -> None:
    other = study_of(tmp_path, {"alpha": 3.0, "gamma": 5.5, "new": 4.0}, key="other")
    fit_of(other)
    leaderboard = f"/dashboard/studies/{study.key}/{route}"
    folded = staff.get(leaderboard, follow=True)
    assertContains(folded, "The same bots in other studies")
    assertNotContains(folded, "Add a study to compare")
    assertContains(staff.get(f"{leaderboard}?part=studies", follow=True), "Add a study to compare")
    page = staff.get(f"{leaderboard}?with=other", follow=True)
    [table] = next(fold.content.tables for fold in page.context["folds"] if fold.id == "studies")
    rows = {row["Bot"]: row for row in rows_of(table)}
    assert rows["alpha"]["Rank"] == "1–2"
    assert rows["alpha"]["Rank*"] == "3"
    assert rows["new"]["Rank"] == "–"
    assert rows["beta"]["Rank*"] == "–"
    assertContains(page, "Significant in both c and other: 1 pair of bots, 0 in the same order")
    # Fits say of which study they are, then.
    page = staff.get(address(study, "?with=other"))
    assert [row["Settings"].split(":")[0] for row in cells_of(page)] == ["other"]
    assertContains(page, f"/dashboard/studies/{study.key}/results/?with=other&amp;part=studies#studies")


def test_what_cannot_stand_beside_is_said(staff: Client, study: Study, rated: Study) -> None:
    leaderboard = reverse("dashboard:study_results", args=[study.key])
    for page in (staff.get(address(study, "?with=nothing")), staff.get(f"{leaderboard}?with=nothing")):
        assert "Unknown study “nothing”. Other studies in use: rated" in text_of(page.content.decode())
    rated.conversations.all().delete()
    page = staff.get(f"{leaderboard}?with=rated")
    assert "“rated” has no ratings yet." in text_of(page.content.decode())


def test_more_fits_ask_the_database_no_more_often(staff: Client, study: Study) -> None:
    asked = []
    for n in (2, 8):
        for _ in range(n):
            fit_of(study)
        staff.get(address(study))
        with CaptureQueriesContext(connection) as queries:
            staff.get(address(study))
        asked.append(len(queries))
    assert asked[0] == asked[1]


@pytest.fixture
def paid() -> Iterator[EndpointBot]:
    bot = EndpointBot(name="gpt", title="GPT", model="m", price_in=0.0, price_out=1e6, max_new_tokens=5, max_cost=90)
    bots.add(bot)
    yield bot
    bots.discard("gpt")


def spend(cost: float, study: Any = None) -> None:
    purses = [Purse("bot", "gpt", None, "")]
    if study is not None:
        purses.append(Purse("study", str(study.pk), None, ""))
    receipt = spending_reserve(purses=purses, bound=ReplyCost(cost=cost))
    spending_settle(reservation=receipt, cost=ReplyCost(1200, 34, cost, True))


def test_pages_tell_what_was_spent_and_which_cap_is_reached(staff: Client, paid: EndpointBot) -> None:
    study = make_study("dear", bots=["eliza", "gpt"], max_cost=15)
    overview, needs = reverse("dashboard:study", args=["dear"]), reverse("dashboard:home")
    assert "0.00 of 15.00" in flat(staff.get(overview).content.decode())
    assertNotContains(staff.get(needs), "cost limit is reached")
    spend(12.5, study)
    page = staff.get(overview)
    assert "12.50 of 15.00" in flat(page.content.decode())
    assertContains(page, "1 call; 1,200 tokens in, 34 out; tokens of 1 estimated")
    # 2.5 is left, and a reply may cost 5.
    assertContains(page, "limit reached")
    assertContains(page, "the study&#x27;s cost limit of 15 is reached (12.5 spent)")
    assertContains(staff.get(needs), "has reached its cost limit in dear.")
    listed = staff.get(reverse("dashboard:bots"))
    assert "12.50</strong> of 90.00" in flat(listed.content.decode())
    assertNotContains(listed, "Cap reached")
    spend(75)
    assertContains(staff.get(reverse("dashboard:bots")), "Cap reached")
    response = staff.get(reverse("dashboard:bot", args=["gpt"]))
    assertContains(response, "its cost limit of 90 is reached: 87.5 is spent")
    assert Spending.objects.get(of="bot").spent == 87.5


def test_without_paid_bots_nobody_reads_of_cost(staff: Client) -> None:
    make_study("free")
    assertNotContains(staff.get(reverse("dashboard:study", args=["free"])), "<h2>Cost</h2>")
    assertNotContains(staff.get(reverse("dashboard:bots")), ">Cost</th>")


def test_a_public_checkpoint_is_added(staff: Client, stranger: Client) -> None:
    add = reverse("dashboard:bot_add", args=["dialogpt-small"])
    assertContains(staff.get(reverse("dashboard:bots")), f'action="{add}"')
    assert stranger.post(add).status_code == 403
    assert staff.get(add).status_code == 405
    assert staff.post(reverse("dashboard:bot_add", args=["nothing"])).status_code == 404
    assert not DeclaredBot.objects.exists()
    page = staff.post(add, follow=True)
    assertContains(page, "Its 353 MB are downloaded when it is first loaded.")
    assertContains(page, reverse("dashboard:bot", args=["dialogpt-small"]))
    assertNotContains(page, f'action="{add}"')
    assertContains(staff.post(add, follow=True), "DialoGPT small was not added")
