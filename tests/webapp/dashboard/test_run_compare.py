"""Self-play runs beside one another: one computation behind the page and the call, bot by bot and run by run."""

from io import StringIO
from typing import Any

import numpy as np
import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains
from scipy import stats

from tests.builders import make_staff, signed_in
from tests.webapp.api.programs import Program
from tests.webapp.dashboard.analysis.test_one_result import text_of
from webapp.conversations.models import Conversation
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.jobs.models import MetricResult, MetricRun, MetricVersion, SelfPlayRun
from webapp.jobs.services.selfplay import run_create
from webapp.search.models import Figure
from webapp.search.run_comparison import MOST_COLUMNS, MOST_RUNS, RunComparisonParams, runs_compared

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("api_afresh")]


def played(*bots: str, measures: bool = True, **asked: Any) -> SelfPlayRun:
    """Return a finished run of these bots, with words and questions counted unless said otherwise."""
    asked = {"n_conversations": 4, "n_turns": 4, "seed": 7, **asked}
    run = run_create(bots=bots, enqueue=False, **asked)
    run_job(run)
    if measures:
        call_command(
            "compute_metrics", "--run", str(run.pk), "--metrics", "words,question", "--inline",
            stdout=StringIO(),
        )  # fmt: skip
    return SelfPlayRun.objects.get(pk=run.pk)


def values_set(run: SelfPlayRun, bot: str, column: str, values: list[float]) -> None:
    """Give the values of a column to the first conversations of a bot with itself; the others have none any more."""
    rows = list(
        Figure.objects.filter(
            conversation__selfplay__run=run,
            conversation__selfplay__bot_id=bot,
            conversation__selfplay__partner_bot_id="",
            series__name=column,
        ).order_by("conversation__selfplay__ordinal")
    )
    for row, value in zip(rows, values, strict=False):
        Figure.objects.filter(pk=row.pk).update(value=value)
    Figure.objects.filter(pk__in=[row.pk for row in rows[len(values) :]]).delete()


def address(query: str = "") -> str:
    return reverse("dashboard:runs_compare") + query


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(make_staff(Right.READ))
    return client


def test_a_mean_has_its_interval_over_conversations() -> None:
    run, other = played("eliza", "parrot"), played("eliza", seed=8)
    values_set(run, "eliza", "words_bot", [3.0, 5.0, 6.0, 8.0])
    result = runs_compared(RunComparisonParams(columns=["words_bot"]))
    assert [(side.bot_id, side.run.pk, side.n) for side in result.sides] == [
        ("eliza", other.pk, 4),
        ("eliza", run.pk, 4),
        ("parrot", run.pk, 4),
    ]
    mean = result.sides[1].means[0].interval
    # Words are never below 0, and these are not skewed: (mean − mu)² = t² v mu / mean at both ends.
    reach = (stats.t.ppf(0.975, 3) * stats.sem([3.0, 5.0, 6.0, 8.0])) ** 2 / 5.5
    low, high = sorted(np.roots([1, -(2 * 5.5 + reach), 5.5**2]))
    assert (mean.mean, mean.n) == (5.5, 4)
    assert (mean.low, mean.high) == pytest.approx((low, high))
    assert result.differ == ["seed"]
    assert (result.versions_differ, result.wrong) == ([], [])


def test_what_is_undefined_has_its_reason_and_partial_means_say_of_how_many(staff: Client) -> None:
    run, bare = played("eliza"), played("eliza", measures=False, seed=8)
    values_set(run, "eliza", "words_bot", [3.0, 5.0])
    MetricResult.objects.filter(
        conversation__selfplay__run=run, conversation__selfplay__ordinal=3, metric__name="words"
    ).delete()
    page = staff.get(address("?column=words_bot"))
    rows = {cells[1].text: cells for cells in page.context["table"].table.rows}
    assert rows[f"Self-play {run.pk}"][2].text.startswith("4.00 [")
    why = rows[f"Self-play {run.pk}"][2].reason
    assert why == "computed for 3 of 4 conversations; 1 conversation without a value"
    empty = rows[f"Self-play {bare.pk}"][2]
    assert (empty.text, empty.reason) == ("–", "not computed for this run with the current version of the metric")
    Conversation.objects.filter(selfplay__run=bare).update(state=Conversation.State.FAILED)
    result = runs_compared(RunComparisonParams(columns=["words_bot"]))
    assert result.sides[0].means[0].interval.reason.code == "not_played"


