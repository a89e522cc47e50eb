"""Errors in replies: scores, and agreement on what is marked, held against calculations written out here."""

from itertools import combinations, product

import numpy as np
import pytest

from evaluation.analysis.bot_means import bot_means
from evaluation.analysis.error_spans import SEVERITIES, ErrorResults, ErrorSpan, error_results
from evaluation.data.ratings import RatingDimension, Ratings
from evaluation.stats.agreement import krippendorff_alpha

KINDS = ("accuracy", "style")
TEXT = "one two three four five six seven eight nine ten"


def made(n_replies: int, n_raters: int, seed: int = 0) -> tuple[Ratings, list[list[ErrorSpan]], list[str]]:
    """Return ratings in which a reply has some errors that raters find or miss, and mark a little differently."""
    rng = np.random.default_rng(seed)
    rows, spans, texts = [], [], []
    for reply in range(n_replies):
        true = [(int(integer), int(integer + rng.integers(3, 12))) for integer in rng.integers(0, 30, rng.poisson(1.0))]
        is_easy = rng.beta(2, 1)
        for rater in range(n_raters):
            marked = {
                ErrorSpan(
                    max(0, at + int(rng.integers(-3, 4))),
                    end + int(rng.integers(1, 3)),
                    str(rng.choice(KINDS, p=[0.8, 0.2])),
                    str(rng.choice(list(SEVERITIES))),
                )
                for at, end in true
                if rng.random() < is_easy
            }
            spans.append(sorted(marked))
            texts.append(TEXT if reply % 2 else TEXT[:18])
            score = -sum(SEVERITIES[one.severity] for one in marked)
            rows.append((f"c{reply}/1", "ab"[reply % 2], f"r{rater}", score))
    columns = [np.array(column, dtype=object) for column in zip(*rows, strict=True)]
    scale = RatingDimension("mqm", "Error score", -500, 0)
    ratings = Ratings(*columns[:3], answers={"mqm": columns[3].astype(float)}, dimensions=(scale,))
    return ratings, spans, texts


def test_scores_of_bots_are_sums_over_sums() -> None:
    ratings, spans, texts = made(40, 3)
    result = error_results(ratings, spans, texts)
    for bot, n_words in (("a", 4), ("b", 10)):
        own = next(one for one in result.bots if one.bot == bot)
        mine = np.flatnonzero(ratings.bot == bot)
        total = sum(SEVERITIES[one.severity] for i in mine for one in spans[i])
        assert (own.n_replies, own.n_ratings) == (20, 60)
        assert own.score.mean == pytest.approx(-total / 60)
        assert own.score == bot_means(ratings).rows[bot, "mqm"].interval
        assert own.per_100_words.mean == pytest.approx(-100 * total / (60 * n_words))
        assert own.per_100_words.low is not None
        assert own.per_100_words.low < own.per_100_words.mean < own.per_100_words.high <= 0
        n_major = sum(one.severity == "major" for i in mine for one in spans[i])
        assert own.per_reply["major"] == pytest.approx(n_major / 60)
    assert result.bots[0].score.mean >= result.bots[1].score.mean
    table = ratings.answers["mqm"].reshape(40, 3)
    assert result.alpha.value == pytest.approx(krippendorff_alpha(table).value)


def overlap_by_hand(ratings: Ratings, spans: list[list[ErrorSpan]], *, with_kinds: bool) -> float:
    """Return F1 of characters by arrays of zeros and ones, one of each rating and kind."""
    both = each = 0.0
    replies = ratings.conversation.tolist()
    for i, j in combinations(range(len(replies)), 2):
        if replies[i] != replies[j]:
            continue
        groups = [(kind,) for kind in KINDS] if with_kinds else [KINDS]
        masks = np.zeros((2, len(groups), 80))
        for (row, rating), (g, kinds) in product(enumerate((i, j)), enumerate(groups)):
            for one in spans[rating]:
                if one.category in kinds:
                    masks[row, g, one.start : one.end] = 1
        both, each = both + float((masks[0] * masks[1]).sum()), each + float(masks.sum())
    return 2 * both / each


def test_agreement_is_f1_of_characters_over_pairs_of_raters() -> None:
    ratings, spans, texts = made(30, 3, seed=4)
    result = error_results(ratings, spans, texts)
    for one, with_kinds in ((result.overlap, False), (result.same_category, True)):
        assert one.value == pytest.approx(overlap_by_hand(ratings, spans, with_kinds=with_kinds))
        assert one.low is not None
        assert one.low < one.value < one.high
        assert (one.n_items, one.n_ratings) == (30, 90)
    assert result.same_category.value < result.overlap.value


def test_raters_who_mark_alike_or_nothing() -> None:
    ratings, spans, texts = made(12, 2, seed=1)
    alike = [spans[2 * (i // 2)] for i in range(24)]
    result = error_results(ratings, alike, texts)
    assert result.overlap.value == 1
    assert result.overlap.reason.code == "no_disagreement"
    nothing = error_results(ratings, [[] for _ in range(24)], texts).overlap
    assert (nothing.value, nothing.reason.code) == (None, "nothing_marked")
    few = error_results(*(made(5, 2, seed=3))).overlap
    assert (few.low, few.reason.code) == (None, "few_items_for_interval")


def interval_holds(seed: int, truth: float) -> bool:
    result: ErrorResults = error_results(*made(30, 2, seed))
    assert result.overlap.low is not None
    return result.overlap.low <= truth <= result.overlap.high


def test_the_interval_of_the_overlap_holds_what_it_claims() -> None:
    truth = error_results(*made(4000, 2, seed=99)).overlap.value
    assert truth is not None
    n = 150
    share = sum(interval_holds(seed, truth) for seed in range(n)) / n
    assert abs(share - 0.95) < 2 * (0.95 * 0.05 / n) ** 0.5 + 0.005, "two Monte-Carlo errors, and that of the truth"


@pytest.mark.parametrize(("values", "words"), [((3, 3, "a", "minor"), "from 3 to 3"), ((0, 1, "a", "bad"), "bad")])
def test_an_error_that_cannot_be_is_refused(values: tuple[int, int, str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ErrorSpan(*values)
