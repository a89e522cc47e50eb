"""A combination of metrics: what is learned where, against brute force, and when it may be called better."""

import json

import numpy as np
import pytest
from scipy import stats

from evaluation.combination import ScoredSet, combine, combine_sets
from tests.evaluation import simulated_gains


def data_set(name, seed, n=60, signal=(0.6, 0.6), missing=0):
    """Make replies in contexts of three, of which two metrics each see a part of what people judge."""
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=(2, n))
    human = np.array(signal) @ parts + 0.3 * rng.normal(size=n)
    scores = {"topic": np.exp(parts[0]), "likely": parts[1].copy()}
    scores["likely"][:missing] = np.nan
    return ScoredSet(name, human, np.array([f"c{k // 3}" for k in range(n)], dtype=object), scores)


def test_weights_are_those_of_ridge_on_the_other_sets():
    sets = [data_set(name, seed) for seed, name in enumerate("abcd")]

    def normal(values):
        ranks = stats.rankdata(values)
        quantiles = stats.norm.ppf((ranks - 3 / 8) / (len(values) + 1 / 4))
        return (quantiles - quantiles.mean()) / quantiles.std()

    def ridge(of, penalty):
        left, right = penalty * len(of) * np.eye(2), np.zeros(2)
        for one in of:
            x = np.stack([normal(values) for values in one.scores.values()], axis=1)
            y = (one.human - one.human.mean()) / one.human.std()
            left, right = left + x.T @ x / len(y), right + x.T @ y / len(y)
        return np.linalg.solve(left, right)

    for k, found in enumerate(combine_sets(sets).sets):
        others = [one for i, one in enumerate(sets) if i != k]
        np.testing.assert_allclose(list(found.weights.values()), ridge(others, found.penalty))
        x = np.stack([normal(values) for values in sets[k].scores.values()], axis=1)
        predicted = x @ ridge(others, found.penalty)
        assert found.combined["pearson"] == pytest.approx(stats.pearsonr(predicted, sets[k].human)[0])
        spearman = stats.spearmanr(sets[k].scores["topic"], sets[k].human)[0]
        assert found.single["spearman"]["topic"] == pytest.approx(spearman)


def test_nothing_of_the_set_left_out_is_learned_from():
    sets = [data_set(name, seed) for seed, name in enumerate("abc")]
    upside_down = ScoredSet("c", -sets[2].human, sets[2].contexts, sets[2].scores)
    first, second = combine_sets(sets).sets[2], combine_sets([*sets[:2], upside_down]).sets[2]

    assert (first.weights, first.best, first.penalty) == (second.weights, second.best, second.penalty)
    assert first.combined["pearson"] == pytest.approx(-second.combined["pearson"])


def test_two_signals_are_better_than_one_and_a_copy_is_not():
    both = combine_sets([data_set(name, seed) for seed, name in enumerate("abcd")])
    assert both.gains["pearson"].claimed
    assert both.gains["spearman"].claimed

    sets = [data_set(name, seed, signal=(0.6, 0.0)) for seed, name in enumerate("abcd")]
    copies = [
        ScoredSet(one.name, one.human, one.contexts, {"topic": one.scores["topic"], "again": one.scores["topic"]})
        for one in sets
    ]  # fmt: skip
    gain = combine_sets(copies).gains["spearman"]
    assert gain.value == pytest.approx(0)
    assert not gain.claimed


def test_the_interval_is_that_of_another_data_set_and_of_other_contexts():
    sets = [data_set(name, seed, signal=(0.6, 0.4)) for seed, name in enumerate("abcd")]
    found = combine_sets(sets)
    gain = found.gains["pearson"]
    own = [one.combined["pearson"] - one.single["pearson"][one.best] for one in found.sets]
    half = stats.t.ppf(0.975, 3) * np.std(own, ddof=1) * np.sqrt(1 / 4 + 1 / 3)
    # Contexts come beside it: less than doubles it here, and never narrows it.
    assert half < gain.high - gain.value < 2 * half
    # Sets that gain alike leave the contexts: of one set four times, by the jackknife with weights of two metrics as
    # they are.
    alike = [ScoredSet(name, sets[0].human, sets[0].contexts, sets[0].scores) for name in "abcd"]
    same = combine_sets(alike)
    gain, (one, *_rest) = same.gains["pearson"], same.sets
    x = np.stack([stats.norm.ppf((stats.rankdata(v) - 3 / 8) / 60.25) for v in sets[0].scores.values()], axis=1)
    x = (x - x.mean(axis=0)) / x.std(axis=0) @ list(one.weights.values())
    best = sets[0].scores[one.best]
    without = np.array(
        [
            stats.pearsonr(x[rest], sets[0].human[rest])[0] - stats.pearsonr(best[rest], sets[0].human[rest])[0]
            for name in dict.fromkeys(sets[0].contexts)
            for rest in [sets[0].contexts != name]
        ]
    )
    error = np.sqrt(19 / 20 * ((without - without.mean()) ** 2).sum() / 4)
    assert 1.96 * error < gain.high - gain.value < 2.3 * error


def test_undefined_scores_are_counted_and_a_metric_undefined_on_a_whole_set_is_not_its_best():
    sets = [data_set("a", 0, missing=7), data_set("b", 1), data_set("c", 2)]
    sets[1].scores["topic"][:] = np.nan
    found = {one.name: one for one in combine_sets(sets).sets}

    assert found["a"].imputed == {"likely": 7}
    assert found["b"].imputed == {"topic": 60}
    assert found["b"].best == "likely"
    assert found["b"].single["pearson"]["topic"] is None


def test_what_cannot_be_combined_is_named():
    sets = [data_set(name, seed) for seed, name in enumerate("abc")]
    with pytest.raises(ValueError, match=r"2 data sets \(a, b\) are too few"):
        combine_sets(sets[:2])
    with pytest.raises(ValueError, match="two data sets are called 'a'"):
        combine_sets([*sets, sets[0]])
    alone = [ScoredSet(one.name, one.human, one.contexts, {"topic": one.scores["topic"]}) for one in sets]  # fmt: skip
    with pytest.raises(ValueError, match="1 metrics that can be computed"):
        combine_sets(alone)
    with pytest.raises(ValueError, match="all equal in c"):
        combine_sets([*sets[:2], ScoredSet("c", np.ones(60), sets[2].contexts, sets[2].scores)])


def test_files_are_scored_and_their_data_sets_combined(tmp_path):
    texts = ["no", "yes it is", "a much longer answer, with words", "short", "and what do you think?"]
    for name in ("one", "two", "three"):
        lines = [
            f'{{"id": {k}, "context": ["so?"], "response": "{text}", "ratings": [{{"good": {len(text) % 7 + k % 2}}}]}}'
            for k, text in enumerate(texts)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    files = [tmp_path / f"{name}.jsonl" for name in ("one", "two", "three")]
    found = combine(files, ["words_bot", "question_bot"]).to_json()

    assert list(found["sets"]) == ["one", "two", "three"]
    assert found["sets"]["one"]["n"] == 5
    assert set(found["pearson"]) == {"combined", "best", "gain", "ci95", "claimed"}
    assert json.loads(json.dumps(found)) == found  # nothing that a file would keep as words


@pytest.mark.slow
def test_the_interval_of_a_gain_holds():
    """40 studies of three data sets, three Monte-Carlo errors."""
    found = simulated_gains.combined(simulated_gains.COMBINED["3 sets that differ"], 40)
    assert found.inside / found.of >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 40)
