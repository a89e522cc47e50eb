"""What the analysis of a study says, against the numbers it was made of; and the page Why with its uploads."""

import json
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from scipy import stats

from evaluation.analysis.planning import plan_raters
from evaluation.data.result_tables import PageTable
from evaluation.stats.anova import anova
from tests.builders import make_study
from tests.markup import flat
from tests.webapp.dashboard.analysis.conftest import records, section_of
from webapp.bots.models import BotVersion
from webapp.dashboard.views import why
from webapp.insights.narrative.comparisons import planning_table
from webapp.insights.narrative.phrases import Section
from webapp.insights.narrative.trajectories import point_table
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.results import cache
from webapp.results.cache import AnalysisKey
from webapp.results.compute import study_trajectories
from webapp.results.study_data import StudyData, study_frame
from webapp.studies.models import Study


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
    alpha = 0.05 / 3  # three pairs of bots that are no control

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
    words = " ".join([*section.lead, *section.methods, *section.points])
    assert "with conversations as a random effect, as there are no rater IDs" in words
    assert "do not differ significantly with 16 conversations each" in words
    planning = next(table for table in section.tables if table.id == "planning")
    text = " ".join([planning.title, planning.method, planning.note])
    assert "ater" not in text.replace("greater", "")
    assert [header.text for header in planning.table.headers][2:] == ["Conversations needed"]


def test_models_use_the_factors_of_the_researchers_table(data: StudyData) -> None:
    section = section_of(data, "models")
    result = table_of(section, "anova")
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
    rows = {row[0].text: row for row in result.rows}
    assert rows["corpus"][4].raw[0] == pytest.approx(expected.term("corpus").f)
    assert rows["EI"][5].raw[0] == pytest.approx(expected.term("EI").p)
    assert "Main effects only" in section.tables[0].method
    assert {table.id for table in section.tables} == {"anova", "marginals", "ordinal"}
    assert [row[0] for row in cells(table_of(section, "mixed"))] == data.rated_bots[:3]


def test_the_best_and_the_worst_differ_in_what_they_were_made_to_differ_in(data: StudyData) -> None:
    best_worst = study_trajectories(data).best_worst
    assert [len(group.conversations) for group in best_worst.grouping.groups] == [24, 24]
    ratings = data.per_conversation["quality"]
    best, worst = (ratings.loc[list(group.conversations)] for group in best_worst.grouping.groups)
    assert best.min() == best_worst.grouping.lowest_best >= best_worst.grouping.highest_worst == worst.max()
    contrasts = {measure.name: measure.contrast for measure in best_worst.measures}
    words_user = contrasts["words_user"]
    assert words_user.direction == "higher"
    assert words_user.low is None  # the best all write equally much
    votes = contrasts["votes"]
    assert votes.low < votes.difference < votes.high
    assert words_user.p <= words_user.p_holm < 0.1
    assert contrasts["sentiment_user"] is None
    document = best_worst.to_json()
    json.dumps(document, allow_nan=False)
    assert document["measures"]["words_user"]["courses"]["best"]["n"][0] == 24
    assert "words_user" in best_worst.summary()


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
            result = behind(*points[int(row[5].href.rsplit("/", 1)[1])])
            values = [line[3].raw[0] for line in result.table.rows]
            assert len(values) == row[5].raw[0]
            assert np.mean(values) == pytest.approx(row[3].raw[0])
            assert {line[0].href.split("/")[-2] for line in result.table.rows} <= set(data.per_conversation.index)
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
    assert words["Question score, bot", "Quality"][2].reason == "one side is constant"
    bots = {(row[0].text, row[1].text): row for row in table_of(section, "bots-dimensions").rows}
    means = values.groupby("bot")["quality"].mean()[["alpha", "beta", "gamma"]]
    r = np.corrcoef([20, 25, 40], means)[0, 1]
    assert bots["ppl (of the bot)", "Quality"][2].raw[0] == pytest.approx(r)
    assert any("needs a finished self-play run" in why for why in section.missing)


SECTIONS = ("models", "formula", "raters", "agreement", "trajectories", "correlations", "powered")
"""Those of a study of chats."""
CONCLUSIONS = (
    "The sum of the 2 ratings depends on",
    "Fit a model with your own formula",
    "Rater filters would flag",
    "Every conversation has only one rater",
    "Best 24 against worst 24",
    "correlate most strongly with quality",
    "All finished conversations are rated.",
)


def address(study: Study, part: str) -> str:
    return f"{reverse('dashboard:study_why', args=[study.key])}?part={part}"


