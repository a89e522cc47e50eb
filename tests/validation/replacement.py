"""Error rates of `can_replace` in simulated studies.

`python -m tests.validation.replacement LOG N [BOTSxRATINGS …]`; `docs/research/replacement.md` has the table.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from evaluation.data.ratings import Ratings
from evaluation.number_format import figure, share
from evaluation.replacement.candidate import ReplacementData
from evaluation.replacement.compare import compare_candidates
from evaluation.replacement.result import ReplacementResult

SPREAD, OF_CHAT, OF_RATER, NOISE = 0.6, 0.5, 0.4, 0.8
"""Standard deviations of bots' means, of chats, of raters and of single ratings, in points."""
USELESS, BIASED, PERFECT = "useless", "biased", "perfect"
JUDGES = (USELESS, BIASED, PERFECT)
COLUMNS = ("yes", "ranking", "no")


@dataclass(frozen=True)
class Cell:
    """Numbers of bots, of ratings and unrated chats of each, and the margin in points."""

    bots: int
    rated: int
    unrated: int = 20
    margin: float = 0.5


CELLS = (*(Cell(bots, rated) for rated in (30, 100) for bots in (3, 6, 12)), Cell(12, 400))


def simulate_study(cell: Cell, seed: int) -> ReplacementData:
    """Draw a study with three judges, and so with their panel.

    The useless judge sees noise, and the perfect one what an average rater would say. The biased judge sees the same,
    plus an error of its own for each bot that is as large as the bots' true differences.
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
    useless = rng.normal(0, 1, n)
    scores = {USELESS: useless, BIASED: 4 + quality + rng.normal(0, SPREAD, cell.bots)[bot], PERFECT: 4 + quality}
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


def summarise_study(cell: Cell, seed: int) -> dict[str, Any]:
    """Return the answers about each judge of one simulated study, as a line of the log."""
    answers = {
        verdict.name: {
            "standing": verdict.standing,
            "values": verdict.equality.answer == "yes",
            "saves": verdict.worth.answer == "yes",
            "saved": verdict.worth.saved.value or 0.0,
        }
        for verdict in compare_cell(cell, seed).candidates
        if verdict.kind == "judge"
    }
    return {"bots": cell.bots, "rated": cell.rated, "seed": seed, "judges": answers}


def exact_interval(n_hits: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Clopper and Pearson 1934)."""
    interval = stats.binomtest(n_hits, n).proportion_ci(0.95, method="exact")
    return float(interval.low), float(interval.high)


def print_table(studies: Sequence[Mapping[str, Any]]) -> None:
    """Print shares of the answers by cell and judge, and the widest 95 % Monte Carlo interval."""
    print("| bots | ratings per bot | studies | judge | yes | ranking only | no | values: yes | saves: yes | saved |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    widest = 0.0
    for bots, rated in sorted({(study["bots"], study["rated"]) for study in studies}):
        of_cell = [study["judges"] for study in studies if (study["bots"], study["rated"]) == (bots, rated)]
        for judge in JUDGES:
            answers = [judges[judge] for judges in of_cell]
            hits = {column: sum(answer["standing"] == column for answer in answers) for column in COLUMNS}
            hits |= {column: sum(answer[column] for answer in answers) for column in ("values", "saves")}
            shares = [share(n_hits / len(answers)) for n_hits in hits.values()]
            intervals = [exact_interval(n_hits, len(answers)) for n_hits in hits.values()]
            widest = max(widest, *(high - low for low, high in intervals))
            saved = figure(float(np.mean([answer["saved"] for answer in answers])), 0)
            print(f"| {bots} | {rated} | {len(answers)} | {judge} | {' | '.join(shares)} | {saved} |")
    print(f"\nWidest 95 % interval of a share: {share(widest)}")


def main(log: Path, n: int, cells: Sequence[Cell]) -> None:
    """Simulate the studies that the log lacks, a round of all cells at a time, and print the table.

    Stopped at any time, it goes on from the log; 0 studies only print the table.
    """
    log.touch()
    studies = [json.loads(line) for line in log.read_text().splitlines()]
    done = {(study["bots"], study["rated"], study["seed"]) for study in studies}
    with log.open("a") as lines:
        for seed in range(n):
            for cell in cells:
                if (cell.bots, cell.rated, seed) not in done:
                    studies.append(summarise_study(cell, seed))
                    lines.write(json.dumps(studies[-1]) + "\n")
                    lines.flush()
    print_table(studies)


if __name__ == "__main__":
    sizes = [map(int, size.split("x")) for size in sys.argv[3:]]
    main(Path(sys.argv[1]), int(sys.argv[2]), [Cell(*size) for size in sizes] or CELLS)
