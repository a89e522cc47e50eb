"""Choices of a judge or a metric beside people's, and paired differences of two columns."""

import json
from math import nan

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.inter_rater import cohens_kappa

from chatbots import Conversation
from chatbots.registry import UnknownName
from evaluation.agreement.agreement_by_group import METRIC_UNDEFINED
from evaluation.agreement.llm_judge import JudgedPair
from evaluation.agreement.metric_agreement import judge
from evaluation.agreement.paired_comparison import compare_paired, gains_printed
from evaluation.agreement.preference_benchmark import (
    NOBODY_SAID,
    NOT_CHOSEN,
    PairChoice,
    choices_printed,
    choose,
    compare_choices,
    judge_chosen,
    people_length_bias,
)
from evaluation.analysis.pairwise_preference import PairJudgements
from evaluation.data.items import ChatPair, ReplyItem
from evaluation.stats.means import SHARE, mean_interval
from tests.evaluation import simulated_gains


def people(*rows: tuple[str, str, float], first: str = "a", second: str = "b") -> PairJudgements:
    """Return answers, each (pair, rater, answer), of bots a and b."""
    item, rater, answers = zip(*rows, strict=True)
    return PairJudgements(
        item=np.array(item, dtype=object),
        first=np.array([first] * len(rows), dtype=object),
        second=np.array([second] * len(rows), dtype=object),
        rater=np.array(rater, dtype=object),
        answers={"quality": np.array(answers, dtype=float)},
        titles={"quality": "Quality"},
    )


SEVEN = people(
    ("p1", "x", 1), ("p1", "y", 1), ("p2", "x", 1), ("p2", "y", -1), ("p3", "x", 0), ("p3", "y", -1), ("p4", "x", -1),
)  # fmt: skip
FOUR = {"p1": 1.0, "p2": 1.0, "p3": -1.0, "p4": 0.0}


def test_seven_answers_by_hand() -> None:
    chosen = {name: PairChoice(answer, "a") for name, answer in FOUR.items()}
    result = compare_choices(SEVEN, chosen)
    assert (result.n_pairs, result.n, result.n_raters) == (4, 7, 2)
    assert result.counts == {
        "same": 4, "other": 1, "people_tied": 1, "chooser_tied": 1, "both_tied": 0,
    }  # fmt: skip
    assert (result.agreed.mean, result.agreed.n) == (4 / 5, 5)
    # Observed 4 of 7; by chance (3 · 4 + 1 · 1 + 3 · 2) / 49.
    assert result.kappa.mean == pytest.approx((28 - 19) / (49 - 19))
    # x and y chose the same reply of p1 and not of p2; of p3 x chose none.
    assert (result.people.mean, result.people.n) == (1 / 2, 2)
    for one in (result.agreed, result.kappa, result.people):
        assert one.low <= one.mean <= one.high
    turned = {name: PairChoice(-answer, "b") for name, answer in FOUR.items()}
    assert compare_choices(SEVEN, turned).to_json() == result.to_json()


def test_what_lacks_a_side_is_counted_and_what_cannot_be_computed_says_why() -> None:
    chosen = {"p1": PairChoice(nan, "a", reason="the cap is reached"), "p3": PairChoice(0, "a"), "q": PairChoice(1)}
    result = compare_choices(SEVEN, chosen)
    assert result.skipped == {"the cap is reached": 1, NOT_CHOSEN: 2, NOBODY_SAID: 1}
    assert result.counts["both_tied"] == result.counts["chooser_tied"] == 1
    assert result.agreed.mean is None
    assert "always answered that they are equal" in result.to_json()["agreed"]["reason"]
    with pytest.raises(ValueError, match="'warmth' about pairs; available: quality"):
        compare_choices(SEVEN, chosen, "warmth")


