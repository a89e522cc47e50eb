"""Three designs of docs/research/hybrid_designs.md: do replies or lengths help `strong` with few conversations?

    python -m tests.validation.replies_block [--data FOLDER]

A block of ten columns of the bots' replies, by the shipped learned metrics and by counts, beside those of version 3,
or with the participants' reactions alone; and a block of three lengths beside those of version 3. Scored as
`denoised` scores version 3: all conversations, and ten seeded subsamples of 60 and 30 a bot. A column that is
undefined in a conversation has there the mean of its bot, so that all designs see the same conversations. Prints
only.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from evaluation.hybrid.features import REACTION_FEATURES, Preset, preset_get
from evaluation.number_format import share
from tests.validation.denoised import HEADINGS, N_SAMPLES, SIZES, Studied, figures, version_3
from tests.validation.validate import DATA, METRICS, SETS, Confab, measured, table
from tests.validation.values import Tables, samples_of, tables_of

REPLIES = (
    "pone_lite_bot",
    "grade_lite_bot",
    "entailment_lite_entailment_bot",
    "entailment_lite_contradiction_bot",
    "semantic_distance_last_bot",
    "self_repetition_bot",
    "self_similarity_bot",
    "distinct_2_bot",
    "words_bot",
    "reading_ease_bot",
)
LENGTH = ("log_exchanges", "log_words_user", "log_words_bot")
"""Logarithms of `n_exchanges`, `words_user` and `words_bot`, made here."""
REPLY_METRICS = "pone_lite,grade_lite,entailment_lite,semantic_distance,repetition,self_similarity,distinct,readability"


def presets() -> dict[str, Preset]:
    """Return the designs by name, version 3 first."""
    strong = preset_get("strong")
    replies = ("replies", REPLIES)
    return {
        "version 3": strong,
        "replies as well": replace(strong, features=(*strong.features, *REPLIES), parts=(*strong.parts, replies)),
        "replies and reactions": replace(
            strong, features=(*REACTION_FEATURES, *REPLIES), parts=(("reactions", REACTION_FEATURES), replies)
        ),
        "length as well": replace(
            strong, features=(*strong.features, *LENGTH), parts=(*strong.parts, ("length", LENGTH))
        ),
    }


def filled(tables: Tables) -> Tables:
    """Return the tables with undefined columns of replies replaced by their bots' means, and with lengths."""
    human = tables.human.copy()
    columns = [name for name in REPLIES if name in human]
    means = human.groupby("bot")[columns].transform("mean")
    human[columns] = human[columns].fillna(means)
    for name, of in zip(LENGTH, ("n_exchanges", "words_user", "words_bot"), strict=True):
        human[name] = np.log1p(human[of])
    return replace(tables, human=human)


def scored(name: str, tables: Tables, designs: Mapping[str, Preset]) -> list[list[str]]:
    """Return the lines of a set: every design at every size."""
    rows = []
    for size in (None, *SIZES):
        samples = samples_of(tables, size, N_SAMPLES)
        for title, preset in designs.items():
            found = [figures(Studied.of(filled(sample), preset), version_3) for sample in samples]
            cells = np.array(found).mean(axis=0)
            row = [*map(share, cells[:-1]), f"{cells[-1]:.3g}"]
            rows.append([name, str(size or "all"), title, *row])
            print(*rows[-1], flush=True)
    return rows


def main() -> int:
    """Score all designs on the sets of `validate`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--designs", default=",".join(presets()), help="names, by commas")
    options = parser.parse_args()
    chosen = {name: presets()[name] for name in options.designs.split(",")}
    replies = any(set(REPLIES) & set(preset.features) for preset in chosen.values())
    metrics, more = (f"{METRICS},{REPLY_METRICS}", REPLIES) if replies else (METRICS, ())
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="confab-validate-") as work:
        confab = Confab(Path(work))
        for rated in SETS[:2]:
            measured(confab, rated, options.data, "full", Path(work), metrics)
            found = tables_of(rated.name, rated.targets, rated.exclude_bots, more)
            rows += scored(rated.name, found, chosen)
    print(table(rows, ["set", "conv. a bot", "design", *HEADINGS]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
