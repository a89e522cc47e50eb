"""What the analysis of a study says, against the numbers it was made of."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from io import StringIO
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from django.core.management import call_command
from scipy import stats

from evaluation.analysis.correlations import Correlation, CorrelationRow
from evaluation.analysis.planning import PredictionWorth, plan_raters
from evaluation.stats.anova import anova
from tests.webapp.dashboard.analysis.conftest import BOTS, TABLE, records, section_of
from webapp.dashboard.charts.figure import PageTable
from webapp.dashboard.charts.matrix import matrix_figure
from webapp.dashboard.narrative.comparisons import planning_table
from webapp.dashboard.narrative.phrases import Section
from webapp.dashboard.narrative.trajectories import point_table
from webapp.dashboard.report_sections import hybrid_part
from webapp.jobs.models import HybridFit
from webapp.jobs.selectors.analysis_tables import VOTES, turn_values
from webapp.results.compute import study_correlations, study_trajectories
from webapp.results.study_data import StudyData, study_data, study_frame
from webapp.studies.bot_columns import BotColumns, bot_columns_read
from webapp.studies.models import Study


def frame() -> pd.DataFrame:
    """Return the ratings as they went in."""
    return pd.DataFrame([{"bot": r["bot"], "id": r["dialogue_id"], **r["ratings"][0]} for r in records()])


def table_of(section: Section, id: str) -> PageTable:
    return next(part.table for part in [*section.figures, *section.tables] if part.id == id)


def cells(table: PageTable) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_verdicts_say_who_is_better_and_what_it_takes(data: StudyData) -> None:
    section = section_of(data, "comparisons")
    means = frame().groupby("bot")["quality"].mean()
    best, second = sorted(("alpha", "beta"), key=lambda bot: -means[bot])
    assert data.rated_bots[:3] == [best, second, "gamma"]
    words = " ".join([*section.lead, *section.points])
    assert "do not differ significantly with 16 raters each. About" in words
    assert f"{second} is rated higher than gamma, difference {means[second] - means['gamma']:.2f} [" in words
    assert "The control bad is rated below 3 of 3 other bots." in words
    pairs = {row[0]: row for row in cells(table_of(section, "differences"))}
    assert len(pairs) == 6
    assert pairs[f"{best} − bad"][1] == f"{means[best] - means['bad']:.2f}"
    assert "coloured where the two can be put in order" in section.figures[0].method


def test_planning_is_the_power_of_the_t_test(data: StudyData) -> None:
    (row,) = cells(planning_table(study_frame(data.study, data.facts), plan_raters(data.ratings, [1.0])).table)
    variances = frame().groupby("bot")["quality"].var().drop("bad")
    alpha = 0.10 / 3  # three pairs of bots that are no control

    def power(k: int, sd: float) -> float:
        limit = stats.t.ppf(1 - alpha / 2, 2 * (k - 1))
        return stats.nct.sf(limit, 2 * (k - 1), np.sqrt(k / 2) / sd)

    ends = [int(n.replace(",", "")) for n in row[2].split(" to ")]
    pairs = [np.sqrt(variances[list(pair)].mean()) for pair in combinations(variances.index, 2)]
    # Every rater rated every bot once, so that a bot's spread is that of its column.
    for n, sd in zip(ends, (min(pairs), max(pairs)), strict=True):
        assert n == pytest.approx(next(k for k in range(2, 500) if power(k, sd) >= 0.8), abs=2)
    assert int(row[3].split(" to ")[-1]) < ends[-1]  # raters who rate both need fewer


def test_where_nobody_is_named_words_are_of_conversations(data: StudyData) -> None:
    ratings = data.ratings
    unnamed = replace(data, ratings=replace(ratings, rater=np.full(len(ratings), None, dtype=object)))
    section = section_of(unnamed, "comparisons")
    words = " ".join([*section.lead, *section.how, *section.points])
    assert "with conversations as a random effect, for raters are not named" in words
    assert "do not differ significantly with 16 conversations each" in words
    planning = next(table for table in section.tables if table.id == "planning")
    shown = " ".join([planning.title, planning.method, planning.note])
    assert "ater" not in shown.replace("greater", "")
    assert [header.text for header in planning.table.headers][2:] == ["Conversations needed"]


def test_planning_shows_what_a_prediction_saves_and_for_which_bots(data: StudyData) -> None:
    around, plan = study_frame(data.study, data.facts), plan_raters(data.ratings, [1.0])
    (row,) = cells(planning_table(around, plan).table)
    shown = planning_table(around, plan, PredictionWorth(10.0, ("alpha", "gamma")))
    (helped,) = cells(shown.table)
    assert [column.text for column in shown.table.headers][3] == "with the prediction"
    assert [*helped[:3], helped[4]] == row
    [without, with_it] = [[int(n) for n in one.split(" to ")] for one in helped[2:4]]
    assert with_it == [pytest.approx(n - 10, abs=1) for n in without]
    assert "further bots like alpha and gamma" in shown.note
    assert "about 10 ratings a bot" in shown.note


def test_models_use_the_factors_of_the_researchers_table(data: StudyData) -> None:
    section = section_of(data, "models")
    found = table_of(section, "anova")
    values = frame()
    values = values[values["bot"] != "bad"]
    levels = {
        "corpus": values["bot"].map({"alpha": "reddit", "beta": "reddit", "gamma": "cornell"}),
        "EI": values["bot"].map({"alpha": "EI", "beta": "plain", "gamma": "plain"}),
    }
    expected = anova(
        (values["quality"] + values["fluency"]).to_numpy(),
        {name: list(column) for name, column in levels.items()},
        values["rater"].tolist(),
        max_order=1,
    )
    rows = {row[0].text: row for row in found.rows}
    assert rows["corpus"][4].raw[0] == pytest.approx(expected.term("corpus").f)
    assert rows["EI"][5].raw[0] == pytest.approx(expected.term("EI").p)
    assert "Main effects only" in section.tables[0].method
    assert {table.id for table in section.tables} == {"anova", "marginals", "mixed", "ordinal"}
    assert [row[0] for row in cells(table_of(section, "mixed"))] == data.rated_bots[:3]


def test_without_factors_bots_are_compared_and_the_reason_is_told(study: Study) -> None:
    data = study_data(study, own=bot_columns_read(b"bot,corpus\nalpha,reddit\nbeta,cornell\n", list(BOTS)))
    assert data is not None
    section = section_of(data, "models")
    assert cells(table_of(section, "anova"))[0][0] == "bot"
    assert any("it is unknown for bad and gamma" in why for why in section.missing)
    study.refresh_from_db()
    assert BotColumns.from_json(study.bot_columns).source == "bots.csv"  # a report stores nothing


def test_agreement_zscores_and_filters(data: StudyData) -> None:
    section = section_of(data, "raters")
    rows = cells(table_of(section, "agreement"))
    same = [row for row in rows if row[2] == "the same conversation"]
    assert {row[3] for row in same} == {"–"}  # one rater each: undefined, not 0
    about = [row for row in rows if row[:3] == ["Quality", "ICC(1), one rater", "the same bot"]]
    assert 0 < float(about[0][3]) < 1
    assert any("no rater has 10 ratings" in why for why in section.missing)
    rules = {row[0].text: row for row in table_of(section, "filters").rows}
    assert rules["Control not rated lower"][1].raw[0] + rules["Control not rated lower"][2].raw[0] > 0
    assert rules["Faster than reading allows"][3].why == "no times given"


def test_turn_values_are_by_exchange(data: StudyData) -> None:
    chats = data.per_conversation
    found = turn_values(data.conversations, list(chats.index), [VOTES, "words_user", "laughter_user"])
    assert set(found) == {VOTES, "words_user"}  # nothing is known of laughter
    good = chats.index[chats["quality"] == 7][0]
    assert found["words_user"][good] == [7.0] * 4
    assert all(vote in (0.0, 1.0) for vote in found[VOTES][good])


def test_the_best_write_more_and_votes_are_drawn(data: StudyData) -> None:
    section = section_of(data, "trajectories")
    by_id = {figure.id: figure for figure in section.figures}
    rows = by_id["best-worst"].table.rows
    assert {row[1].text for row in rows if row[0].text == "Words, participant"} == {"best 24", "worst 24"}
    first = {row[1].text: row[3].raw[0] for row in rows if row[0].text == "Words, participant" and row[2].raw == (1,)}
    assert first["best 24"] > first["worst 24"] + 1
    assert "Best and worst conversations: 48 conversations rated; 100 best and 100 worst need 200." in section.missing
    missing = next(row for row in rows if row[0].text == "Sentiment, participant")
    assert "not computed yet" in missing[1].why
    assert {row[1].text for row in by_id["by-trait"].table.rows} >= {"plain", "EI"}
    assert any(point.startswith("Words, participant:") for point in section.points)


def test_the_best_and_the_worst_differ_in_what_they_were_made_to_differ_in(data: StudyData) -> None:
    found = study_trajectories(data).best_worst
    assert [len(group.conversations) for group in found.grouping.groups] == [24, 24]
    ratings = data.per_conversation["quality"]
    best, worst = (ratings.loc[list(group.conversations)] for group in found.grouping.groups)
    assert best.min() == found.grouping.lowest_best >= found.grouping.highest_worst == worst.max()
    contrasts = {measure.name: measure.contrast for measure in found.measures}
    told = contrasts["words_user"]
    assert told is not None
    assert told.direction == "higher"
    assert told.low is None  # the best all write equally much
    votes = contrasts["votes"]
    assert votes is not None
    assert votes.low is not None
    assert votes.high is not None
    assert votes.difference is not None
    assert votes.low < votes.difference < votes.high
    assert told.p is not None
    assert told.p_holm is not None
    assert told.p <= told.p_holm < 0.1
    assert contrasts["sentiment_user"] is None
    document = found.to_json()
    json.dumps(document, allow_nan=False)
    assert document["measures"]["words_user"]["courses"]["best"]["n"][0] == 24
    assert "words_user" in found.summary()


def test_a_trajectory_without_a_difference_says_that_none_is_shown(data: StudyData) -> None:
    rng = np.random.default_rng(2)
    answers = {**data.ratings.answers, "quality": rng.integers(1, 8, len(data.values))}
    data.ratings = replace(data.ratings, answers=answers)
    found = study_trajectories(data).best_worst
    assert {m.contrast.direction for m in found.measures if m.contrast} == {"none"}


def test_a_point_leads_to_the_conversations_it_is_the_mean_of(data: StudyData) -> None:
    points: list[tuple[str, str, int, int]] = []

    def link(*point: Any) -> str:
        points.append(point)
        return f"/point/{len(points) - 1}"

    section = section_of(data, "trajectories", point_link=link)
    behind = partial(point_table, study_frame(data.study, data.facts), study_trajectories(data))
    checked = 0
    for figure in section.figures:
        for row in figure.table.rows:
            if not row[5].href:
                continue
            found = behind(*points[int(row[5].href.rsplit("/", 1)[1])])
            assert found is not None
            values = [line[3].raw[0] for line in found.table.rows]
            assert len(values) == row[5].raw[0]
            assert np.mean(values) == pytest.approx(row[3].raw[0])
            assert {line[0].href.split("/")[-2] for line in found.table.rows} <= set(data.per_conversation.index)
            checked += 1
        assert '<a href="/point/' in figure.wide
    assert checked > 10
    assert behind("best-worst", "words_user", 0, 99) is None
    assert behind("best-worst", "words_user", 2, 1) is None
    assert behind("best-worst", "nothing", 0, 1) is None
    assert behind("other", "words_user", 0, 1) is None


def test_the_three_matrices(data: StudyData) -> None:
    section = section_of(data, "correlations")
    assert [figure.id for figure in section.figures] == ["dimensions", "metrics-dimensions", "bots-dimensions"]
    values = frame()
    rho = stats.spearmanr(values["quality"], values["fluency"]).statistic
    assert table_of(section, "dimensions").rows[0][2].raw[0] == pytest.approx(rho)
    words = {(row[0].text, row[1].text): row for row in table_of(section, "metrics-dimensions").rows}
    assert words["Words, participant", "Quality"][2].raw[0] > 0.5
    assert words["Words, participant", "Quality"][6].text == "yes"
    assert words["Question score, bot", "Quality"][2].why == "one side is constant"
    bots = {(row[0].text, row[1].text): row for row in table_of(section, "bots-dimensions").rows}
    means = values.groupby("bot")["quality"].mean()[["alpha", "beta", "gamma"]]
    r = np.corrcoef([20, 25, 40], means)[0, 1]
    assert bots["ppl (of the bot)", "Quality"][2].raw[0] == pytest.approx(r)
    assert any("no finished self-play run" in why for why in section.missing)


def test_a_matrix_shows_what_matters_first_and_all_on_demand(data: StudyData) -> None:
    found = study_correlations(data).metrics
    assert found is not None
    first = found.first_rows(2)
    sizes = {i: abs(cell.r) for (i, j), cell in found.cells.items() if j == 0 and cell.r is not None}
    assert [sizes[i] for i in first] == sorted(sizes.values(), reverse=True)[:2]
    rows = [CorrelationRow("hybrid", "hybrid_chats"), *found.rows]
    cells = {(i + 1, j): cell for (i, j), cell in found.cells.items()} | {
        (0, j): Correlation(None, None, None, None, 0) for j in range(len(found.columns))
    }
    with_hybrid = replace(found, rows=tuple(rows), cells=cells)
    assert with_hybrid.first_rows(2) == [0, *(i + 1 for i in first)]

    drawn = matrix_figure(
        [f"m{i}" for i in range(3)],
        ["Quality"],
        {(i, 0): found.cells[0, 0] for i in range(3)},
        id="m",
        title="t",
        method="m",
        symbol="r",
        first=([2], "chosen"),
    )
    assert "m2" in drawn.wide
    assert "m1" not in drawn.wide
    assert drawn.more is not None
    assert all(f"m{i}" in drawn.more.wide for i in range(3))
    assert {row[0].text for row in drawn.table.rows} == {"m0", "m1", "m2"}


def test_the_matrices_are_a_result_of_numbers(data: StudyData) -> None:
    found = study_correlations(data)
    document = found.to_json()
    json.dumps(document, allow_nan=False)
    assert (document["fit"], document["run"]) == (None, None)
    values = frame()
    rho = stats.spearmanr(values["quality"], values["fluency"]).statistic
    (cell,) = document["dimensions"]["cells"]
    assert cell["r"] == pytest.approx(rho)
    assert (cell["row"], cell["column"]) == ("quality", "fluency")
    words = next(
        cell for cell in document["metrics"]["cells"] if (cell["row"], cell["column"]) == ("words_user", "quality")
    )
    assert words["survives"]
    assert words["n"] == 48  # the control is left out
    assert words["within_bots"]["r"] is not None
    assert {cell["source"] for cell in document["bots"]["cells"]} == {"bot", "chats"}
    assert found.bots is not None
    assert document["bots"]["n_corrected"] == len(document["bots"]["cells"])
    assert "words_user" in found.bots.summary()


def test_without_a_fit_the_command_is_named(data: StudyData) -> None:
    assert "manage.py fit_hybrid --study analysed" in hybrid_part(study_frame(data.study, data.facts)).missing[0]


def test_a_stored_fit_stands_with_its_figures_and_rivals(data: StudyData) -> None:
    call_command(
        "fit_hybrid", *("--study=analysed", "--features=words_user", "--intercept=common", "--json"), stdout=StringIO()
    )
    section = hybrid_part(study_frame(data.study, data.facts))
    assert not section.missing
    fit = HybridFit.objects.get(study=data.study)
    found = {part.id: part.table for part in [*section.figures, *section.tables]}
    assert {f"scatter-{fit.pk}", f"weights-{fit.pk}", f"predictors-{fit.pk}"} <= set(found)
    assert fit.result is not None
    by_title = {row[0].text: row for row in found[f"scatter-{fit.pk}"].rows}
    assert by_title["gamma"][2].text == f"{fit.result['bots']['gamma']['human_mean']:.2f}"
    assert "4 bots are rated, and 5 are the fewest that say anything: any order" in section.caution
    fewer = hybrid_part(study_frame(data.study, data.facts, without=["fast"]))
    assert not fewer.figures
    assert "fit_hybrid --study analysed --without fast`" in fewer.missing[0]


def test_the_table_of_the_tests_marks_the_control() -> None:
    assert bot_columns_read(TABLE, list(BOTS)).control == {"bad"}
