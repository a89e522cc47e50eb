"""One study, one result: every page, the report and the command tell the same numbers."""

import csv
import json
import re
from base64 import b64decode
from html import unescape
from io import StringIO
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

import confab
from evaluation.analysis.comparisons import compare
from evaluation.hybrid.levels import significant_pairs
from evaluation.hybrid.summary import summary_of
from evaluation.number_format import figure, percent, probability, share, span
from tests.webapp.dashboard.analysis.conftest import section_of
from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation, Turn
from webapp.dashboard.render import latex_text, markdown_text
from webapp.insights.narrative.hybrid import hybrid_view
from webapp.insights.narrative.phrases import glossary_terms
from webapp.insights.selectors import study_cards
from webapp.jobs.engine import run_job
from webapp.jobs.models import HybridFit, SelfPlayConversation, SelfPlayRun
from webapp.jobs.selectors.jobs import jobs_unfinished
from webapp.jobs.services.fits import metric_run_create
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_bots
from webapp.results.bot_means import bot_summary
from webapp.results.study_data import study_data
from webapp.studies.models import Study
from webapp.transfer.import_file import import_conversations

BOTS = [f"bot{number}" for number in range(7)]
N_RATERS, N_UNNAMED = 9, 2
FEATURES = "words_user,question_bot"


def words(rng: np.random.Generator, n: float) -> str:
    return " ".join(rng.choice(["tea", "rain", "music", "walk"], size=max(1, round(n))))


def compute(**where: Any) -> None:
    job = metric_run_create(**where, metrics=["words", "length", "question"], enqueue=False)
    run_job(job)


