"""Findings in words: models of ratings, raters, pairs, courses, fits; every outcome and reason has its sentence."""

import ast
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluation.analysis.comparisons import Comparisons
from evaluation.analysis.raters import RaterAnalysis, analyse_raters
from evaluation.analysis.rating_models import RatingModels, rating_models
from evaluation.analysis.trajectories import Grouping, TrajectoryGroup, trajectories
from evaluation.data.ratings import RatingDimension, Ratings
from evaluation.data.result_tables import NamedTable
from evaluation.findings import Reason, finding
from evaluation.hybrid.fit import fit_hybrid
from evaluation.hybrid.summary import summary_of
from evaluation.number_format import figure
from evaluation.stats.comparisons import Comparison
from evaluation.stats.power import PairPlan
from tests.architecture.source import modules
from tests.builders import frame_of
from tests.evaluation.hybrid.test_verdict import BETTER, UNKNOWN, WORSE, evidence, verdict
from webapp.insights.narrative.hybrid import HybridView, hybrid_view, target_in_words
from webapp.insights.narrative.hybrid_verdict import caution_sentences, verdict_text
from webapp.insights.narrative.models import models_section
from webapp.insights.narrative.phrases import Section, reason_text
from webapp.insights.narrative.raters import raters_section
from webapp.insights.narrative.reasons import FRAGMENTS
from webapp.insights.narrative.trajectories import column_titles, trajectories_section, verdict_sentence
from webapp.insights.narrative.verdicts import overall_verdict, pair_counts_sentence, pair_verdict, ranking_verdicts
from webapp.ratings.selectors import BotInfo
from webapp.results.compute import StudyTrajectories

pytestmark = pytest.mark.django_db  # titles of imported metrics are in the database
LEVELS = {"a": 5.0, "b": 4.4, "c": 3.9, "d": 3.0}
BOTS = {bot: BotInfo(bot, bot.upper(), slot, False) for slot, bot in enumerate(LEVELS, start=1)}
QUALITY = RatingDimension("quality", "Quality", 1, 7)
FACTORS = {
    "corpus": {"a": "reddit", "b": "reddit", "c": "cornell", "d": "cornell"},
    "EI": {"a": "EI", "b": "plain", "c": "EI", "d": "plain"},
}


def ratings(spread: float = 0.8, seed: int = 7) -> Ratings:
    """Make ratings by twenty-four people of every bot on two questions; they differ in kindness by `spread`."""
    rng = np.random.default_rng(seed)
    rows = []
    for rater in range(24):
        kind = rng.normal(0, spread) if spread else 0.0
        for bot, level in LEVELS.items():
            given = [float(np.clip(np.round(level + kind + rng.normal()), 1, 7)) for _ in range(2)]
            rows.append((f"{rater}-{bot}", bot, f"w{rater}", *given))
    table = pd.DataFrame(rows, columns=["conversation", "bot", "rater", "quality", "fluency"])
    return Ratings.from_frame(table, ["quality", "fluency"], scale=(1, 7))


def told(result: RatingModels) -> Section:
    return models_section(frame_of(BOTS, QUALITY), result)


def table(section: Section, id: str) -> NamedTable:
    return next(table for table in section.tables if table.id == id)


def test_factors_that_take_no_part_say_why() -> None:
    factors: dict[str, Any] = {
        **FACTORS,
        "size": {"a": "big", "b": "small"},
        "language": dict.fromkeys("abcd", "English"),
        "teacher": {"a": "x", "b": "y", "c": "y", "d": "x"},
        "decoder": {"a": "x", "b": "y", "c": "y", "d": "y"},
    }
    section = told(rating_models(ratings(), factors))
    assert section.missing == [
        "Factor “size” is not used: its value is unknown for C and D.",
        "Factor “language” is not used: all bots have the same value.",
        "Factor “decoder” is not used: at most 3 factors are analysed.",
    ]
    assert "Main effects only" in table(section, "anova").method


