"""Agreement of a metric's scores of single replies with people's: in all, and by data set and dialogue model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evaluation.ceilings import Ceiling, ceiling_of
from evaluation.items import JudgedItem
from evaluation.metrics.shared import BLANK
from evaluation.stats.correlation import METHODS, Correlation, correlate
from evaluation.untokenised import untokenised

NOT_JUDGED = "there is no human score of it"
BEYOND_SCALE = "its human scores lie beyond the scale"
NO_VALUE = "the metric is undefined here"


@dataclass(frozen=True)
class Agreement:
    """Agreement of a column of scores with people over some replies.

    Attributes:
        correlations: by method.
        n: replies with both scores.
        n_contexts: different contexts among them, which the jackknife leaves out.
        n_responses: different replies among them; few of them make a coefficient rest on a few texts.
        skipped: number of other replies, by the reason for leaving them out.
        ceiling: correlation that a perfect metric could reach, by the raters' reliability.
    """

    correlations: dict[str, Correlation]
    n: int
    n_contexts: int
    n_responses: int
    skipped: dict[str, int]
    ceiling: Ceiling

    def to_json(self) -> dict[str, Any]:
        """Return `{"pearson": {"r", "p", "ci95"}, …, "n", "n_contexts", "n_responses", "skipped", "ceiling"}`."""
        return {
            **{name: found.to_json() for name, found in self.correlations.items()},
            "n": self.n,
            "n_contexts": self.n_contexts,
            "n_responses": self.n_responses,
            "skipped": self.skipped,
            "ceiling": self.ceiling.to_json(),
        }


@dataclass(frozen=True)
class Cells:
    """An agreement over everything, and over parts of it.

    Attributes:
        pooled: all replies.
        models: by dialogue model, where the file names several.
        sources: by data set, where it names several, each with its own models.
    """

    pooled: Agreement
    models: dict[str, Agreement]
    sources: dict[str, Cells]

    def to_json(self) -> dict[str, Any]:
        """Return the pooled agreement, with `models` and `sources` where there are several."""
        found = self.pooled.to_json()
        if self.models:
            found["models"] = {name: one.to_json() for name, one in self.models.items()}
        if self.sources:
            found["sources"] = {name: one.to_json() for name, one in self.sources.items()}
        return found


@dataclass(frozen=True)
class Humans:
    """People's mean score of each item, and the parts that items fall into.

    Attributes:
        items: (N,) the items.
        target: the dimension.
        means: (N,) NaN where there is none.
        beyond: (N,) whether all scores of an item lie beyond the scale.
        n_partly_beyond: items of which some scores do, and others count.
        contexts: (N,) the source and the context, which replies share.
        given: of each item its raters and their scores.
    """

    items: tuple[JudgedItem, ...]
    target: str
    skipped: dict[str, int]
    means: np.ndarray
    beyond: np.ndarray
    contexts: np.ndarray
    models: np.ndarray
    sources: np.ndarray
    responses: np.ndarray
    given: tuple[list[tuple[str, float]], ...]
    n_partly_beyond: int = 0
    ceilings: dict[bytes, Ceiling] = field(default_factory=dict)

    @classmethod
    def of(cls, items: tuple[JudgedItem, ...], skipped: dict[str, int], target: str) -> Humans:
        given = [item.scores(target) for item in items]
        return cls(
            items=items,
            target=target,
            skipped=skipped,
            means=np.array(
                [np.mean([value for _, value in kept]) if kept else np.nan for kept, _ in given],
                dtype=float,
            ),
            beyond=np.array([not kept and left > 0 for kept, left in given], dtype=bool),
            contexts=_texts("\n".join((item.source, *item.context)) for item in items),
            models=_texts(item.model for item in items),
            sources=_texts(item.source for item in items),
            responses=_texts(untokenised(item.response).casefold() for item in items),
            given=tuple(kept for kept, _ in given),
            n_partly_beyond=sum(bool(kept) and left > 0 for kept, left in given),
        )

    @property
    def judged(self) -> np.ndarray:
        """Return (N,) whether people judged an item."""
        return np.isfinite(self.means)

    @property
    def only_source(self) -> str:
        """The data set of all items; empty where there are several, or it has no name."""
        found = set(self.sources)
        return str(found.pop()) if len(found) == 1 else ""

    def cells(self, values: np.ndarray, told: np.ndarray, lacking: Sequence[str | None]) -> Cells:
        """Correlate a column's scores with people's, over everything and its parts."""
        why = np.full(len(self.items), "", dtype=object)
        for k, reason in enumerate(lacking):
            if self.beyond[k]:
                why[k] = BEYOND_SCALE
            elif not np.isfinite(self.means[k]):
                why[k] = NOT_JUDGED
            elif not told[k]:
                why[k] = BLANK
            elif not np.isfinite(values[k]):
                why[k] = reason or NO_VALUE
        everything = np.ones(len(self.items), dtype=bool)
        pooled = self._cells(values, why, everything)
        pooled.pooled.skipped.update(self.skipped)
        return pooled

    def _cells(self, values: np.ndarray, why: np.ndarray, part: np.ndarray) -> Cells:
        models, sources = parts_named(self.models[part]), parts_named(self.sources[part])
        return Cells(
            self._agreement(values, why, part),
            {name: self._agreement(values, why, part & (self.models == name)) for name in models},
            {name: self._cells(values, why, part & (self.sources == name)) for name in sources},
        )

    def _agreement(self, values: np.ndarray, why: np.ndarray, part: np.ndarray) -> Agreement:
        used = part & (why == "")
        x, y, units = values[used], self.means[used], self.contexts[used]
        skipped = Counter(str(reason) for reason in why[part] if reason)
        return Agreement(
            {method: correlate(x, y, method, units=units) for method in METHODS},
            n=int(used.sum()),
            n_contexts=len(set(units)),
            n_responses=len(set(self.responses[used])),
            skipped=dict(skipped),
            ceiling=self._ceiling(used),
        )

    def _ceiling(self, used: np.ndarray) -> Ceiling:
        """Return the ceiling of some replies; most metrics ask for the same ones."""
        key = used.tobytes()
        if key not in self.ceilings:
            self.ceilings[key] = ceiling_of([self.given[k] for k in np.flatnonzero(used)])
        return self.ceilings[key]


def _texts(values: Iterable[str]) -> np.ndarray:
    return np.array(list(values), dtype=object)


def parts_named(names: np.ndarray) -> list[str]:
    """Return the names, in their order, where there are several; items without one are in no part."""
    found = list(dict.fromkeys(name for name in names if name))
    return found if len(found) > 1 else []
