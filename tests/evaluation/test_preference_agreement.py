"""Choices of a judge or a metric beside people's: hand-worked shares, kappa, ties, sides that were turned round."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest
from statsmodels.stats.inter_rater import cohens_kappa

from chatbots import Conversation
from chatbots.registry import UnknownName
from evaluation.agreement_by_group import NO_VALUE
from evaluation.analysis.pairwise_preference import PairJudgements
from evaluation.items import ChatPair, ReplyItem
from evaluation.llm_judge import JudgedPair
from evaluation.preference_agreement import NOBODY_SAID, NOT_CHOSEN, PairChoice, compare_choices
from evaluation.preference_benchmark import choices_printed, choose, judge_chosen, people_length_bias
from evaluation.stats.means import SHARE, mean_interval


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
    found = compare_choices(SEVEN, chosen)
    assert (found.n_pairs, found.n, found.n_raters) == (4, 7, 2)
    assert found.counts == {
        "same": 4, "other": 1, "people_tied": 1, "chooser_tied": 1, "both_tied": 0,
    }  # fmt: skip
    assert (found.agreed.mean, found.agreed.n) == (4 / 5, 5)
    # Observed 4 of 7; by chance (3 · 4 + 1 · 1 + 3 · 2) / 49.
    assert found.kappa.mean == pytest.approx((28 - 19) / (49 - 19))
    # x and y chose the same reply of p1 and not of p2; of p3 x chose none.
    assert (found.people.mean, found.people.n) == (1 / 2, 2)
    for one in (found.agreed, found.kappa, found.people):
        assert one.low is not None
        assert one.low <= one.mean <= one.high
    turned = {name: PairChoice(-answer, "b") for name, answer in FOUR.items()}
    assert compare_choices(SEVEN, turned).to_json() == found.to_json()


def test_what_lacks_a_side_is_counted_and_what_cannot_be_computed_says_why() -> None:
    chosen = {"p1": PairChoice(nan, "a", why="the cap is reached"), "p3": PairChoice(0, "a"), "q": PairChoice(1)}
    found = compare_choices(SEVEN, chosen)
    assert found.skipped == {"the cap is reached": 1, NOT_CHOSEN: 2, NOBODY_SAID: 1}
    assert found.counts["both_tied"] == found.counts["chooser_tied"] == 1
    assert found.agreed.mean is None
    assert "always called them the same" in found.to_json()["agreed"]["reason"]
    with pytest.raises(ValueError, match="'warmth' about pairs; there is quality"):
        compare_choices(SEVEN, chosen, "warmth")


def test_the_interval_counts_contexts_and_raters_not_answers() -> None:
    """All agree: the interval is that of a mean of as many units as there are of the fewer kind."""
    rows = [(f"p{k}", f"r{r}", 1.0) for k in range(6) for r in range(10)]
    of_one = {f"p{k}": PairChoice(1.0, "a", context=str(k // 2)) for k in range(6)}
    found = compare_choices(people(*rows), of_one).agreed
    three = mean_interval([1, 1, 1], level=0.95, scale=SHARE)
    assert (found.mean, found.low, found.high) == (1, pytest.approx(three.low), 1)
    by_rater = [(f"p{k}", f"r{r}", 1.0 if r < 5 else -1.0) for k in range(40) for r in range(10)]
    many = {f"p{k}": PairChoice(1.0, "a") for k in range(40)}
    found = compare_choices(people(*by_rater), many).agreed
    assert found.mean == 0.5
    assert found.high - found.low > 0.5, "pairs agree to the dot, raters differ"


def test_kappa_has_the_error_of_statsmodels_where_everybody_answers_once() -> None:
    rng = np.random.default_rng(2)
    own = rng.choice([1.0, 0.0, -1.0], 400, p=[0.5, 0.2, 0.3])
    said = np.where(rng.random(400) < 0.5, own, rng.choice([1.0, 0.0, -1.0], 400))
    rows = [(f"p{k}", f"r{k}", answer) for k, answer in enumerate(said.tolist())]
    found = compare_choices(people(*rows), {f"p{k}": PairChoice(own[k], "a") for k in range(400)}).kappa
    counts = [[int(((said == a) & (own == b)).sum()) for b in (1, 0, -1)] for a in (1, 0, -1)]
    expected = cohens_kappa(np.array(counts))
    assert found.mean == pytest.approx(expected.kappa)
    assert found.low == pytest.approx(expected.kappa_low, abs=0.004)
    assert found.high == pytest.approx(expected.kappa_upp, abs=0.004)


def test_metrics_and_a_judge_choose_and_are_told() -> None:
    items = [
        ReplyItem(id="p1", context=("hi",), response="one two", model="a", second_response="one", second_model="b"),
        ReplyItem(id="p2", context=("hi",), response="one", model="a", second_response="one two three",
                  second_model="b"),
        ReplyItem(id="p3", response="same", model="a", second_response="same", second_model="b"),
        ReplyItem(id="p4", response="alone"),
    ]  # fmt: skip
    found = choose(SEVEN, items, ["words_bot", "bleu"])
    words = found["words_bot"].agreement
    assert words is not None
    # It chooses 1, −1 and the same; p4 has nothing to choose from.
    assert words.counts == {
        "same": 3, "other": 1, "people_tied": 0, "chooser_tied": 1, "both_tied": 1,
    }  # fmt: skip
    assert words.skipped == {NOT_CHOSEN: 1}
    bleu = found["bleu"].agreement
    assert bleu is not None
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
    found = choose(people_said, pairs, ["words_bot", "words", "bleu", "distinct"])
    words = found["words_bot"].agreement
    assert words is not None
    # Means a turn: 2 against 1; 1 against 2; the same; nothing to count; 3 against 1.
    assert words.counts == {
        "same": 3, "other": 1, "people_tied": 0, "chooser_tied": 0, "both_tied": 1,
    }  # fmt: skip
    assert words.skipped == {NO_VALUE: 1}
    assert found["bleu"].agreement is not None
    assert found["bleu"].agreement.agreed.mean is None, "chats have no references"
    with pytest.raises(UnknownName):
        choose(people_said, pairs, ["no such column"])