@pytest.fixture(scope="module")
def imported(rows_of_file: None, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Make a study of seven bots rated by nine named people each, and twice by nobody who is named."""
    rng = np.random.default_rng(4)
    path = tmp_path_factory.mktemp("one") / "records.jsonl"
    with path.open("w") as file:
        for level, bot in enumerate(BOTS):
            for number in range(N_RATERS + N_UNNAMED):
                turns = []
                for _ in range(3):
                    said = words(rng, 2 + level * 0.7 + rng.normal())
                    asks = "?" if rng.random() < 0.4 else "."
                    turns.append({"speaker": "human", "text": said})
                    turns.append({"speaker": "bot", "text": words(rng, 4) + asks})
                value = 2 + level * 0.5 + rng.normal()
                answers = {
                    name: int(np.clip(round(value + rng.normal() * 0.6), 1, 7))
                    for name in ("fluency", "quality")  # the question about the whole stands last
                }
                rater = {"rater": f"w{number}"} if number < N_RATERS else {}
                record = {"dialogue_id": f"{bot}-{number}", "bot": bot, "turns": turns}
                file.write(json.dumps({**record, "ratings": [{**rater, **answers}]}) + "\n")
    import_conversations(path, study_key="one", scale=(1, 7))
    results = Study.objects.get(key="one")
    compute(study=results)
    return results


@pytest.fixture
def study(imported: Study, db: Any) -> Study:
    """Return that study as it is before any test."""
    return Study.objects.get(pk=imported.pk)


@pytest.fixture(scope="module")
def run(imported: Study) -> SelfPlayRun:
    """Make the bots' conversations with themselves, which say the opposite of those with people."""
    rng = np.random.default_rng(5)
    run = SelfPlayRun.objects.create(plan={"bots": BOTS, "identities": {}}, state=SelfPlayRun.State.DONE)
    for level, bot in enumerate(BOTS):
        version = BotVersion.objects.get(bot_id=bot)
        for number in range(4):
            conversation = Conversation.objects.create(
                bot=version, source=Conversation.Source.SELFPLAY, state=Conversation.State.COMPLETED
            )
            Turn.objects.bulk_create(
                Turn(
                    conversation=conversation,
                    index=index,
                    speaker=Turn.Speaker.BOT if index % 2 else Turn.Speaker.HUMAN,
                    text=words(rng, 9 - level + rng.normal()),
                )
                for index in range(6)
            )
            SelfPlayConversation.objects.create(run=run, bot_id=bot, ordinal=number, conversation=conversation)
    compute(run=run)
    return run


@pytest.fixture(scope="module")
def result(run: SelfPlayRun) -> dict[str, Any]:
    """Fit the study with the run, as the command prints it."""
    return fit("--run", str(run.pk))


@pytest.fixture(scope="module")
def report_file(result: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report of that fit."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    call_command("report", "--study", "one", "--output", str(path), stdout=StringIO())
    return path


def fit(*args: str) -> dict[str, Any]:
    out = StringIO()
    call_command(
        "fit_hybrid", *("--study", "one", "--features", FEATURES, "--json", *args), stdout=out, stderr=StringIO()
    )
    document: dict[str, Any] = json.loads(out.getvalue())
    return document


def text_of(html: str) -> str:
    """Return what a reader reads of a page."""
    html = re.sub(r"<(script|style)\b.*?</\1>", " ", html, flags=re.S)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def read(staff: Client, route: str, **query: str) -> str:
    """Return the text of a page of the study, once what it had to wait for is there."""
    address = reverse(f"dashboard:{route}", args=["one"])
    answer = staff.get(address, query)
    if jobs := jobs_unfinished():
        for job in jobs:
            run_job(job)
        answer = staff.get(address, query)
    return text_of(answer.content.decode())


def report(tmp_path: Path) -> str:
    path = tmp_path / "report.html"
    call_command("report", "--study", "one", "--output", str(path), stdout=StringIO())
    return text_of(path.read_text())


def test_every_page_tells_the_numbers_of_the_command(
    staff: Client, study: Study, result: dict[str, Any], report_file: Path
) -> None:
    pearson, played = result["bot_level"]["pearson"], result["bot_level_selfplay"]["pearson"]
    summary = bot_summary(study)
    overview, bots = read(staff, "study"), read(staff, "study_results")
    comparisons, models = (read(staff, "study_results", part="comparisons"), read(staff, "study_why", part="models"))
    correlations = read(staff, "study_why", part="correlations")
    hybrid, told = read(staff, "study_prediction"), text_of(report_file.read_text())

    # Raters: people who are named, on every page alike.
    assert f"Raters {N_RATERS} " in overview
    by = f"by {N_RATERS} raters and {N_UNNAMED * 7} conversations without a rater ID"
    assert by in models
    assert by in told
    assert f"{N_RATERS} people rated" in told
    data = study_data(study)
    assert data.ratings.n_raters == N_RATERS
    best = next(bot for bot in summary.bots if bot.bot.bot_id == data.rated_bots[0])
    quality = best.intervals["quality"]
    assert (
        f"{best.bot.title} is rated highest, with a mean quality of {figure(quality.mean)} of 7, 95 % interval "
        f"{figure(quality.low)} to {figure(quality.high)}." in told
    )

    # Pairs that people can tell apart: one test, one correction.
    apart, pairs = summary.compared.n_told_apart, summary.compared.n_pairs
    assert 0 < apart < pairs == 21
    assert (result["pairs"]["resolvable"], result["pairs_selfplay"]["resolvable"]) == (apart, apart)
    said = f"Clearly different in “Quality”: {apart} of {pairs} pairs of bots."
    assert said in comparisons
    assert said in told
    assert said in bots
    assert "do not differ significantly (fixed-sample test, Holm, p < .05)" in bots
    for page in (hybrid, told):
        assert f"of the {apart} pairs that differ significantly (fixed-sample test, Holm, p < .05)" in page
    assert "pairs can be put in order" not in models + told

    # Each difference by least squares with its interval, on the page, in the report and in its tables to paste.
    links = re.findall(r'base64,([^"]+)" download="([^"]+)"', report_file.read_text())
    texts = {name: b64decode(text).decode() for text, name in links}
    latex, markdown = (texts[f"one-differences.{kind}"] for kind in ("tex", "md"))
    rows = {row[0]: row for row in csv.reader(StringIO(texts["one-differences.csv"]))}
    titles = {bot.bot.bot_id: bot.bot.title for bot in summary.bots}
    order = [*summary.compared.order, *summary.compared.controls]
    for better, worse in combinations(order, 2):
        pair = summary.compared.pair(better, worse)
        sign = 1 if pair.a == better else -1
        gap = figure(sign * pair.difference)
        ends = span(*sorted((sign * pair.low, sign * pair.high)))
        p, p_holm = (probability(one).removeprefix("p ").removeprefix("= ") for one in (pair.p, pair.p_holm))
        cells = [f"{titles[better]} − {titles[worse]}", gap, ends, p, p_holm]
        for page in (comparisons, told):
            assert " ".join(cells) in page
        assert " & ".join(map(latex_text, cells)) in latex
        assert " | ".join(map(markdown_text, cells)) in markdown
        assert float(rows[cells[0]][1]) == pytest.approx(sign * pair.difference)

    # r with its intercept, from people's conversations and from self-play.
    assert result["intercept"] == "common"
    r, on_selfplay = share(pearson["r"]), share(played["r"])
    ends = span(*pearson["ci95"], shares=True)
    assert f"{r} {ends} 95 % interval over 7 bots, one intercept for all folds." in hybrid
    for page in (hybrid, told):
        assert f"Hybrid metric bots {r} {ends} {share(pearson['null95'])} " in page
        assert f"Hybrid metric bots, from self-play {on_selfplay} " in page
        assert "The prediction is " in page
    # A number and its title stand in either order.
    assert f"{r} hybrid metric of quality, r over 7 bots, one intercept for all folds" in told or (
        f"hybrid metric of quality, r over 7 bots, one intercept for all folds {r}" in told
    )

    # The same r stands in the matrix over bots.
    rows = matrices(study)["bots-dimensions"]
    assert rows["Hybrid metric (rated chats)", "Quality"] == r
    assert rows["Hybrid metric (self-play)", "Quality"] == on_selfplay
    assert "Hybrid-metric rows come from fit" in correlations


def test_values_and_intervals_are_the_same_on_the_page_in_the_report_and_in_a_notebook(
    staff: Client, study: Study, run: SelfPlayRun, tmp_path: Path
) -> None:
    result = fit("--run", str(run.pk), "--preset", "strong")
    hybrid, told = read(staff, "study_prediction"), report(tmp_path)
    summary = summary_of(result)
    titles = {bot: info.title for bot, info in study_bots(study).items()}
    for bot, one in result["bots"].items():
        ends = [span(*one["interval95"]), span(*one["interval95_new"])]
        line = next(line for line in summary.splitlines() if line.startswith(f"  {bot} "))
        for words in ends:
            assert words in line
        human, middle = figure(one["adjusted_mean"]), figure(one["predicted_fold"])
        row = f"{titles[bot]} people {human} {middle} {ends[0]} {ends[1]} {one['n_new']}"
        played = one["selfplay"]
        other = (
            f"itself {human} {figure(played['predicted_fold'])} {span(*played['interval95'])} "
            f"{span(*played['interval95_new'])} {played['n_new']}"
        )
        together = f"{figure(one['combined']['mean'])} {span(*one['combined']['ci95'])}"
        for page in (hybrid, told):
            assert row in page
            assert other in page
            assert together in page
        assert together in line
        assert f" {human} " in line
        assert f"by its fold's intercept {middle}, 95 % {ends[0]}" in line
    for page in (hybrid, told, summary):
        for value in (share(result["q2"]["value"]), figure(result["mae"])):
            assert value in page
        assert f"{result['ratings_worth']['stated']:.0f} ratings" in page
        assert figure(result["values_selfplay"]["mae"]) in page
        for one in result["selfplay_shifts"].values():
            assert share(one["shift"]) in page

    for page in (hybrid, told, summary):
        assert share(result["slope"]["value"]) in page
        assert share(result["partial_r"]["r"]) in page
        assert share(result["within_bots"]["r"]) in page
        for one in result["block_shares"].values():
            assert percent(one["share"]) in page

    # The report says how: with its equations, and the numbers of this fit.
    assert "by a Gaussian process with known noise" in told
    assert f"{len(result['features'])} metrics of conversations in the blocks" in told
    assert f"{result['n_conversations']} conversations of 7 bots" in told
    assert "V = θI + Σ_b τ_b K_b + N, μ flat" in told
    assert "θ ∈ {0.002, 0.01, 0.04, 0.15, 0.5}" in told

    # A notebook that reads the same study fits the same numbers.
    path = tmp_path / "exported.jsonl"
    options = ["--what", "conversations", "--format", "jsonl", "--output", str(path)]
    call_command("export", "--study", "one", *options, stdout=StringIO())
    notebook = confab.hybrid(confab.read(path), features=FEATURES.split(","), preset="strong").to_json()
    assert notebook["q2"]["value"] == pytest.approx(result["q2"]["value"], rel=1e-9)
    for bot, one in result["bots"].items():
        same = notebook["bots"][bot]
        for name in ("adjusted_mean", "predicted", "interval95", "interval95_new"):
            assert same[name] == pytest.approx(one[name], rel=1e-9)


def matrices(study: Study) -> dict[str, dict[tuple[str, str], str]]:
    """Return what each matrix of the study says of a row and a column."""
    data = study_data(study)
    assert data is not None
    return {
        figure.id: {(row[0].text, row[1].text): row[2].text for row in figure.table.rows}
        for figure in section_of(data, "correlations").figures
    }


def test_the_hybrid_metric_stands_in_the_matrices_with_every_dimension(study: Study, result: dict[str, Any]) -> None:
    view = hybrid_view(result, study_bots(study), lambda bot: "", {"fluency": "Fluency"})
    dimensions = {table.id: table.table for table in view.tables}["hybrid-dimensions"]
    table = {row[0].text: [cell.text for cell in row] for row in dimensions.rows}
    shown_in = matrices(study)
    rows = shown_in["bots-dimensions"]
    for key, title in (("quality", "Quality"), ("fluency", "Fluency")):
        over_bots = result["dimensions"][key]
        chats = result["dimensions_conversation_level"][key]
        shown = [
            share(over_bots["predicted"]["pearson"]["r"]),
            share(over_bots["predicted_selfplay"]["pearson"]["r"]),
            share(chats["spearman"]["r"]),
        ]
        assert [
            rows["Hybrid metric (rated chats)", title],
            rows["Hybrid metric (self-play)", title],
            shown_in["metrics-dimensions"]["Hybrid metric, leave-one-bot-out", title],
        ] == shown
        assert [table[title][1], table[title][3], table[title][5]] == shown


@pytest.mark.usefixtures("result")
def test_what_is_the_same_in_self_play_is_counted_once(study: Study) -> None:
    names = [row for row, column in matrices(study)["bots-dimensions"] if column == "Quality"]
    assert names.count("Words (self-play)") == 1
    assert not [name for name in names if "participant" in name and "self-play" in name]
    # With people they are two things.
    assert {"Words, participant (rated chats)", "Words, bot (rated chats)"} <= set(names)


@pytest.mark.usefixtures("result")
def test_a_fit_that_is_behind_the_ratings_says_so(staff: Client, study: Study) -> None:
    assert "There are new ratings since this fit." not in read(staff, "study_prediction")
    rating = Rating.objects.all()[0]
    rating.answers = {**rating.answers, "quality": 7}
    rating.save()
    assert "There are new ratings since this fit." in read(staff, "study_prediction")


def test_a_fit_says_by_which_test_people_tell_bots_apart_and_when_that_is_another_one(
    staff: Client, study: Study, tmp_path: Path
) -> None:
    changed = "The significance test has changed since this fit,"
    for rating in Rating.objects.filter(conversation__bot__bot_id__in=[BOTS[0], BOTS[-1]]):
        good = rating.conversation.bot.bot_id == BOTS[-1]
        rating.answers = {**rating.answers, "quality": 7 if good else 1}
        rating.save()
    closed = fit()
    assert closed["pairs"]["test"] == "fixed"
    assert changed not in read(staff, "study_prediction")
    Study.objects.filter(pk=study.pk).update(state=Study.State.COLLECTING)
    assert changed in read(staff, "study_prediction"), "other pages now tell pairs apart by the other"

    collecting = fit()
    page, told = read(staff, "study_prediction"), report(tmp_path)
    summary = bot_summary(Study.objects.get(pk=study.pk))
    assert collecting["pairs"]["test"] == summary.compared.test == "always"
    assert collecting["pairs"]["resolvable"] == summary.compared.n_told_apart
    assert 0 < collecting["pairs"]["resolvable"] <= closed["pairs"]["resolvable"]
    assert {finding["test"] for finding in collecting["verdict"]["findings"] if finding["code"] == "pairs"} == {
        "always"
    }
    text = "that differ significantly (always-valid test, Holm, p < .05)"
    assert changed not in page
    assert text in page
    assert text in told
    assert "test always" in summary_of(collecting)


def test_the_newest_fit_leads_everywhere_and_names_its_intercept(
    staff: Client, study: Study, run: SelfPlayRun, result: dict[str, Any], tmp_path: Path
) -> None:
    assert result["intercept"] == "common"
    result = fit("--run", str(run.pk), "--intercept", "fold")
    r = share(result["bot_level"]["pearson"]["r"])
    common = share(result["intercepts"]["common"]["bot_level"]["pearson"]["r"])
    hybrid, told = read(staff, "study_prediction"), report(tmp_path)
    assert "95 % interval over 7 bots, a separate intercept for each fold." in hybrid
    assert f"Hybrid metric bots {r} " in hybrid
    assert f"r, one intercept for all folds {common} " in hybrid
    assert "r over 7 bots, a separate intercept for each fold" in told
    assert matrices(study)["bots-dimensions"]["Hybrid metric (rated chats)", "Quality"] == r


def test_the_question_about_the_whole_is_the_target(staff: Client, study: Study, result: dict[str, Any]) -> None:
    assert result["target"] == "quality"
    form = staff.get(reverse("dashboard:study_prediction", args=["one"]) + "?new=1").context["form"]
    assert form.fields["targets"].initial == ["quality"]
    assert form["intercept"].value() in (None, "common")
    assert form.fields["intercept"].choices[0][0] == "common"
    # Without such a question an imported study is judged by the mean of all, and so is the fit.
    study.rubric.dimensions.filter(key="quality").update(key="charm")
    for rating in Rating.objects.all():
        rating.answers["charm"] = rating.answers.pop("quality")
        rating.save()
    result = fit()
    assert sorted(result["target"].split(",")) == ["charm", "fluency"]
    assert HybridFit.objects.order_by("-pk")[0].request["targets"] == result["target"].split(",")
    rows = matrices(study)["bots-dimensions"]
    assert rows["Hybrid metric (rated chats)", "Mean of all dimensions"] == share(result["bot_level"]["pearson"]["r"])


def test_every_reader_has_the_same_comparisons_and_explains_its_words(
    staff: Client, study: Study, result: dict[str, Any], report_file: Path
) -> None:
    summary, data = bot_summary(study), study_data(study)
    assert summary.compared is not None
    notebook = compare(data.ratings, plans=False)
    assert notebook == summary.compared
    assert tuple(data.rated_bots) == notebook.order
    assert significant_pairs(data.per_conversation, ["quality"], data.ratings).pairs == notebook.told_apart
    assert result["pairs"]["resolvable"] == notebook.n_told_apart
    assert study_cards(study, include_synthetic=False).n_raters == notebook.n_raters == N_RATERS
    pages = [read(staff, "study_results"), read(staff, "study_prediction")]
    pages += [read(staff, "study_why", part="models"), text_of(report_file.read_text())]
    for page in pages:
        for word, meaning in glossary_terms():
            assert f"{word} {meaning}" in page


def test_the_command_prints_the_models_and_the_raters_of_the_pages(
    staff: Client, study: Study, report_file: Path
) -> None:
    out = StringIO()
    call_command("report", "--study", "one", "--json", stdout=out, stderr=StringIO())
    document = json.loads(out.getvalue())
    text = text_of(report_file.read_text())
    models = document["models"]
    mixed, ordinal = models["mixed"], models["ordinal"]
    assert (models["n_raters"], models["n_unnamed"]) == (N_RATERS, N_UNNAMED * 7)
    said = [
        f"F({mixed['df1']}, {mixed['df2']}) = {figure(mixed['f'])}, {probability(mixed['p'])}",
        f"{percent(mixed['rater_share'])} of the variance around the bots’ means",
        f"F({ordinal['df']}, {figure(ordinal['df2'], 1)}) = {figure(ordinal['f'])}, {probability(ordinal['p'])}.",
        *(f"{bot['bot']} {figure(bot['mean'])} [" for bot in mixed["bots"]),
        *(f"{bot['bot']} {figure(bot['effect'])} [" for bot in ordinal["bots"]),
    ]
    (term,) = models["factorial"]["table"]["terms"]
    assert term["name"] == "bot"
    said.append(f"{term['df']} {figure(term['df2'], 1)} {figure(term['f'])} ")
    page = read(staff, "study_why", part="models")
    assert [words for words in said if words not in page or words not in text] == []

    raters = document["raters"]
    own_scales, screening = raters["own_scales"], raters["screening"]
    coefficients = [c for c in raters["agreement"]["coefficients"] if c["value"] is not None]
    assert coefficients
    said = [
        f"Rater filters would flag {screening['n_flagged']} of {screening['n_raters']} raters. "
        "No results on this page exclude any rater.",
        *(f"{bot['bot']} {figure(bot['mean'])} {figure(bot['own']['mean'])}" for bot in own_scales["bots"]),
        *(f"{share(c['value'])} {span(c['low'], c['high'], shares=True)}" for c in coefficients),
    ]
    assert "flagged" not in screening
    page = read(staff, "study_why", part="raters")
    assert [words for words in said if words not in page or words not in text] == []
    one_rater, of_bots = (
        next(share(c["value"]) for c in coefficients if c["coefficient"] == code) for code in ("icc_one", "icc_mean")
    )
    assert f"has a reliability of {one_rater} [" in page
    assert f"The mean over all raters of a bot has {of_bots}." in page
