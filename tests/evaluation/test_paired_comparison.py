"""Paired differences of two columns: by a loop over resampled contexts, and through `judge` and the command's table."""

import json

import numpy as np
import pytest
from scipy import stats

from evaluation.metric_agreement import judge
from evaluation.paired_comparison import compare_paired, gains_printed
from tests.evaluation import simulated_gains


def made(n=40, seed=3):
    rng = np.random.default_rng(seed)
    human = rng.normal(size=n)
    good, poor = human + rng.normal(size=n), human + 3 * rng.normal(size=n)
    contexts = np.array([f"c{k // 2}" for k in range(n)], dtype=object)
    cells = [("s", "xy"[k % 4 // 2]) for k in range(n)]
    return good, poor, human, contexts, cells


def test_the_gain_is_the_mean_over_cells_and_its_interval_the_jackknife_over_contexts():
    good, poor, human, contexts, cells = made()
    found = compare_paired(good, poor, human, contexts, cells, "poor")
    parts = [np.array([one == cell for one in cells]) for cell in dict.fromkeys(cells)]

    def gain_of(rows):
        return np.mean(
            [
                stats.pearsonr(good[p & rows], human[p & rows])[0] - stats.pearsonr(poor[p & rows], human[p & rows])[0]
                for p in parts
            ]
        )

    gain = found.gains["pearson"]
    assert gain.gain == pytest.approx(gain_of(np.ones(40, dtype=bool)))
    assert found.gains["mean"].gain == pytest.approx((found.gains["pearson"].gain + found.gains["spearman"].gain) / 2)
    # Both models answer the same contexts, each of which is left out of both.
    shared = np.array([f"c{k // 4}" for k in range(40)], dtype=object)
    both = compare_paired(good, poor, human, shared, cells, "poor").gains["pearson"]
    for one, units, n in ((gain, contexts, 20), (both, shared, 10)):
        without = np.array([gain_of(units != unit) for unit in dict.fromkeys(units)])
        apart = without - without.mean()
        excess = stats.kurtosis(without, bias=False)
        half = stats.t.ppf(0.975, min(n - 1, 2 * n / (excess + 2)))
        half *= np.sqrt((n - 1) / n * (apart**2).sum())
        middle = n * one.gain - (n - 1) * without.mean()
        low, high = sorted((one.gain, middle))
        assert (one.low, one.high) == pytest.approx((low - half, high + half))
    assert found.cells == {("s", "x"): 20, ("s", "y"): 20}


def test_equal_columns_gain_nothing_and_undefined_cells_are_counted():
    good, _, human, contexts, cells = made()
    same = compare_paired(good, 2 * good + 1, human, contexts, cells, "same")
    assert same.gains["spearman"].to_json()["gain"] == pytest.approx(0)
    assert same.gains["pearson"].high == pytest.approx(0, abs=1e-9)
    half = np.where([model == "x" for _, model in cells], good, np.nan)
    found = compare_paired(half, good, human, contexts, cells, "good")
    assert (len(found.cells), found.left_out) == (1, 1)
    none = compare_paired(np.full(40, 1.0), good, human, contexts, cells, "good")
    assert none.gains == {}
    assert "in no cell" in gains_printed({"m": {"against": none.to_json()}})[0]


def test_judge_compares_each_metric_with_the_column_that_is_named(tmp_path):
    rng = np.random.default_rng(5)
    file = tmp_path / "judged.jsonl"
    rows = [
        {
            "id": k,
            "source": "s",
            "model": "ab"[k % 2],
            "context": [f"context {k // 2}"],
            "response": " ".join(["word"] * int(rng.integers(1, 9))) + "?" * int(rng.integers(0, 2)),
            "reference": "word one",
            "ratings": [{"good": int(rng.integers(1, 6))}],
        }
        for k in range(24)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = judge(file, ["rouge_l", "words_bot"], against="words_bot")
    told = found["rouge_l"].to_json()["against"]
    assert found["words_bot"].against is None
    words, rouge = found["words_bot"].scores["words_bot"], found["rouge_l"].scores["rouge_l"]
    people = np.array([row["ratings"][0]["good"] for row in rows])
    wanted = [
        stats.spearmanr(rouge[m::2], people[m::2])[0] - stats.spearmanr(words[m::2], people[m::2])[0] for m in range(2)
    ]
    assert told["spearman"]["gain"] == pytest.approx(np.mean(wanted))
    with pytest.raises(ValueError, match="nothing can be compared with bleurt"):
        judge(file, ["rouge_l"], against="bleurt")


@pytest.mark.slow
@pytest.mark.parametrize("design", ["15 contexts", "15 contexts, four models"])
def test_intervals_of_gains_hold(design):
    """100 studies each, three Monte-Carlo errors; percentiles of contexts resampled in each cell held in 87 to 91 %
    of 95.
    """
    for what, one in simulated_gains.paired(simulated_gains.JUDGED[design], 100).items():
        assert one.inside / one.of >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 100), what


def test_several_trainings_count_by_the_mean_of_their_coefficients():
    good, poor, human, contexts, cells = made()
    other = human + 2 * np.random.default_rng(4).normal(size=len(human))
    both = compare_paired(np.stack([good, other]), poor, human, contexts, cells, "poor")
    each = [compare_paired(one, poor, human, contexts, cells, "poor") for one in (good, other)]
    for name, gain in both.gains.items():
        assert gain.gain == pytest.approx(np.mean([one.gains[name].gain for one in each]))
        assert gain.theirs == pytest.approx(each[0].gains[name].theirs)
    widest = max(one.gains["mean"].high - one.gains["mean"].low for one in each)
    assert 0 < both.gains["mean"].high - both.gains["mean"].low < widest
    twice = compare_paired(np.stack([good, good]), np.stack([poor, poor]), human, contexts, cells, "poor")
    for end in ("gain", "low", "high"):
        assert getattr(twice.gains["mean"], end) == pytest.approx(getattr(each[0].gains["mean"], end))
    lacks = np.where(np.arange(len(human)) == 0, np.nan, other)
    assert compare_paired(np.stack([good, lacks]), poor, human, contexts, cells, "poor").cells == {
        ("s", "x"): 19,
        ("s", "y"): 20,
    }
