"""Level and power of the verdict that a fit predicts bots better than the lengths of their conversations.

    python -m tests.validation.lengths [--studies N]

The rule and the designs stand in `docs/research/lengths.md`. Prints only.
"""

import argparse
import sys
from collections.abc import Mapping

import numpy as np

from evaluation.hybrid.bot_means import BotFeatureMeans
from evaluation.hybrid.gaussian_process_folds import FoldMeans
from evaluation.hybrid.rivals import LENGTH_RIVALS, error_ratio

N_BOTS = (5, 8, 12)
N_CONVERSATIONS = (30, 100)
DESIGNS = {"equal": (0.45, 0.45), "proxy": (0.0, 0.9), "fit alone": (0.9, 0.0), "partly": (0.75, 0.15)}
"""Shares of the variance between bots that the fit's column and log turns explain."""
SPREAD = 0.5
COLUMNS = {"fit": ("fit",), **LENGTH_RIVALS}


def study(n_bots: int, n: int, design: str, rng: np.random.Generator) -> dict[str, FoldMeans]:
    """Draw a study: the means of its bots and of the folds, for the fit and for each rival."""
    own, turns, words = rng.normal(size=(3, n_bots))
    by_fit, by_turns = DESIGNS[design]
    left = np.sqrt(max(0.0, 1 - by_fit - by_turns)) * rng.normal(size=n_bots)
    true = SPREAD * (np.sqrt(by_fit) * own + np.sqrt(by_turns) * turns + left)
    if design == "proxy":
        own = (turns + 0.5 * own) / np.sqrt(1.25)
    # Features are means of as many conversations, whose noise is that of a feature's own spread between bots.
    off = rng.normal(size=(3, n_bots)) / np.sqrt(n)
    columns = dict(zip(("fit", "log_n_turns", "log_words_user"), np.array([own, turns, words]) + off, strict=True))
    rating = true + rng.normal(size=n_bots) / np.sqrt(n)
    names = tuple(f"b{k}" for k in range(n_bots))

    def means(x: np.ndarray, keep: np.ndarray) -> BotFeatureMeans:
        k = int(keep.sum())
        bots = tuple(name for name, kept in zip(names, keep, strict=True) if kept)
        return BotFeatureMeans(
            bots, x[keep], np.ones(x.shape[1]), rating[keep], np.full(k, n), np.eye(k) / n, np.full(k, 1e6), 1.0
        )

    results = {}
    for name, parts in COLUMNS.items():
        x = np.stack([columns[part] for part in parts], axis=1)
        everybody = np.ones(n_bots, dtype=bool)
        folds = {bot: means(x, np.arange(n_bots) != k) for k, bot in enumerate(names)}
        results[name] = FoldMeans({part: (k,) for k, part in enumerate(parts)}, means(x, everybody), folds)
    return results


def judged(made: Mapping[str, FoldMeans]) -> tuple[bool, bool, bool, bool]:
    """Say whether the fit beats log turns, loses to them, beats all rivals, and loses to one."""
    human = made["fit"].all_bots.rating
    predicted = {
        name: np.array(
            [means.left_out(bot, x)[0][0] for bot, x in zip(means.all_bots.bots, means.all_bots.x, strict=True)]
        )
        for name, means in made.items()
    }
    better = {name: error_ratio(predicted["fit"], predicted[name], human).is_better for name in LENGTH_RIVALS}
    turns = better["log_turns"]
    return turns is True, turns is False, set(better.values()) == {True}, False in better.values()


def main() -> int:
    """Print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=300)
    n_studies = parser.parse_args().studies
    print("| design | bots | conv. | beats turns | loses to turns | beats the lengths | loses to one |")
    print("|---|---|---|---|---|---|---|")
    for design in DESIGNS:
        for n_bots in N_BOTS:
            for n in N_CONVERSATIONS:
                rng = np.random.default_rng([list(DESIGNS).index(design), n_bots, n])
                shares = np.mean([judged(study(n_bots, n, design, rng)) for _ in range(n_studies)], axis=0)
                cells = " | ".join(f"{100 * value:.1f} %" for value in shares)
                print(f"| {design} | {n_bots} | {n} | {cells} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
