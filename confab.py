"""Confab in a notebook (`import confab`) and as a command (`confab`, `confab --help`).

    import confab

    study = confab.read("ratings.jsonl.gz")
    played = confab.selfplay(["eliza", "retrieval"], conversations=20)
    study.metrics(["question", "sentiment"])
    confab.compare(study, "quality")
    fit = confab.hybrid(study, selfplay=played)

Everything here is the public face of `evaluation`; nothing of it knows Django.
"""

from __future__ import annotations

from chatbots.registry import plugins_import
from chatbots.release import VERSION as __version__
from evaluation.hybrid.of_study import hybrid
from evaluation.reading import read
from evaluation.study import Study, compare, selfplay

__all__ = ["Study", "__version__", "compare", "hybrid", "plugins_import", "read", "selfplay"]


def main() -> None:
    """Run the command `confab`."""
    from webapp.command_line import main as run_command

    run_command()
