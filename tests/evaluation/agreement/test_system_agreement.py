"""Figures over systems beside brute force: every permutation written out, one pair and one swap at a time."""

import json
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from evaluation.agreement.agreement_table import agreements_printed
from evaluation.agreement.metric_agreement import judge, judgements_read
from evaluation.agreement.system_agreement import (
    FEWEST_FOR_VERDICT,
    agreement_of_systems,
    calibrate_ties,
    compare_on_systems,
)
from evaluation.data.tables import per_turn
from evaluation.metrics.replies import ReplyMetric
from evaluation.stats.systems import N_PERMUTATIONS, SystemCells, permutation_p


def names(prefix, numbers):
    return np.array([f"{prefix}{k}" for k in numbers], dtype=object)


def design(n_contexts, n_systems, seed=0, *, shared=True, noise=1.0, same_systems=False):
    """Return people's and two metrics' scores, the systems and the contexts of replies, one of each system."""
    rng = np.random.default_rng(seed)
    system = np.tile(np.arange(n_systems), n_contexts)
    context = np.arange(len(system)) if not shared else np.repeat(np.arange(n_contexts), n_systems)
    people = (0.0 if same_systems else 0.6) * system + rng.integers(1, 6, len(system))
    one, other = (people + noise * rng.normal(size=len(system)) for _ in range(2))
    return people, one, other, names("s", system), names("c", context)


def above(values, observed):
    """Return the share above, those equal as halves."""
    return np.mean([1.0 if v > observed + 1e-9 else 0.5 if abs(v - observed) <= 1e-9 else 0.0 for v in values])


def p_shared(first, second):
    d = np.array(first) - np.array(second)
    return above([float(np.dot(signs, d)) for signs in product((1, -1), repeat=len(d))], float(d.sum()))


def p_apart(first, second):
    both = [*first, *second]
    sums = [sum(both[k] for k in chosen) for chosen in combinations(range(len(both)), len(first))]
    return above(sums, float(sum(first)))


@pytest.mark.parametrize(("shared", "p_of"), [(True, p_shared), (False, p_apart)])
def test_soft_pairwise_accuracy_is_that_of_all_permutations(shared, p_of):
    people, metric, _, systems, contexts = design(5, 3, shared=shared)
    by_system = [[side[systems == f"s{k}"] for k in range(3)] for side in (people, metric)]
    pairs = list(combinations(range(3), 2))
    ps = [[p_of(side[i], side[j]) for i, j in pairs] for side in by_system]
    result = agreement_of_systems(metric, people, systems, contexts)
    assert result.soft_accuracy.value == pytest.approx(1 - np.mean(np.abs(np.subtract(*ps))))
    assert result.n_shared == (3 if shared else 0)
    means = [[np.mean(one) for one in side] for side in by_system]
    right = [np.sign(means[0][i] - means[0][j]) == np.sign(means[1][i] - means[1][j]) for i, j in pairs]
    assert result.accuracy.value == pytest.approx(np.mean(right))
    assert result.correlations["pearson"].value == pytest.approx(stats.pearsonr(*means).statistic)
    assert result.correlations["kendall"].value == pytest.approx(stats.kendalltau(*means).statistic)


def test_two_permutations_by_hand():
    # d = 1, 2 and 3: of eight signs the sums are −6, −4, −2, 0, 0, 2, 4, 6; none is above 6, one equals it.
    values = np.array([[[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]], [[0.0, 3.0], [0.0, 1.0], [0.0, 2.0]]])
    cells = SystemCells(values, ("a", "b"))
    result = permutation_p(cells, cells.pairs(), np.random.default_rng(0))
    assert result[:, 0].tolist() == [1 / 16, 15 / 16]


def test_a_linear_copy_agrees_fully_and_its_opposite_not():
    people, _, _, systems, contexts = design(30, 6)
    same = agreement_of_systems(3 * people - 1, people, systems, contexts)
    assert same.soft_accuracy.value == same.accuracy.value == 1.0
    assert same.correlations["spearman"].value == pytest.approx(1)
    assert same.p == pytest.approx(1 / 720)
    assert same.verdict == "better_than_chance"
    opposite = agreement_of_systems(-people, people, systems, contexts)
    assert opposite.accuracy.value == 0
    assert opposite.verdict == "not_shown"
    assert opposite.soft_accuracy.value < 0.2


