"""Evaluation on held-out text: perplexity, KL, and embedding metrics (Table 3).

Ghandeharioun et al. (2019), fact sheet section 7.4. Perplexity and KL use teacher forcing in evaluation mode; the
embedding metrics compare a generated reply with the true one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import torch

from chatbots.corpora.vocabulary import EOS, PAD, SOS, UNK, tokeniser_get
from chatbots.encoders.word_vectors import SIMILARITY_KINDS, pair_similarities, word_vectors
from chatbots.generation.decoding import sample
from chatbots.identity import derive_seed
from chatbots.models.batch import DialogueBatch, ReplySeeds
from chatbots.models.beam_search import BeamSettings, beam_search
from chatbots.models.dialogue_model import DialogueModel
from chatbots.training.config import WITH_LATENTS, TrainingConfig
from chatbots.training.data import TrainingData

TABLE_3 = ("Model", "Version", "PPL", "KL", "Avg", "Ext", "Grd")
_BATCH = 64


@torch.no_grad()
def validation_loss(
    model: DialogueModel, data: TrainingData, config: TrainingConfig, device: torch.device
) -> dict[str, float]:
    """Compute the validation loss with the full KL term and fixed noise.

    Returns:
        `loss` = `tokens_nll` + `kl`, each nats per target token; `emotion` and `sentence` as in the loss.
    """
    model.eval()
    sums = dict.fromkeys(("tokens_nll", "kl", "emotion", "sentence"), 0.0)
    n_tokens = n_inputs = 0
    batches = data.validation.batches(config.optimiser.batch_size, 0, 0, targets=data.targets)
    for i, batch in enumerate(batches):
        generator = torch.Generator(device)
        generator.manual_seed(derive_seed(config.seed, "validation", i))
        parts = model.loss(batch.to(device), generator=generator)
        n_tokens += parts.n_tokens
        n_inputs += parts.n_inputs
        for name in ("tokens_nll", "kl"):
            sums[name] += float(getattr(parts, name))
        for name in ("emotion", "sentence"):
            sums[name] += float(getattr(parts, name)) * parts.n_inputs
    losses = {name: sums[name] / n_tokens for name in ("tokens_nll", "kl")}
    if config.ei is not None:
        losses |= {name: sums[name] / n_inputs for name in ("emotion", "sentence")}
    return {"loss": losses["tokens_nll"] + losses["kl"], **losses}


def held_out_measure(
    model: DialogueModel, data: TrainingData, config: TrainingConfig, device: torch.device
) -> dict[str, float]:
    """Return `perplexity` and `embedding_metrics` of a model on the test text."""
    model.eval()
    windows = config.held_out.max_windows
    batches = data.test.batches(_BATCH, 0, 0, targets=data.targets)
    if windows:
        batches = _first(batches, windows)
    samples = config.held_out.samples if config.model in WITH_LATENTS else 1
    perplexities = perplexity(model, (b.to(device) for b in batches), samples, derive_seed(config.seed, "perplexity"))
    return perplexities | embedding_metrics(model, data, config)


@torch.no_grad()
def perplexity(model: DialogueModel, batches: Iterable[DialogueBatch], n_samples: int, seed: int) -> dict[str, float]:
    """Compute the perplexity per target token, including `<eos>`.

    It is exp(Σ CE / tokens), or for a model with latent variables exp(−Σ_conversations log mean_j w_j / tokens)
    with importance weights log w_j = −CE_j + log p(z_j) − log q(z_j | x). (The released code treats a whole batch as
    one sample, which makes the bound looser.)

    Returns:
        `perplexity`; `kl`, nats per token (0 without latents); `tokens`, the number of target tokens.
    """
    log_p = kl = 0.0
    n_tokens = 0
    for i, batch in enumerate(batches):
        generator = torch.Generator(model.device)
        generator.manual_seed(derive_seed(seed, i))
        weights = model.importance_samples(batch, n_samples, generator).double()  # (S, B)
        log_p += float((weights.logsumexp(0) - math.log(n_samples)).sum())
        generator.manual_seed(derive_seed(seed, i))
        parts = model.loss(batch, generator=generator)
        kl += float(parts.kl)
        n_tokens += parts.n_tokens
    if not n_tokens:
        return {"perplexity": math.nan, "kl": math.nan, "tokens": 0}
    return {"perplexity": math.exp(-log_p / n_tokens), "kl": kl / n_tokens, "tokens": n_tokens}


def embedding_metrics(model: DialogueModel, data: TrainingData, config: TrainingConfig) -> dict[str, float]:
    """Compute the similarity of generated and true second utterances.

    The model reads only the first utterance of each test dialogue and generates the likeliest reply (`held_out.beam`).
    Pairs with a side without known words are skipped; NaN if no pair is left.

    Returns:
        The means `average`, `extrema`, `greedy` (both directions) and `greedy_ref` (only true to generated, as in
        the released code), and `replies`, the number of pairs.
    """
    pairs = data.first_exchanges(config.held_out.max_replies)
    words = tokeniser_get(config.data.tokeniser)
    replies = first_replies(model, data, config, [first for first, _ in pairs])
    words_by_reply = {" ".join(reply): reply for reply in replies}  # the reply is already truncated
    values = pair_similarities(
        [(truth, " ".join(reply)) for (_, truth), reply in zip(pairs, replies, strict=True)],
        word_vectors(),
        lambda text: words_by_reply[text] if text in words_by_reply else words.tokenise(text),
    )  # (n, 4)
    defined = values[~np.isnan(values).any(axis=1)]
    means = defined.mean(axis=0) if len(defined) else np.full(len(SIMILARITY_KINDS), math.nan)
    return {**dict(zip(SIMILARITY_KINDS, means.tolist(), strict=True)), "replies": len(defined)}


def first_replies(
    model: DialogueModel, data: TrainingData, config: TrainingConfig, texts: Sequence[str]
) -> list[list[str]]:
    """Return the likeliest reply to each text, without `<unk>`.

    Each text is the first message of a conversation.
    """
    replies: list[list[str]] = []
    for start in range(0, len(texts), _BATCH):
        chunk = texts[start : start + _BATCH]
        batch = data.contexts([[text] for text in chunk]).to(model.device)
        seeds = [
            ReplySeeds(derive_seed(config.seed, "z_conv", i), derive_seed(config.seed, "z", i))
            for i in range(start, start + len(chunk))
        ]
        state = model.encode_context(batch, seeds)
        if config.held_out.beam == 1:
            ids = sample(
                model,
                state,
                [0] * len(chunk),
                start=SOS,
                end=EOS,
                max_tokens=config.data.max_tokens,
                temperature=0,
                forbidden=(PAD, SOS, UNK),
            )
        else:
            settings = BeamSettings(
                beam=config.held_out.beam, max_tokens=config.data.max_tokens, end=EOS, forbidden=(PAD, SOS, UNK)
            )
            ids = [list(h[0].tokens) for h in beam_search(model, state, settings, start=SOS)]
        replies += [data.vocabulary.tokens(reply) for reply in ids]
    return replies


def table_3(rows: Sequence[tuple[str, str, Mapping[str, float]]]) -> str:
    """Format results as plain text like Table 3 of the paper.

    Args:
        rows: model, version and results; the column Grd is `greedy_ref`, as in the released code.
    """
    cells = [TABLE_3, *(_cells(*row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(TABLE_3))]
    lines = [
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _cells(model: str, version: str, figures: Mapping[str, float]) -> tuple[str, ...]:
    def cell(name: str) -> str:
        value = figures.get(name, math.nan)
        return "–" if math.isnan(value) else f"{value:.3f}"

    has_latents = model.lower() in WITH_LATENTS
    kl = cell("kl") if has_latents else "–"
    return (model, version, cell("perplexity"), kl, cell("average"), cell("extrema"), cell("greedy_ref"))


def version_name(config: TrainingConfig) -> str:
    """Return the paper's name for a variant.

    baseline, EI, EI_emo, EI_inf or input only.
    """
    if config.ei is None:
        return "baseline"
    if config.ei.input_only:
        return "input only"
    return {"both": "EI", "emotion": "EI_emo", "sentence": "EI_inf"}[config.ei.heads]


def _first(batches: Iterable[DialogueBatch], n: int) -> Iterator[DialogueBatch]:
    """Yield batches until they contain n conversations."""
    for batch in batches:
        if n <= 0:
            return
        yield batch
        n -= batch.n_conversations
