"""Do the rater filters single out the sessions that a real study threw out?

    python -m tests.validation.raters [--data FOLDER]

Ji et al. (2022) let every crowd worker rate six bots in a session, one of them a degraded control, and threw
out sessions that did not rate the control clearly lower. Their kept sessions (`reliable`) and those thrown
out (`reliable_failed_raters`) are judged together here, each session as a rater of its own. The rule
"control" is in essence the study's own, so what the others find without it stands apart. What comes out is
reported, not required.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.stats.rater_filters import RULES, screen_raters
from tests.validation.detection import Detection, detection

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "interactive"
KEPT, FAILED = "reliable", "reliable_failed_raters"
DIMENSIONS = ("robotic", "interesting", "fun", "consistent", "fluent", "repetitive", "topic")
TURNED = ("robotic", "repetitive")
"""Worded negatively; the file has them turned round."""


def records(path: Path) -> list[dict[str, Any]]:
    """Return the conversations of one file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def screened(rows: list[dict[str, Any]], bad: set[str], rules: list[str] | None, min_failed: int = 1) -> Detection:
    """Judge every session by the rules, against what the study decided."""
    sessions = [row["meta"]["session"] for row in rows]
    n_of = {name: sessions.count(name) for name in set(sessions)}
    verdicts = screen_raters(
        np.array([[row["ratings"][0].get(d, np.nan) for d in DIMENSIONS] for row in rows], dtype=float),
        sessions,
        scale=(0, 100),
        bots=[row["bot"] for row in rows],
        control=[bool(row["meta"]["degraded_control"]) for row in rows],
        seconds=[(row["meta"].get("session_seconds") or np.nan) / n_of[row["meta"]["session"]] for row in rows],
        turned=[dimension in TURNED for dimension in DIMENSIONS],
        rules=rules,
        min_failed=min_failed,
    )
    return detection(verdicts, sorted(bad))


def told(value: float | None, low: float | None, high: float | None) -> str:
    """Write a value with its interval: `.93 [.88, .96]`."""
    return "–" if value is None else f"{value:.2f} [{low:.2f}, {high:.2f}]"


def main() -> int:
    """Print precision and recall of all rules, of all but the control, and of each alone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the sets")
    folder: Path = parser.parse_args().data
    paths = [folder / f"{name}.jsonl.gz" for name in (KEPT, FAILED)]
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        print(f"There is no {' and no '.join(missing)}.", file=sys.stderr)
        return 1
    kept, failed = (records(path) for path in paths)
    bad = {row["meta"]["session"] for row in failed}
    good = {row["meta"]["session"] for row in kept}
    print(f"{len(good)} sessions kept, {len(bad)} thrown out by the study")
    choices: dict[str, tuple[list[str] | None, int]] = {
        "any rule": (None, 1),
        "two rules": (None, 2),
        "any but control": ([rule for rule in RULES if rule != "control"], 1),
        **{f"{rule} alone": ([rule], 1) for rule in RULES},
    }
    head = ["rules", "precision [95 %]", "recall [95 %]", "caught", "missed", "wrongly", "kept"]
    print("| " + " | ".join(head) + " |")
    print("|" + " --- |" * len(head))
    for name, (rules, min_failed) in choices.items():
        found = screened(kept + failed, bad, rules, min_failed)
        cells = [
            name,
            told(found.precision, found.precision_low, found.precision_high),
            told(found.recall, found.recall_low, found.recall_high),
            *(str(n) for n in (found.caught, found.missed, found.wrongly, found.kept)),
        ]
        print("| " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
