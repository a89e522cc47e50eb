"""Best-worst scaling against hand counts, scipy and statistics of whole raters."""

import json
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import pearsonr

from evaluation.analysis.best_worst import BestWorstChoices, best_worst, spearman_brown, split_half
from evaluation.analysis.pairs import judge_pairs
from evaluation.analysis.pairwise_preference import PairJudgements
from evaluation.stats.bradley_terry import bradley_terry

TITLES = {"quality": "Quality"}
VALUES = {"best": 1.0, "worst": -1.0}


def choices(rows: list[tuple[str | None, str, str]], bots: str = "abcd") -> BestWorstChoices:
    """Return choices of (rater, item, order of the bots, best first); an item has one reply of each bot."""
    replies = [[f"{item}/{bots.index(bot)}" for bot in order] for _rater, item, order in rows]
    return BestWorstChoices(
        np.array(replies, dtype=object).reshape(-1, 4),
        np.array([list(order) for *_who, order in rows], dtype=object).reshape(-1, 4),
        np.array([rater for rater, *_what in rows], dtype=object),
    )


def drawn(n_raters: int, n_items: int = 6, *, named: bool = True, people: int = 1) -> BestWorstChoices:
    """Draw choices of raters who each like some bots more than others; replies are the same for other people."""
    rng = np.random.default_rng(people)
    liked = np.array([0.9, 0.2, 0.0, -0.9]) + np.random.default_rng(0).normal(0, 0.6, (n_items, 4))
    rows = []
    for rater in range(n_raters):
        own = rng.normal(0, 1.2, 4)
        for item in range(n_items):
            order = np.argsort(-(liked[item] + own + rng.gumbel(0, 1, 4)))
            rows.append((f"r{rater}" if named else None, f"i{item}", "".join("abcd"[at] for at in order)))
    return choices(rows)


def test_a_choice_implies_five_pairs_of_one_rater() -> None:
    judged = PairJudgements.of_choices(choices([("ann", "i", "bcad")]), TITLES)

    won = {
        (first, second) if answer > 0 else (second, first)
        for first, second, answer in zip(judged.first, judged.second, judged.answers["quality"], strict=True)
    }
    assert won == {("b", "c"), ("b", "a"), ("b", "d"), ("c", "d"), ("a", "d")}, "c and a stay unordered"
    assert len(judged) == 5
    assert set(judged.item) == {"i/0~i/1", "i/1~i/2", "i/1~i/3", "i/2~i/3", "i/0~i/3"}
    assert set(judged.rater) == {"ann"}


def test_two_replies_of_one_bot_are_no_judgement_of_bots() -> None:
    same = BestWorstChoices(
        np.array([["i/0", "i/1", "i/2", "i/3"]], dtype=object),
        np.array([["a", "a", "b", "c"]], dtype=object),
        np.array([None], dtype=object),
    )
    judged = PairJudgements.of_choices(same, TITLES)
    assert sorted(zip(judged.first, judged.second, strict=True)) == [("a", "b"), ("a", "c"), ("a", "c"), ("b", "c")]


def test_scores_are_counts_of_best_less_worst() -> None:
    result = best_worst(choices([("r", "i", "bcda"), ("s", "i", "bdca"), ("s", "j", "cbda")]), level=0.9)

    assert [(score.bot, score.n_shown, score.n_best, score.n_worst) for score in result.scores] == [
        ("b", 3, 2, 0),
        ("c", 3, 1, 0),
        ("d", 3, 0, 0),
        ("a", 3, 0, 3),
    ]
    assert [score.score.mean for score in result.scores] == pytest.approx([2 / 3, 1 / 3, 0, -1])
    assert (result.n, result.n_replies) == (3, 8)


def test_reliability_is_that_of_all_halves_of_four_raters() -> None:
    made = drawn(4)
    raters, means = sorted(set(made.rater)), []
    replies = sorted(set(made.reply.ravel()))
    for half in combinations(raters, 2):
        if raters[0] not in half:
            continue
        scores: list[list[float]] = []
        for side in (set(half), set(raters) - set(half)):
            values: dict[str, list[float]] = {reply: [] for reply in replies}
            for rater, (best, *between, worst) in zip(made.rater, made.reply, strict=True):
                if rater in side:
                    values[best].append(1.0)
                    values[worst].append(-1.0)
                    for reply in between:
                        values[reply].append(0.0)
            scores.append([float(np.mean(values[reply])) for reply in replies])
        means.append(pearsonr(*scores).statistic)
    r = np.mean(means)

    reliability = best_worst(made, level=0.9).reliability

    assert len(means) == 3
    assert reliability.mean == pytest.approx(2 * r / (1 + r))
    assert reliability.n == 24
    assert reliability.low < reliability.mean < reliability.high <= 1