def test_effects_shown_and_not_shown_stand_in_one_sentence() -> None:
    results = rating_models(ratings(), FACTORS)
    corpus = results.factorial.table.term("corpus")
    (sentence, *_rest) = told(results).lead
    assert sentence.startswith("The sum of the 2 ratings depends on corpus (F(1, 23) = ")
    assert f"= {figure(corpus.f)}, p < .001)" in sentence
    assert sentence.endswith("; not shown: corpus × EI.")
    assert "All interactions." in table(told(results), "anova").method
    assert table(told(results), "anova").note.startswith("Raters gave several ratings each, so every")
    nameless = table(told(replace(results, n_unnamed=4)), "anova").note
    assert nameless.startswith("Some raters, or chats without a rater ID, have several ratings")
    flat = replace(
        results,
        factorial=replace(
            results.factorial,
            table=replace(
                results.factorial.table, terms=tuple(replace(term, p=0.5) for term in results.factorial.table.terms)
            ),
        ),
    )
    assert told(flat).lead[0] == (
        "No effect on the sum of the 2 ratings is significant, which does not prove that there is none."
    )


def test_models_that_cannot_be_fitted_say_why() -> None:
    every = ratings()
    one = every.select(every.rater == "w3")
    section = told(rating_models(one))
    assert "Mixed model: only one rater, so there is no conclusion about others." in section.missing
    assert "Ordinal model: too few raters (1 rater) to compare 4 bots." in section.missing
    alone = told(rating_models(every.select(every.bot == "a")))
    assert alone.missing[-1] == "A model needs at least two rated bots."
    assert alone.tables == []


RATER_LEVELS = {"a": 5.5, "b": 4.5, "c": 3.5, "d": 3.0, "bad": 1.5}
RATED_BOTS = {bot: BotInfo(bot, bot.upper(), slot, bot == "bad") for slot, bot in enumerate(RATER_LEVELS, start=1)}
DIMENSIONS = [RatingDimension(key, key.capitalize(), 1, 7) for key in ("quality", "fluency", "fun")]


def frame(raters: int = 12, per: int = 1) -> pd.DataFrame:
    """Make ratings by careful raters of five bots, `per` of them for each conversation, and one who clicks the
    middle.
    """
    rng = np.random.default_rng(5)
    rows = []
    for rater in range(raters):
        for bot, level in RATER_LEVELS.items():
            for time in range(2):
                given = np.clip(np.round(level + rng.normal(0, 0.8, 3)), 1, 7).tolist()
                rows.append((f"{rater // per}-{bot}-{time}", bot, f"w{rater}", *given))
    rows += [(f"x-{bot}", bot, "idle-idle-idle", 4.0, 4.0, 4.0) for bot in RATER_LEVELS]
    return pd.DataFrame(rows, columns=["conversation", "bot", "rater", "quality", "fluency", "fun"])


def analysed(table: pd.DataFrame) -> RaterAnalysis:
    keys = [dimension.key for dimension in DIMENSIONS]
    return analyse_raters(Ratings.from_frame(table, keys, scale=(1, 7), controls=["bad"]))


@pytest.fixture(scope="module")
def found_of_raters() -> RaterAnalysis:
    return analysed(frame())


def told_of_raters(result: RaterAnalysis, *, names: bool = True) -> Section:
    return raters_section(frame_of(RATED_BOTS, *DIMENSIONS), result, names=names)


def test_a_negative_reliability_has_two_digits_and_a_true_minus(found_of_raters: RaterAnalysis) -> None:
    agreement = replace(
        found_of_raters.agreement,
        coefficients=tuple(
            replace(coefficient, found=replace(coefficient.found, value=-0.7793))
            if coefficient.code == "icc_mean"
            else coefficient
            for coefficient in found_of_raters.agreement.coefficients
        ),
    )
    assert told_of_raters(replace(found_of_raters, agreement=agreement)).lead[1].endswith("raters of a bot has −.78.")


