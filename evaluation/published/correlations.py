"""Published correlations, for comparison with ours.

The rows of `correlations.csv`, and their caveats from `sets.yaml`. They come from the papers' own runs on complete
sets. A row is compared with one of our results if the rated file names the set as its `source`, the dimension is the
paper's, and the dialogue model is the same (or all models are pooled).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from chatbots.text import quote
from chatbots.validation import InputModel, Many, Number, values_read
from evaluation.data.scores import metric_name
from evaluation.stats.correlation import METHODS, Method, fisher_interval

_FOLDER = Path(__file__).parent


class Source(InputModel):
    """Publication with correlations.

    Attributes:
        where: reference to the paper.
        caveats: caveats for all its results.
    """

    title: str
    where: str
    caveats: Many[str] = ()


class PublishedSet(InputModel):
    """Set of rated replies with published results.

    Attributes:
        dimension: rated dimension.
        whole: number of replies; None if the results are for an unknown part.
        ceilings: highest Pearson coefficient of a perfect metric by dialogue model, given the raters' reliability.
        caveats: caveats for all results on this set.
    """

    title: str
    dimension: str
    whole: int | None = None
    ceilings: dict[str, Number] = {}
    caveats: Many[str] = ()


class _Metric(InputModel):
    ours: Many[str]
    same_in: Many[str] = ()


class _Facts(InputModel):
    sources: dict[str, Source]
    metrics: dict[str, _Metric]
    sets: dict[str, PublishedSet]


@dataclass(frozen=True, slots=True)
class Published:
    """Published correlations of one metric.

    Attributes:
        set: name of the set of replies, as in `source` of rated files.
        system: dialogue model; empty for all models pooled.
        variant: variant of the metric, such as its encoder.
        values: published coefficients by method.
        n: number of replies; None if not reported.
        source, table: origin of the values; `source_key` names the source in `sets.yaml`.
        ours: Confab's columns with this metric or the most similar one; for a metric that Confab does not compute, the
            name under which its scores are imported, such as `usl_h` for USL-H.
        is_same: True if our formula is the same.
        note: remark on this row.
        dimension: dimension of the human ratings; that of the set, unless the table has several.
    """

    set: str
    system: str
    metric: str
    variant: str
    values: dict[Method, float]
    n: int | None
    source: Source
    source_key: str
    table: str
    ours: tuple[str, ...]
    is_same: bool
    note: str
    dimension: str

    @property
    def title(self) -> str:
        """The metric with its variant."""
        return f"{self.metric}, {self.variant}" if self.variant else self.metric

    @property
    def place(self) -> str:
        """Source and table."""
        return f"{self.source.title}, Table {self.table}" if self.table else self.source.title

    def to_json(self) -> dict[str, Any]:
        """Return the published values with `n`, `is_same` and the note."""
        return {
            "metric": self.metric,
            "variant": self.variant,
            "place": self.place,
            **{str(method): value for method, value in self.values.items()},
            "n": self.n,
            "is_same": self.is_same,
            "note": self.note,
        }

    def interval(self, method: Method) -> tuple[float | None, float | None]:
        """Return Fisher's 95 % interval, which papers do not report.

        It treats replies as independent.
        """
        r = self.values.get(method)
        if r is None or self.n is None:
            return None, None
        return fisher_interval(r, self.n, method)


@cache
def _facts() -> _Facts:
    sets_file = yaml.safe_load((_FOLDER / "sets.yaml").read_text(encoding="utf-8"))
    return values_read(_Facts, sets_file, subject="sets.yaml")


@cache
def published_rows() -> tuple[Published, ...]:
    """Return all published correlations, in file order."""
    facts = _facts()
    with (_FOLDER / "correlations.csv").open(encoding="utf-8", newline="") as file:
        return tuple(_row(facts, row) for row in csv.DictReader(file))


def _row(facts: _Facts, row: dict[str, str]) -> Published:
    known = facts.metrics.get(row["metric"])
    if row["set"] not in facts.sets:
        raise ValueError(f"correlations.csv names the set {quote(row['set'])}, which is missing in sets.yaml")
    return Published(
        set=row["set"],
        system=row["system"],
        metric=row["metric"],
        variant=row["variant"],
        values={method: float(row[method]) for method in METHODS if row[method]},
        n=int(row["n"]) if row["n"] else None,
        source=facts.sources[row["source"]],
        source_key=row["source"],
        table=row["table"],
        ours=tuple(known.ours) if known else (metric_name(row["metric"]),),
        is_same=known is not None and row["source"] in known.same_in,
        note=row["note"],
        dimension=row["dimension"] or facts.sets[row["set"]].dimension,
    )


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Published accuracy of a classifier.

    It is the share of replies whose class agrees with the human ratings.
    """

    set: str
    metric: str
    value: float
    n: int
    source: Source
    table: str

    @property
    def place(self) -> str:
        """Source and table."""
        return f"{self.source.title}, Table {self.table}"


