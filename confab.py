"""Confab in a notebook: `import confab`. The command of this name is `webapp/command_line.py`.

    import confab

    study = confab.read("ratings.jsonl.gz")
    played = confab.selfplay(["eliza", "retrieval"], conversations=20)
    study.metrics(["question", "sentiment"])
    confab.compare(study, "quality")
    fit = confab.hybrid(study, selfplay=played)
    confab.rank("pairs.csv").plot()

Everything here is the public face of `evaluation`; nothing of it knows Django.
"""

from __future__ import annotations

from chatbots.devices import batches_made_exact
from chatbots.registry import plugins_import
from chatbots.release import VERSION as __version__
from evaluation.analysis.ranking import rank
from evaluation.hybrid.of_study import hybrid
from evaluation.reading import read
from evaluation.study import Study, compare, selfplay

__all__ = [
    "Study",
    "__version__",
    "compare",
    "hybrid",
    "plugins_import",
    "rank",
    "read",
    "selfplay",
]

batches_made_exact()
