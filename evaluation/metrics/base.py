"""The contract of a metric and the table it returns.

Most metrics derive from `MetricDefaults`. They declare their columns and implement `measure`, which fills flat arrays
over the turns of a batch (`layout.py`); this module then computes conversation means, data frames and reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from chatbots import Conversation, Identity
from chatbots.validation import InputModel, values_read
from evaluation.data.tables import Column
from evaluation.metrics.layout import LAYOUT_VERSION, Layout
from evaluation.metrics.text_cache import TextCache

if TYPE_CHECKING:
    import pandas as pd

    from evaluation.data.items import ReplyInContext
    from evaluation.metrics.explanations import Explanation

NO_TURN = "no turn of the conversation has a value"
NOT_FINITE = "the computation gave no finite number"
OTHER_TURNS = "the column does not describe this turn"


@dataclass(frozen=True, slots=True)
class MetricTable:
    """Values of a metric.

    Attributes:
        turns: one row per conversation and turn, indexed by (conversation id, turn index), with exactly
            the declared turn-level columns.
        conversations: one row per conversation, indexed by conversation id, with exactly the declared
            conversation-level columns.
        reasons: for every column with a NaN, the reasons for missing values (short clauses for display, joined by
            semicolons). Undefined values are NaN, never 0 or infinite.
    """

    turns: pd.DataFrame
    conversations: pd.DataFrame
    reasons: dict[str, str]


class Metric(Protocol):
    """Interface of a metric: pure functions over text, with batching."""

    name: str
    title: str
    columns: tuple[Column, ...]
    # Optional: `default: bool`, False for a metric computed on request only; `languages: tuple[str, ...] | None`, see
    # `MetricDefaults`; `explain(reply, others, shared)`, see there.

    @property
    def identity(self) -> Identity:
        """Name, version and everything that determines the numbers; available without loading weights."""
        ...

    def unavailable_reason(self) -> str | None:
        """Return the reason why the metric cannot be computed here, or None.

        Loads nothing.
        """
        ...

    def compute(
        self, conversations: Sequence[Conversation], *, self_play: bool = False, shared: TextCache | None = None
    ) -> MetricTable:
        """Compute all columns for all conversations, batched. Never raises for unusual text.

        Args:
            conversations: with unique ids, which index the table.
            self_play: True if both speakers are the same bot. Every column is then computed on the bot's next utterance
                (Ghandeharioun et al. 2019, section 2 of the fact sheet): m_t and m_{t+1} stand for message and reply,
                and no column describes the first utterance.
            shared: texts encoded in this run, so that metrics computed together encode each text once.
        """
        ...


@dataclass(frozen=True, slots=True)
class Measured:
    """Output of `measure`, over the flat turns of a `Layout`.

    Attributes:
        turns: (N,) per turn-level column, NaN if undefined.
        conversations: (C,) per conversation-level column that is not the mean of its turns.
        reasons: per column name, the reasons for missing values of the turns it describes.
    """

    turns: Mapping[str, np.ndarray]
    conversations: Mapping[str, np.ndarray] = field(default_factory=dict)
    reasons: Mapping[str, Sequence[str]] = field(default_factory=dict)


CHOSEN_LICENCE = "that of the chosen model"


class MetricDefaults:
    """Base class of most metrics: set class attributes and write `measure`."""

    name: str = ""
    title: str = ""
    version: str = "1"
    columns: tuple[Column, ...] = ()
    default: bool = True
    """True if it is computed by default, False if only on request."""
    ingredient: bool = False
    """True if its columns are meant for fits with many columns; matrices of single columns omit them."""
    languages: tuple[str, ...] | None = None
    """ISO 639-1 codes of supported languages; () for any; None for those of the chosen model."""
    needs: tuple[str, ...] = ()
    """Requirements besides text: "a reference", "Java", "a language model"."""
    licence: str = ""
    """Licence of its weights and data; empty if it has none, or before a model is chosen."""

    seen_sets: tuple[str, ...] | None = None
    """Name prefixes of the annotated data sets used to design, choose or train it; None: see
    `evaluation.agreement.held_out.seen_sets`."""

    has_network: bool = False
    """True if it uses a neural network, which can run on other devices than the CPU."""

    @property
    def device(self) -> str:
        """Device to compute on; empty for the device of the run (`CONFAB_DEVICE`)."""
        device = str(getattr(getattr(self, "options", None), "device", ""))
        return device or ("" if self.has_network else "cpu")

    @property
    def params(self) -> dict[str, Any]:
        """Everything besides the text that determines the numbers: encoders, tokenizers."""
        return {}

    @property
    def identity(self) -> Identity:
        return Identity(self.name, self.version, {"layout": LAYOUT_VERSION, **self.params})

    def unavailable_reason(self) -> str | None:
        return None

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        """Fill the columns for one batch."""
        raise NotImplementedError

    def explain(self, reply: ReplyInContext, others: Sequence[ReplyInContext], shared: TextCache) -> Explanation | None:
        """Return the explanation of a non-blank reply's score, for display; None if there is nothing to add.

        Args:
            others: other replies of the data set, to compare with.
        """
        return None

    def compute(
        self, conversations: Sequence[Conversation], *, self_play: bool = False, shared: TextCache | None = None
    ) -> MetricTable:
        layout = Layout.of(conversations, self_play=self_play)
        return table_of(self.columns, layout, self.measure(layout, shared or TextCache()))


class ConfiguredMetric(MetricDefaults):
    """Base class of metrics with options.

    Registered without options, a metric is unavailable and names the options it needs.

    Args:
        name: name of the metric and prefix of its columns; the kind if empty.
        title: readable name; by default the kind's, followed by the name if that differs.
        options: by field name of `options_type`; empty if nothing is chosen yet.

    Raises:
        ValuesError: if options are invalid; the message lists every problem.
    """

    default = False
    kind: ClassVar[str]
    """Name in metrics.yaml, and the metric's own name by default."""
    usual_title: ClassVar[str]
    options_type: ClassVar[type[InputModel]]
    options: Any

    def __init__(self, name: str = "", title: str = "", **options: Any) -> None:
        self.name = name or self.kind
        self.title = title or self.usual_title + (f" ({self.name})" if self.name != self.kind else "")
        self.options = values_read(self.options_type, options) if options else None