@cache
def published_accuracies() -> tuple[Accuracy, ...]:
    """Return published accuracies of three-way classifiers, in file order."""
    facts = _facts()
    with (_FOLDER / "accuracies.csv").open(encoding="utf-8", newline="") as file:
        return tuple(
            Accuracy(
                row["set"],
                row["metric"],
                float(row["accuracy"]),
                int(row["n"]),
                facts.sources[row["source"]],
                row["table"],
            )
            for row in csv.DictReader(file)
        )


def published_sets() -> dict[str, PublishedSet]:
    """Return the sets with published results, by name."""
    return _facts().sets


def published_of(source: str, dimension: str) -> tuple[Published, ...]:
    """Return the published rows of a set and dimension; may be empty."""
    return tuple(row for row in published_rows() if row.set == source and row.dimension == dimension)


def matching_row(rows: Sequence[Published], column: str, system: str = "") -> Published | None:
    """Return the published row for one of our columns, or None.

    Rows with the same formula are preferred.
    """
    matching_rows = [row for row in rows if column in row.ours and row.system == system]
    return min(matching_rows, key=lambda row: not row.is_same, default=None)


def caveats_of(rows: Sequence[Published]) -> list[str]:
    """Return the distinct caveats of rows with their subjects, sources before sets."""
    caveats = [f"{row.source.title}: {text}" for row in rows for text in row.source.caveats]
    for name in dict.fromkeys(row.set for row in rows):
        dataset = published_sets()[name]
        caveats += [f"{dataset.title}: {text}" for text in dataset.caveats]
    return list(dict.fromkeys(caveats))


def cells_of(agreement: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Return (data set, dialogue model, agreement) of a metric's JSON, pooled first.

    Names are empty for pooled results.
    """
    yield "", "", agreement
    for model, cell in agreement.get("models", {}).items():
        yield "", model, cell
    for source, part in agreement.get("sources", {}).items():
        yield source, "", part
        for model, cell in part.get("models", {}).items():
            yield source, model, cell


def published_in_cell(agreement: Mapping[str, Any], source: str, model: str) -> Published | None:
    """Return the published results for a main column in a cell, or None.

    Args:
        agreement: JSON of the metric.
        source, model: names of the cell, empty if pooled.
    """
    name = source or agreement.get("source", "")
    return matching_row(published_of(name, agreement["target"]), agreement["column"], model)


def with_published(agreement: dict[str, Any]) -> dict[str, Any]:
    """Add `published` to a metric's cells with published results, and `caveats`.

    Cells are changed in place. Other columns have their own rows.
    """
    rows = []
    for column in (agreement["column"], *agreement.get("columns", {})):
        part = agreement.get("columns", {}).get(column, agreement)
        column_facts = {"column": column, "target": agreement["target"], "source": agreement.get("source", "")}
        for source, model, cell in cells_of(part):
            row = published_in_cell(column_facts, source, model)
            if row is not None:
                cell["published"] = row.to_json()  # type: ignore[index]
                rows.append(row)
    main = agreement.get("columns", {}).get(agreement["column"])
    if main is not None:
        for (_s, _m, cell), (_t, _n, main_cell) in zip(cells_of(agreement), cells_of(main), strict=True):
            if "published" in main_cell:
                cell["published"] = main_cell["published"]  # type: ignore[index]
    agreement["caveats"] = caveats_of(rows)
    return agreement
