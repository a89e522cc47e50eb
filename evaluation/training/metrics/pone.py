"""Training of PONE, BERT-RUBER and RUBER's scorer.

BERT-RUBER is PONE with `negatives: random` and `positives: none`; RUBER's scorer also has `sentences: recurrent` and
`loss: hinge`.

A pair consists of consecutive utterances. A frozen encoder computes sentence vectors once per distinct text and caches
them on disk. The full PONE takes two configs (fact sheet, section 5): the first treats all augmented responses as
fitting; the second continues from it (`start`) with `filter: drop`.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from chatbots.corpora.dialogues import CorpusError, Dialogue
from chatbots.identity import canonical_json, derive_seed
from chatbots.registry import UnknownName, bot_get, bot_load
from chatbots.text import quote
from chatbots.validation import InputModel, Many, Number, Size
from evaluation.models.pone import (
    HIDDEN,
    PoneScorer,
    RecurrentSentences,
    WordBatch,
    WordTexts,
    labelled_loss,
    scorer_loss,
)
from evaluation.training.checkpoint import Checkpoint
from evaluation.training.config import MetricTrainingConfig, register_learned
from evaluation.training.contract import ExampleLoss, Examples, LearnedMetric, Prepared, Splits
from evaluation.training.negatives import WordNegatives, random_responses, text_numbers, weighted_responses
from evaluation.training.pone_data import (
    SLICE,
    Labels,
    Synonyms,
    all_positive,
    augmented,
    generated,
    inputs_of,
    labels_are_stable,
    relabelled,
    wordnet_synonyms,
)

log = logging.getLogger(__name__)


class PoneOptions(InputModel):
    """Options of PONE; numbers in brackets are sections of the fact sheet.

    Attributes:
        window: number of utterances per query, whose vectors are averaged.
        sentences: "frozen": vectors of the encoder (2); "recurrent": as in RUBER, last states of a trained GRU over
            frozen word vectors, with the query's utterances concatenated.
        sentence_width: width of the recurrent vectors.
        most_pairs: maximum number of training pairs, taken from shuffled dialogues; 0: all.
        most_held_out: the same for validation and for test.
        negatives: "weighted" by similarity, "bm25" or "random" (3).
        temperature, pool: parameters of the weighted draw (3).
        random_every: draw at random in every n-th epoch, from 1; 0: never (3, `weight_step`).
        positives: "eda": slightly changed true responses; "bot": a bot's replies; "none" (4).
        synonyms: source of synonyms: "wordnet", the slice shipped with Confab, or "none" (4).
        bot: id of the bot.
        copies: augmented responses per query (4).
        filter: treatment of augmented responses with uncertain scores; "none": all are positive (5).
        theta: threshold of certainty (5).
        refilter_every: number of epochs between relabellings (5).
        hidden, dropout, init: settings of the scorer (2).
        loss: "cross_entropy", or RUBER's "hinge" with its margin.
    """

    window: Size = 1
    sentences: Literal["frozen", "recurrent"] = "frozen"
    sentence_width: Size = 256
    most_pairs: int = Field(0, ge=0)
    most_held_out: int = Field(0, ge=0)
    negatives: Literal["weighted", "bm25", "random"] = "weighted"
    temperature: Number = Field(0.05, gt=0)
    pool: Size = 100
    random_every: int = Field(3, ge=0)
    positives: Literal["none", "eda", "bot"] = "none"
    synonyms: Literal["wordnet", "none"] = "wordnet"
    bot: str = ""
    copies: Size = 5
    filter: Literal["none", "drop", "change"] = "none"
    theta: Number = Field(0.05, ge=0, le=0.5)
    refilter_every: Size = 5
    hidden: Many[Size] = HIDDEN
    dropout: Number = Field(0.5, ge=0, lt=1)
    init: Literal["identity", "xavier", "uniform"] = "identity"
    loss: Literal["cross_entropy", "hinge"] = "cross_entropy"
    margin: Number = Field(0.5, gt=0)


@dataclass(frozen=True)
class PoneBatch:
    """Batch of (B, d) vectors, or of texts as words.

    Attributes:
        query, response, negative: true pairs with a wrong response for each.
        augmented_query, augmented: augmented pairs to be filtered; empty without a filter.
        labels: (A,) labels from the filter, 1 or 0.
    """

    query: Tensor | WordBatch
    response: Tensor | WordBatch
    negative: Tensor | WordBatch
    augmented_query: Tensor | WordBatch
    augmented: Tensor | WordBatch
    labels: Tensor


class PoneNetwork(nn.Module):
    """Scorer with its loss and score distribution.

    Attributes:
        level, spread: mean and standard deviation of scores before the sigmoid, over true and wrong validation pairs.
    """

    def __init__(self, width: int, options: PoneOptions) -> None:
        super().__init__()
        self.sentences = None
        if options.sentences == "recurrent":
            self.sentences = RecurrentSentences(width, options.sentence_width)
            width = options.sentence_width
        self.scorer = PoneScorer(width, options.hidden, options.dropout, options.init)
        self.options = options
        self.level = nn.Parameter(torch.zeros(()))
        self.spread = nn.Parameter(torch.ones(()))

    def forward(self, query: Tensor | WordBatch, response: Tensor | WordBatch) -> Tensor:
        """Return (B,) scores before the sigmoid."""
        return self.scorer(self.vectors(query), self.vectors(response))

    def vectors(self, texts: Tensor | WordBatch) -> Tensor:
        """Return (B, d) text vectors: the input, or the recurrent encoder's output."""
        device = self.level.device
        if isinstance(texts, WordBatch):
            assert self.sentences is not None, "words require the recurrent encoder"
            vectors: Tensor = self.sentences(texts.words.to(device), texts.lengths)
            return vectors
        return texts.to(device)

    def loss(self, batch: PoneBatch) -> ExampleLoss:
        """Return the mean loss over all kinds of pairs, and accuracy."""
        positive, negative = (self(batch.query, batch.response), self(batch.query, batch.negative))
        n = len(positive) + len(negative)
        total = scorer_loss(positive, negative, self.options.loss, self.options.margin)
        if len(batch.labels):
            scores = self(batch.augmented_query, batch.augmented)
            m = len(scores)
            labelled = labelled_loss(scores, batch.labels.to(scores.device))
            total = (n * total + m * labelled) / (n + m)
        right = ((positive > 0).float().mean() + (negative <= 0).float().mean()) / 2
        return ExampleLoss(total, len(positive), {"accuracy": right})