def test_random_permutations_and_the_normal_limit_come_near_all():
    people, metric, _, systems, contexts = design(14, 4, noise=3.0)
    result = agreement_of_systems(metric, people, systems, contexts)
    ps = [
        [p_shared(side[systems == f"s{i}"], side[systems == f"s{j}"]) for i, j in combinations(range(4), 2)]
        for side in (people, metric)
    ]
    error = 2 * 0.5 / N_PERMUTATIONS**0.5
    assert result.soft_accuracy.value == pytest.approx(1 - np.mean(np.abs(np.subtract(*ps))), abs=error)
    compared = compare_on_systems(metric, people, people, systems, contexts)
    assert compared.ours == pytest.approx(1 - np.mean(np.abs(np.subtract(*ps))), abs=0.03)
    assert compared.theirs == 1


def soft_by_normal_limit(metric, people, systems):
    """Return soft pairwise accuracy of a complete design, pair by pair."""
    lost = []
    for one, other in combinations(sorted(set(systems)), 2):
        ps = []
        for side in (people, metric):
            d = side[systems == one] - side[systems == other]
            ps.append(stats.norm.sf(d.sum() / np.sqrt((d**2).sum())))
        lost.append(abs(ps[0] - ps[1]))
    return 1 - np.mean(lost)


def test_the_test_of_two_metrics_is_that_of_all_swaps():
    people, one, other, systems, contexts = design(3, 3, seed=4, noise=2.0)
    result = compare_on_systems(one, 10 * other + 7, people, systems, contexts)
    one, other = ((side - side.mean()) / side.std() for side in (one, other))
    observed = soft_by_normal_limit(one, people, systems) - soft_by_normal_limit(other, people, systems)
    reached = []
    for swap in product((False, True), repeat=9):
        first, second = np.where(swap, other, one), np.where(swap, one, other)
        apart = soft_by_normal_limit(first, people, systems) - soft_by_normal_limit(second, people, systems)
        reached.append(abs(apart) >= abs(observed) - 1e-9)
    assert result.ours - result.theirs == pytest.approx(observed)
    assert result.p == pytest.approx(np.mean(reached))
    assert result.n_cells == 9


def rejections(n, p_of):
    """Return the share of n studies with p ≤ .05, and two Monte-Carlo errors of 5 %."""
    return np.mean([p_of(seed) <= 0.05 for seed in range(n)]), 2 * np.sqrt(0.05 * 0.95 / n)


@pytest.mark.parametrize("shared", [True, False])
def test_the_test_of_two_equal_metrics_keeps_its_level(shared):
    def p_of(seed):
        people, one, other, systems, contexts = design(8, 4, seed, shared=shared, noise=2.0)
        return compare_on_systems(one, other, people, systems, contexts, seed=seed).p

    share, error = rejections(400, p_of)
    assert abs(share - 0.05) <= error


def test_chance_orders_systems_better_than_chance_in_one_study_of_twenty_at_most():
    def p_of(seed):
        people, _, _, systems, contexts = design(3, 6, seed)
        chance = np.random.default_rng(1000 + seed).normal(size=6)[np.tile(np.arange(6), 3)]
        return agreement_of_systems(chance, people, systems, contexts).p

    share, error = rejections(200, p_of)
    assert share <= 0.05 + error