def test_results_of_an_earlier_version_do_not_count() -> None:
    run = played("eliza")
    MetricVersion.objects.filter(name="words").update(key="earlier")
    result = runs_compared(RunComparisonParams(columns=["words_bot", "question_bot"]))
    words, question = (mean.interval for mean in result.sides[0].means)
    assert (words.mean, words.reason.code) == (None, "not_computed")
    assert question.mean is not None
    assert "words_bot" not in [one.name for one in result.every_measure]
    assert run.pk == result.runs[0].pk


def test_what_two_bots_said_to_each_other_is_left_out(staff: Client) -> None:
    run = played("eliza", "parrot", pairs="all", n_conversations=2)
    result = runs_compared(RunComparisonParams())
    assert [(side.bot_id, side.n) for side in result.sides] == [("eliza", 2), ("parrot", 2)]
    assert all(mean.n_measured == 2 for side in result.sides for mean in side.means)
    assertContains(staff.get(address()), "Conversations between two different bots are excluded.")
    assertContains(staff.get(address()), "Only one run is selected.")
    assert result.runs == [run]


def test_runs_that_hold_the_same_conversations_are_named(staff: Client) -> None:
    first = played("eliza", "parrot")
    played("eliza", n_conversations=2)
    result = runs_compared(RunComparisonParams())
    assert first.plan["deterministic"]["eliza"]
    assert (result.repeated, result.differ) == (["eliza"], ["conversations"])
    page = staff.get(address())
    assert "eliza: deterministic, and two runs share seed" in text_of(page.content.decode())
    run = SelfPlayRun.objects.get(pk=first.pk)
    run.plan["identities"]["eliza"]["key"] = "0123456789abcdef"
    run.save()
    again = staff.get(address()).context["found"]
    assert (again.repeated, again.versions_differ) == ([], ["eliza"])
    assertContains(staff.get(address()), "01234567")


def test_the_page_says_what_differs_leads_to_runs_and_keeps_what_is_chosen(staff: Client) -> None:
    older = played("eliza", "parrot", name="Long <b>one</b>", n_turns=6)
    newer = played("eliza", seed=9, openers=["Hello"])
    query = f"?run={older.pk}&run={newer.pk}&bot=eliza&column=question_bot"
    page = staff.get(address(query))
    html = page.content.decode()
    assert f'href="{reverse("dashboard:run", args=[older.pk])}"' in html
    url = reverse("dashboard:run_conversations", args=[older.pk])
    assert f'href="{url}?bot=eliza&amp;first=eliza"' in html
    assert "Long &lt;b&gt;one&lt;/b&gt;" in html
    table, settings_table = page.context["table"], page.context["settings_table"]
    assert [cells[0].text for cells in table.table.rows] == ["eliza", "eliza"]
    heads = [header.text for header in settings_table.table.headers]
    assert heads == ["Run", "Started", "State", "Seed", "Turns", "Openers"]
    assert [[cell.text for cell in row[3:]] for row in settings_table.table.rows] == [
        ["9", "4", "1 line"],
        ["7", "6", "none"],
    ]
    assert "Conversations per bot: 4" in settings_table.note
    for name, value in (("run", older.pk), ("bot", "eliza"), ("column", "question_bot")):
        assert f'name="{name}" value="{value}" checked' in html
    assert 'name="column" value="words_bot" checked' not in html