@pytest.mark.parametrize(
    ("rho", "words"),
    [
        (None, "On their own scales, the order of the bots cannot be compared."),
        (1.0, "On their own scales, the bots are in the same order."),
        (0.9, "On their own scales, the bots are in nearly the same order (ρ = .90)."),
        (0.2, "On their own scales, the bots are in a different order (ρ = .20)."),
    ],
)
def test_every_order_on_own_scales_has_its_sentence(
    found_of_raters: RaterAnalysis, rho: float | None, words: str
) -> None:
    assert found_of_raters.own_scales.order is not None
    scales = replace(found_of_raters.own_scales, order=replace(found_of_raters.own_scales.order, r=rho))
    sentence = told_of_raters(replace(found_of_raters, own_scales=scales)).lead[2]
    assert sentence == f"12 raters gave at least 10 ratings (120 of 125). {words}"


def test_the_flagged_are_named_with_their_reasons_or_only_counted(found_of_raters: RaterAnalysis) -> None:
    section = told_of_raters(found_of_raters)
    assert section.lead[-1] == ("Rater filters would flag 1 of 13 raters. No results on this page exclude any rater.")
    (row,) = table(section, "flagged").table.rows
    assert (row[0].text, row[1].text) == ("idle-idl", "5")
    reasons = row[2].text.split("; ")
    assert "the same answer to all questions in 100 % of 5 conversations" in reasons
    assert "answers vary by 0.0 % of the scale (standard deviation)" in reasons
    assert any(why.startswith("control rated 4.00, real bots 4.00: not clearly lower (p = ") for why in reasons)
    rules = {row[0].text: row for row in table(section, "filters").table.rows}
    assert rules["Faster than reading allows"][3].text == "13"
    assert rules["Faster than reading allows"][3].reason == "no times specified"
    bots = {row[0].text: row for row in table(section, "unflagged").table.rows}
    assert bots["A"][6].text == figure(4.0)
    assert [table.id for table in told_of_raters(found_of_raters, names=False).tables] == [
        *("agreement", "zscores", "filters", "unflagged")
    ]


def test_without_names_there_are_neither_scales_nor_filters() -> None:
    section = told_of_raters(analysed(frame().assign(rater=None)))
    assert section.missing == [
        "Scores on each rater’s own scale: the data have no rater IDs.",
        "Rater filters: the data have no rater IDs.",
    ]


def reasons_raised() -> Iterator[tuple[str, set[str | None]]]:
    """Yield the code and the names of the values of every reason in the source."""
    for module in modules("evaluation", "webapp"):
        for call in ast.walk(module.tree) if "Reason(" in module.text else ():
            is_one = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Reason"
            if is_one and isinstance(call.args[0], ast.Constant):
                yield ast.literal_eval(call.args[0]), {keyword.arg for keyword in call.keywords}


def test_every_code_in_the_source_has_words() -> None:
    codes = {code for code, _given in reasons_raised()}
    codes |= {"always_lowest", "always_highest"}
    assert codes == set(FRAGMENTS)


def test_a_reason_of_a_document_is_said_and_text_of_an_older_one_stays_as_it_is() -> None:
    reason = Reason("few_pairs", "only 2 of the 3 pairs", n_pairs=2)
    assert reason_text(reason.to_json()) == reason_text(reason) == ("only 2 of the 3 pairs that a correlation needs")
    assert reason_text("one side is constant") == "one side is constant"
    assert reason_text("{braces} in older text") == "{braces} in older text"


def test_every_fragment_takes_the_values_that_the_source_gives_it() -> None:
    """The names in a fragment's braces are keywords of every call that raises its code."""
    for code, given in reasons_raised():
        expected = {name for _text, name, *_ in Formatter().parse(FRAGMENTS[code]) if name}
        assert None in given or expected <= given, code  # None: values handed on as a whole


GROUPS = Grouping(
    "best-worst",
    (TrajectoryGroup("best", tuple("abcd")), TrajectoryGroup("worst", tuple("efgh"))),
    lowest_best=5.0,
    highest_worst=3.0,
    n_tied=(2, 1),
)


