"""RADE: score of a reply against a reference.

Scores are on the scale of the ratings that the network was trained on.

Shi et al. 2023, "RADE: Reference-Assisted Dialogue Evaluation for Open-Domain Dialogue", ACL. The networks are in
`evaluation/models/rade.py`, their training in `evaluation/training/metrics/rade.py`. Scores are not clipped to the
scale; `evaluation.models.rade.reported` clips them for display. Without a human reference the score is undefined,
unless the metric's entry configures generated references.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from chatbots.corpora.dialogues import EVERYDAY, CorpusError, corpus_files, corpus_read
from chatbots.registry import UnknownName, bot_get, bot_load
from evaluation.data.items import ReplyInContext
from evaluation.data.result_tables import Cell, declared_table, number_cell
from evaluation.data.tables import per_turn
from evaluation.metrics.explanations import Explanation
from evaluation.metrics.registry import register_metric
from evaluation.metrics.text_cache import TextCache
from evaluation.metrics.trained import CHECKPOINT_NEEDED, TrainedMetric, TrainedOptions

_ROWS = 64


class RadeMetricOptions(TrainedOptions):
    """Options of an entry of `metrics.yaml`."""

    references: Literal["people", "retrieved", "generated"] = Field(
        "people",
        description=(
            "action without a human reference: skip the reply, use the reply from the most similar context in a "
            "corpus (BM25), or let a bot generate one"
        ),
    )
    corpus: str = Field("everyday", description="corpus of retrieved references: a file, or everyday")
    index: Literal["contexts", "responses"] = Field(
        "contexts", description="part of the corpus to compare with the context"
    )
    bot: str = Field("", description="id of the bot that generates references")

    @model_validator(mode="after")
    def _bot_is_named(self) -> RadeMetricOptions:
        if self.references == "generated" and not self.bot:
            raise ValueError("bot is required for generated references")
        return self


@register_metric
class Rade(TrainedMetric):
    """RADE's score of a reply against a reference, from a trained checkpoint.

    On request.
    """

    kind = "rade"
    seen_sets = ("rade",)
    usual_title = "RADE"
    options_type = RadeMetricOptions
    options: RadeMetricOptions | None
    needs: tuple[str, ...] = (CHECKPOINT_NEEDED, "a reference")
    languages = ("en",)
    needs_context = True
    over_references = "mean"

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        makes_references = self.options is not None and self.options.references != "people"
        self.needs_reference, self.reads_reference = not makes_references, True
        self._reference_maker: Any = None
        if makes_references and self.options is not None:
            chosen = self.options
            source = (
                f"a reply by {chosen.bot} instead of a reference"
                if chosen.references == "generated"
                else f"the corpus {chosen.corpus}, if there is no human reference"
            )
            self.needs = (*(need for need in self.needs if need != "a reference"), source)
        self.columns = tuple(
            column
            for kind, subject in (("bot", "the bot's turn"), ("reference", "the reference next to it"))
            for column in per_turn(
                f"{self.name}_{kind}",
                f"{self.title}, {kind}",
                unit="points",
                range=(None, None),
                direction="higher" if kind == "bot" else "neither",
                description=f"Score of {subject} on the scale of the ratings it was trained on (1 to 5), not clipped. "
                f"{'Undefined' if makes_references else 'Needs a reference; undefined'} for a turn that opens "
                "the conversation.",
            )
        )
        if self.options is not None and super().unavailable_reason() is None:
            licences = self.checkpoint.manifest.facts.get("licences") or ["not stated"]
            self.licence = f"of the training data: {', '.join(licences)}"

    @property
    def params(self) -> dict[str, Any]:
        if self.options is None or self.options.references == "people":
            return super().params
        chosen = self.options
        if chosen.references == "generated":
            references: Any = {"bot": self._bot().identity.as_dict() if self._bot() else chosen.bot}
        else:
            references = {"corpus": self._corpus_digest(), "index": chosen.index}
        return {**super().params, "references": references}

    def unavailable_reason(self) -> str | None:
        reason = super().unavailable_reason()
        if reason is None and self.options is not None and self.options.references == "generated":
            bot = self._bot()
            return f"there is no bot {self.options.bot}" if bot is None else bot.unavailable_reason()
        return reason

    def _bot(self) -> Any:
        assert self.options is not None, "called although it is unavailable"
        try:
            return bot_get(self.options.bot)
        except UnknownName:
            return None

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        import torch

        from evaluation.training.metrics.rade import lite_batch
        from evaluation.training.rade_data import RatedPair

        complete = self._with_references(replies, shared)
        complete_rows = [k for k, reply in enumerate(complete) if reply.reference]
        scores = np.full((len(replies), 2), np.nan)
        network = self.restored(shared.device)
        for start in range(0, len(complete_rows), _ROWS):
            rows = complete_rows[start : start + _ROWS]
            pairs = [
                RatedPair(reply.context, reply.response, reply.reference or "", 0.0, 0.0)
                for reply in (complete[k] for k in rows)
            ]
            lite = self.checkpoint.config.metric_options.network == "lite"
            with torch.inference_mode():
                batch_scores = network.scored(lite_batch(pairs, shared) if lite else pairs)
            scores[rows] = batch_scores.double().cpu().numpy()
        return {f"{self.name}_bot": scores[:, 1], f"{self.name}_reference": scores[:, 0]}

    def _with_references(self, replies: Sequence[ReplyInContext], shared: TextCache) -> list[ReplyInContext]:
        """Return the replies, adding generated references where the options request them."""
        lacking = [k for k, reply in enumerate(replies) if reply.reference is None]
        complete = list(replies)
        if lacking and not self.needs_reference:
            with self._lock:
                if self._reference_maker is None:
                    self._reference_maker = self._maker(self.choose_device(shared.device))
            for k, text in zip(lacking, self._reference_maker.find([replies[k] for k in lacking]), strict=True):
                complete[k] = replies[k]._replace(reference=text)
        return complete

    def explain(self, reply: ReplyInContext, others: Sequence[ReplyInContext], shared: TextCache) -> Explanation | None:
        """Return both of RADE's scores, and the reference (Shi et al. 2023, Tables 10 to 14)."""
        if self.lacking(reply) is not None:
            return None
        [complete] = self._with_references([reply], shared)
        scores = self.score([complete], shared)
        source = "a person" if reply.reference is not None or self.options is None else self.options.references
        rows = [
            ("Reply", complete.response, "", float(scores[f"{self.name}_bot"][0])),
            ("Reference", complete.reference or "", source, float(scores[f"{self.name}_reference"][0])),
        ]
        table = declared_table(
            "scores",
            "Scores of reply and reference",
            rows,
            ("", lambda row: Cell(row[0])),
            ("Text", lambda row: Cell(row[1])),
            ("Source", lambda row: Cell(row[2])),
            ("Score", lambda row: number_cell(row[3])),
            method="Both are predicted together, on the scale of the ratings in training; the metric is the first one.",
        )
        return Explanation((table,))

    def _maker(self, device: str) -> Any:
        from evaluation.models.rade_inputs import GeneratedReferences, RetrievedReferences

        chosen = self.options
        assert chosen is not None, "called although it is unavailable"
        if chosen.references == "generated":
            return GeneratedReferences(bot_load(chosen.bot, device))
        corpus = corpus_read() if chosen.corpus == "everyday" else corpus_read(Path(chosen.corpus))
        return RetrievedReferences(corpus.dialogues, chosen.index)

    def _corpus_digest(self) -> str | None:
        """Return the digest of the reference corpus; None if unreadable."""
        assert self.options is not None, "called although it is unavailable"
        place = EVERYDAY if self.options.corpus == "everyday" else Path(self.options.corpus)
        try:
            seen = [(file, file.stat()) for file in corpus_files(place)]
            return _digest(place, tuple((path, status.st_mtime_ns, status.st_size) for path, status in seen))
        except (CorpusError, OSError):
            return None


@lru_cache(maxsize=16)
def _digest(place: Path, seen: tuple[tuple[Path, int, int], ...]) -> str:
    """Return a corpus's digest.

    Modification times and sizes are arguments so that the cache misses when a file changes.
    """
    return corpus_read(place).digest
