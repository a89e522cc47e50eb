"""The contract of a metric and the table it returns.

`MetricDefaults` is what most metrics derive from: they say which columns they have and implement
`measure`, which fills flat arrays over the turns of a batch (`layout.py`); means over a conversation,
data frames and reasons are made here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from chatbots import Conversation, Identity
from chatbots.validation import InputModel, values_read
from evaluation.metrics.layout import LAYOUT_VERSION, Layout
from evaluation.metrics.text_cache import TextCache
from evaluation.tables import Column

if TYPE_CHECKING:
    import pandas as pd

NO_TURN = "no turn of the conversation has a value"
NOT_FINITE = "the computation gave no finite number"
OTHER_TURNS = "the turn is not one this column describes"


@dataclass(frozen=True, slots=True)
class MetricTable:
    """Values of a metric.

    Attributes:
        turns: one row per conversation and turn, indexed by (conversation id, turn index), with exactly
            the declared turn-level columns.
        conversations: one row per conversation, indexed by conversation id, with exactly the declared
            conversation-level columns.
        reasons: for every column name that has a NaN, reasons for missing values (short clauses for
            people, joined by "; "). Undefined is NaN, never 0, and never infinite.
    """

    turns: pd.DataFrame
    conversations: pd.DataFrame
    reasons: dict[str, str]


class Metric(Protocol):
    """Pure functions over text plus a thin class that batches them."""

    name: str
    title: str
    columns: tuple[Column, ...]
    # And, if it says so, `default: bool`: False for a metric that is computed on request only;
    # `languages: tuple[str, ...] | None`, see `MetricDefaults`.

    @property
    def identity(self) -> Identity:
        """Name, version and everything that decides the numbers, known without loading weights."""
        ...

    def unavailable_reason(self) -> str | None:
        """Return the reason why it cannot be computed here, or None. Cheap: loads nothing."""
        ...

    def compute(
        self, conversations: Sequence[Conversation], *, self_play: bool = False, shared: TextCache | None = None
    ) -> MetricTable:
        """Compute all columns for all conversations, batched. Never raises for odd text.

        Args:
            conversations: with ids of their own: the ids are the table's index.
            self_play: both speakers are the same bot, and every column is computed on its next
                utterance (Ghandeharioun et al. 2019, section 2 of the fact sheet): m_t, m_{t+1} stand
                for message and reply, and the first utterance is described by no column.
            shared: encoded texts of this run, so that metrics computed together encode none twice.
        """
        ...


@dataclass(frozen=True, slots=True)
class Measured:
    """Output of `measure`, over the flat turns of a `Layout`.

    Attributes:
        turns: (N,) per turn-level column, NaN where undefined.
        conversations: (C,) per conversation-level column that is not the mean of its turns.
        reasons: per column name, the reasons for missing values of turns it describes.
    """

    turns: Mapping[str, np.ndarray]
    conversations: Mapping[str, np.ndarray] = field(default_factory=dict)
    reasons: Mapping[str, Sequence[str]] = field(default_factory=dict)


CHOSEN_LICENCE = "that of the model that is chosen"


class MetricDefaults:
    """Base class of most metrics: derive from it, set the class attributes and write `measure`."""

    name: str = ""
    title: str = ""
    version: str = "1"
    columns: tuple[Column, ...] = ()
    default: bool = True
    """True if it is computed by default; False: only on request."""
    ingredient: bool = False
    """True if its columns serve fits of many columns: matrices of single columns leave them out."""
    languages: tuple[str, ...] | None = None
    """Codes (ISO 639-1) of the languages its numbers hold for; (): any; None: those of what it is given."""
    needs: tuple[str, ...] = ()
    """Requirements besides the text: "a reference", "Java", "a language model"."""
    licence: str = ""
    """Of the weights and data that it reads; empty: it reads none, or none that is known before it is chosen."""

    seen_sets: tuple[str, ...] | None = None
    """Beginnings of the names of judged sets that it was designed, chosen or trained by; None: see
    `evaluation.held_out.seen_sets`."""

    has_network: bool = False
    """True if a network computes it, which may run on another device than the CPU."""

    @property
    def device(self) -> str:
        """Device that it computes on; empty: the device of the run (`CONFAB_DEVICE`)."""
        device = str(getattr(getattr(self, "options", None), "device", ""))
        return device or ("" if self.has_network else "cpu")

    @property
    def params(self) -> dict[str, Any]:
        """Everything besides the text that decides the numbers: encoders, tokenizers."""
        return {}

    @property
    def identity(self) -> Identity:
        return Identity(self.name, self.version, {"layout": LAYOUT_VERSION, **self.params})

    def unavailable_reason(self) -> str | None:
        return None

    def measure(self, layout: Layout, shared: TextCache) -> Measured:
        """Fill the columns for one batch."""
        raise NotImplementedError

    def compute(
        self, conversations: Sequence[Conversation], *, self_play: bool = False, shared: TextCache | None = None
    ) -> MetricTable:
        layout = Layout.of(conversations, self_play=self_play)
        return table_of(self.columns, layout, self.measure(layout, shared or TextCache()))


class ConfiguredMetric(MetricDefaults):
    """Base of the metrics that take options: registered without any, they say which ones they need.

    Args:
        name: of the metric, and what its columns begin with; the kind if empty.
        title: readable name; without it the kind's, with the name if that is another.
        options: by the names of the fields of `options_type`; none: nothing is chosen yet.

    Raises:
        ValuesError: with everything that is wrong with the options.
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
    """Make a metric's table: means over conversations, NaN for anything not finite, and reasons."""
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
    """Return the reason if one of the values is NaN, in the form that `Measured.reasons` wants."""
    return (reason,) if np.isnan(values).any() else ()


def _finite(values: np.ndarray) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    return np.where(np.isfinite(array), array, np.nan)
