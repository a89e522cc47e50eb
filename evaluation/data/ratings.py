"""`Ratings`: human answers in the form that every analysis uses.

One row per rating. This class alone defines rater identity, resampling units and the direction of questions: pages,
tests, models and the hybrid metric all use it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from chatbots.registry import nearest_names
from chatbots.text import quote
from evaluation.data.formats.base import CONDITION
from evaluation.data.formats.scales import FileScales, Scale
from evaluation.data.formats.tables import is_missing, name_of, table_of

if TYPE_CHECKING:
    import pandas as pd

WHOLE = ("quality", "overall", "overall_quality")
"""Keys that identify the overall question."""
MEAN_KEY = "mean_of_all"
"""Key of the mean of all dimensions, used if there is no overall question."""
SMALLEST_SHARE = 0.1
"""Default smallest difference of interest, as a share of the scale's range (high minus low)."""
# Placeholders that distinguish ratings of one conversation or name a summary, but do not identify a person.
_NOBODY = re.compile(r"slot[_ -]?\d+|unknown|anonymous|mean|majority|aggregate", re.IGNORECASE)


def rater_named(name: Any) -> str | None:
    """Return the rater behind a name, or None for a placeholder.

    This is the only rule for the identity of raters: the same name is the same person. Missing values (`is_missing`)
    and placeholders in data sets ("slot 1", "unknown", "anonymous", …) are not names.
    """
    if is_missing(name):
        return None
    written = name_of(name)
    return None if _NOBODY.fullmatch(written) else written


@dataclass(frozen=True, slots=True)
class RatingDimension:
    """A question that ratings answer.

    Attributes:
        key: name in data, e.g. "quality".
        title: readable name.
        low, high: ends of its scale.
        low_label, high_label: labels of the ends.
        reversed: True if a high answer is bad ("repetitive"): analyses use low + high − answer; None if unknown.
        inferred: True if the ends are the smallest and largest observed answers. Others may be possible, so they do not
            limit intervals.
    """

    key: str
    title: str
    low: float
    high: float
    low_label: str = ""
    high_label: str = ""
    reversed: bool | None = None
    inferred: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(
                f"the scale of {self.key} is {self.low:g} … {self.high:g}; the lowest value must come first"
            )

    @property
    def head(self) -> str:
        """Title with an arrow if higher values are known to be better.

        As used by analyses.
        """
        return self.title if self.reversed is None else f"{self.title} ↑"


