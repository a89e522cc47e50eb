"""Shipping of a finished run: half precision, no training-only heads, a model card."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chatbots.checkpoints import CheckpointError, Manifest, checkpoint_load, checkpoint_manifest, checkpoint_write
from chatbots.encoders.ei_encoders import GOEMOTIONS, reads_encoders
from chatbots.encoders.sentence import PCA
from chatbots.training.config import EVERYDAY, WITH_LATENTS, CorpusConfig, TrainingConfig
from chatbots.training.held_out import table_3, version_name
from chatbots.training.loop import BEST_FOLDER

MAX_BYTES = 16_000_000
"""Weights and vocabulary together; a repository is no place for more."""
CARD = "CARD.md"
IGNORED_KL = 0.02
"""Nats per token below which latent variables count as ignored in the card; Table 3 has .167 at the least."""

_HEADS = {"ei": "the EI heads", "bow": "the bag-of-words head"}


def ship(training: Path, folder: Path, config: TrainingConfig, command: str) -> Manifest:
    """Write a finished run's best checkpoint in half precision, with a model card.

    Args:
        training: folder written by `train`.
        folder: output folder; its generated files are replaced, others such as `bot.yaml` are kept.
        command: command that repeats the training.

    Raises:
        CheckpointError: the run is not finished, or the checkpoint exceeds 16 MB.
    """
    if not checkpoint_manifest(training / BEST_FOLDER).metrics:
        raise CheckpointError(f"{training} is not finished; train it to its end first")
    model, vocabulary, manifest = checkpoint_load(training / BEST_FOLDER)
    bot_files = {p.name: p.read_bytes() for p in folder.glob("bot.yaml")}
    manifest = checkpoint_write(
        folder,
        model,
        vocabulary,
        manifest,
        dtype="float16",
        drop_heads=True,
        ei_pca=PCA.read(training / BEST_FOLDER) if reads_encoders(manifest) else None,
    )
    for name, data in bot_files.items():
        (folder / name).write_bytes(data)
    n_bytes = sum(path.stat().st_size for path in folder.iterdir())
    if n_bytes > MAX_BYTES:
        raise CheckpointError(
            f"{folder} has {n_bytes:,} bytes, more than {MAX_BYTES:,}; lower data.max_words or the sizes"
        )
    start_manifest = None
    if config.start.weights:
        start_manifest = checkpoint_manifest(training.parent / config.start.weights / BEST_FOLDER)
    text = dialogue_model_card(config, manifest, model.n_parameters, command, start_manifest)
    (folder / CARD).write_text(text, encoding="utf-8")
    return manifest


def dialogue_model_card(
    config: TrainingConfig, manifest: Manifest, n_parameters: int, command: str, start_manifest: Manifest | None = None
) -> str:
    """Return the model card: description, training, results and limits.

    Args:
        start_manifest: manifest of the run whose weights this one started from.
    """
    training, metrics = manifest.training, _figures(manifest.metrics)
    lines = [
        f"# {manifest.title}",
        "",
        "Written by `manage.py train_bot --ship`; train it again instead of editing this file.",
        "",
        f"**What it is.** {_architecture(config)} {n_parameters:,} parameters in half precision, "
        f"{manifest.config['V']:,} words, tokeniser `{manifest.tokeniser}`; it runs on a processor."
        f"{_dropped(manifest)}",
        "",
        "**Data.** Learnt from nothing but:",
        "",
        *(_corpus(c) for c in config.data.corpora),
        *_encoders(config),
        "",
        f"{training['n_dialogues']['train']:,} dialogues to learn from, "
        f"{training['n_dialogues']['validation']:,} to validate, {training['n_dialogues']['test']:,} to "
        f"measure. Digest `{manifest.corpus}`.",
        "",
        f"**Training.** {_describe_training(config, training, start_manifest)}",
        "",
        f"    {command}",
        "",
        "trains it again, from your copies of the corpora; the settings stand in the config named there.",
        "",
        "## Figures",
        "",
        "On the test dialogues, in the layout of Table 3 of Ghandeharioun et al. (2019); other data and far "
        "less of it, so not to be compared with the figures there:",
        "",
        *(f"    {line}" for line in table_3([(config.model.upper(), version_name(config), metrics)]).splitlines()),
        "",
        f"PPL: {_perplexity(config)} KL: nats per token. Avg, Ext, Grd: likeness of the likeliest "
        f"first reply to the true one by static word vectors, {int(metrics['replies'])} pairs.",
        "",
        "## Limits",
        "",
        f"A plain talker. It has read {training['n_dialogues']['train']:,} dialogues, where models that talk well "
        "have read millions: it knows nothing, loses the thread, repeats itself, says again what it has read "
        "whether it fits or not, and says things that are not so. Anything outside its vocabulary it does not hear. "
        "English only. It is here so that the comparison of the paper can be played through, not for anybody to rely "
        "on; it must not be used for advice of any kind, and people who talk with it should know that it is a "
        "program.",
        *_latents(config, metrics),
        "",
    ]
    return "\n".join(lines)


def _figures(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {k: math.nan if v is None else float(v) for k, v in metrics.items()}


def _architecture(config: TrainingConfig) -> str:
    about = {
        "hred": "A hierarchical recurrent encoder-decoder (Serban et al. 2016).",
        "vhred": "A hierarchical encoder-decoder with a latent variable per utterance (Serban et al. 2017).",
        "vhcr": "A hierarchical encoder-decoder with latent variables per utterance and per conversation "
        "(Park et al. 2018).",
    }.get(config.model, f"A model of the kind {config.model}.")
    if config.ei is not None:
        about += (
            " While it learnt, its context was made to tell the emotion and the sentence embedding of what "
            "was said (EI, Ghandeharioun et al. 2019)."
        )
    return about


def _dropped(manifest: Manifest) -> str:
    if not manifest.dropped_heads:
        return ""
    names = " and ".join(_HEADS[head] for head in manifest.dropped_heads)
    return f" What only training needs, {names}, is left out."


def _corpus(corpus: CorpusConfig) -> str:
    name = "the everyday corpus of this project" if corpus.path == EVERYDAY else corpus.path
    licence = f", {corpus.licence}" if corpus.licence else ""
    times = f"; read {corpus.repeat} times an epoch" if corpus.repeat > 1 else ""
    return f"- {name}{licence}{times}"


def _encoders(config: TrainingConfig) -> Sequence[str]:
    if config.ei is None:
        return ()
    return (
        f"- through what it was made to tell: the sentence encoder {config.ei.sentence_encoder} and "
        + (
            "the emotion head trained on GoEmotions (Apache-2.0), `chatbots/encoders/emotion_head/CARD.md`"
            if config.ei.emotion_encoder == GOEMOTIONS
            else f"the emotion encoder {config.ei.emotion_encoder}"
        ),
    )


def _describe_training(config: TrainingConfig, training: Mapping[str, Any], start_manifest: Manifest | None) -> str:
    o = config.optimiser
    text = (
        f"Adam, learning rate {o.lr:g} ({o.schedule}), {o.batch_size} windows of up to "
        f"{config.data.n_utterances} utterances a batch, gradient clipped at {o.clip:g}; {_amount(training)}, "
        f"{training['waiting_share']:.1%} of it waiting for data. Seed {config.seed}."
    )
    if start_manifest is not None:
        text += (
            f" It started from the weights of `{config.start.weights}`, a plain {start_manifest.model.upper()} of the "
            f"same data: {_amount(start_manifest.training)}."
        )
    return text


def _amount(training: Mapping[str, Any]) -> str:
    return (
        f"{training['best_step']:,} batches, {training['n_tokens']:,} target tokens in "
        f"{training['seconds'] / 60:.0f} minutes on one {training['device'].upper()}"
    )


def _latents(config: TrainingConfig, metrics: Mapping[str, float]) -> Sequence[str]:
    if config.model not in WITH_LATENTS or metrics["kl"] >= IGNORED_KL:
        return ()
    return ("", "Its latent variables have come to tell next to nothing (KL above): replies hardly vary with them.")


def _perplexity(config: TrainingConfig) -> str:
    if config.model in WITH_LATENTS:
        return f"a bound from {config.held_out.samples} importance samples, per token, `<eos>` counted."
    return "per token, `<eos>` counted."
