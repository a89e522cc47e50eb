"""Results survive being stored: what is read back is the same, to the last digit and reason."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pytest

from evaluation.analysis.agreement import RaterAgreement, rater_agreement
from evaluation.analysis.answers import AnswerDistributions, answers
from evaluation.analysis.comparisons import BotMeans, Comparisons, bot_means, compare
from evaluation.analysis.correlations import CorrelationMatrix, dimension_matrix, metric_matrix
from evaluation.analysis.planning import RaterPlan, plan_raters
from evaluation.analysis.raters import RaterAnalysis, analyse_raters
from evaluation.analysis.rating_models import RatingModels, rating_models
from evaluation.analysis.trajectories import TrajectoryResult, best_and_worst, trajectories
from evaluation.findings import Reason
from evaluation.ratings import Ratings
from evaluation.result_json import BY_TUPLE, Array, result_dump, result_load
from evaluation.stats.trajectories import Course


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