def test_the_interval_counts_contexts_and_raters_not_answers() -> None:
    """All agree: the interval is that of a mean of as many units as there are of the fewer kind."""
    rows = [(f"p{k}", f"r{r}", 1.0) for k in range(6) for r in range(10)]
    of_one = {f"p{k}": PairChoice(1.0, "a", context=str(k // 2)) for k in range(6)}
    result = compare_choices(people(*rows), of_one).agreed
    three = mean_interval([1, 1, 1], level=0.95, scale=SHARE)
    assert (result.mean, result.low, result.high) == (1, pytest.approx(three.low), 1)
    by_rater = [(f"p{k}", f"r{r}", 1.0 if r < 5 else -1.0) for k in range(40) for r in range(10)]
    many = {f"p{k}": PairChoice(1.0, "a") for k in range(40)}
    result = compare_choices(people(*by_rater), many).agreed
    assert result.mean == 0.5
    assert result.high - result.low > 0.5, "pairs agree to the dot, raters differ"


def test_kappa_has_the_error_of_statsmodels_where_everybody_answers_once() -> None:
    rng = np.random.default_rng(2)
    own = rng.choice([1.0, 0.0, -1.0], 400, p=[0.5, 0.2, 0.3])
    values = np.where(rng.random(400) < 0.5, own, rng.choice([1.0, 0.0, -1.0], 400))
    rows = [(f"p{k}", f"r{k}", answer) for k, answer in enumerate(values.tolist())]
    kappa = compare_choices(people(*rows), {f"p{k}": PairChoice(own[k], "a") for k in range(400)}).kappa
    counts = [[int(((values == a) & (own == b)).sum()) for b in (1, 0, -1)] for a in (1, 0, -1)]
    expected = cohens_kappa(np.array(counts))
    assert kappa.mean == pytest.approx(expected.kappa)
    assert kappa.low == pytest.approx(expected.kappa_low, abs=0.004)
    assert kappa.high == pytest.approx(expected.kappa_upp, abs=0.004)


def test_metrics_and_a_judge_choose_and_are_told() -> None:
    items = [
        ReplyItem(id="p1", context=("hi",), response="one two", model="a", second_response="one", second_model="b"),
        ReplyItem(id="p2", context=("hi",), response="one", model="a", second_response="one two three",
                  second_model="b"),
        ReplyItem(id="p3", response="same", model="a", second_response="same", second_model="b"),
        ReplyItem(id="p4", response="alone"),
    ]  # fmt: skip
    result = choose(SEVEN, items, ["words_bot", "bleu"])
    words = result["words_bot"].agreement
    # It chooses 1, −1 and the same; p4 has nothing to choose from.
    assert words.counts == {
        "same": 3, "other": 1, "people_tied": 0, "chooser_tied": 1, "both_tied": 1,
    }  # fmt: skip
    assert words.skipped == {NOT_CHOSEN: 1}
    bleu = result["bleu"].agreement
    assert bleu.skipped == {"there is no reference": 3, NOT_CHOSEN: 1}
    assert bleu.agreed.mean is None
    pairs = [
        JudgedPair("p1", "c", "a", "b", 0.9, 0.5, 2, 1),
        JudgedPair("p2", "c", "b", "a", 0.8, 0.5, 3, 1),
        JudgedPair("p3", "d", "a", "b", 0.5, 0.9, 1, 1),
    ]
    chosen = judge_chosen(pairs)
    assert [one.answer for one in chosen.values()] == [1, 1, 0]
    told = choices_printed({"judge": {"column": "", **compare_choices(SEVEN, chosen).to_json()}})
    # Of p2 it prefers what was shown first to it, which is b: y alone says that, too.
    assert "3 the same reply, 1 the other one, 0 people said “the same”, 1 judge did, 1 both did" in told
    # Longer by 1, 2 and 0 words; people's means, turned to the judge's sides, 1, 0 and −½: both orders by rank but one.
    assert people_length_bias(SEVEN, pairs, "quality").r == pytest.approx(0.5)


def test_metrics_and_a_judge_choose_between_whole_chats() -> None:
    def pair(key: str, first: list[str], second: list[str], **more: bool) -> ChatPair:
        one, other = (
            Conversation.from_texts(texts, id=f"{key}{side}") for side, texts in (("a", first), ("b", second))
        )
        return ChatPair(key, one, other, "a", "b", **more)

    pairs = [
        pair("p1", ["hi", "one two three", "so", "one"], ["hi", "one", "so", "two"]),
        pair("p2", ["hi", "one"], ["hi", "one two"]),
        pair("p3", ["hi", "same"], ["hi", "other"]),
        pair("p4", ["hi"], ["hi", "an answer"]),
        # Of a bot with itself both speakers count: 2 + 4 words a turn against 1 + 1.
        pair("p5", ["x", "one two", "one two three four"], ["x", "y", "z"], self_play=True),
    ]
    people_said = people(
        *(("p1", rater, 1.0) for rater in "xy"), ("p2", "x", 1), ("p3", "x", 0), ("p4", "x", 1), ("p5", "x", 1),
    )  # fmt: skip
    result = choose(people_said, pairs, ["words_bot", "words", "bleu", "distinct"])
    words = result["words_bot"].agreement
    # Means a turn: 2 against 1; 1 against 2; the same; nothing to count; 3 against 1.
    assert words.counts == {
        "same": 3, "other": 1, "people_tied": 0, "chooser_tied": 0, "both_tied": 1,
    }  # fmt: skip
    assert words.skipped == {METRIC_UNDEFINED: 1}
    assert result["bleu"].agreement.agreed.mean is None, "chats have no references"
    with pytest.raises(UnknownName):
        choose(people_said, pairs, ["no such column"])


def made(n=40, seed=3):
    rng = np.random.default_rng(seed)
    human = rng.normal(size=n)
    good, poor = human + rng.normal(size=n), human + 3 * rng.normal(size=n)
    contexts = np.array([f"c{k // 2}" for k in range(n)], dtype=object)
    cells = [("s", "xy"[k % 4 // 2]) for k in range(n)]
    return good, poor, human, contexts, cells


def test_the_gain_is_the_mean_over_cells_and_its_interval_the_jackknife_over_contexts():
    good, poor, human, contexts, cells = made()
    result = compare_paired(good, poor, human, contexts, cells, "poor")
    parts = [np.array([one == cell for one in cells]) for cell in dict.fromkeys(cells)]

    def gain_of(rows):
        return np.mean(
            [
                stats.pearsonr(good[p & rows], human[p & rows])[0] - stats.pearsonr(poor[p & rows], human[p & rows])[0]
                for p in parts
            ]
        )

    gain = result.gains["pearson"]
    assert gain.gain == pytest.approx(gain_of(np.ones(40, dtype=bool)))
    assert result.gains["mean"].gain == pytest.approx(
        (result.gains["pearson"].gain + result.gains["spearman"].gain) / 2
    )
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
    assert result.cells == {("s", "x"): 20, ("s", "y"): 20}


def test_equal_columns_gain_nothing_and_undefined_cells_are_counted():
    good, _, human, contexts, cells = made()
    same = compare_paired(good, 2 * good + 1, human, contexts, cells, "same")
    assert same.gains["spearman"].to_json()["gain"] == pytest.approx(0)
    assert same.gains["pearson"].high == pytest.approx(0, abs=1e-9)
    half = np.where([model == "x" for _, model in cells], good, np.nan)
    result = compare_paired(half, good, human, contexts, cells, "good")
    assert (len(result.cells), result.left_out) == (1, 1)
    none = compare_paired(np.full(40, 1.0), good, human, contexts, cells, "good")
    assert none.gains == {}
    assert "no cell has" in gains_printed({"m": {"against": none.to_json()}})[0]


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
    result = judge(file, ["rouge_l", "words_bot"], against="words_bot")
    told = result["rouge_l"].to_json()["against"]
    assert result["words_bot"].against is None
    words, rouge = result["words_bot"].scores["words_bot"], result["rouge_l"].scores["rouge_l"]
    people = np.array([row["ratings"][0]["good"] for row in rows])
    expected = [
        stats.spearmanr(rouge[m::2], people[m::2])[0] - stats.spearmanr(words[m::2], people[m::2])[0] for m in range(2)
    ]
    assert told["spearman"]["gain"] == pytest.approx(np.mean(expected))
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


def test_a_gain_that_one_context_carries_has_no_interval() -> None:
    """As BLEU-4 of replies of which one repeats the reference."""
    rng = np.random.default_rng(3)
    human, good = rng.normal(size=(2, 60))
    contexts = np.array([f"c{i}" for i in range(60)], dtype=object)
    cells = [("s", "m")] * 60
    bleu = np.zeros(60)
    bleu[[3, 9]] = 0.8, 0.05
    result = compare_paired(good, bleu, human, contexts, cells, "bleu")
    for gain in result.gains.values():
        assert (gain.low, gain.high) == (None, None)
        assert gain.reason.code == "few_carry"
        assert gain.to_json()["reason"]["n_units"] == 60
    assert (
        "no interval: 1.0 of 60 contexts determine the variance of one side"
        in gains_printed({"m": {"against": result.to_json()}})[0]
    )
    # Three that differ alike are enough, and in two cells of one data set each carries its own.
    bleu[[3, 9, 20]] = 0.8
    assert compare_paired(good, bleu, human, contexts, cells, "bleu").gains["pearson"].low is not None
    two = np.zeros(60)
    two[[3, 9, 40, 50]] = 0.8
    halves = [("s", f"m{i // 30}") for i in range(60)]
    assert compare_paired(good, two, human, contexts, halves, "bleu").gains["pearson"].reason is None
