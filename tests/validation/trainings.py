"""Agreement of trainings with people on GRADE's replies, over seeds, and the gain of one kind over another.

    python -m tests.validation.trainings TRAINING[,TRAINING…] … [--against …] [--pmi] [--trainings FOLDER] [--data
    FOLDER]

Each argument is one thing, by one training or by several seeds of it: metrics that come with Confab, columns, or
trainings of the folder. The figure is that of docs/research/grade.md and docs/research/pone_rade.md: the replies of
the two Transformer systems of GRADE's three data sets, Pearson and Spearman in each of these six cells, their mean;
over seeds mean and standard deviation. `--against`, given once or once for each argument, names what each is held
against on the same replies; the interval is the jackknife's over contexts. With `--pmi` trainings of PONE and of
GRADE are also averaged with mutual information, which takes minutes. Prints only.

    python -m tests.validation.trainings pone_lite,pone_lite_seed_12 --against semantic_similarity_user_bot
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evaluation.agreement.agreement_by_group import HumanScores
from evaluation.agreement.metric_agreement import judge, judgements_read
from evaluation.agreement.paired_comparison import AGAINST, MEAN, compare_paired
from evaluation.metrics.base import Metric
from evaluation.metrics.grade import GradePmi
from evaluation.metrics.registry import metric_and_columns
from evaluation.metrics.ruber import PonePmi
from evaluation.metrics.text_cache import TextCache
from evaluation.metrics.trained import FOLDER, TrainedMetric, trained_register
from evaluation.number_format import share, span
from evaluation.stats.correlation import ranks
from tests.validation.replies import SHARED

SYSTEMS = ("transformer_generator", "transformer_ranker")
PMI = {"pone": PonePmi, "grade": GradePmi}
"""What averages a checkpoint with mutual information, by the learned metric that it is of."""


def with_pmi(name: str) -> Metric | None:
    """Return the metric that averages a training with mutual information; None where there is no such kind."""
    metric, _ = metric_and_columns(name)
    if not isinstance(metric, TrainedMetric) or metric.options is None:
        return None
    made = PMI.get(metric.trained or metric.kind)
    if made is None:
        return None
    result = made(f"{metric.name}_with_pmi", checkpoint=metric.options.checkpoint)
    return None if result.unavailable_reason() else result


def cell_figures(scores: np.ndarray, people: np.ndarray, cells: Sequence[tuple[str, str]]) -> dict[str, list[float]]:
    """Return both coefficients of every cell, by data set.

    Args:
        scores, people: (N,), both defined wherever the first is.
    """
    results: dict[str, list[float]] = {}
    for cell in dict.fromkeys(cells):
        here = np.array([one == cell for one in cells]) & np.isfinite(scores)
        x, y = scores[here], people[here]
        both = [float(np.corrcoef(*pair)[0, 1]) for pair in ((x, y), (ranks(x), ranks(y)))]
        results.setdefault(cell[0].removeprefix("grade/"), []).extend(both)
    return results


def figures_told(title: str, scores: np.ndarray, people: np.ndarray, cells: Sequence[tuple[str, str]]) -> str:
    """Return a line with the means of every data set and of all cells, over trainings.

    Args:
        scores: (K, N) of K trainings.
    """
    by_training = [cell_figures(score, people, cells) for score in scores]
    columns = {
        **{name: [np.mean(one[name]) for one in by_training] for name in by_training[0]},
        MEAN: [np.mean(np.concatenate(list(one.values()))) for one in by_training],
    }
    told = []
    for name, values in columns.items():
        spread = f" ± {share(np.std(values, ddof=1), 3)}" if len(values) > 1 else ""
        told.append(f"{name} {share(np.mean(values), 3)}{spread}")
    each = f" ({', '.join(share(one, 3) for one in columns[MEAN])})" if len(scores) > 1 else ""
    return f"{title}: {', '.join(told)}{each}"


def main() -> int:
    """Print the figures of what is asked for; 1 where the replies or a training are not there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("things", nargs="+", metavar="TRAINING[,TRAINING…]")
    parser.add_argument("--against", action="append", default=[], metavar="TRAINING[,TRAINING…]")
    parser.add_argument("--pmi", action="store_true")
    parser.add_argument("--trainings", type=Path, default=Path(os.environ.get("CONFAB_DATA_DIR", "var")) / FOLDER)
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "turn_level")
    options = parser.parse_args()
    file = options.data / "grade.jsonl.gz"
    if not file.exists():
        print(f"There is no {file}.", file=sys.stderr)
        return 1
    if len(options.against) not in (0, 1, len(options.things)):
        parser.error("--against is given once, or once for each thing")
    trained_register(options.trainings)
    begun, shared = time.monotonic(), TextCache()
    judgements = judgements_read(file)
    humans = HumanScores.from_items(judgements.items, {}, judgements.target())
    counted = np.array([model in SYSTEMS for model in humans.models])
    cells = [
        cell for cell, here in zip(zip(humans.sources, humans.models, strict=True), counted, strict=True) if here
    ]  # fmt: skip
    people, contexts = humans.means[counted], humans.contexts[counted]
    known: dict[str, np.ndarray] = {}

    def scores_of(metrics: Sequence[Metric | str]) -> np.ndarray:
        for one in metrics:
            name = one if isinstance(one, str) else one.name
            if name not in known:
                [found] = judge(judgements, [one], shared=shared).values()
                if found.unavailable:
                    sys.exit(f"{name} cannot be computed here: {found.unavailable}")
                known[name] = next(iter(found.scores.values()))[counted]
        return np.stack([known[metric if isinstance(metric, str) else metric.name] for metric in metrics])

    print(f"{len(people)} replies of {len(set(cells))} cells of {file.name}", flush=True)
    for k, thing in enumerate(options.things):
        sides: list[tuple[str, list[Metric | str]]] = [(thing, thing.split(","))]
        if options.against:
            other = options.against[k % len(options.against)]
            sides.append((other, other.split(",")))
        ways = [("", sides)]
        if options.pmi:
            mixed = [(told, [with_pmi(str(name)) for name in names]) for told, names in sides]
            if all(metric is not None for _, metrics in mixed for metric in metrics):
                ways.append((" with mutual information", mixed))  # type: ignore[arg-type]
        for how, two in ways:
            found = [scores_of(metrics) for _, metrics in two]
            for (told, _), scores in zip(two, found, strict=True):
                print(figures_told(f"{told}{how}", scores, people, cells), flush=True)
            if len(found) > 1:
                gains = compare_paired(*found, people, contexts, cells, two[1][0]).gains
                lines = [
                    f"{name} {share(gains[name].gain, 3)} {span(gains[name].low, gains[name].high, 3, shares=True)}"
                    for name in (*AGAINST, MEAN)
                ]
                print(f"  gain{how}: {', '.join(lines)}", flush=True)
    print(f"{time.monotonic() - begun:.0f} s in all.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