def test_the_interval_shrinks_with_raters_and_the_seed_decides() -> None:
    few, many = (best_worst(drawn(n), level=0.9).reliability for n in (12, 60))
    assert many.high - many.low < few.high - few.low
    assert many.mean > few.mean, "more raters agree more with as many others"
    assert best_worst(drawn(12), level=0.9).reliability == few
    assert best_worst(drawn(12), level=0.9, seed=5).reliability.mean == pytest.approx(few.mean, abs=0.1)


@pytest.mark.parametrize(("n_raters", "n_items"), [(12, 5), (8, 10)])
def test_intervals_of_reliability_cover_its_mean(n_raters: int, n_items: int) -> None:
    reliabilities = [best_worst(drawn(n_raters, n_items, people=n), level=0.9, seed=n).reliability for n in range(100)]
    mean = np.mean([reliability.mean for reliability in reliabilities])
    assert 0.85 <= np.mean([reliability.low <= mean <= reliability.high for reliability in reliabilities]) <= 0.98


def test_raters_without_names_are_units_by_choice() -> None:
    named, unnamed = drawn(25, 1), drawn(25, 1, named=False)
    with_names, without = (judge_pairs(PairJudgements.of_choices(one, TITLES)) for one in (named, unnamed))

    assert (with_names.n, with_names.n_raters, without.n_raters) == (125, 25, 25)
    ends = [[(bot.low, bot.high) for bot in one.strengths.bots] for one in (with_names, without)]
    assert np.array(ends[0]) == pytest.approx(np.array(ends[1]))
    pairs = PairJudgements.of_choices(unnamed, TITLES)
    won = (pairs.answers["quality"] + 1) / 2
    independent = bradley_terry(pairs.first.tolist(), pairs.second.tolist(), won, level=0.9)
    assert [bot.high - bot.low for bot in independent.bots] != pytest.approx([high - low for low, high in ends[0]])
    assert [bot.strength for bot in independent.bots] == pytest.approx([bot.strength for bot in without.strengths.bots])


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([("r", "i", "abcd")] * 2, "few_raters_for_halves"),
        ([(f"r{n}", f"i{n}", "abcd") for n in range(6)], "no_halves"),
    ],
)
def test_undefined_reliability_has_a_reason(rows: list[tuple[str | None, str, str]], code: str) -> None:
    reliability = best_worst(choices(rows), level=0.9).reliability
    assert (reliability.mean, reliability.low, reliability.high) == (None, None, None)
    assert reliability.reason is not None
    assert reliability.reason.code == code


def test_full_agreement_has_no_interval() -> None:
    result = best_worst(choices([(f"r{n}", f"i{i}", "abcd") for n in range(8) for i in range(3)]), level=0.9)
    assert result.reliability.mean == pytest.approx(1)
    assert result.reliability.low is None
    assert result.reliability.reason.code == "units_tell_nothing"


def test_the_formula_rises_and_ends_at_minus_one() -> None:
    assert [spearman_brown(r) for r in (-1, -0.5, 0, 0.5, 1)] == pytest.approx([-1, -1, 0, 2 / 3, 1])


def test_wrong_shapes_are_refused() -> None:
    three = np.array([["a", "b", "c"]], dtype=object)
    with pytest.raises(ValueError, match="both must be"):
        BestWorstChoices(three, three, np.array(["r"], dtype=object))


def test_results_are_written_as_json() -> None:
    plain = judge_pairs(PairJudgements.of_choices(drawn(6), TITLES)).to_json()
    assert plain["best_worst"]["n"] == 36
    assert {score["bot"] for score in plain["best_worst"]["scores"]} == set("abcd")
    assert json.loads(json.dumps(plain)) == plain
    assert split_half(np.zeros(0), np.zeros(0, dtype=str), np.zeros(0, dtype=int), level=0.9).mean is None