def test_what_a_run_lacks_is_computed_from_its_page(staff: Client) -> None:
    run = played("eliza", measures=False)
    where, to_measure = (reverse(f"dashboard:{name}", args=[run.pk]) for name in ("run", "run_measure"))
    assertNotContains(staff.get(where), to_measure)  # whoever only reads cannot start it
    assert staff.post(to_measure).status_code == 403
    runner = signed_in(Right.READ, Right.RUN, username="runner")
    assertContains(runner.get(address()), f'<a href="{where}">Self-play {run.pk}</a>')
    assertContains(runner.get(where), f'action="{to_measure}"')
    assert "4 conversations lack current metrics." in text_of(runner.get(where).content.decode())
    assert runner.post(to_measure)["Location"] == where
    job = MetricRun.objects.get(run=run)
    assert job.state == "queued"
    assertNotContains(runner.get(where), to_measure)  # it is under way
    run_job(job)
    assert MetricResult.objects.filter(conversation__selfplay__run=run).exists()
    assertNotContains(runner.get(where), to_measure)  # nothing is lacking
    assertContains(runner.get(address()), "Words")


def test_what_is_not_there_is_said_by_page_and_call_alike(staff: Client) -> None:
    run = played("eliza")
    program = Program(Right.READ)
    for name, value, words in (
        ("run", "999", f"There is no self-play run 999. The newest are: {run.pk}."),
        ("run", "x", "There is no self-play run x"),
        ("bot", "elisa", "None of these runs includes the bot “elisa”. Available: eliza."),
        ("column", "word_bot", "No metric has the column “word_bot”. Available in these runs:"),
    ):
        page = staff.get(address(f"?{name}={value}"))
        assert page.status_code == 200
        assert words in text_of(page.content.decode())
        refused = program.get("runs/compare", **{f"{name}s": value})
        assert refused.status_code == 422
        [mistake] = refused.json()["error"]["mistakes"]
        assert mistake["path"] == f"{name}s"
        assert words in mistake["message"]
    names = [one.name for one in runs_compared(RunComparisonParams()).every_measure]
    assert len(names) > MOST_COLUMNS
    refused = program.get("runs/compare", columns=",".join(names))
    assert refused.status_code == 422
    assert f"{MOST_COLUMNS} can be compared" in refused.json()["error"]["message"]
    more = [SelfPlayRun.objects.create(plan=run.plan, state="done").pk for _ in range(MOST_RUNS)]
    refused = program.get("runs/compare", runs=",".join(map(str, [run.pk, *more])))
    assert refused.status_code == 422
    assert f"{MOST_RUNS} can be compared" in refused.json()["error"]["message"]


def test_the_call_gives_the_numbers_of_the_page(staff: Client) -> None:
    runs = [played("eliza", "parrot"), played("eliza", seed=8)]
    text = ",".join(str(run.pk) for run in runs)
    body = Program(Right.READ).get("runs/compare", runs=text, columns="words_bot").json()
    page = staff.get(address(f"?run={runs[0].pk}&run={runs[1].pk}&column=words_bot")).context["found"]
    assert body["level"] == 0.95
    assert [run["id"] for run in body["runs"]] == [run.pk for run in page.runs]
    assert body["runs"][0]["settings"] == {
        "seed": 8, "conversations": 4, "turns": 4, "pairs": "self", "openers": [], "study": "",
    }  # fmt: skip
    assert [column["name"] for column in body["columns"]] == ["words_bot"]
    assert (body["differ"], body["versions_differ"], body["repeated"]) == (["seed"], [], [])
    for told, side in zip(body["sides"], page.sides, strict=True):
        mean = side.means[0].interval
        assert (told["bot"], told["run"], told["n"]) == (side.bot_id, side.run.pk, side.n)
        assert told["version"] == side.run.plan["identities"][side.bot_id]["key"]
        [one] = told["means"]
        assert (one["mean"], one["low"], one["high"]) == (mean.mean, mean.low, mean.high)
        assert (one["n"], one["n_measured"]) == (4, 4)


def test_more_runs_and_conversations_ask_the_database_no_more_often(staff: Client) -> None:
    asked = []
    for n in (2, 6):
        played("eliza", "parrot", n_conversations=n, seed=n)
        staff.get(address())
        with CaptureQueriesContext(connection) as queries:
            staff.get(address())
        asked.append(len(queries))
    assert asked[0] == asked[1]
