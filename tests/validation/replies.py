"""How far do turn-level metrics agree with people's scores of single replies, and do exact rows come out as published?

    python -m tests.validation.replies --size quick|full [--data FOLDER]

Runs `evaluate_metrics` on the judged sets that lie in the folder and prints Pearson, Spearman and Kendall with
intervals and p-values for each data set and dialogue model, beside the published rows. On GRADE's set every
registered metric of single replies is asked for, so that each that lacks weights or a runtime is named with its
reason. BLEU-4, ROUGE-L and METEOR must agree with the tables of GRADE and of the survey, to .0005 where a cell is
complete; the exit code is 1 where one does not, or none could be compared. `quick` asks for these three alone on
GRADE's set, and for learned metrics on 20 replies of each cell of two other sets. What cannot be computed says why.
"""

import argparse
import gzip
import json
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.agreement.agreement_table import published_printed
from evaluation.number_format import p_value, share, span
from evaluation.published.correlations import Published, caveats_of, cells_of, published_in_cell
from evaluation.stats.correlation import METHODS
from evaluation.training.rade_data import judged_lines, rated_pairs_read
from tests.validation.validate import ROOT, Confab

SHARED = ROOT.parent / "shared"
QUICK_PER_CELL = 20
EXACT_METRICS = ("bleu_4", "rouge_l", "meteor")
"""Those with published rows of the same formula: the only ones that `quick` asks of GRADE's set, on all its replies."""
TOLERANCE = 0.0005 + 1e-9
"""Half a digit of the published tables, which print three."""
PART_ERRORS = 4
"""Standard errors that the coefficient of a part of a cell may be from that of the whole."""
METRICS = (
    "bleu_4", "rouge_l", "meteor", "rouge_1", "rouge_2", "semantic_similarity", "semantic_distance", "word_coherence",
    "grade_lite", "pone_lite", "entailment_lite", "words_bot",
)  # fmt: skip
GRADE_METRICS = (*METRICS, "bleu_1", "bleu_2", "bleu_3")
"""Of GRADE's set beside all that are registered: these have published rows of their own."""
SLOW_METRICS = ("reply_pmi",)
OTHER_SETS = ("dailydialog_gupta", "dailydialog_zhao", "persona_zhao", "holistic_context")
RADE_SETS = ("rade_chitchat", "rade_emotion", "rade_persona")
"""Taken by `evaluation/training/rade_data.py`: system responses, each pair once."""


def first_of_each_cell(source: Path, target: Path, per_cell: int) -> None:
    """Copy the first `per_cell` replies of every data set and dialogue model."""
    taken: Counter[tuple[str, str]] = Counter()
    with gzip.open(source, "rt", encoding="utf-8") as lines, target.open("w", encoding="utf-8") as out:
        for line in lines:
            row = json.loads(line)
            cell = (row["source"], row["model"] or "")
            taken[cell] += 1
            if taken[cell] <= per_cell:
                out.write(line)


def pairs_of_release(source: Path, target: Path, name: str, most: int | None) -> str:
    """Write RADE's system responses, each pair once, as judged items; return what was found in the file."""
    result = rated_pairs_read(source)
    published = name.replace("rade_", "rade/")
    target.write_text("\n".join(judged_lines(result.pairs[:most], published)), encoding="utf-8")
    counts = result.counts()
    skipped = counts.pop("skipped")
    told = [f"{n} {what}" for what, n in counts.items()]
    return ", ".join([*told, *(f"left out {n} × {why}" for why, n in skipped.items())])


def asked_of_grade() -> tuple[str, ...]:
    """Return all metrics of single replies, those of published rows first; what another name asks for is asked once."""
    from webapp.results.benchmark import benchmark_metrics

    known = [metric.name for metric in benchmark_metrics() if metric.name not in ("bleu", "rouge")]
    return tuple(dict.fromkeys([*GRADE_METRICS, *known]))


@dataclass(frozen=True)
class Exactness:
    """A figure beside the published one of the same formula.

    Attributes:
        is_off: a coefficient is further from the published one than rounding, or than chance moves that of a part.
        told: for people.
    """

    is_off: bool
    told: str