def test_a_folded_section_tells_its_conclusion_and_all_are_computed(
    staff: Client, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = reverse("dashboard:study_why", args=[study.key])
    html = flat(staff.get(page, {"synthetic": "1"}).content.decode())
    for part, conclusion in zip(SECTIONS, CONCLUSIONS, strict=True):
        assert f'<a href="#{part}">' in html
        assert f'data-load="?part={part}&amp;only=1&amp;synthetic=1"' in html
        assert conclusion in html, part
    assert "<figure" not in html
    monkeypatch.setattr(cache, "DIRECT_RATINGS", 0)
    why._conclusion.cache_clear()
    html = flat(staff.get(page).content.decode())
    assert html.count("Being computed.") == len(SECTIONS) - 1
    assert "6 answers below are still being computed" in html
    parts = sorted(Job.objects.values_list("payload__part", flat=True))
    assert parts == ["answers", "correlations", "models", "powered", "raters", "trajectories"]
    for job in Job.objects.all():
        run_job(job)
    html = flat(staff.get(page).content.decode())
    assert "being computed" not in html.lower()
    assert all(conclusion in html for conclusion in CONCLUSIONS)


def test_a_conclusion_names_questions_and_bots_as_they_are_called_now(staff: Client, study: Study) -> None:
    page = reverse("dashboard:study_why", args=[study.key])
    assert "Excellence" not in staff.get(page, {"synthetic": "1"}).content.decode()
    study.rubric.dimensions.filter(key="quality").update(title="Excellence")
    assert "correlate most strongly with excellence" in flat(staff.get(page, {"synthetic": "1"}).content.decode())
    key = AnalysisKey(study, "models")
    as_it_was = key.state.digest, key.with_part("raters").state.digest
    study.rubric.dimensions.filter(key="quality").update(low_label="worst")
    assert AnalysisKey(study, "models").state.digest not in as_it_was
    staff.get(page)
    n_made = why._conclusion.cache_info().misses
    BotVersion.objects.filter(bot_id="alpha").update(title="Anna")
    staff.get(page)
    assert why._conclusion.cache_info().misses == n_made + len(SECTIONS) - 1  # none of an own formula


def test_a_difference_is_planned_for(staff: Client, study: Study) -> None:
    page = reverse("dashboard:study_results", args=[study.key]) + "?part=comparisons"
    html = staff.get(f"{page}&difference=0.5&power=0.9").content.decode()
    assert "Raters per bot, with one rating each, for a power of .90" in html
    assert "greater than or equal to" in staff.get(f"{page}&difference=-1").content.decode()


def test_a_table_of_bots_is_uploaded_refused_and_taken_away(staff: Client, study: Study) -> None:
    where = address(study, "correlations")
    for content, message in (
        (b"bot,ppl\nalfa,1\n", "line 2: the study has no bot &#x27;alfa&#x27;; did you mean alpha?"),
        (b"", "The file is empty"),
        (
            b"bot,ppl\n" + b"x" * 1_000_001,
            "The file has 1,000,009 bytes, but the limit for a table of bots is 1,000,000.",
        ),
    ):
        answer = staff.post(where, {"file": SimpleUploadedFile("t.csv", content)})
        assert answer.status_code == 400
        assert message in answer.content.decode()
    assert staff.post(where).status_code == 400
    good = SimpleUploadedFile("new.csv", b"bot,size\nalpha,3\nbeta,2\ngamma,1\n")
    assert staff.post(where, {"file": good}).status_code == 302
    html = flat(staff.get(where).content.decode())
    assert "Stored: new.csv; numbers: size" in html
    assert "size (of the bot)" in html
    staff.post(where, {"clear": "1"})
    study.refresh_from_db()
    assert study.bot_columns == {}


@pytest.mark.django_db
def test_a_study_without_ratings_says_so(staff: Client, client: Client) -> None:
    study = make_study("empty")
    for part in SECTIONS:
        assert b"No ratings yet" in staff.get(address(study, part)).content
    assert b"No ratings yet" in staff.get(reverse("dashboard:study_report", args=["empty"])).content
    assert staff.get(reverse("dashboard:study_report_file", args=["empty"])).status_code == 404
    for wrong in ("nothing", "items", "comparisons"):
        assert staff.get(address(study, wrong)).status_code == 404
    assert client.get(address(study, "models")).status_code == 302


def test_a_point_of_a_trajectory_has_a_page(staff: Client, study: Study) -> None:
    page = staff.get(reverse("dashboard:study_why", args=[study.key]) + "?part=trajectories")
    address = reverse("dashboard:study_point", args=[study.key, "best-worst", "words_user", 0, 1])
    assert f'<a href="{address}"' in page.content.decode()
    html = staff.get(address).content.decode()
    assert "Words, participant, exchange 1: best 24" in html
    assert "24 conversations, highest values first." in html
    assert html.count("/dashboard/conversations/") == 24
    for wrong in (["best-worst", "words_user", 0, 99], ["other", "words_user", 0, 1]):
        assert staff.get(reverse("dashboard:study_point", args=[study.key, *wrong])).status_code == 404
