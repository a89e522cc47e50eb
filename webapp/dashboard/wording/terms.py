"""Definitions of terms shared by the pages and the report, a sentence or two each."""

from __future__ import annotations

from evaluation.printing import share
from evaluation.stats.compare import ORDER_ALPHA


def terms() -> list[tuple[str, str]]:
    """Return each word with its explanation."""
    return [
        (
            "Told apart",
            (
                "Two bots are told apart where their mean ratings differ by more than chance: by generalised least "
                "squares with raters as a random effect and errors clustered by rater (Welch’s test where everybody "
                "rates once, the paired one where everybody rates both), corrected by Holm for all pairs of the "
                f"study, p < {share(ORDER_ALPHA)}. While a study collects, and until its planned size is reached, an "
                "always-valid test takes its place: it may be looked at any time, and needs a clearer difference "
                "for that (confidence sequences of a normal mixture; Robbins, 1970)."
            ),
        ),
        (
            "Raters",
            (
                "Whoever has one name is one rater. Ratings without a name, or by a place such as “slot 1”, are "
                "by nobody who can be counted; each of their conversations stands for a rater in tests and models."
            ),
        ),
        (
            "Intercept",
            (
                "Where the line of a hybrid fit starts. One intercept for all folds is preferred: with one for each "
                "fold, as in the paper, features that say nothing correlate at nearly −1 with the ratings."
            ),
        ),
    ]
