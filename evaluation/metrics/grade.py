"""GRADE: coherence of a reply, from text and a keyword graph.

Huang et al. (2020), "GRADE: Automatic Graph-Enhanced Coherence Metric for Evaluating Open-Domain Dialogue Systems",
EMNLP; the network is in `evaluation/models/grade.py`. Scores cover a narrow range, so only ranks and correlations are
meaningful. A reply without keywords is scored by its text, with only the context's keywords in the graph;
`…_keywords_bot` shows which replies these are.

`grade_pmi` averages it with the reply's mutual information (`trained.py`).

GRADE-lite is GRADE's network on MiniLM, trained on Topical-Chat and shipped with Confab
(`evaluation/shipped/grade-lite`). It is always labelled as a lite version, because its encoder and training text differ
and its graph is a part of the original. `docs/research/grade.md` has its results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evaluation.data.items import ReplyInContext
from evaluation.data.result_tables import Cell, declared_table, number_cell
from evaluation.data.tables import Column, per_turn
from evaluation.metrics.explanations import Explanation, KeywordGraph
from evaluation.metrics.registry import metrics, register_metric
from evaluation.metrics.text_cache import TextCache
from evaluation.metrics.trained import CHECKPOINT_NEEDED, TrainedMetric, WithPmi
from evaluation.models.grade_graph import FAR, graph_licences

ROWS = 256

NO_KEYWORD = "scored by its text only, because the reply has no keyword"
UNKNOWN = "scored with keywords that are not in the graph and are placed far from all others"


class _Grade(TrainedMetric):
    """Base of both metrics: the network's scores and the keyword counts."""

    trained = "grade"
    needs_context = True
    window = 2
    languages = ("en",)

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self._reader: Any = None
        if self.options is not None and super().unavailable_reason() is None:
            # Read the manifest directly: parsing the config would import the network's code and torch.
            corpora = self.checkpoint.manifest.config["data"]["corpora"]
            licences = {corpus.get("licence") or "not stated" for corpus in corpora}
            edges = graph_licences(self.checkpoint.manifest.config["options"])
            self.licence = "; ".join([f"of the training text: {', '.join(sorted(licences))}", *edges])

    def unavailable_reason(self) -> str | None:
        reason = super().unavailable_reason()
        if reason is not None:
            return reason
        from evaluation.models.grade_keywords import analyser_missing

        return analyser_missing(self.checkpoint.manifest.facts["analyser"])

    def keyword_columns(self) -> tuple[Column, ...]:
        """Return the columns with the number of keywords behind a score."""
        return (
            *per_turn(
                f"{self.name}_keywords_bot",
                f"Keywords of the reply ({self.title})",
                unit="keywords",
                range=(0, None),
                direction="neither",
                description="Number of keywords of the bot's turn that are nodes next to those of the context; "
                "if 0, the "
                "graph has only the context's keywords.",
            ),
            *per_turn(
                f"{self.name}_unknown_bot",
                f"Unknown keywords ({self.title})",
                unit="keywords",
                range=(0, None),
                direction="neither",
                description="Number of keywords of the bot's turn and its context that are not in the graph; each is "
                "placed far from all others.",
            ),
        )

    def keyword_values(self, counts: np.ndarray, unknown: np.ndarray) -> dict[str, np.ndarray]:
        """Return their values."""
        return {f"{self.name}_keywords_bot": counts, f"{self.name}_unknown_bot": unknown}

    def remarks(self, scores: Mapping[str, np.ndarray]) -> dict[str, int]:
        nothing = np.array([])
        counts = {
            NO_KEYWORD: int((scores.get(f"{self.name}_keywords_bot", nothing) == 0).sum()),
            UNKNOWN: int((scores.get(f"{self.name}_unknown_bot", nothing) > 0).sum()),
        }
        return {remark: n for remark, n in counts.items() if n}

    def logits(self, replies: Sequence[ReplyInContext], shared: TextCache) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return scores before the sigmoid, and keyword counts, (N,) each.

        The counts are keywords of each reply, and keywords unknown to the graph.
        """
        import torch

        from evaluation.models.grade import UTTERANCES
        from evaluation.models.grade_keywords import tokens_of
        from evaluation.training.metrics.grade import text_of

        with self._lock:
            network = self.restored(shared.device)
            reader = self._restored_reader()
            options = self.checkpoint.config.metric_options
            pairs = [(reply.context[-UTTERANCES:], reply.response) for reply in replies]
            texts = list(dict.fromkeys(t for context, response in pairs for t in (*context, response)))
            name = reader.keywords.analyser
            tokens = shared.once(f"grade tokens {name}", texts, lambda few: [tokens_of(text, name) for text in few])
            reader.tell(dict(zip(texts, map(reader.keywords.among, tokens), strict=True)))
            vectors = None
            if options.text == "two":
                from chatbots.encoders.sentence import encoder_get

                encoder = encoder_get(self.checkpoint.config.backbone.model, self.choose_device(shared.device))
                vectors = dict(zip(texts, shared.encode(texts, encoder), strict=True))
            order = sorted(range(len(pairs)), key=lambda k: sum(map(len, pairs[k][0])))
            scores, counts, unknown = np.zeros((3, len(pairs)))
            for start in range(0, len(pairs), ROWS):
                part = order[start : start + ROWS]
                few = [pairs[k] for k in part]
                with torch.inference_mode():
                    logits = network.logits(reader.batch(few, text_of(few, vectors)))
                scores[part] = logits.double().cpu()
                counts[part] = [reader.n_reply_keywords(pair) for pair in few]
                unknown[part] = [reader.n_unknown_keywords(pair) for pair in few]
        return scores, counts, unknown

    def _restored_reader(self) -> Any:
        from evaluation.training.metrics.grade import reader_restored

        self._reader = self._reader or reader_restored(self.checkpoint)
        return self._reader

    def explain(self, reply: ReplyInContext, others: Sequence[ReplyInContext], shared: TextCache) -> Explanation | None:
        """Return the keywords, and the graph of hops between them (Huang et al. 2020, Figure 5)."""
        reply = self.seen(reply)
        if self.lacking(reply) is not None:
            return None
        with self._lock:
            reader = self._restored_reader()
            of_context, of_reply = reader.placed((reply.context, reply.response))
            hops = reader.graph.hops(of_context, of_reply)
            unknown = {word for word in (*of_context, *of_reply) if not reader.graph.reaches(word)}
        nearest = [
            *((word, "context", row.min(initial=FAR)) for word, row in zip(of_context, hops, strict=True)),
            *((word, "reply", column.min(initial=FAR)) for word, column in zip(of_reply, hops.T, strict=True)),
        ]
        table = declared_table(
            "keywords",
            "Keywords",
            nearest,
            ("Keyword", lambda row: Cell(row[0])),
            ("In", lambda row: Cell(row[1])),
            ("In the graph", lambda row: Cell("no" if row[0] in unknown else "yes")),
            (
                "Hops to the nearest keyword of the other side",
                lambda row: number_cell(None if row[2] >= FAR else int(row[2]), 0, "no path"),
            ),
            method="1 hop is the same word, 2 hops are neighbours in the graph. The score uses 1 / hops.",
            note="" if of_reply else "The reply has no keyword, so it is scored by its text only.",
        )
        graph = KeywordGraph(tuple(of_context), tuple(of_reply), tuple(map(tuple, hops.tolist())), FAR)
        return Explanation((table,), graph if of_context and of_reply else None)


@register_metric
class Grade(_Grade):
    """GRADE with a checkpoint; on request."""

    kind = "grade"
    version = "4"  # 2: keywords no longer end with a full stop before a punctuation mark or bracket
    usual_title = "GRADE"
    needs = (CHECKPOINT_NEEDED,)

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self.columns = (
            *per_turn(
                f"{self.name}_bot",
                f"{self.title}, bot",
                unit="1",
                range=(0, 1),
                direction="higher",
                description="Coherence of the bot's turn with the two turns before it, from text and a keyword graph; "
                "only ranks are meaningful. Undefined for a turn that opens the conversation.",
            ),
            *self.keyword_columns(),
        )

    def score(self, replies: Sequence[ReplyInContext], shared: TextCache) -> dict[str, np.ndarray]:
        logits, counts, unknown = self.logits(replies, shared)
        return {f"{self.name}_bot": 1 / (1 + np.exp(-logits)), **self.keyword_values(counts, unknown)}


@register_metric
class GradePmi(WithPmi, _Grade):
    """Average of GRADE and mutual information, both standardised; on request."""

    kind = "grade_pmi"
    version = "2"  # includes the keyword counts
    usual_title = "GRADE and mutual information"
    network = "GRADE"

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        super().__init__(name, title, **options)
        self.columns = (*self.columns, *self.keyword_columns())

    @property
    def params(self) -> dict[str, Any]:
        params = super().params
        return {**params, "scale": [*params["scale"], *self._scale()]} if self.options else params

    def unavailable_reason(self) -> str | None:
        reason = super().unavailable_reason()
        if reason is None and not self._scale():
            reason = "its checkpoint has no test data, on which scores are scaled; train it on more dialogues"
        return reason

    def _scale(self) -> list[float]:
        """Return mean and standard deviation of scores over held-out pairs, or None."""
        if _Grade.unavailable_reason(self) is not None:
            return []
        measured = self.checkpoint.manifest.metrics
        scale = [measured.get("test_level"), measured.get("test_spread")]
        return [float(number) for number in scale if number is not None]

    def network_scores(
        self, replies: Sequence[ReplyInContext], shared: TextCache
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        level, spread = self._scale()
        logits, counts, unknown = self.logits(replies, shared)
        return (logits - level) / spread, self.keyword_values(counts, unknown)


metrics.add(Grade(name="grade_lite", title="GRADE-lite", checkpoint="grade-lite"))