def values(rng: np.random.Generator, gap: float) -> dict[str, list[float | None]]:
    return {pk: [float(value) + (gap if pk in "abcd" else 0.0) for value in rng.normal(size=5)] for pk in "abcdefgh"}


def test_the_verdict_names_measures_by_direction() -> None:
    rng = np.random.default_rng(0)
    results = trajectories(
        GROUPS,
        {"words_user": values(rng, 9.0), "sentiment_user": values(rng, 0.0)},
        ["words_user", "sentiment_user", "votes"],
    )
    assert verdict_sentence(results, column_titles()) == (
        "Best 4 against worst 4: higher in “words, participant”; no significant difference in “sentiment, "
        "participant” (means of conversations, errors clustered by participant, p < .10 with Holm’s correction)."
    )
    nothing = trajectories(Grouping("by-trait", reason=Reason("no_trait", "none is known", traits="EI")), {}, [])
    quality = RatingDimension("quality", "Quality", 1, 7)
    section = trajectories_section(frame_of({}, quality), StudyTrajectories(results, nothing))
    (figure,) = section.figures
    assert "(5.00 and above, 3.00 and below)" in figure.method
    assert "Ties at the cut-offs (2 and 1 conversation) were drawn" in figure.note
    assert section.points[0].startswith("Words, participant: ")
    assert "unknown for these bots" in section.missing[0]
    votes = trajectories(GROUPS, {"votes": {pk: [None] * 5 for pk in "abcdefgh"}}, ["votes"])
    section = trajectories_section(frame_of({}, quality), StudyTrajectories(votes, nothing))
    assert verdict_sentence(votes, column_titles()) == section.conclusion == "", "no measure, no verdict"


@pytest.mark.parametrize(
    ("n_clear", "equal", "n_unknown", "said"),
    [
        (3, ["a and b", "b and c"], 1, "2 pairs."),
        (4, ["a and b", "b and c"], 1, "2 pairs (1 of them also clearly different)."),
        (5, ["a and b", "b and c"], 1, "2 pairs (all also clearly different)."),
        (5, ["a and b"], 1, "a and b (also clearly different)."),
    ],
)
def test_pairs_that_are_both_are_counted_once(n_clear: int, equal: list[str], n_unknown: int, said: str) -> None:
    told = pair_counts_sentence("“Quality”", n_clear, equal, n_unknown, 6, "0.6")
    assert f"(difference below 0.6): {said}" in told


NONE = Reason("no_rating", "no rating")
TITLES = {"a": "Ann", "b": "Bob", "c": "Cy"}


def pair(a: str, b: str, gap: float | None, *, ordered: bool, p: float | None = 0.5) -> Comparison:
    low, high = (None, None) if gap is None else (gap - 0.3, gap + 0.3)
    return Comparison(a, b, gap, low, high, p, p, ordered, None if p is not None else NONE)


def plan(needed: int | None, n_a: int = 40, n_b: int = 40, sd: float | None = 1.0) -> PairPlan:
    return PairPlan("a", "b", 0.1, -0.2, 0.4, sd, n_a, n_b, needed)


def compared(order: list[str], pairs: list[Comparison], plans: list[PairPlan] | None = None) -> Comparisons:
    quality = RatingDimension("quality", "Quality", 1, 7)
    return Comparisons(quality, 0.1, tuple(order), (), tuple(pairs), 40, 80, tuple(plans or ()), smallest=0.35)