class PonePairs(Examples):
    """Pairs of one part of the data, as indices into distinct texts.

    Args:
        vectors: (T, d) vectors of texts and queries, or their words.
        query, response: (N,) indices into `vectors`: `n_true` true pairs, then augmented pairs that are always
            positive.
        more: (A,) queries and responses of augmented pairs to be filtered.
        owners: (N,) index of each pair's true pair; None: all are true.
    """

    def __init__(
        self,
        vectors: np.ndarray | WordTexts,
        texts: Sequence[str],
        query: np.ndarray,
        response: np.ndarray,
        options: PoneOptions,
        *augmented: np.ndarray,
        owners: np.ndarray | None = None,
        seed: int = 0,
    ) -> None:
        self.vectors, self.query, self.response = vectors, query, response
        self.options, self.n = options, len(query)
        nothing = np.zeros(0, dtype=int)
        self.augmented_query, self.augmented = augmented or (nothing, nothing)
        self.labels = all_positive(len(self.augmented))
        self._settled = False
        responses = [texts[k] for k in response]
        self.numbers, self.owners = text_numbers(responses), owners
        self._words = (
            WordNegatives(responses, np.random.default_rng(seed), owners) if options.negatives == "bm25" else None
        )

    def n_batches(self, batch_size: int) -> int:
        return -(-(len(self.augmented) or self.n) // batch_size)

    def negatives(self, seed: int, epoch: int) -> np.ndarray:
        """Return the (N,) text indices of an epoch's negatives.

        Epochs start at 0.
        """
        rng = np.random.default_rng(derive_seed(seed, "negatives", epoch))
        options = self.options
        plain = options.random_every and (epoch + 1) % options.random_every == 0
        if options.negatives == "random" or plain:
            return self.response[random_responses(self.numbers, rng, self.owners)]
        if self._words is not None:
            return self.response[self._words.draw(rng)]
        assert isinstance(self.vectors, np.ndarray), "recurrent sentences are rejected with these negatives"
        vectors = self.vectors[self.response]
        sample = weighted_responses(
            vectors, self.numbers, rng, temperature=options.temperature, pool=options.pool, owners=self.owners
        )
        return self.response[sample]

    def batches(self, batch_size: int, seed: int, epoch: int, start: int = 0) -> Iterator[PoneBatch]:
        rng = np.random.default_rng(derive_seed(seed, "order", epoch))
        negative = self.negatives(seed, epoch)
        order, augmented_order = rng.permutation(self.n), rng.permutation(len(self.augmented))
        for k in range(start, self.n_batches(batch_size)):
            positions = np.arange(k * batch_size, (k + 1) * batch_size)
            if len(augmented_order):  # repeat true pairs as needed
                rows, augmented_rows = (
                    order[positions % self.n],
                    augmented_order[positions[positions < len(augmented_order)]],
                )
            else:
                rows, augmented_rows = order[positions[positions < self.n]], augmented_order
            yield self._batch(rows, negative, augmented_rows[self.labels.is_kept[augmented_rows]])

    def in_order(self, batch_size: int) -> Iterator[PoneBatch]:
        negatives = random_responses(self.numbers, np.random.default_rng(0))
        for offset in range(0, self.n, batch_size):
            rows = np.arange(offset, min(offset + batch_size, self.n))
            yield self._batch(rows, self.response[negatives], np.zeros(0, dtype=int))

    def _batch(self, rows: np.ndarray, negative: np.ndarray, augmented_rows: np.ndarray) -> PoneBatch:
        return PoneBatch(
            self._inputs(self.query[rows]),
            self._inputs(self.response[rows]),
            self._inputs(negative[rows]),
            self._inputs(self.augmented_query[augmented_rows]),
            self._inputs(self.augmented[augmented_rows]),
            torch.from_numpy(self.labels.positive[augmented_rows].astype(np.float32)),
        )

    def _inputs(self, which: np.ndarray) -> Tensor | WordBatch:
        inputs = self.vectors[which]
        return torch.from_numpy(inputs) if isinstance(inputs, np.ndarray) else inputs

    def begin_epoch(self, network: nn.Module, epoch: int) -> None:
        """Relabel augmented pairs in every `refilter_every`-th epoch, from 0."""
        if len(self.augmented) and epoch % self.options.refilter_every == 0:
            network.eval()
            probabilities = []
            with torch.no_grad():
                for offset in range(0, len(self.augmented), 4096):
                    part = slice(offset, offset + 4096)
                    query, response = (self._inputs(self.augmented_query[part]), self._inputs(self.augmented[part]))
                    probabilities.append(network(query, response).sigmoid().cpu().numpy())
            before = self.labels if epoch else None
            keep = self.options.filter == "change"
            self.labels = relabelled(np.concatenate(probabilities), self.options.theta, "change" if keep else "drop")
            self._settled = labels_are_stable(self.labels, before)

    @property
    def is_settled(self) -> bool:
        """True if the last update changed hardly any labels.

        This is the paper's stopping criterion (5).
        """
        return self._settled

    def told(self) -> dict[str, float]:
        return {"kept_share": self.labels.kept_share} if len(self.augmented) else {}

    def remember(self) -> dict[str, Tensor]:
        return {"positive": torch.from_numpy(self.labels.positive), "kept": torch.from_numpy(self.labels.is_kept)}

    def recall(self, state: dict[str, Tensor]) -> None:
        self.labels = Labels(state["positive"].numpy(), state["kept"].numpy())


@register_learned
class PoneTraining(LearnedMetric):
    """PONE, including BERT-RUBER and RUBER's scorer."""

    name = "pone"
    options_type = PoneOptions

    def missing(self, config: MetricTrainingConfig) -> dict[str, str]:
        options: PoneOptions = config.metric_options
        problems = {}
        if config.backbone.learns != "frozen":
            problems["window"] = (
                f"PONE's encoder is frozen, so backbone.learns must be frozen, not {quote(config.backbone.learns)}"
            )
        if options.positives == "bot":
            try:
                reason = bot_get(options.bot).unavailable_reason()
            except UnknownName as error:
                reason = str(error)
            if reason:
                problems["bot"] = reason
        if options.sentences == "recurrent":
            if options.negatives == "weighted":
                problems["negatives"] = (
                    "weighted negatives need a frozen encoder's vectors; with recurrent sentences, use negatives: "
                    "random or bm25"
                )
            if options.sentence_width % 2:
                problems["sentence_width"] = (
                    f"{options.sentence_width} is odd; it is divided between two directions, so it must be even"
                )
        if config.backbone.pooling != "mean" and options.sentences == "frozen":
            problems["sentences"] = (
                f"PONE averages over tokens, so backbone.pooling must be mean, not {quote(config.backbone.pooling)}"
            )
        if options.filter != "none" and options.positives == "none":
            problems["filter"] = "there are no augmented responses to filter; set positives to eda or bot"
        return problems

    def prepare(self, config: MetricTrainingConfig, splits: Splits, device: str) -> Prepared:
        options: PoneOptions = config.metric_options
        limits = {"train": options.most_pairs}
        pairs = {
            name: _pairs(part, options.window, limits.get(name, options.most_held_out)) for name, part in splits.parts()
        }
        for name in ("train", "validation"):
            if len({response for _, response in pairs[name]}) < 2:
                raise CorpusError(f"the {name} part has fewer than two distinct responses")
        added, made_of = _augmented(pairs["train"], options, config.seed)
        queries = [query for part in (*pairs.values(), added) for query, _ in part]
        responses = list(dict.fromkeys(response for part in (*pairs.values(), added) for _, response in part))
        vectors, texts, query_place = inputs_of(queries, responses, config, device)
        place = {text: k for k, text in enumerate(texts)}

        def numbers(part: Sequence[tuple[tuple[str, ...], str]]) -> tuple[np.ndarray, np.ndarray]:
            return (
                np.array([query_place[query] for query, _ in part], dtype=int),
                np.array([place[response] for _, response in part], dtype=int),
            )

        filtered = options.filter != "none"
        train = numbers(pairs["train"] if filtered else [*pairs["train"], *added])
        held_out = _held_out(options)
        test = PonePairs(vectors, texts, *numbers(pairs["test"]), held_out) if pairs["test"] else None
        augmented = numbers(added if filtered else [])
        owners = None
        if added and not filtered:
            owners = np.concatenate([np.arange(len(pairs["train"])), made_of])
        return Prepared(
            train=PonePairs(vectors, texts, *train, options, *augmented, owners=owners, seed=config.seed),
            validation=PonePairs(vectors, texts, *numbers(pairs["validation"]), held_out),
            test=test,
            digest=hashlib.sha256(canonical_json([splits.digest, [*pairs["train"], *added]]).encode()).hexdigest()[:16],
            facts={
                "pairs": {name: len(part) for name, part in pairs.items()},
                "augmented": len(added),
                "width": int(vectors.width if isinstance(vectors, WordTexts) else vectors.shape[1]),
                "licences": sorted({c.licence or "not stated" for c in config.data.corpora}),
            },
        )

    def network(self, config: MetricTrainingConfig, prepared: Prepared) -> nn.Module:
        return PoneNetwork(int(prepared.facts["width"]), config.metric_options)

    def restored(self, checkpoint: Checkpoint) -> nn.Module:
        return PoneNetwork(int(checkpoint.manifest.facts["width"]), checkpoint.config.metric_options)

    def measure(self, network: nn.Module, examples: Examples, batch_size: int) -> dict[str, float]:
        """Compute accuracy, cross-entropy and `loss`.

        `loss`, which selects the best weights, is the error rate with ties broken by cross-entropy.
        """
        base_figures = super().measure(network, examples, batch_size)
        assert isinstance(network, PoneNetwork)
        with torch.no_grad():
            scores = torch.cat(
                [
                    network(batch.query, texts)
                    for batch in examples.in_order(batch_size)
                    for texts in (batch.response, batch.negative)
                ]
            )
            network.level.copy_(scores.mean())
            network.spread.copy_(scores.std().clamp(min=1e-6))
        figures = {"cross_entropy": base_figures["loss"], "accuracy": base_figures["accuracy"]}
        return {"loss": 1 - base_figures["accuracy"] + 1e-4 * base_figures["loss"], **figures}


def _held_out(options: PoneOptions) -> PoneOptions:
    """Return options for held-out parts, with random negatives (2)."""
    return options.model_copy(update={"negatives": "random"})


def _pairs(dialogues: Sequence[Dialogue], window: int, limit: int) -> list[tuple[tuple[str, ...], str]]:
    """Return utterances with their contexts, dialogue by dialogue."""
    pairs = []
    for dialogue in dialogues:
        turns = dialogue.turns
        pairs += [
            (turns[max(0, k - window) : k], turns[k])
            for k in range(1, len(turns))
            if turns[k].strip() and all(text.strip() for text in turns[max(0, k - window) : k])
        ]
        if limit and len(pairs) >= limit:
            return pairs[:limit]
    return pairs


def _augmented(
    pairs: Sequence[tuple[tuple[str, ...], str]], options: PoneOptions, seed: int
) -> tuple[list[tuple[tuple[str, ...], str]], np.ndarray]:
    """Return augmented responses, their queries, and (A,) source pair indices."""
    if options.positives == "none":
        return [], np.zeros(0, dtype=int)
    if options.positives == "eda":
        rng = np.random.default_rng(derive_seed(seed, "augmented"))
        synonyms = _synonyms(options)
        added_texts = [augmented(response, options.copies, rng, synonyms=synonyms) for _, response in pairs]
    else:
        bot = bot_get(options.bot)
        bot_load(bot.name)
        added_texts = generated(bot, [query for query, _ in pairs], options.copies, seed=seed)
    added = [(query, text) for (query, _), texts in zip(pairs, added_texts, strict=True) for text in texts]
    return added, np.repeat(np.arange(len(pairs)), [len(texts) for texts in added_texts])


def _synonyms(options: PoneOptions) -> Synonyms | None:
    """Return the source of synonyms; warn and return None without the slice."""
    if options.synonyms == "none":
        return None
    try:
        return wordnet_synonyms()
    except FileNotFoundError:
        log.warning("%s is missing: augmented responses are made without synonyms", SLICE)
        return None
