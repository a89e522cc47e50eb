"""Share of equally good raters who are listed as inaccurate, for `docs/background/intervals.md`.

`python -m tests.validation.label_raters [N]` simulates N studies per row, with eight raters and three labels, whose
shares are 1/2, 1/3 and 1/6. The intervals of the shares of raters are clustered by study.
"""

import sys
from itertools import product

import numpy as np

from evaluation.analysis.label_quality import label_quality
from evaluation.data.ratings import RatingDimension, Ratings

N_RATERS, SHARES = 8, (1 / 2, 1 / 3, 1 / 6)


def simulate_ratings(rng: np.random.Generator, n_items: int, n_each: int, accuracy: float) -> Ratings:
    """Draw the labels of items by different raters; wrong labels are equally likely."""
    truth = np.repeat(rng.choice(3, n_items, p=SHARES), n_each)
    wrong = (truth + rng.integers(1, 3, len(truth))) % 3
    labels = np.where(rng.random(len(truth)) < accuracy, truth, wrong)
    raters = rng.permuted(np.tile(np.arange(N_RATERS), (n_items, 1)), axis=1)[:, :n_each].ravel()
    items = np.repeat(np.arange(n_items), n_each).astype(str).astype(object)
    bots, names = np.full(len(truth), "bot", dtype=object), raters.astype(str).astype(object)
    return Ratings(items, bots, names, {"label": labels.astype(float)}, (RatingDimension("label", "Label", 0, 2),))


def main(n: int) -> None:
    """Print a row for each design."""
    print("| items | labels per item | accuracy | raters listed | studies with a listed rater |\n|---|---|---|---|---|")
    for n_items, n_each, accuracy in product((100, 200), (3, 5), (0.7, 0.85)):
        rng = np.random.default_rng([n_items, n_each, round(100 * accuracy)])
        counts = []
        for _study in range(n):
            [labels] = label_quality(simulate_ratings(rng, n_items, n_each, accuracy))
            counts.append(len(labels.low_raters))
        listed, half = np.mean(counts) / N_RATERS, 1.96 * np.std(counts, ddof=1) / N_RATERS / np.sqrt(n)
        any_listed = np.mean(np.array(counts) > 0)
        print(f"| {n_items} | {n_each} | {accuracy} | {listed:.3f} ± {half:.3f} | {any_listed:.2f} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 200)