@pytest.mark.parametrize(
    ("found", "planned", "said"),
    [
        (pair("a", "b", 0.4, ordered=True), None, "Ann is rated higher than Bob, difference 0.40 [0.10, 0.70]."),
        (pair("a", "b", -0.4, ordered=True), None, "Bob is rated higher than Ann, difference 0.40 [0.10, 0.70]."),
        (
            pair("a", "b", 0.1, ordered=False),
            plan(107),
            "Ann and Bob do not differ significantly with 40 raters each. It is not yet known which is better: the "
            "difference, Ann minus Bob, may be anywhere from −0.20 to 0.40. About 110 each would show a difference "
            "of 0.35.",
        ),
        (
            pair("a", "b", 0.1, ordered=False),
            plan(20_000, 40, 38),
            "Ann and Bob do not differ significantly with 38 and 40 raters. It is not yet known which is better: the "
            "difference, Ann minus Bob, may be anywhere from −0.20 to 0.40.",
        ),
        (
            pair("a", "b", 0.0, ordered=False),
            plan(107),
            "Ann and Bob are equal for practical purposes, with a difference below 0.35: the difference, Ann minus "
            "Bob, may be anywhere from −0.30 to 0.30.",
        ),
        (
            pair("a", "b", 0.4, ordered=False),
            plan(30),
            "Ann and Bob do not differ significantly with 40 raters each. After correction for all pairs, it is not "
            "yet known which is better: the difference, Ann minus Bob, may be anywhere from 0.10 to 0.70.",
        ),
        (
            replace(pair("a", "b", 0.2, ordered=True), low=0.1, high=0.3),
            None,
            "Ann is rated higher than Bob, difference 0.20 [0.10, 0.30]. Nevertheless, the two are equal for practical "
            "purposes (within ± 0.35).",
        ),
        (pair("a", "b", None, ordered=False, p=None), None, "Ann and Bob cannot be compared: no rating."),
    ],
)
def test_pairs(found: Comparison, planned: PairPlan | None, said: str) -> None:
    all_of_them = compared(["a", "b"], [found], [planned] if planned else None)
    assert pair_verdict(found, all_of_them, TITLES, 2) == said


def test_the_whole_and_neighbours() -> None:
    pairs = [pair("a", "b", 0.1, ordered=False), pair("a", "c", 0.9, ordered=True), pair("b", "c", 0.8, ordered=True)]

    def overall(*order: str) -> str:
        return overall_verdict(compared(list(order), pairs), TITLES)

    assert overall("a", "b", "c") == "First: Ann, not clearly better than Bob."
    assert overall("a", "c") == "First: Ann, clearly better than each of the other bots."
    assert overall("a", "b") == "First: Ann, but not clearly better than any other bot."
    assert "nothing to compare" in overall("a")
    many = [*"abcdefghi", "z"]
    close = [pair("a", other, 0.1, ordered=other == "z") for other in many[1:]]
    said_of_many = overall_verdict(compared(many, close), TITLES)
    assert said_of_many == "First: Ann, not clearly better than Bob, Cy and 6 more."
    said = ranking_verdicts(compared(["a", "b", "c"], pairs), TITLES, 1)
    assert said[0].startswith("Ann and Bob do not")
    assert said[1] == "Bob is rated higher than Cy, difference 0.8 [0.5, 1.1]."


@pytest.fixture(scope="module")
def table_of_fit() -> pd.DataFrame:
    """Make the table of a small study."""
    rng = np.random.default_rng(0)
    bots = np.repeat([f"bot{k}" for k in range(6)], 10)
    mean = np.repeat(np.arange(6.0), 10)
    table = pd.DataFrame(
        rng.normal(size=(60, 3)) + mean[:, None], columns=["words_user", "embedding_user_000", "embedding_user_001"]
    )
    return table.assign(bot=bots, conversation=range(60), quality=mean + rng.normal(size=60), n_turns=8.0)


@pytest.fixture(scope="module")
def result(table_of_fit: pd.DataFrame) -> dict:
    return fit_hybrid(table_of_fit, features=["words_user"], preset="paper").to_json()


def test_a_stored_fit_of_a_retired_preset_still_opens() -> None:
    stored = json.loads((Path(__file__).parents[3] / "cases" / "stored_fit_strong_2.json").read_text())
    view = hybrid_view(stored, {}, lambda bot: "")
    assert view.conclusion
    assert {"predictors", "checks"} <= {table.id for table in view.tables}
    assert "strong@2" in summary_of(stored)


def checks_of(view: HybridView) -> dict[str, tuple[str, str]]:
    """Return what the table of checks says of each."""
    tables = [table.table for table in view.tables if table.id == "checks"]
    return {row[0].text: (row[1].text, row[2].text) for table in tables for row in table.rows}


