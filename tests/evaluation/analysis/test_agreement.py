"""Agreement of raters on bots, conversations and sets of items."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats import inter_rater

from evaluation.analysis.agreement import ItemSets, item_sets, rater_agreement
from evaluation.ratings import Ratings
from evaluation.result_json import result_dump, result_load
from evaluation.stats.agreement import krippendorff_alpha
from evaluation.stats.icc import icc


def frame(per: int) -> pd.DataFrame:
    """Make ratings of three bots, six conversations each, rated by `per` of five people."""
    rng = np.random.default_rng(1)
    rows = []
    for bot, level in {"a": 5, "b": 3, "bad": 1}.items():
        for n in range(6):
            for rater in rng.choice(5, per, replace=False):
                value = float(np.clip(level + rng.integers(-1, 2), 1, 7))
                rows.append((f"{bot}{n}", bot, f"w{rater}", value))
    return pd.DataFrame(rows, columns=["conversation", "bot", "rater", "quality"])


def read(table: pd.DataFrame) -> Ratings:
    return Ratings.from_frame(table, ["quality"], scale=(1, 7), controls=["bad"])


def test_shared_conversations_give_alpha_over_items() -> None:
    table = frame(3)
    found = rater_agreement(read(table))
    places = table.assign(place=table.groupby("conversation").cumcount())
    items = places.pivot(index="conversation", columns="place", values="quality").to_numpy()
    assert found.same_conversation == krippendorff_alpha(items, "ordinal")
    codes = [(one.about, one.code) for one in found.coefficients]
    assert ("conversation", "fleiss") in codes
    assert ("conversation", "cohen_median") in codes


def test_controls_take_no_part_in_agreement_about_bots() -> None:
    table = frame(2)
    found = rater_agreement(read(table))
    real = table[table["bot"] != "bad"].groupby(["bot", "rater"])["quality"].mean().reset_index()
    places = real.assign(place=real.groupby("bot").cumcount())
    by_bot = places.pivot(index="bot", columns="place", values="quality").to_numpy()
    assert found.reliability_of_bots.value == pytest.approx(icc(by_bot, "icc1_k").value)
    assert found.reliability_of_bots.n_items == 2


def test_one_persons_two_ratings_of_a_conversation_are_no_agreement() -> None:
    table = frame(1)
    twice = pd.concat([table, table], ignore_index=True)
    for given in (table, twice):
        found = rater_agreement(read(given)).same_conversation
        assert found.value is None
        assert found.reason is not None
        assert found.reason.to_json() == {"code": "few_shared", "n_shared": 0, "n_conversations": 18}


# Krippendorff (2011), section C: four observers, twelve units; alpha .743 nominal, .815 ordinal, .849 interval.
PUBLISHED = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


def ratings_of(rows: list[tuple[str, str | None, float, float]]) -> Ratings:
    """Return ratings of (item, rater, good, slider)."""
    frame = pd.DataFrame(rows, columns=["conversation", "rater", "good", "slider"])
    frame["bot"] = "a"
    return Ratings.from_frame(frame, ["good", "slider"], scale=(1, 100))


@pytest.fixture(scope="module")
def found() -> ItemSets:
    rng = np.random.default_rng(3)
    rows: list[tuple[str, str | None, float, float]] = []
    for rater, answers in enumerate(PUBLISHED):
        rows += [(f"p/{unit}", f"r{rater}", value, 1.0) for unit, value in enumerate(answers) if value is not None]
    for item in range(40):  # two raters of the second set
        true = int(rng.integers(1, 6))
        for rater in ("x", "y"):
            answer = float(np.clip(true + rng.integers(-1, 2), 1, 5))
            rows.append((f"q/{item}", rater, answer, 20 * answer + rng.uniform(-9, 0)))
    rows.append(("alone", None, 3.0, 3.0))
    sets = {item: item.partition("/")[0] for item, *_ in rows if "/" in item}
    return item_sets(ratings_of(rows), sets, shared=2)


def pairs_of(found: ItemSets) -> np.ndarray:
    """Return the answers of the two raters of the second set again: (40, 2)."""
    rng = np.random.default_rng(3)
    pairs = []
    for _ in range(40):
        true = int(rng.integers(1, 6))
        pair = []
        for _rater in range(2):
            pair.append(float(np.clip(true + rng.integers(-1, 2), 1, 5)))
            rng.uniform(-9, 0)
        pairs.append(pair)
    return np.array(pairs)


def test_every_set_has_its_own_coefficients_with_intervals(found: ItemSets) -> None:
    assert [(one.items, one.dimension) for one in found.sets] == [
        (name, key) for name in ("", "p", "q") for key in ("good", "slider")
    ]
    published = found.of("p", "good")
    assert published.level == "ordinal"
    assert published.alpha.value == pytest.approx(0.815, abs=5e-4)
    assert (published.n_items, published.n_shared, published.n_raters) == (12, 11, 4)
    assert published.n_pairs == 6
    two = found.of("q", "good")
    pairs = pairs_of(found)
    expected = cohen_kappa_score(pairs[:, 0], pairs[:, 1], weights="linear")
    assert two.cohen.value == pytest.approx(expected)
    counts, _categories = inter_rater.aggregate_raters(pairs.astype(int))
    assert two.fleiss.value == pytest.approx(inter_rater.fleiss_kappa(counts))
    assert published.cohen.reason is not None
    assert published.cohen.reason.code == "few_items_for_interval"
    for one in (published.alpha, published.fleiss, two.alpha, two.cohen):
        assert one.low is not None
        assert one.high is not None
        assert one.value is not None
        assert one.low < one.value <= one.high


def test_what_is_undefined_says_why(found: ItemSets) -> None:
    alone = found.of("", "good")
    assert alone.alpha.reason is not None
    assert alone.alpha.reason.code == "few_items"
    assert alone.cohen.reason is not None
    assert alone.cohen.reason.code == "not_named"
    slider = found.of("q", "slider")
    assert slider.level == "interval"
    assert slider.alpha.value is not None
    assert slider.fleiss.reason is not None
    assert slider.fleiss.reason.code == slider.cohen.reason.code == "many_answers"  # type: ignore[union-attr]
    same = found.of("p", "slider")
    assert same.alpha.reason is not None
    assert same.alpha.reason.code == "all_the_same"
    assert result_load(result_dump(found, ItemSets), ItemSets) == found
    assert "0.8" in repr(found) or ".82" in repr(found)
    with pytest.raises(KeyError, match="no set 'r'"):
        found.of("r", "good")


def test_two_points_are_nominal() -> None:
    answers = {"x": [0, 1, 1, 0, 1, 0], "y": [0, 1, 0, 0, 1, 1]}
    rows = [(str(i), rater, v) for rater, given in answers.items() for i, v in enumerate(given)]
    frame = pd.DataFrame(rows, columns=["conversation", "rater", "fits"]).assign(bot="a")
    [one] = item_sets(Ratings.from_frame(frame, ["fits"], scale=(0, 1)), {}).sets
    assert one.level == "nominal"
    assert one.cohen.value == pytest.approx(cohen_kappa_score(answers["x"], answers["y"]))