@pytest.mark.parametrize("is_same", [True, False])
def test_tie_calibration_is_that_of_every_threshold(is_same):
    rng = np.random.default_rng(3)
    people, metric = rng.integers(1, 4, 24).astype(float), rng.integers(0, 9, 24) / 2
    contexts = names("c", np.arange(24) // 3 if is_same else np.arange(24))
    result = calibrate_ties(metric, people, contexts)
    pairs = [(i, j) for i, j in combinations(range(24), 2) if not is_same or contexts[i] == contexts[j]]

    def share(epsilon):
        tied = [0.0 if abs(metric[i] - metric[j]) <= epsilon else np.sign(metric[i] - metric[j]) for i, j in pairs]
        return np.mean([a == np.sign(people[i] - people[j]) for a, (i, j) in zip(tied, pairs, strict=True)])

    thresholds = sorted({0.0, *(abs(metric[i] - metric[j]) for i, j in pairs)})
    best = max(share(threshold) for threshold in thresholds)
    assert result.value == pytest.approx(best)
    assert result.epsilon == next(threshold for threshold in thresholds if share(threshold) == pytest.approx(best))
    assert result.untied == pytest.approx(share(0.0))
    assert (result.n_pairs, result.same_context) == (len(pairs), is_same)
    assert result.n_tied == sum(people[i] == people[j] for i, j in pairs)


def test_what_is_undefined_says_why():
    people, metric, _, systems, contexts = design(12, 2)
    result = agreement_of_systems(metric, people, systems, contexts)
    assert result.correlations["pearson"].value is None
    assert result.correlations["pearson"].reason.code == "few_systems"
    assert result.accuracy.value is not None
    assert (result.p, result.verdict) == (None, "not_known")
    assert compare_on_systems(metric, metric, people, systems, contexts).reason.code == "few_systems"
    people, metric, _, systems, contexts = design(12, FEWEST_FOR_VERDICT - 1)
    assert agreement_of_systems(people, people, systems, contexts).verdict == "not_known"
    constant = agreement_of_systems(np.ones(48), people, systems, contexts)
    assert constant.correlations["kendall"].reason.code == "constant_side"
    assert constant.accuracy.value == 0
    tied = agreement_of_systems(metric, np.ones(48), systems, contexts)
    assert tied.accuracy.reason.code == "people_tie_all"
    assert (tied.p, tied.n_tied) == (None, 6)
    few = agreement_of_systems(metric[:20], people[:20], systems[:20], contexts[:20])
    assert few.soft_accuracy.value is not None
    assert few.soft_accuracy.low is None
    assert few.soft_accuracy.reason.code == "few_items_for_interval"
    assert agreement_of_systems(metric, people, np.full(48, "", dtype=object), contexts) is None
    rare = agreement_of_systems(metric[:8], people[:8], systems[:8], contexts[:8])
    assert rare.left_out == ("s0", "s1", "s2", "s3")
    assert rare.soft_accuracy.reason.code == "few_systems"


class Brevity(ReplyMetric):
    """Counts characters; fewer are better."""

    name = "brevity"
    title = "Brevity"
    columns = per_turn("brevity", "Brevity", unit="1", range=(0, None), direction="lower", description="Characters.")

    def score(self, replies, shared):
        return {"brevity": np.array([len(reply.response) for reply in replies])}


def test_a_file_of_several_systems_has_the_figures_in_json_and_in_the_table(tmp_path):
    rows = [
        {
            "id": f"{source}-{k}-{model}",
            "source": source,
            "model": model,
            "context": [f"context {k}"],
            "response": "x" * (2 + 3 * number + k % 3),
            "ratings": [{"good": 6 - number - (k % 4 == 0)}],
            "scale": [0, 6],
        }
        for source in ("one", "two")
        for k in range(12)
        for number, model in enumerate("abcde")
        if source == "one" or number < 3
    ]
    file = tmp_path / "judged.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = judge(judgements_read(file), [Brevity(), "words_bot"], against="words_bot")
    told = {name: one.to_json() for name, one in result.items()}
    one, two = (told["brevity"]["sources"][source] for source in ("one", "two"))
    assert "system_level" not in told["brevity"], "systems of two data sets are not compared"
    assert one["system_level"]["pairwise_accuracy"]["value"] == 1, "lower is better"
    assert one["system_level"]["verdict"] == "better_than_chance"
    assert two["system_level"]["verdict"] == "not_known"
    assert one["system_test"]["reason"]["code"] == "constant_side", "one word each"
    printed = agreements_printed(told)
    assert "orders the systems better than chance" in printed
    assert "not known\n" in printed
    assert "brevity against words_bot, systems of one: undefined" in printed


def test_the_table_begins_with_the_best_on_held_out_sets_and_tells_who_stays_below_the_cosine():
    def agreement(one, two):
        cell = {**{how: {"r": 0.1, "p": 0.5, "ci95": None} for how in ("pearson", "kendall")}, "n": 9, "n_contexts": 9}
        cell |= {"n_responses": 9, "skipped": {}, "ceiling": {"r": None}}
        cells = [{**cell, "spearman": {"r": r, "p": 0.5, "ci95": None}} for r in (one, two)]
        return {
            **cells[0],
            "column": "c",
            "target": "good",
            "sources": dict(zip(("grade/x", "mine"), cells, strict=True)),
        }

    told = {
        "grade_lite": agreement(0.9, 0.2),
        "semantic_similarity": agreement(0.1, 0.4),
        "made_here": agreement(0.5, 0.5),
    }
    printed = agreements_printed(told).splitlines()
    assert [line.split()[0] for line in printed[2:11:3]] == ["made_here", "semantic_similarity", "grade_lite"]
    assert (
        "grade_lite: median .20 of 1 held-out set, does not beat the cosine of sentence vectors on held-out data"
        in printed
    )
    assert "semantic_similarity: median .25 of 2 held-out sets" in printed
    assert "made_here: median .50 of all 2 sets" in printed