def test_the_verdict_stands_first_and_the_figures_follow_it(result: dict) -> None:
    view = hybrid_view(result, {}, lambda bot: "")
    assert f"{view.conclusion} {view.because}" == verdict_text(result["verdict"])
    # All bots have the same number of turns, so only words are a rival, and the feature is words.
    assert [tile.value for tile in view.tiles[1:]] == ["Not known", "Yes"]
    (predictors,) = [table.table for table in view.tables if table.id == "predictors"]
    metric, turns, words = predictors.rows[:3]
    assert (metric[5].raw, metric[7].text) == ((result["q2"]["value"],), "–")
    assert words[7].raw == (result["rivals"]["log_words"]["error_ratio"]["value"],)
    assert turns[0].text == "The number of turns"
    given = hybrid_view({**result, "held_against": "given"}, {}, lambda bot: "")
    for told in (given.figures["scatter"].note, *(table.method for table in given.tables if table.id == "predictors")):
        assert "current ratings" in told


def test_a_fit_stored_before_there_were_checks_still_shows(result: dict) -> None:
    new = ("verdict", "intercepts", "ceiling", "influence", "within_group", "q2")
    old = {name: value for name, value in result.items() if name not in new}
    old["bot_level_ci95_over_conversations"] = None
    old["folds"] = [{"bot": "bot0", "n": 50, "condition": 2.0}]
    view = hybrid_view(old, {}, lambda bot: "")
    assert f"{view.conclusion} {view.because}".strip() == view.caution
    assert not checks_of(view)


def test_a_prediction_beyond_the_scale_is_shown_as_it_is_and_said_to_be_there(result: dict) -> None:
    bot = next(iter(result["bots"]))
    bots = {**result["bots"], bot: {**result["bots"][bot], "predicted": 7.62}}
    caution = {"code": "beyond_scale", "bots": [bot], "low": 1.0, "high": 7.0}
    view = hybrid_view({**result, "bots": bots, "cautions": [caution]}, {}, lambda bot: "")
    rows = {row[0].text: row[4] for row in view.figures["scatter"].table.rows}
    assert (rows[bot].text, rows[bot].reason) == ("7.62", "above the scale maximum of 7")
    assert "above the scale maximum of 7" in view.figures["scatter"].wide
    (said,) = view.notes
    assert said.startswith(f"The prediction for {bot} is outside the rating scale of 1 to 7")


def test_bots_that_nobody_rated_have_a_figure_of_their_own(result: dict) -> None:
    assert "predictions" not in hybrid_view(result, {}, lambda bot: "").figures
    nobody = {"human_mean": None, "human_ci90": None, "predicted": None, "predicted_ci90": None}
    played = {"n": 0, "n_selfplay": 7, "predicted_selfplay": 3.0}
    ends = {"predicted_selfplay_ci90": [2.5, 3.5]}
    bots = {**result["bots"], "<new>": {**nobody, **played, **ends}}
    view = hybrid_view({**result, "bots": bots}, {}, lambda bot: "")
    assert "scatter-selfplay" not in view.figures
    unrated = view.figures["predictions"]
    assert [row[0].text for row in unrated.table.rows] == ["<new>"]
    assert "&lt;new&gt;" in unrated.wide
    assert "rated-span" in unrated.wide
    assert "<new>" not in [row[0].text for row in view.figures["scatter"].table.rows]
    assert "only the order is meaningful" not in unrated.method

    why = {"code": "selfplay_unchecked", "n_bots": 2, "needed": 4}
    bots["<new>"] = {**bots["<new>"], "predicted_selfplay_ci90": None, "reasons": [why]}
    view = hybrid_view({**result, "bots": bots}, {}, lambda bot: "")
    assert "only the order is meaningful" in view.figures["predictions"].method
    (table,) = [table for table in view.tables if table.id == "hybrid-expected"]
    (row,) = [row for row in table.table.rows if row[0].text == "<new>"]
    assert row[3].text == "–"
    assert table.note == (
        "<new>: the error of predictions from self-play is unknown: only 2 bots have ratings and self-play; 4 others "
        "are needed."
    )