def table_of(columns: Sequence[Column], layout: Layout, measured: Measured) -> MetricTable:
    """Build a metric's table: conversation means, NaN for non-finite values, and reasons."""
    import pandas as pd

    turns: dict[str, np.ndarray] = {}
    conversations: dict[str, np.ndarray] = {}
    reasons: dict[str, list[str]] = {}

    for column in columns:
        if column.level == "turn":
            values = measured.turns[column.name]
        elif column.name in measured.conversations:
            values = measured.conversations[column.name]
        else:
            values = layout.mean(_finite(measured.turns[column.name]))
        finite = _finite(values)
        clauses_of_column = reasons.setdefault(column.name, [])
        clauses_of_column.extend(measured.reasons.get(column.name, ()))
        if np.isinf(np.asarray(values, dtype=float)).any():
            clauses_of_column.append(NOT_FINITE)
        if np.isnan(finite).any():
            if column.level == "turn":
                clauses_of_column.append(OTHER_TURNS)
            elif column.name in measured.turns:
                clauses_of_column.append(NO_TURN)
        (turns if column.level == "turn" else conversations)[column.name] = finite

    ids = pd.array([conversation.id for conversation in layout.conversations], dtype="str")
    index = pd.MultiIndex.from_arrays([ids[layout.conversation_of], layout.turn_of], names=["conversation", "turn"])
    return MetricTable(
        turns=pd.DataFrame(turns, index=index, dtype=float),
        conversations=pd.DataFrame(conversations, index=pd.Index(ids, name="conversation"), dtype=float),
        reasons={name: "; ".join(sorted(set(clauses))) for name, clauses in reasons.items() if clauses},
    )


def missing(values: np.ndarray, reason: str) -> tuple[str, ...]:
    """Return the reason if a value is NaN, as in `Measured.reasons`."""
    return (reason,) if np.isnan(values).any() else ()


def _finite(values: np.ndarray) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    return np.where(np.isfinite(array), array, np.nan)
