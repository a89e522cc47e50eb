"""Confab in a notebook: `import confab`. The command of this name is `webapp/command_line.py`.

    import confab

    study = confab.read("ratings.jsonl.gz")
    played = confab.selfplay(["eliza", "retrieval"], conversations=20)
    confab.selfplay(confab.load_bots("bots.yaml"))
    confab.simulate(["eliza"], "retrieval", people=study, conversations=20)
    confab.realism(study, confab.simulate(["eliza"], "retrieval", people=study)).summary()
    study.metrics(["question", "sentiment"])
    confab.compare(study, "quality")
    confab.when_to_stop(study, "quality").summary()
    confab.powered(study, "words", "words_user").sentence
    confab.models(study), confab.raters(study), confab.agreement(study)
    confab.model(study, "quality ~ bot * scenario + (1|rater) + (1|item)", kind="ordinal")
    confab.raters(study.where(without=["fast", "pasted"]))
    confab.population(study, background, "shares_of_age_and_sex.csv").summary()
    fit = confab.hybrid(study, selfplay=played)
    confab.can_replace(study, margin=0.5, selfplay=played).summary()
    confab.rank("pairs.csv").plot()
    confab.judge("judged_replies.jsonl.gz", ["bleu", "semantic_similarity"])["bleu"].to_json()
    confab.score_replies("judged_replies.jsonl.gz", ["bleu"]).disagreements("bleu")[:10]
    confab.judge_pairs("pairs.jsonl", model="path/to/a/model", max_requests=200).to_json()
    confab.judges("judged_replies.jsonl.gz", ["my_judge"], question="overall").sentences
    confab.connect("https://confab.example.org", token).study("everyday-talk")
    confab.sweep_metrics(["grade-lite.yaml"], output="runs", seeds=(71, 72, 73), data_share=(0.5, 1)).summary()
    confab.combine(["grade.jsonl.gz", "usr.jsonl.gz"], ["semantic_similarity", "reply_pmi"]).to_json()

Everything here is the public face of `evaluation` and `chatbots`; nothing of it knows Django. Vectors of sentences
are kept in the folder that the environment variable CONFAB_DATA_DIR names, or in `./confab-data`, so that no text is
encoded twice.
"""

from __future__ import annotations

import os
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from chatbots.devices import batches_made_exact
from chatbots.installation import VERSION as __version__
from chatbots.installation import default_data_folder
from chatbots.registry import bots, plugins_import
from chatbots.yaml_registry import YamlRegistry, configured_bots, load_bots
from evaluation.agreement.combination import combine
from evaluation.agreement.judges.comparison import judges
from evaluation.agreement.llm_judge import judge_pairs
from evaluation.agreement.metric_agreement import judge
from evaluation.agreement.reply_scores import score_replies
from evaluation.analysis.pairwise_preference import rank
from evaluation.data.loading import read
from evaluation.data.study import (
    Study,
    agreement,
    compare,
    model,
    models,
    population,
    raters,
    vectors_kept_in,
    when_to_stop,
)
from evaluation.hybrid.notebook import hybrid, powered
from evaluation.metrics.registry import configured_metrics, metrics
from evaluation.remote import connect
from evaluation.replacement.notebook import can_replace
from evaluation.simulation.realism.compare import realism
from evaluation.simulation.selfplay import selfplay
from evaluation.simulation.simulated_chats import simulate
from evaluation.training.sweeps import sweep_bots, sweep_metrics

__all__ = [
    "Study",
    "__version__",
    "agreement",
    "can_replace",
    "combine",
    "compare",
    "connect",
    "hybrid",
    "judge",
    "judge_pairs",
    "judges",
    "load_bots",
    "model",
    "models",
    "plugins_import",
    "population",
    "powered",
    "rank",
    "raters",
    "read",
    "realism",
    "score_replies",
    "selfplay",
    "simulate",
    "sweep_bots",
    "sweep_metrics",
    "when_to_stop",
]

batches_made_exact()


def _data_folder() -> Path:
    return Path(os.environ.get("CONFAB_DATA_DIR") or default_data_folder())


vectors_kept_in(_data_folder)


def _register_files() -> None:
    """Register the bots and metrics of the data folder at their first use, as the server does."""
    for registry, configured, variable in (
        (bots, configured_bots, "CONFAB_BOTS"),
        (metrics, configured_metrics, "CONFAB_METRICS"),
    ):
        if not registry.is_refreshed:  # else Django runs in this process and has its settings
            registry.refresh_by(partial(_register_file, configured, variable))


def _register_file(configured: YamlRegistry[Any], variable: str, _name: str) -> None:
    """Register a file once, unless the notebook has chosen another one."""
    path = Path(os.environ.get(variable) or _data_folder() / f"{variable.removeprefix('CONFAB_').lower()}.yaml")
    if configured.file is None and path.exists() and configured.follow(path):
        for broken in configured.broken:
            warnings.warn(str(broken), stacklevel=2)


_register_files()