@pytest.mark.parametrize(
    ("target", "dimensions", "words"),
    [
        ("quality", ["quality"], "quality"),
        ("quality,topic_fit", ["quality", "topic_fit", "fun"], "quality and topic fit"),
        ("a,b,c", ["a", "b", "c", "d"], "3 dimensions"),
        ("a,b", ["b", "a"], "all dimensions"),
    ],
)
def test_a_target_is_told_in_few_words(target: str, dimensions: list[str], words: str) -> None:
    assert target_in_words(target, dimensions) == words


def told_of_fit(*args: Any, **options: Any) -> str:
    return verdict_text(verdict(*args, **options).to_json())


@pytest.mark.parametrize(
    ("r", "ratio", "begins", "ends"),
    [
        (0.9, BETTER, "The prediction is clearly better than the length of conversations.", "optimise the metric."),
        (
            0.9,
            UNKNOWN,
            "The prediction is better than chance; it is not yet known whether",
            "ratings of more bots first.",
        ),
        (0.9, WORSE, "The prediction is clearly worse than rival0 alone.", "Use that count instead."),
        (0.2, BETTER, "The prediction is not better than chance.", "instead of human ratings."),
    ],
)
@pytest.mark.parametrize("played", [None, 0.84, 0.3, -0.2])
def test_the_conclusion_stands_first(r: float, ratio: Any, begins: str, ends: str, played: float | None) -> None:
    selfplay = {} if played is None else {"selfplay": evidence(played), "n_selfplay": 8}
    said = told_of_fit(evidence(r, ratio), r=r, **selfplay)
    assert said.startswith(begins)
    assert ends in said
    assert ("Its errors are" in said) == (r > 0.5 or played == 0.84)
    better = "From self-play it is clearly better" if played == 0.84 else "From self-play it is not better than chance."
    assert ("From self-play" in said) == (better in said) == (played is not None)
    assert ".." not in said


def test_a_fit_stored_before_rivals_were_compared_claims_nothing_about_lengths() -> None:
    document = verdict(evidence(0.9)).to_json()
    document["findings"] = [finding for finding in document["findings"] if finding["code"] != "rival"]
    assert "not yet known whether it is better than the length" in verdict_text(document)


def test_few_bots_and_older_fits() -> None:
    assert told_of_fit(evidence(0.9), 4).startswith("Not yet known: only 4 bots rated. With so few points")
    assert told_of_fit(evidence(0.9), selfplay=evidence(0.99), n_selfplay=4) == told_of_fit(evidence(0.9))
    assert verdict_text("A paragraph stored by an earlier version.").startswith("A paragraph")
    assert verdict_text(None) == ""


def test_cautions_are_sentences() -> None:
    cautions = [
        finding("few_bots", n_bots=1),
        finding("fold_intercept"),
        finding("constant_features", features=["a", "b"]),
        finding("collinear", condition=41.6),
        finding("collinear", condition=None),
        finding("partly_rated", n_conversations=1),
        finding("undefined_features", n_conversations=1200),
        finding("extrapolation", bot="eliza", features=["words_user"], deviations=3),
        finding("beyond_scale", bots=["eliza", "parrot"], low=1.0, high=7.0),
    ]
    said = caution_sentences([caution.to_json() for caution in cautions])
    assert len(said) == len(cautions)
    assert said[0].startswith("Only 1 bot rated")
    assert "“a” and “b”" in said[2]
    assert "up to 42" in said[3]
    assert "1 conversation." in said[5]
    assert "1,200 conversations." in said[6]
    assert "eliza is an extrapolation: its mean “Words, participant, mean” is more than 3" in said[7]
    assert said[8].startswith("The predictions for eliza and parrot are outside the rating scale of 1 to 7")
    assert caution_sentences(["stored as a sentence"]) == ["stored as a sentence"]
