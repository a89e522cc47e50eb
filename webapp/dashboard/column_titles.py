"""Short names of metric columns, where there is little room and the long ones stand nearby."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.columns import Column
from evaluation.metrics.registry import metric_list

_ENDINGS = (", participant and bot", ", participant", ", bot")


def short_title(title: str) -> str:
    """Return the title without the words for whom it is about."""
    for ending in _ENDINGS:
        title = title.replace(ending, "")
    return title.removesuffix(", mean")


def feature_titles(names: Sequence[str]) -> list[str]:
    """Return titles of conversation columns; a name that no metric has becomes words."""
    known = {
        column.name: column.title
        for metric in metric_list()
        for column in metric.columns
        if column.level == "conversation"
    }
    return [known.get(name) or name.replace("_", " ") for name in names]


def short_titles(titles: Sequence[str]) -> list[str]:
    """Shorten each title, unless two would then be alike."""
    counts = Counter(short_title(title) for title in titles)
    return [
        short_title(title) if counts[short_title(title)] == 1 else title.removesuffix(", mean")
        for title in titles
    ]


@dataclass(frozen=True, slots=True)
class Series:
    """Trajectory along a conversation: one column, or the same column of participant and bot."""

    name: str
    title: str
    columns: tuple[Column, ...]

    @property
    def unit(self) -> str:
        """Of all its columns."""
        return self.columns[0].unit

    @property
    def about(self) -> str:
        """The columns' descriptions."""
        return " ".join(dict.fromkeys(column.description for column in self.columns))


def series_of(columns: Sequence[Column]) -> list[Series]:
    """Group columns into series: `words_user` and `words_bot` become one."""
    by_name = {column.name: column for column in columns}
    found: list[Series] = []
    taken: set[str] = set()
    for column in columns:
        if column.name in taken:
            continue
        stem = column.name.removesuffix("_user").removesuffix("_bot")
        pair = [by_name[name] for name in (f"{stem}_user", f"{stem}_bot") if name in by_name]
        if len(pair) == 2 and column in pair:
            taken.update(one.name for one in pair)
            found.append(Series(stem, short_title(column.title), tuple(pair)))
        else:
            found.append(Series(column.name, column.title, (column,)))
    titles = short_titles([one.title for one in found])
    return [Series(one.name, title, one.columns) for one, title in zip(found, titles, strict=True)]
