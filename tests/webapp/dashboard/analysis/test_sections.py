"""What the analysis of a study says, against the numbers it was made of."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluation.analysis.planning import plan_raters
from evaluation.stats.anova import anova
from tests.webapp.dashboard.analysis.conftest import records, section_of
from webapp.dashboard.charts.figure import PageTable
from webapp.dashboard.narrative.comparisons import planning_table
from webapp.dashboard.narrative.phrases import Section
from webapp.dashboard.narrative.trajectories import point_table
from webapp.results.compute import study_trajectories
from webapp.results.study_data import StudyData, study_frame


def frame() -> pd.DataFrame:
    """Return the ratings as they went in."""
    return pd.DataFrame([{"bot": r["bot"], "id": r["dialogue_id"], **r["ratings"][0]} for r in records()])


def table_of(section: Section, id: str) -> PageTable:
    return next(part.table for part in [*section.figures, *section.tables] if part.id == id)


def cells(table: PageTable) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


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
