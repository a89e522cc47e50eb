"""Distribution of trained metrics in half precision, with a model card.

Graph triples go to a separate folder because of their licence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chatbots.checkpoints import WEIGHTS_FILE, CheckpointError
from evaluation.models.grade_graph import LICENCE_BESIDE, WORDNET_LICENCE, has_wordnet
from evaluation.training.checkpoint import CONCEPTNET, Checkpoint, MetricManifest, checkpoint_read, checkpoint_write

MAX_BYTES = 16_000_000
"""Weights and files together; a repository is no place for more."""
CARD = "CARD.md"
DOCS = {
    "grade": "docs/research/grade.md",
    "entailment": "docs/research/entailment.md",
    "": "docs/research/pone_rade.md",
}
"""Where figures of agreement with people stand, by metric; the last for all others."""
AGREEMENT = {
    "grade-lite": "mean of Pearson and Spearman on GRADE's judged replies .265 ± .002, mean and standard deviation "
    "of trainings by the seeds 71, 72 and 73 (.266, .263, .266; the first is the one that is shipped); more: ",
    "pone-lite-open-full": "mean of Pearson and Spearman on GRADE's judged replies .250 ± .006, mean and standard "
    "deviation of trainings by the seeds 11, 12 and 13 (.247, .246, .256; the first is the one that is shipped); "
    "more: ",
    "entailment-lite": "Pearson of P(entailment), newest five utterances, with people's means on GRADE's judged "
    "replies .240 ± .014, mean and standard deviation of trainings by the seeds 11, 12 and 13 (.226, .240, .254); "
    "the weights that are shipped, seed 11, .226 [.16, .30]; accuracy on the test set .785 (.785, .784, .785), of "
    "the reply alone .751; more: ",
}
"""More than one training, so measured outside of it; by the name of the config."""
APART = ("graph.tsv.gz",)
"""Files of ConceptNet, whose licence asks that what is made of them is shared alike."""
OF_CONCEPTNET = (
    "- ConceptNet 5 (conceptnet.io), a part of its triples, in the folder `conceptnet` beside this one: CC BY-SA 4.0"
)
OF_WORDNET = (
    "- WordNet 3.1 (wordnet.princeton.edu), relations between its words, in the same graph: WordNet's licence, in "
    f"that folder as `{LICENCE_BESIDE}`"
)


def ship(training: Path, folder: Path, command: str) -> MetricManifest:
    """Write a training's best checkpoint in half precision, with a model card.

    Args:
        training: folder that `train` wrote.
        folder: target, replaced if it exists. Triples go to the folder `conceptnet` next to it, with WordNet's
            licence where some are WordNet's.
        command: command that repeats the training.

    Raises:
        CheckpointError: if the training is not finished, a corpus lacks a licence in the config, or the result exceeds
            16 MB.
    """
    from evaluation.training.loop import restored

    checkpoint = checkpoint_read(training)
    if not checkpoint.manifest.metrics:
        raise CheckpointError(f"{training} is not finished; train it to its end first")
    if not checkpoint.config.data.corpora:
        raise CheckpointError(
            f"{training} learned from files of its options, of which no licence is stated; only what is trained on "
            "corpora can be shipped"
        )
    unsaid = [corpus.path for corpus in checkpoint.config.data.corpora if corpus.licence in ("", "not stated")]
    if unsaid:
        raise CheckpointError(
            f"the config states no licence of {unsaid[0]}; say under which its text is (data.corpora.licence)"
        )
    files = {name: checkpoint.file(name) for name in checkpoint.manifest.files if name != WEIGHTS_FILE}
    n_bytes = sum(map(len, files.values())) + checkpoint.manifest.weights_bytes // 2
    if n_bytes > MAX_BYTES:
        raise CheckpointError(f"{training} would take {n_bytes:,} bytes; at most {MAX_BYTES:,}")
    manifest = checkpoint_write(folder, restored(checkpoint), checkpoint.manifest, files, "float16")
    for name in APART:
        if name in files:
            apart = folder.parent / CONCEPTNET
            apart.mkdir(exist_ok=True)
            (folder / name).replace(apart / name)
            if has_wordnet(checkpoint.config.options):  # required on every copy
                (apart / LICENCE_BESIDE).write_bytes(WORDNET_LICENCE.read_bytes())
    (folder / CARD).write_text(card(Checkpoint(folder, manifest), command), encoding="utf-8")
    return manifest


def card(checkpoint: Checkpoint, command: str) -> str:
    """Return a model card: description, training data, licence, and accuracy."""
    manifest, config = checkpoint.manifest, checkpoint.config
    corpora = [f"- {Path(corpus.path).name}: {corpus.licence}" for corpus in config.data.corpora]
    n = manifest.facts.get("n_examples") or manifest.facts.get("pairs", {})
    agreement = AGREEMENT.get(config.name, "")
    figures: dict[str, Any] = {name: value for name, value in manifest.metrics.items() if value is not None}
    return "\n".join(
        [
            f"# {manifest.title}",
            "",
            "Written by `manage.py train_metric --ship`; train it again instead of editing this file.",
            "",
            f"The learned metric `{manifest.metric}` on the encoder {config.backbone.model}, which is not part of it. "
            "It scores how well an English reply fits what was said before it. On another encoder and other data than "
            "its paper's it is no reproduction of it, and only ranks and correlations of its scores mean anything.",
            "",
            "## Trained on",
            "",
            *corpora,
            *_edges_told(manifest),
            f"- {sum(manifest.training['n_dialogues'].values())} dialogues; examples: "
            + ", ".join(f"{part} {count:,}" for part, count in n.items()),
            "- no score that a person gave",
            "",
            "## Held-out figures",
            "",
            *(f"- {name}: {value:.4g}" for name, value in figures.items()),
            "",
            f"Agreement with people: {agreement}`{DOCS.get(manifest.metric, DOCS[''])}`.",
            "",
            "## Again",
            "",
            f"    {command}",
            "",
        ]
    )


def _edges_told(manifest: MetricManifest) -> list[str]:
    """Return the card's lines about the graph's edges."""
    if not any(name in manifest.files for name in APART):
        return []
    return [OF_CONCEPTNET, *([OF_WORDNET] if has_wordnet(manifest.config["options"]) else [])]
