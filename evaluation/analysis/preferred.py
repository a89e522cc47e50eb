"""Preferred bot of every pair: the only definition, for pages, the report, the live room and notebooks.

While a study collects (`Judgements.is_collecting`), the always-valid test of `evaluation.stats.sequential` applies,
because researchers look at judgements as they arrive. Once the planned size is reached or the study is closed, the
fixed-sample test of `evaluation.stats.compare` applies. Both are corrected by Holm for all pairs of the question.
`Preferred.test` names the test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from chatbots.storable import quote
from evaluation.analysis.comparisons import Test
from evaluation.analysis.judged_pairs import Judgements
from evaluation.stats.compare import ORDER_ALPHA, Comparison, preferences_fixed
from evaluation.stats.sequential import RATERS, Preference, preferences_always


@dataclass(frozen=True, slots=True)
class Preferred:
    """Every two bots that were set against each other, on one question.

    Attributes:
        alpha: chance allowed of any wrong preference among all pairs.
        test: which test says who is preferred.
        found: sorted by name; intervals of 1 − alpha, not corrected. `more` is known while the study collects.
        n: judgements of each two.
    """

    question: str
    alpha: float
    test: Test
    found: tuple[Preference, ...]
    n: Mapping[tuple[str, str], int]

    def of(self, a: str, b: str) -> Comparison:
        """Return the comparison of two bots, `a` before `b` in the alphabet.

        Raises:
            KeyError: they were never compared on this question.
        """
        for one in self.found:
            if (one.pair.a, one.pair.b) == (a, b):
                return one.pair
        raise KeyError(f"nobody compared {quote(a)} with {quote(b)} on {quote(self.question)}")


def preferred(judged: Judgements, question: str, *, alpha: float = ORDER_ALPHA) -> Preferred:
    """Return the preferred bot of every pair on a question.

    Args:
        alpha: error rate of any wrong preference among all pairs; anytime-valid while the study collects.
    """
    values = judged.answers[question]
    given = np.isfinite(values)
    first, second = judged.first[given].tolist(), judged.second[given].tolist()
    read = (values[given], first, second, judged.rater[given].tolist(), judged.item[given].tolist())
    if judged.is_collecting:
        found = tuple(preferences_always(*read, level=1 - alpha))
    else:
        pairs = preferences_fixed(*read, level=1 - alpha)
        found = tuple(Preference(pair, RATERS, None) for pair in pairs)
    n = Counter((min(two), max(two)) for two in zip(first, second, strict=True))
    test: Test = "always" if judged.is_collecting else "fixed"
    return Preferred(question, alpha, test, found, dict(n))


def sign_of(pair: Comparison) -> int:
    """Return the significantly better bot: 1 for a, -1 for b, 0 for neither."""
    return int(np.sign(pair.difference or 0)) if pair.ordered else 0