def exactness(one: Mapping[str, Any], row: Published | None) -> Exactness | None:
    """Compare a cell with a published row; None where there is none of the same formula.

    Args:
        one: the cell as `evaluate_metrics` gives it.
    """
    if row is None or not row.is_same:
        return None
    apart = max(math.inf if one[how]["r"] is None else abs(one[how]["r"] - value) for how, value in row.values.items())
    of_part = math.sqrt(max(0.0, 1 / one["n"] - 1 / row.n))  # standard error where some of the cell are missing
    is_off = apart > TOLERANCE + PART_ERRORS * of_part
    part = [] if one["n"] == row.n else [f"{one['n']} of {row.n}"]
    return Exactness(is_off, ", ".join([*part, f"no, {apart:.4f} off" if is_off else "yes"]))


def told(found: dict[str, Any]) -> str:
    """Write a coefficient with its interval."""
    if found["r"] is None:
        return "–"
    return share(found["r"], 3) + (f" {span(*found['ci95'], shares=True)}" if found["ci95"] else "")


def main() -> int:
    """Validate on every set that is here; 1 where there is none, or an exact row does not come out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=["quick", "full"], default="quick")
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "turn_level")
    options = parser.parse_args()
    is_quick = options.size == "quick"
    expected = ("grade", OTHER_SETS[0], RADE_SETS[0]) if is_quick else ("grade", *OTHER_SETS, *RADE_SETS)
    names = [name for name in expected if (options.data / f"{name}.jsonl.gz").exists()]
    if not names:
        print(f"There are no judged replies in {options.data}.", file=sys.stderr)
        return 1
    begun = time.monotonic()
    rows = [
        ["metric", "data set", "dialogue model", "n", "contexts", "replies", "Pearson", "p", "Spearman", "p",
         "Kendall", "p", "published", "exact", "ceiling"],
    ]  # fmt: skip
    compared, off = 0, []
    rows_published: list[Published] = []
    told_of: dict[str, str] = {}
    skipped = dict.fromkeys(SLOW_METRICS, "only in --size full") if is_quick else {}
    with tempfile.TemporaryDirectory(prefix="confab-validate-") as work:
        confab = Confab(Path(work))
        for name in names:
            file = options.data / f"{name}.jsonl.gz"
            if name in RADE_SETS:
                file = Path(work) / f"{name}.jsonl"
                n_pairs = QUICK_PER_CELL if is_quick else None
                told_of[name] = pairs_of_release(options.data / f"{name}.jsonl.gz", file, name, n_pairs)
            elif is_quick and name != "grade":
                file = Path(work) / f"{name}.jsonl"
                first_of_each_cell(options.data / f"{name}.jsonl.gz", file, QUICK_PER_CELL)
            metrics = METRICS
            if name == "grade":
                metrics = EXACT_METRICS if is_quick else asked_of_grade()
            result = confab.command("evaluate_metrics", "--data", str(file), "--metrics", ",".join(metrics), "--json")
            for metric, found in result.items():
                if "unavailable" in found:
                    skipped[metric] = found["unavailable"]
                    continue
                for source, model, one in cells_of(found):
                    if not source and "sources" in found:
                        continue  # sets are told apart
                    where = source or name
                    if not one["n"]:
                        skipped[f"{metric} on {where}"] = "; ".join(one["skipped"])
                        continue
                    row = published_in_cell(found, source, model)
                    exact = exactness(one, row)
                    if exact is not None:
                        compared += 1
                        off += [f"{metric} {where} {model}"] if exact.is_off else []
                    rows.append([
                        metric, where, model or "all", str(one["n"]), str(one["n_contexts"]), str(one["n_responses"]),
                        *(cell for how in METHODS for cell in (told(one[how]), p_value(one[how]["p"]))),
                        "" if row is None else published_printed(row), exact.told if exact else "",
                        told(one["ceiling"]),
                    ])  # fmt: skip
                    rows_published += [] if row is None else [row]
            print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    print()
    for row in [rows[0], ["-" * width for width in widths], *rows[1:]]:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")
    print()
    for metric, reason in skipped.items():
        print(f"{metric} is skipped: {reason}")
    for name, counts in told_of.items():
        print(f"{name}: {counts}")
    print(
        "ceiling: Pearson's r that a perfect metric could reach, by the raters' reliability; – where only means are "
        "known."
    )
    print(
        "Intervals: 95 % over contexts. replies: different ones. published: Pearson and Spearman, with a name where "
        "the metric is only the nearest one (evaluation/published)."
    )
    for text in caveats_of(rows_published):
        print(f"published: {text}")
    print(
        f"{compared - len(off)} of {compared} cells agree with the published rows: to .0005 where they are complete, "
        f"else within {PART_ERRORS} standard errors of a part."
    )
    print(f"{time.monotonic() - begun:.0f} s in all.")
    return 1 if off or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
