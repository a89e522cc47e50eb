"""Paired differences of two columns: by a loop over resampled contexts, and through `judge` and the command's table."""

import json

import numpy as np
import pytest
from scipy import stats

from evaluation.against import against, gains_printed
from evaluation.judgements import judge


def made(n=40, seed=3):
    rng = np.random.default_rng(seed)
    human = rng.normal(size=n)
    good, poor = human + rng.normal(size=n), human + 3 * rng.normal(size=n)
    contexts = np.array([f"c{k // 2}" for k in range(n)], dtype=object)
    cells = [("s", "xy"[k % 4 // 2]) for k in range(n)]
    return good, poor, human, contexts, cells


def test_the_gain_is_the_mean_over_cells_and_its_interval_that_of_a_loop():
    good, poor, human, contexts, cells = made()
    found = against(good, poor, human, contexts, cells, "poor", n_bootstrap=4000)
    parts = [np.array([one == cell for one in cells]) for cell in dict.fromkeys(cells)]
    apart = [
        stats.pearsonr(good[p], human[p])[0] - stats.pearsonr(poor[p], human[p])[0] for p in parts
    ]
    assert found.gains["pearson"].gain == pytest.approx(np.mean(apart))
    assert found.gains["mean"].gain == pytest.approx(
        (found.gains["pearson"].gain + found.gains["spearman"].gain) / 2
    )
    rng = np.random.default_rng(0)
    draws = []
    for _ in range(1500):
        one = []
        for part in parts:
            names = sorted(set(contexts[part]))
            drawn = rng.choice(names, len(names))
            rows = np.concatenate([np.flatnonzero(part & (contexts == name)) for name in drawn])
            one.append(
                np.corrcoef(good[rows], human[rows])[0, 1]
                - np.corrcoef(poor[rows], human[rows])[0, 1]
            )
        draws.append(np.mean(one))
    low, high = np.quantile(draws, [0.025, 0.975])
    gain = found.gains["pearson"]
    assert gain.low == pytest.approx(low, abs=0.12)  # percentiles further out, for few contexts
    assert gain.high == pytest.approx(high, abs=0.12)
    assert gain.low < low
    assert gain.high > high
    assert found.cells == {("s", "x"): 20, ("s", "y"): 20}


def test_equal_columns_gain_nothing_and_undefined_cells_are_counted():
    good, _, human, contexts, cells = made()
    same = against(good, 2 * good + 1, human, contexts, cells, "same")
    assert same.gains["spearman"].to_json()["gain"] == pytest.approx(0)
    assert same.gains["pearson"].high == pytest.approx(0, abs=1e-9)
    half = np.where([model == "x" for _, model in cells], good, np.nan)
    found = against(half, good, human, contexts, cells, "good")
    assert (len(found.cells), found.left_out) == (1, 1)
    none = against(np.full(40, 1.0), good, human, contexts, cells, "good")
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
            "response": " ".join(["word"] * int(rng.integers(1, 9)))
            + "?" * int(rng.integers(0, 2)),
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
        stats.spearmanr(rouge[m::2], people[m::2])[0]
        - stats.spearmanr(words[m::2], people[m::2])[0]
        for m in range(2)
    ]
    assert told["spearman"]["gain"] == pytest.approx(np.mean(wanted))
    with pytest.raises(ValueError, match="nothing can be compared with bleurt"):
        judge(file, ["rouge_l"], against="bleurt")
