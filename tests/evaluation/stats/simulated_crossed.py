"""Simulated ratings for linear models with crossed random effects. For the suite in small, for
`tests.validation.formula_models` in full.
"""

from dataclasses import dataclass

import numpy as np

from evaluation.stats.crossed import CrossedFit, fit_linear

Study = tuple[np.ndarray, np.ndarray, list[np.ndarray]]
"""Ratings (n,), levels of a factor (n,) and codes of the random effects."""
FACTOR_ROW = np.array([0.0, 1.0])


@dataclass(frozen=True)
class RaterDesign:
    """Raters who each give some ratings.

    Attributes:
        tau: standard deviation of the raters; that of the error is 1.
        is_between: each rater sees one level of the factor.
    """

    n_raters: int
    n_each: int
    tau: float
    is_between: bool = True


def draw_ratings(rng: np.random.Generator, design: RaterDesign) -> Study:
    """Draw a study without an effect of the factor."""
    rater, place = np.divmod(np.arange(design.n_raters * design.n_each), design.n_each)
    level = (rater if design.is_between else place) % 2
    return design.tau * rng.normal(size=design.n_raters)[rater] + rng.normal(size=len(rater)), level, [rater]


def draw_any_study(rng: np.random.Generator) -> Study:
    """Draw a study of a random design: 6 to 50 raters, half of them with points of 1 to 5, a third with items."""
    n_raters, n_each = int(rng.choice([6, 8, 12, 20, 50])), int(rng.choice([3, 4, 6, 10]))
    rater = np.repeat(np.arange(n_raters), n_each)
    n = len(rater)
    kind = rng.integers(3)
    level = rater % 2 if kind == 0 else rng.integers(0, 3, n)
    y = 0.3 * level + rng.choice([0, 0.2, 0.3, 0.5, 0.7, 1, 2]) * rng.normal(size=n_raters)[rater] + rng.normal(size=n)
    groups = [rater]
    if kind == 2:
        item = np.unique(rng.integers(0, int(rng.choice([5, 10, 15])), n), return_inverse=True)[1]
        y = y + rng.choice([0, 0.4, 0.8]) * rng.normal(size=item.max() + 1)[item]
        groups.append(item)
    if rng.random() < 0.5:
        y = np.round(np.clip(3 + y, 1, 5)) * rng.choice([1, 20])
    return y, level, groups


def fit_study(study: Study) -> CrossedFit:
    """Fit the factor by indicators of all levels but the first."""
    y, level, groups = study
    return fit_linear(y, np.stack([np.ones(len(y)), *(level == k for k in np.unique(level)[1:])], axis=1), groups)