def headline(dimensions: Sequence[RatingDimension], *, ordered: bool) -> tuple[str, ...]:
    """Return the keys of the questions whose mean ranks the bots.

    This is the overall question. Without one it is the first, or all of them if their order has no meaning.

    Args:
        ordered: True if a researcher ordered the questions; imported ones have no order.
    """
    overall_key = next((dimension.key for dimension in dimensions if dimension.key in WHOLE), None)
    if overall_key is not None:
        return (overall_key,)
    one_scale = len({(dimension.low, dimension.high) for dimension in dimensions}) == 1
    if ordered or not one_scale:
        return tuple(dimension.key for dimension in dimensions[:1])
    return tuple(dimension.key for dimension in dimensions)


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings as columns of one length, in original order.

    Attributes:
        conversation: (k,) rated conversation (or item).
        bot: (k,) its bot.
        rater: (k,) rater of each, None if unnamed (`rater_named`).
        answers: per dimension (k,) original answers, NaN if missing.
        dimensions: the questions, in order.
        headline: keys of the questions whose mean ranks the bots.
        controls: deliberately poor bots, excluded from rankings, models and agreement.
        is_collecting: True if researchers could look at the ratings during collection; means and comparisons of bots
            are then anytime-valid. A study keeps this after it is closed, unless it reached its planned number.
        context: (k,) context of each: items of several bots that answer the same context share it, and so do replies of
            one chat. None if each conversation is its own context.
        level: confidence level of intervals; tests are at 1 − level. None for the defaults of
            `evaluation.analysis.levels`.
        smallest_share: smallest difference of interest, as a share of any question's scale; None for `SMALLEST_SHARE`
            of a known scale.
        condition: by factor of the study, (k,) level of the conversation; "" for none.
    """

    conversation: np.ndarray
    bot: np.ndarray
    rater: np.ndarray
    answers: Mapping[str, np.ndarray]
    dimensions: tuple[RatingDimension, ...]
    headline: tuple[str, ...] = ()
    controls: frozenset[str] = field(default_factory=frozenset)
    is_collecting: bool = False
    context: np.ndarray | None = None
    smallest_share: float | None = None
    level: float | None = None
    condition: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "conversation", _names(self.conversation))
        put(self, "bot", _names(self.bot))
        put(self, "rater", _column([rater_named(name) for name in self.rater]))
        if self.context is not None:
            put(self, "context", _names(self.context))
        put(self, "condition", {factor: _names(levels) for factor, levels in self.condition.items()})
        put(self, "dimensions", tuple(self.dimensions))
        put(self, "controls", frozenset(self.controls))
        answers = {key: np.array(values, dtype=float) for key, values in self.answers.items()}
        put(self, "answers", answers)
        put(self, "headline", tuple(self.headline) or headline(self.dimensions, ordered=False))
        self._check()
        for values in (self.conversation, self.bot, self.rater, *answers.values()):
            values.setflags(write=False)

    def _check(self) -> None:
        k = len(self.conversation)
        columns = {"bot": self.bot, "rater": self.rater, **self.answers}
        if self.context is not None:
            columns["context"] = self.context
        columns |= {f"{CONDITION}{factor}": levels for factor, levels in self.condition.items()}
        for name, values in columns.items():
            if values.shape != (k,):
                raise ValueError(f"{name} has shape {values.shape} for {k} ratings; it must be ({k},)")
        keys = [dimension.key for dimension in self.dimensions]
        twice = next((key for i, key in enumerate(keys) if key in keys[:i]), None)
        if twice is not None:
            raise ValueError(f"the dimension {quote(twice)} occurs twice")
        if set(keys) != set(self.answers):
            raise ValueError(
                f"answers to {', '.join(self.answers) or 'nothing'} for the dimensions "
                f"{', '.join(keys) or 'none'}; they must be the same"
            )
        for key in self.headline:
            self.dimension(key)
        for dimension in self.dimensions:
            answers = self.answers[dimension.key]
            beyond = answers[(answers < dimension.low) | (answers > dimension.high)]
            if len(beyond):
                raise ValueError(
                    f"an answer to {dimension.key} is {beyond[0]:g}; its scale is "
                    f"{dimension.low:g} … {dimension.high:g}"
                )

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        dimensions: Sequence[RatingDimension | str] | None = None,
        *,
        scale: Scale | Mapping[str, Scale] | FileScales | None = None,
        reversed: Collection[str] = (),
        higher: Collection[str] = (),
        controls: Collection[str] = (),
    ) -> Ratings:
        """Read a table of one row per rating.

        Args:
            frame: `conversation`, `bot`, `rater` (if known), one column per dimension, and `condition_…` per factor.
            dimensions: dimensions to read; None for all other columns of numbers. A plain name stands for a question on
                `scale`, or from the lowest to the highest answer.
            scale: ends for all dimensions given by name; or by name, with "" for all others.
            reversed, higher: dimensions given by name on which a high answer is bad, or good; otherwise unknown.
            controls: deliberately poor bots.
        """
        for name in ("conversation", "bot"):
            if name not in frame.columns:
                raise ValueError(f"the table has no column {quote(name)}; its columns are {', '.join(frame.columns)}")
            for row, cell in enumerate(frame[name].tolist(), start=1):
                if not isinstance(cell, str) and is_missing(cell):
                    raise ValueError(f"row {row} of the table has no {name}")
        factors = [key for key in frame.columns if str(key).startswith(CONDITION)]
        numbers = set(frame.select_dtypes("number").columns)
        texts = table_of(frame[[key for key in frame.columns if key not in numbers]])
        if dimensions is None:
            reserved = ("conversation", "bot", "rater", *factors)
            other_columns = [key for key in frame.columns if key not in reserved]
            dimensions = [key for key in other_columns if key in numbers or texts.holds_numbers(key)]
            if other_columns and not dimensions and len(frame):
                raise ValueError(f"the table has no column of numbers; columns with text: {', '.join(other_columns)}")
        answers: dict[str, np.ndarray] = {}
        scales = FileScales.read(scale)
        questions = []
        for dimension in dimensions:
            key = dimension.key if isinstance(dimension, RatingDimension) else dimension
            if key not in frame.columns:
                raise ValueError(_no_dimension(key, [str(name) for name in frame.columns]))
            answers[key] = frame[key].to_numpy(dtype=float, na_value=np.nan) if key in numbers else texts.numbers(key)
            if isinstance(dimension, RatingDimension):
                questions.append(dimension)
                continue
            ends = scales.get(key)
            low, high = ends or _seen(answers[key])
            is_reversed = True if key in reversed else False if key in higher else None
            questions.append(RatingDimension(key, key, low, high, reversed=is_reversed, inferred=ends is None))
        n = len(frame)
        return cls(
            conversation=frame["conversation"].to_numpy(),
            bot=frame["bot"].to_numpy(),
            rater=frame["rater"].to_numpy(dtype=object) if "rater" in frame.columns else np.full(n, None),
            answers=answers,
            dimensions=tuple(questions),
            controls=frozenset(controls),
            condition={
                key.removeprefix(CONDITION): np.array(
                    ["" if is_missing(level) else name_of(level) for level in frame[key].tolist()], dtype=object
                )
                for key in factors
            },
        )

    def __len__(self) -> int:
        return len(self.conversation)

    def __repr__(self) -> str:
        return (
            f"Ratings({len(self)} of {self.n_conversations} conversations with {len(self.bots)} bots by "
            f"{self.n_raters} raters on {', '.join(self.answers)})"
        )

    def dimension(self, key: str) -> RatingDimension:
        """Return the question with this key.

        Raises:
            ValueError: if there is none; the message suggests the nearest keys.
        """
        dimension = next((d for d in self.dimensions if d.key == key), None)
        if dimension is None:
            raise ValueError(_no_dimension(key, [d.key for d in self.dimensions]))
        return dimension

    @property
    def leading(self) -> RatingDimension | None:
        """Dimension that ranks the bots, or None.

        It is a question, or the mean of several under `MEAN_KEY`.
        """
        if not self.headline:
            return None
        first = self.dimension(self.headline[0])
        if len(self.headline) == 1:
            return first
        inferred = self.bounds() is None
        turned = None if any(self.dimension(key).reversed is None for key in self.headline) else False
        return RatingDimension(MEAN_KEY, MEAN_KEY, first.low, first.high, reversed=turned, inferred=inferred)

    def values(self, key: str | Sequence[str] | None = None) -> np.ndarray:
        """Return the answers with higher values better: (k,), NaN if undefined.

        Args:
            key: a dimension, or several for their mean, which is undefined if one is missing, because a mean of fewer
                questions is another question. None, or the key of `leading`, for the headline.
        """
        if key is None or key == MEAN_KEY:
            key = self.headline
        keys = (key,) if isinstance(key, str) else tuple(key)
        columns = [self._orient_answers(self.dimension(dimension_key)) for dimension_key in keys]
        return np.mean(columns, axis=0) if columns else np.full(len(self), np.nan)

    def _orient_answers(self, dimension: RatingDimension) -> np.ndarray:
        answers = self.answers[dimension.key]
        return dimension.low + dimension.high - answers if dimension.reversed else answers

    def scale(self, key: str | Sequence[str] | None = None) -> tuple[float, float]:
        """Return the ends of the scale of `values` with the same key."""
        if key is None or key == MEAN_KEY:
            key = self.headline
        dimensions = [self.dimension(dimension_key) for dimension_key in ((key,) if isinstance(key, str) else key)]
        return float(np.mean([d.low for d in dimensions])), float(np.mean([d.high for d in dimensions]))

    def bounds(self, key: str | Sequence[str] | None = None) -> tuple[float, float] | None:
        """Return the limits of intervals of `values`; None if one is inferred."""
        if key is None or key == MEAN_KEY:
            key = self.headline
        keys = (key,) if isinstance(key, str) else key
        return None if any(self.dimension(dimension_key).inferred for dimension_key in keys) else self.scale(key)

    def smallest_difference(self, key: str | Sequence[str] | None = None) -> float | None:
        """Return the smallest difference of interest of `values`, in points.

        None if none is set and the scale is inferred, because a share of a guessed scale is meaningless.
        """
        if self.smallest_share is None and self.bounds(key) is None:
            return None
        low, high = self.scale(key)
        return (SMALLEST_SHARE if self.smallest_share is None else self.smallest_share) * (high - low)

    def table(self) -> np.ndarray:
        """Return the values of all dimensions: (k, d)."""
        columns = [self.values(dimension.key) for dimension in self.dimensions]
        return np.stack(columns, axis=1) if columns else np.empty((len(self), 0))

    @property
    def is_named(self) -> np.ndarray:
        """(k,) True if the rater is known."""
        return np.array([rater is not None for rater in self.rater], dtype=bool)

    @cached_property
    def unit(self) -> np.ndarray:
        """(k,) resampling unit: the rater, or the conversation if raters are unnamed."""
        return _column(
            [
                f"c {conversation}" if rater is None else f"p {rater}"
                for rater, conversation in zip(self.rater, self.conversation, strict=True)
            ]
        )

    @cached_property
    def shared(self) -> np.ndarray | None:
        """(k,) rated objects that raters share, or None.

        These are contexts, otherwise conversations; None if no conversation was rated twice.
        """
        if self.context is None and self.n_conversations == len(self):
            return None
        return self.conversation if self.context is None else self.context

    @property
    def ranked(self) -> np.ndarray:
        """(k,) True if the bot is ranked, i.e. not a control."""
        return np.array([bot not in self.controls for bot in self.bot], dtype=bool)

    @property
    def bots(self) -> tuple[str, ...]:
        """Rated bots, in the order of their first rating."""
        return tuple(dict.fromkeys(self.bot.tolist()))

    @property
    def n_raters(self) -> int:
        """Number of identified raters."""
        return len(set(self.rater.tolist()) - {None})

    @property
    def n_conversations(self) -> int:
        """Number of rated conversations (or items)."""
        return len(set(self.conversation.tolist()))

    def only(self, target: str | Sequence[str]) -> Ratings:
        """Return the ratings of one or several questions.

        The mean of several ranks the bots.

        Raises:
            ValueError: if a question does not exist.
        """
        keys = (target,) if isinstance(target, str) else tuple(target)
        dimensions = [self.dimension(key) for key in keys]
        return replace(
            self,
            answers={key: self.answers[key] for key in keys},
            dimensions=tuple(dimension for dimension in self.dimensions if dimension in dimensions),
            headline=keys,
        )

    def select(self, keep: np.ndarray) -> Ratings:
        """Return the ratings selected by a mask, (k,)."""
        return replace(
            self,
            conversation=self.conversation[keep],
            bot=self.bot[keep],
            rater=self.rater[keep],
            context=None if self.context is None else self.context[keep],
            answers={key: values[keep] for key, values in self.answers.items()},
            condition={factor: levels[keep] for factor, levels in self.condition.items()},
        )

    @property
    def conditions(self) -> np.ndarray | None:
        """(k,) combined levels of all factors; None without factors.

        Bots are compared within them.
        """
        if not self.condition:
            return None
        return _column([json.dumps(levels) for levels in zip(*self.condition.values(), strict=True)])

    def to_frame(self) -> pd.DataFrame:
        """Return one row per rating.

        The columns are `conversation`, `bot`, `rater`, `unit`, the values of every dimension, and `condition_…` for
        every factor.
        """
        import pandas as pd

        values = {dimension.key: self.values(dimension.key) for dimension in self.dimensions}
        values |= {f"{CONDITION}{factor}": levels for factor, levels in self.condition.items()}
        return pd.DataFrame(
            {
                **values,
                # Added last, because a dimension may have one of these names.
                "conversation": self.conversation,
                "bot": self.bot,
                "rater": self.rater,
                "unit": self.unit,
            },
            columns=[
                *("conversation", "bot", "rater", "unit"),
                *(key for key in values if key not in ("conversation", "bot", "rater", "unit")),
            ],
        )

    def once(self) -> Ratings:
        """Return the ratings without a person's repeated ratings of a conversation."""
        seen: set[tuple[str, str]] = set()
        keep = np.ones(len(self), dtype=bool)
        for i, pair in enumerate(zip(self.conversation, self.rater, strict=True)):
            if pair[1] is not None:
                keep[i] = pair not in seen
                seen.add(pair)
        return self if keep.all() else self.select(keep)

    def per_conversation(self) -> pd.DataFrame:
        """Return one row per conversation, indexed by id.

        The columns are `bot`, `rater` and the mean of every dimension.

        `rater` is the person who rated it, or None if there were several. If bots are ranked by the mean of several
        questions, that mean is included under `MEAN_KEY`.
        """
        frame = self.to_frame()
        keys = [str(column) for column in frame.columns[4:] if column in self.answers]
        if self.leading is not None and self.leading.key not in keys:
            keys.append(self.leading.key)
            frame[self.leading.key] = self.values()
        grouped = frame.groupby("conversation", sort=False)
        means = grouped[keys].mean()
        means.insert(0, "bot", grouped["bot"].first())
        alone = grouped["rater"].first().where(grouped.size() == 1)
        means.insert(1, "rater", alone.astype(object).where(alone.notna(), None))
        return means


def _no_dimension(key: str, known: Sequence[str]) -> str:
    near = nearest_names(key, list(known))
    hint = f"did you mean {' or '.join(near)}?" if near else f"available: {', '.join(known)}"
    return f"no dimension {quote(key)}; {hint}"


def _seen(values: np.ndarray) -> tuple[float, float]:
    """Return the lowest and highest answer, at least one step apart."""
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    return low, max(high, low + 1)


def _names(values: Sequence[Any] | np.ndarray) -> np.ndarray:
    return _column([name_of(value) for value in values])


def _column(values: Sequence[Any]) -> np.ndarray:
    """Return the values as an array of objects: (k,)."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
