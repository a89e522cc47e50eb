"""How often `can_replace` errs, in simulated studies: `python -m tests.validation.replacement [N]`.

`docs/research/replacement.md` has the table.
"""

import sys
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd

from evaluation.data.ratings import Ratings
from evaluation.replacement.candidate import ReplacementData
from evaluation.replacement.compare import compare_candidates
from evaluation.replacement.result import ReplacementResult

SPREAD, OF_CHAT, OF_RATER, NOISE = 0.6, 0.5, 0.4, 0.8
"""Standard deviations of bots' means, of chats, of raters and of single ratings, in points."""
USELESS, PERFECT = "useless", "perfect"


@dataclass(frozen=True)
class Cell:
    """Numbers of bots, of ratings and unrated chats of each, and the margin in points."""

    bots: int
    rated: int
    unrated: int = 20
    margin: float = 0.5


CELLS = (Cell(6, 30), Cell(12, 30), Cell(12, 150))


def simulate_study(cell: Cell, seed: int) -> ReplacementData:
    """Draw a study with two judges, and so with their panel.

    The useless judge sees noise, and the perfect one what an average rater would say.
    """
    rng = np.random.default_rng(seed)
    each = cell.rated + cell.unrated
    bot, n = np.repeat(np.arange(cell.bots), each), cell.bots * each
    quality = rng.normal(0, SPREAD, cell.bots)[bot] + rng.normal(0, OF_CHAT, n)
    is_rated = np.tile(np.arange(each) < cell.rated, cell.bots)
    rater = rng.permutation(n) % max(2, n // 4)
    rating = 4 + quality + rng.normal(0, OF_RATER, n)[rater] + rng.normal(0, NOISE, n)
    chats = pd.DataFrame(
        {
            "conversation": [f"c{number}" for number in range(n)],
            "bot": [f"b{number}" for number in bot],
            "words_user": 1.0 + rng.poisson(8, n),
            "n_turns": 2.0 + rng.poisson(8, n),
            "words_bot": 1.0 + rng.poisson(10, n),
            "question_bot": rng.random(n),
        }
    )
    rated = chats.loc[is_rated, ["conversation", "bot"]]
    rated = rated.assign(rater=[f"r{number}" for number in rater[is_rated]], quality=np.clip(rating[is_rated], -2, 10))
    scores = {USELESS: rng.normal(0, 1, n), PERFECT: 4 + quality}
    return ReplacementData(
        Ratings.from_frame(rated, ["quality"], scale=(-2, 10)),
        chats,
        judges={
            name: dict(zip(chats["conversation"], values.tolist(), strict=True)) for name, values in scores.items()
        },
    )


def compare_cell(cell: Cell, seed: int) -> ReplacementResult:
    """Ask the judges of one simulated study."""
    return compare_candidates(simulate_study(cell, seed), margin=cell.margin)


def main(n: int) -> None:
    """Print the shares of the answers by cell and judge."""
    print("| bots | ratings per bot | judge | yes | for ranking only | no | values: yes | saves: yes | saved of 100 |")
    print("|---|---|---|---|---|---|---|---|---|")
    for cell in CELLS:
        counts: dict[str, Counter[str]] = {name: Counter() for name in (USELESS, PERFECT)}
        saved: dict[str, list[float]] = {name: [] for name in counts}
        for seed in range(n):
            for verdict in compare_cell(cell, seed).candidates:
                if verdict.kind != "judge":
                    continue
                answers = counts[verdict.name]
                answers[verdict.standing] += 1
                answers["equal"] += verdict.equality.answer == "yes"
                answers["worth"] += verdict.worth.answer == "yes"
                saved[verdict.name].append(verdict.worth.saved.value or 0.0)
        for name, answers in counts.items():
            shares = [f"{answers[key] / n:.3f}" for key in ("yes", "ranking", "no", "equal", "worth")]
            print(
                f"| {cell.bots} | {cell.rated} | {name} | {' | '.join(shares)} | {np.mean(saved[name]):.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
