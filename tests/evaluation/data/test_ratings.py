"""`Ratings`, results that survive being stored, and numbers in print."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pytest

from evaluation.analysis.agreement import RaterAgreement, rater_agreement
from evaluation.analysis.answers import AnswerDistributions, answers
from evaluation.analysis.bot_means import BotMeans, bot_means
from evaluation.analysis.comparisons import Comparisons, compare
from evaluation.analysis.correlations import CorrelationMatrix, dimension_matrix, metric_matrix
from evaluation.analysis.directions import opposed_dimensions
from evaluation.analysis.planning import RaterPlan, plan_raters
from evaluation.analysis.raters import RaterAnalysis, analyse_raters
from evaluation.analysis.rating_models import RatingModels, rating_models
from evaluation.analysis.trajectories import TrajectoryResult, best_and_worst, trajectories
from evaluation.data.loading import read as study_read
from evaluation.data.ratings import MEAN_KEY, RatingDimension, Ratings, headline, rater_named
from evaluation.findings import Reason
from evaluation.number_format import BY_TUPLE, Array, figure, probability, result_dump, result_load, share, span
from evaluation.stats.trajectories import Course
from tests.conftest import ROOT

CASES = ROOT / "tests" / "cases"
NOBODY = [*("", "  ", "nan", "NaN", "NA", "N/A", "n/a", "null", "None", "<NA>"), *(None, np.nan, pd.NA, pd.NaT)]
FLUENT = RatingDimension("fluent", "Fluent", 1, 7)
REPETITIVE = RatingDimension("repetitive", "Repetitive", 1, 7, reversed=True)


def table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "conversation": ["c1", "c1", "c2", "c3", "c3"],
            "bot": ["a", "a", "a", "b", "b"],
            "rater": ["ann", "bob", "slot 1", "ann", None],
            "fluent": [6, 5, 4, 2, np.nan],
            "repetitive": [1, 2, 7, 6, 4],
        }
    )


def read() -> Ratings:
    return Ratings.from_frame(table(), [FLUENT, REPETITIVE], controls=["b"])


@pytest.mark.parametrize("name", ["slot1", "Slot_2", "slot-3", "unknown", "MEAN", "majority", "aggregate", *NOBODY])
def test_names_that_are_nobody(name: object) -> None:
    assert rater_named(name) is None


def test_one_name_is_one_rater_and_nobody_is_a_conversation() -> None:
    ratings = read()
    assert rater_named("slotter") == "slotter"
    assert ratings.n_raters == 2
    assert ratings.unit.tolist() == ["p ann", "p bob", "c c2", "p ann", "c c3"]
    assert ratings.n_conversations == 3
    assert ratings.ranked.tolist() == [True, True, True, False, False]


def test_a_reversed_question_counts_the_other_way_and_keeps_its_answers() -> None:
    ratings = read()
    assert ratings.values("repetitive").tolist() == [7, 6, 1, 2, 4]
    assert ratings.answers["repetitive"].tolist() == [1, 2, 7, 6, 4]
    assert ratings.table()[:, 1].tolist() == [7, 6, 1, 2, 4]
    assert ratings.to_frame()["repetitive"].tolist() == [7, 6, 1, 2, 4]
    assert ratings.per_conversation()["repetitive"].tolist() == [6.5, 1, 3]


def test_the_mean_of_several_is_undefined_where_one_is_missing() -> None:
    ratings = read()
    assert ratings.headline == ("fluent", "repetitive")
    assert ratings.leading.key == MEAN_KEY
    expected = [6.5, 5.5, 2.5, 2, np.nan]
    for key in (None, MEAN_KEY, ["fluent", "repetitive"]):
        np.testing.assert_equal(ratings.values(key), expected)
    assert ratings.per_conversation()[MEAN_KEY].tolist() == [6, 2.5, 2]


def test_a_persons_further_ratings_of_one_conversation_are_no_other_rater() -> None:
    frame = pd.concat([table(), table().iloc[[0]].assign(fluent=1)], ignore_index=True)
    ratings = Ratings.from_frame(frame, [FLUENT, REPETITIVE])
    assert len(ratings.once()) == 5
    assert ratings.once().values("fluent")[0] == 6
    assert ratings.n_raters == 2


def test_a_conversations_rater_is_known_where_it_has_just_one() -> None:
    assert read().per_conversation()["rater"].tolist() == [None, None, None]
    alone = Ratings.from_frame(table().iloc[[0, 2, 3]], [FLUENT])
    assert alone.per_conversation()["rater"].tolist() == ["ann", None, "ann"]


@pytest.mark.parametrize(
    ("keys", "ordered", "expected"),
    [
        (["fun", "quality"], False, ("quality",)),
        (["fun", "flow"], True, ("fun",)),
        (["fun", "flow"], False, ("fun", "flow")),
        ([], False, ()),
    ],
)
def test_what_bots_are_ranked_by(keys: list[str], ordered: bool, expected: tuple[str, ...]) -> None:
    assert headline([RatingDimension(key, key, 1, 7) for key in keys], ordered=ordered) == expected


def test_several_scales_have_no_common_mean() -> None:
    results = [RatingDimension("fun", "Fun", 1, 7), RatingDimension("flow", "Flow", 0, 100)]
    assert headline(results, ordered=False) == ("fun",)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ValueError, match="an answer to fluent is 9; its scale is 1 … 7"):
        Ratings.from_frame(table().assign(fluent=9), [FLUENT])
    with pytest.raises(ValueError, match="no dimension 'fluency'; did you mean fluent"):
        read().values("fluency")
    with pytest.raises(ValueError, match="no column 'bot'"):
        Ratings.from_frame(table().drop(columns="bot"))
    with pytest.raises(ValueError, match=r"rater has shape \(1,\) for 5 ratings"):
        Ratings(
            table()["conversation"].to_numpy(),
            table()["bot"].to_numpy(),
            np.array(["ann"], dtype=object),
            {"fluent": table()["fluent"].to_numpy()},
            (FLUENT,),
        )
    with pytest.raises(ValueError, match="the lowest value must come first"):
        RatingDimension("fun", "Fun", 7, 1)


def test_columns_cannot_be_changed_and_a_table_gives_its_own_scales() -> None:
    ratings = Ratings.from_frame(table())
    assert [(d.key, d.low, d.high) for d in ratings.dimensions] == [("fluent", 2, 6), ("repetitive", 1, 7)]
    with pytest.raises(ValueError, match="read-only"):
        ratings.answers["fluent"][0] = 1


def test_raters_called_nan_are_nobody_and_bots_keep_their_names() -> None:
    study = study_read(CASES / "rater_called_nan.jsonl")
    assert study.answers.n_raters == 0
    assert len(study.answers) == 40
    assert study.ratings["rater"].tolist() == [None] * 40
    frame = pd.DataFrame({"conversation": ["1", "2"], "bot": ["None", "007"], "fun": [1, 2]})
    assert Ratings.from_frame(frame).bots == ("None", "007")
    for missing in (None, np.nan, pd.NA):
        with pytest.raises(ValueError, match="row 2 of the table has no bot"):
            Ratings.from_frame(frame.assign(bot=["a", missing]))


@pytest.mark.parametrize("case", ["frame_with_pd_NA_raters", "frame_string_NA_raters"])
def test_missing_raters_of_any_type_of_column_are_nobody(case: str) -> None:
    columns = json.loads((CASES / f"{case}.json").read_text())
    dtype = columns.pop("rater_dtype")
    frame = pd.DataFrame(columns)
    frame["rater"] = pd.Series(columns["rater"], dtype=dtype)
    ratings = Ratings.from_frame(frame)
    assert ratings.n_raters == 2
    assert ratings.rater.tolist()[:3] == [*(str(name) for name in columns["rater"][:2]), None]
    floats = frame.assign(rater=frame["rater"].astype(float)) if dtype == "Int64" else frame
    assert Ratings.from_frame(floats).rater.tolist() == ratings.rater.tolist()


def test_scores_as_texts_are_read_as_numbers_or_named() -> None:
    frame = pd.DataFrame(json.loads((CASES / "frame_scores_as_text.json").read_text()))
    assert Ratings.from_frame(frame).answers["quality"].tolist() == [1, 2, 3, 4]
    whole = frame.assign(quality=pd.array([1, None, 3, 4], dtype="Int64"))
    np.testing.assert_equal(Ratings.from_frame(whole).answers["quality"], [1, np.nan, 3, 4])
    with pytest.raises(ValueError, match="no column of numbers; columns with text: quality"):
        Ratings.from_frame(frame.assign(quality=["good", "bad", "good", "x"]))
    decimal = Ratings.from_frame(frame.assign(quality=["1", "3,5", "2", "NA"]))
    np.testing.assert_equal(decimal.answers["quality"], [1, 3.5, 2, np.nan])
    with pytest.raises(ValueError, match=r"row 2, column quality is '3;5'; it must be a number such as 3.5"):
        Ratings.from_frame(frame.assign(quality=["1", "3;5", "2", "NA"]))


def assert_same(one: Any, other: Any, where: str = "result") -> None:
    """Fail unless both are of one type and of the same values, NaN being the same as NaN."""
    if isinstance(one, float):  # NumPy's are floats, too
        assert isinstance(other, float), where
        assert one == other or (math.isnan(one) and math.isnan(other)), where
        return
    assert type(one) is type(other) or isinstance(one, Mapping), where
    if is_dataclass(one):
        for field in fields(one):
            pair = getattr(one, field.name), getattr(other, field.name)
            assert_same(*pair, f"{where}.{field.name}")
    elif isinstance(one, Mapping):
        assert set(one) == set(other), where  # PostgreSQL keeps no order of keys
        for key, value in one.items():
            assert_same(value, other[key], f"{where}[{key!r}]")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for i, pair in enumerate(zip(one, other, strict=True)):
            assert_same(*pair, f"{where}[{i}]")
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype or not len(one), where
        assert np.array_equal(one, other, equal_nan=True), where
    elif isinstance(one, Reason):
        assert (one, one.code, dict(one.values)) == (other, other.code, dict(other.values)), where
    else:
        assert one == other, where


def assert_survives(result: Any, kind: Any) -> None:
    """Fail unless the result is the same after being stored, as text that any JSON reader takes."""
    text = json.dumps(result_dump(result, kind), allow_nan=False)
    assert_same(result, result_load(json.loads(text), kind))


@dataclass(frozen=True, slots=True)
class Odd:
    """Everything that JSON has no type for."""

    undefined: float
    endless: tuple[float, ...]
    reason: Reason | None
    none: Reason | None
    cells: Annotated[Mapping[tuple[int, str], float | None], BY_TUPLE]
    pairs: frozenset[tuple[int, int]]
    course: Array
    counts: Array


def test_what_json_has_no_type_for_survives() -> None:
    odd = Odd(
        undefined=math.nan,
        endless=(math.inf, -math.inf, 5e-324, 0.1 + 0.2),
        reason=Reason("few_values", "2 of 3 values", n=2, of="bot — “a”"),
        none=None,
        cells={(1, "a,b"): None, (2, ""): math.nan},
        pairs=frozenset({(1, 2), (3, 4)}),
        course=np.array([1.0, np.nan, 2.5]),
        counts=np.array([3, 0]),
    )
    assert_survives(odd, Odd)


def test_a_result_of_another_shape_is_refused() -> None:
    stored = result_dump(Course(*[np.array([1.0])] * 4), Course)
    del stored["low"]
    with pytest.raises(ValueError, match="low"):
        result_load(stored, Course)


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    """Make ratings of three bots, some with too few ratings for a test or an interval."""
    rng = np.random.default_rng(5)
    rows = [
        (f"c{i}", bot, f"w{i % 9}", *np.clip(np.round(rng.normal(level, 1, 2)), 1, 7))
        for i, (bot, level) in enumerate([("a", 5), ("b", 3)] * 12 + [("bad", 1)] * 4 + [("c", 4)])
    ]
    table = pd.DataFrame(rows, columns=["conversation", "bot", "rater", "quality", "fluency"])
    return Ratings.from_frame(table, scale=(1.0, 7.0), controls=["bad"])


def test_every_result_survives(ratings: Ratings) -> None:
    assert_survives(compare(ratings), Comparisons)
    assert_survives(bot_means(ratings), BotMeans)
    assert_survives(plan_raters(ratings), RaterPlan)
    assert_survives(rater_agreement(ratings), RaterAgreement)
    assert_survives(rating_models(ratings, {"corpus": {"a": "x", "b": "y"}}), RatingModels)
    assert_survives(analyse_raters(ratings), RaterAnalysis)
    chats = ratings.per_conversation()
    assert_survives(dimension_matrix(ratings), CorrelationMatrix)
    assert_survives(answers(ratings), AnswerDistributions)
    metrics = pd.DataFrame({"words": np.arange(len(chats)), "same": 1.0}, index=chats.index)
    assert_survives(metric_matrix(chats, metrics, ["quality"]), CorrelationMatrix)
    grouping = best_and_worst(chats, "quality")
    values = {"votes": {pk: [1.0, None, float(i % 2)] for i, pk in enumerate(chats.index)}}
    assert_survives(trajectories(grouping, values, ["votes", "words"]), TrajectoryResult)


def test_numbers_in_words() -> None:
    assert figure(-0.004) == "0.00"
    assert figure(-1.5, 1) == "−1.5"
    assert figure(None) == figure(float("nan")) == "–"
    assert (share(0.84), share(-0.08), share(1.0)) == (".84", "−.08", "1.00")
    assert span(0.1, None) == "–"
    assert (probability(0.0312), probability(1e-9)) == ("p = .031", "p < .001")


def test_a_mean_turns_reversed_dimensions_and_has_a_direction_if_all_have_one() -> None:
    frame = pd.DataFrame({"conversation": ["a", "b"], "bot": "x", "good": [5.0, 1.0], "bad": [1.0, 5.0]})
    known = Ratings.from_frame(frame, scale=(1, 5), reversed=["bad"], higher=["good"])
    assert [dimension.reversed for dimension in known.dimensions] == [False, True]
    assert [dimension.head for dimension in known.dimensions] == ["good ↑", "bad ↑"]
    assert known.values(["good", "bad"]).tolist() == [5.0, 1.0]
    unknown = Ratings.from_frame(frame, scale=(1, 5))
    assert [dimension.reversed for dimension in unknown.dimensions] == [None, None]
    assert [dimension.head for dimension in unknown.dimensions] == ["good", "bad"]
    assert unknown.values(["good", "bad"]).tolist() == [3.0, 3.0]
    assert replace(known, headline=("good", "bad")).leading.reversed is False
    assert replace(unknown, headline=("good", "bad")).leading.reversed is None


def test_a_dimension_that_contradicts_the_others_is_found_from_thirty_conversations_on() -> None:
    random = np.random.default_rng(1)
    quality = random.random(40)
    means = {
        "quality": quality,
        "fluency": quality + random.normal(0, 0.1, 40),
        "repetitive": -quality + random.normal(0, 0.1, 40),
        "length": np.full(40, np.nan),
    }
    result = opposed_dimensions(means)
    assert set(result) == {"repetitive"}
    assert result["repetitive"] < -0.8
    assert not opposed_dimensions({key: values[:29] for key, values in means.items()})
    assert not opposed_dimensions({"quality": quality})
    assert not opposed_dimensions({"quality": quality, "constant": np.full(40, 1.0)})
