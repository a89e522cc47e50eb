"""Tables of GRADE, PONE, RADE and DialogEntailment, filled from a benchmark.

`layout_tables` puts the published values next to those computed on rated replies, in the numbering of a paper. Each
empty cell has one of the five reasons of `GapReason`. Values on data that served to develop the metric are marked.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from evaluation.agreement.held_out import seen_sets
from evaluation.agreement.metric_agreement import JudgedReplies, MetricAgreement
from evaluation.analysis.answers import Approval
from evaluation.data.items import JudgedItem
from evaluation.data.result_tables import (
    Cell,
    NamedTable,
    count_cell,
    declared_table,
    estimate_cells,
    number_cell,
    share_cell,
    span_cell,
    with_footnotes,
)
from evaluation.metrics.base import Metric
from evaluation.metrics.entailment import CLASS_COLUMN, CLASSES
from evaluation.metrics.imported import ScoreFileMetric
from evaluation.metrics.registry import metric_list
from evaluation.number_format import share
from evaluation.published.correlations import (
    Published,
    caveats_of,
    cells_of,
    published_accuracies,
    published_rows,
    published_sets,
)
from evaluation.published.papers import GapReason, other_values, papers, published_cell
from evaluation.stats.agreement import fleiss_kappa, rating_table
from evaluation.stats.constants import SCORE_LEVEL
from evaluation.stats.correlation import METHODS, Method
from evaluation.stats.means import SHARE, Interval, mean_interval

NOT_SIGNIFICANT = 0.05
"""p-value above which GRADE's paper marks a correlation."""
SEEN = "†"
"""Mark of a value on data that served to design, choose or train the metric."""
MARKS = f"Values here: * p > {NOT_SIGNIFICANT:g}, {SEEN} on data that served to develop or train the metric."
_QUARTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
_GRADES = 4
"""Number of grades in DialogEntailment's annotation."""


@dataclass(frozen=True, slots=True)
class RatedSet:
    """Rated replies with the agreement of metrics.

    Attributes:
        title: name of the file or study.
        agreements: JSON of `MetricAgreement.to_json`, one for each metric and dimension.
        judged: the replies; None if they are no longer available.
        scores: metric values by metric's title, one for each reply, NaN if undefined.
        approval: people's choices among options, by group.
    """

    title: str
    agreements: Sequence[Mapping[str, Any]] = ()
    judged: JudgedReplies | None = None
    scores: Mapping[str, Sequence[float | None]] | None = None
    approval: Mapping[str, Approval] | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """A cell of the benchmark: data set, dialogue model and dimension."""

    set: str
    system: str
    dimension: str


class _Computed:
    """Agreement of all metrics by column, data set, dialogue model and dimension.

    Args:
        metrics: metrics of this server.
    """

    def __init__(self, sets: Sequence[RatedSet], metrics: Iterable[Metric] = ()) -> None:
        self._metrics = {column.name: metric for metric in metrics for column in metric.columns}
        self.cells: dict[tuple[str, _Place], Mapping[str, Any]] = {}
        self.humans: dict[_Place, Mapping[str, Any]] = {}
        self.places: dict[_Place, None] = {}
        for rated_set in sets:
            for item in rated_set.judged.items if rated_set.judged else ():
                for dimension, system in product(item.dimensions, ("", item.model)):
                    self.places[_Place(item.source or rated_set.title, system, dimension)] = None
            for agreement in rated_set.agreements:
                self._add(agreement, rated_set.title)

    def _add(self, agreement: Mapping[str, Any], title: str) -> None:
        if "unavailable" in agreement:
            return
        dimension, source = agreement["target"], agreement.get("source", "")
        parts = agreement.get("columns") or {agreement["column"]: agreement}
        for column, part in parts.items():
            for name, system, cell in cells_of(part):
                if not name and "sources" in part:  # pooled over data sets, which no paper does
                    continue
                place = _Place(name or source or title, system, dimension)
                self.cells[column, place] = cell
                self.places[place] = None
        for name, system, cell in cells_of(agreement.get("max_over_raters") or {}):
            self.humans[_Place(name or source or title, system, dimension)] = cell

    def cell(self, row: Published | str, place: _Place, method: Method) -> Cell:
        """Make the cell of our value for a published row, or for a column of ours."""
        if isinstance(row, Published) and row.metric.startswith("Human"):
            return self._human_cell(row, place, method)
        columns = row.ours if isinstance(row, Published) else (row,)
        column = self.first_computed(columns, [place])
        if not column:
            return share_cell(None, reason=self.gap(columns) if place in self.places else GapReason.NO_DATA)
        r, p = (self.cells[column, place][method][key] for key in ("r", "p"))
        if r is None:
            return share_cell(None, reason=GapReason.UNDEFINED)
        seen = seen_sets(self._metrics.get(column)) or ()
        marks = "*" * (p is not None and p > NOT_SIGNIFICANT) + SEEN * place.set.startswith(seen)
        return Cell(share(r, 3) + marks, raw=(r,))

    def name_cell(self, row: Published | str, places: Collection[_Place]) -> Cell:
        """Make the cell that names the computed column of a published row, or of a column of ours."""
        if isinstance(row, Published) and row.metric.startswith("Human"):
            return Cell("people")
        columns = row.ours if isinstance(row, Published) else (row,)
        column = self.first_computed(columns, places)
        return Cell(column) if column else Cell("–", reason=self.gap(columns))

    def first_computed(self, columns: Sequence[str], places: Collection[_Place]) -> str:
        """Return the first of these columns that was computed in one of the places; empty if none was."""
        return next((c for c in columns if any((c, place) in self.cells for place in places)), "")

    def gap(self, columns: Sequence[str]) -> GapReason:
        """Return the reason why none of these columns was computed: not chosen, or no metric has it here."""
        metrics = [self._metrics[column] for column in columns if column in self._metrics]
        is_available = any(isinstance(m, ScoreFileMetric) or m.unavailable_reason() is None for m in metrics)
        return GapReason.NOT_COMPUTED if is_available else GapReason.UNAVAILABLE

    def own_places(self, name: str, dimensions: set[str]) -> list[_Place]:
        """Return the dialogue models of a data set, on the usual dimension or on several.

        Args:
            dimensions: names of the paper's dimensions, if its table has several.
        """
        places = [place for place in self.places if place.set == name]
        rated = sorted({place.dimension for place in places})
        columns = dimensions.intersection(rated) or ({"overall"}.intersection(rated) if not dimensions else set())
        columns = columns or set(rated if dimensions else rated[:1])
        systems = {place.system for place in places if place.system} or {""}
        return [_Place(name, system, dimension) for system in sorted(systems) for dimension in sorted(columns)]

    def _human_cell(self, row: Published, place: _Place, method: Method) -> Cell:
        figures = self.humans.get(place)
        if figures is None:
            return share_cell(None, reason=GapReason.NOT_COMPUTED if place in self.places else GapReason.NO_DATA)
        name = "human_max" if "max" in row.metric else "human_mean"
        return share_cell(figures.get(method, {}).get(name), 3, GapReason.UNDEFINED)


@dataclass(frozen=True, slots=True)
class _Correlations:
    """Table of correlations of a paper.

    Attributes:
        source: key of the source in `correlations.csv`.
        tables: numbers of the tables whose rows it has.
        methods: coefficients that the paper prints.
        averages: whether it has the mean of a metric's values.
    """

    source: str
    tables: tuple[str, ...]
    methods: tuple[Method, ...]
    averages: bool = False


_BOTH: tuple[Method, ...] = ("pearson", "spearman")
_CORRELATIONS = {
    ("grade2020", "Table 1"): _Correlations("grade", ("1",), _BOTH, averages=True),
    ("grade2020", "Table 2"): _Correlations("grade", ("2",), _BOTH),
    ("grade2020", "Table 3"): _Correlations("grade", ("3",), _BOTH, averages=True),
    ("pone2020", "Table 2"): _Correlations("pone", ("2",), _BOTH),
    ("pone2020", "Table 3"): _Correlations("pone", ("3",), _BOTH),
    ("pone2020", "Table 7"): _Correlations("pone", ("7",), _BOTH),
    ("pone2020", "Table 8"): _Correlations("pone", ("8",), _BOTH),
    ("pone2020", "Table 9"): _Correlations("pone", ("9",), _BOTH),
    ("rade2023", "Table 3"): _Correlations("rade", ("9", "3"), METHODS),
    ("rade2023", "Table 4"): _Correlations("rade", ("4",), _BOTH),
    ("rade2023", "Table 8"): _Correlations("rade", ("8",), _BOTH),
    ("rade2023", "Table 9"): _Correlations("rade", ("9",), METHODS),
    ("entailment2019", "Table 3"): _Correlations("entailment", ("3",), ("pearson",)),
}


def layout_tables(
    paper: str, sets: Sequence[RatedSet], metrics: Iterable[Metric] | None = None
) -> dict[str, list[NamedTable]]:
    """Return a paper's tables by item, such as `Table 1`, in the paper's order.

    Items that are drawings or have a page of their own are left out.

    Args:
        metrics: metrics that can be computed or imported; None for the registered ones.

    Raises:
        KeyError: if there is no such paper, or a study fills its tables.
    """
    makers = _MAKERS[paper]
    computed = _Computed(sets, metric_list() if metrics is None else metrics)
    tables = {}
    for item in papers()[paper].items:
        if item.kind == "layout":
            if (paper, item.item) in _CORRELATIONS:
                item_tables = _correlation_tables(paper, item.item, computed)
            else:
                item_tables = makers[item.item](sets, computed)
            tables[item.item] = [with_footnotes(table) for table in item_tables]
    return tables


def paper_tables(
    paper: str, title: str, judged: JudgedReplies, agreements: Mapping[str, MetricAgreement]
) -> list[tuple[str, NamedTable]]:
    """Return the tables of a paper for one file or study, with their numbers.

    Args:
        title: name of the file or study.
        agreements: output of `judge`.

    Raises:
        KeyError: if there is no such paper, or a study fills its tables.
    """
    scores = {
        column: values.tolist() for agreement in agreements.values() for column, values in agreement.scores.items()
    }
    rated_set = RatedSet(title, [agreement.to_json() for agreement in agreements.values()], judged, scores)
    return [(name, table) for name, tables in layout_tables(paper, [rated_set]).items() for table in tables]


def print_paper_table(name: str, table: NamedTable) -> str:
    """Return a table with its number for a terminal."""
    return replace(table, title=f"{name}. {table.title}").printed(table.note)


def _correlation_tables(paper: str, item: str, computed: _Computed) -> list[NamedTable]:
    """Return a table for each data set of the paper, then for each of the benchmark's own."""
    layout = _CORRELATIONS[paper, item]
    rows = [row for row in published_rows() if row.source_key == layout.source and row.table in layout.tables]
    by_set: dict[str, list[Published]] = {}
    for row in rows:
        by_set.setdefault(row.set, []).append(row)
    known_sets = {row.set for row in published_rows()}
    dimensions = {row.dimension for row in rows} if len({row.dimension for row in rows}) > 1 else set()
    own_sets = [name for name in dict.fromkeys(place.set for place in computed.places) if name not in known_sets]
    makers = [*((name, _published_table) for name in by_set), *((name, _own_table) for name in own_sets)]
    return [
        declared_table(
            f"{item.lower().replace(' ', '-')}-{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-') or 'file'}",
            f"{papers()[paper].get_item(item).title}: {_set_title(name)}",
            *make(by_set.get(name, rows), name, layout, computed, dimensions),
            method="Correlation with human ratings.",
            note=" ".join([MARKS, *caveats_of(by_set.get(name, ()))]),
        )
        for name, make in makers
    ]


_Entry = tuple[str, dict[_Place, Published]]
_Declared = tuple[Any, ...]


def _published_table(
    rows: Sequence[Published], _name: str, layout: _Correlations, computed: _Computed, _dimensions: set[str]
) -> _Declared:
    """Declare the rows and columns of a data set of the paper: published values and ours."""
    by_metric: dict[str, dict[_Place, Published]] = {}
    for row in rows:
        by_metric.setdefault(row.title, {})[_Place(row.set, row.system, row.dimension)] = row
    places = list(dict.fromkeys(place for metric_rows in by_metric.values() for place in metric_rows))
    names = _place_names(places)

    def columns(place: _Place) -> tuple[list[str], Callable[[_Entry], list[Cell]]]:
        titles = [f"{names[place]}{m.capitalize()}, {whose}" for m in layout.methods for whose in ("published", "here")]

        def cells(entry: _Entry) -> list[Cell]:
            row = entry[1].get(place)
            if row is None:
                return [share_cell(None, reason=GapReason.NOT_PUBLISHED)] * len(titles)
            return [
                cell
                for method in layout.methods
                for cell in (
                    share_cell(row.values.get(method), 3, GapReason.NOT_PUBLISHED),
                    computed.cell(row, place, method),
                )
            ]

        return titles, cells

    def averages(entry: _Entry) -> list[Cell]:
        return [_average_cell(columns(place)[1](entry)[k::2] for place in places) for k in (0, 1)]

    return (
        by_metric.items(),
        ("Metric", lambda entry: Cell(entry[0])),
        *map(columns, places),
        *[(("Average, published", "Average, here"), averages)] * layout.averages,
        ("Metric here", lambda entry: computed.name_cell(next(iter(entry[1].values())), entry[1])),
    )


def _average_cell(parts: Iterable[Sequence[Cell]]) -> Cell:
    """Make the cell of the mean of all cells; one that is empty leaves it empty, for the same reason."""
    cells = [cell for part in parts for cell in part]
    empty = next((cell for cell in cells if cell.raw[0] is None), None)
    return empty or share_cell(float(np.mean([cell.raw[0] for cell in cells])), 3)


def _own_table(
    rows: Sequence[Published], name: str, layout: _Correlations, computed: _Computed, dimensions: set[str]
) -> _Declared:
    """Declare the rows and columns of a data set that the paper lacks: its metrics, then the others computed here."""
    places = computed.own_places(name, dimensions)
    names = _place_names(places)
    by_metric: dict[str, Published] = {}
    for row in rows:
        by_metric.setdefault(row.title, row)
    covered = {column for row in by_metric.values() for column in row.ours}
    columns_here = dict.fromkeys(column for column, place in computed.cells if place.set == name)
    entries: list[tuple[str, Published | str]] = [
        *by_metric.items(),
        *((column, column) for column in columns_here if column not in covered),
    ]

    def columns(place: _Place) -> tuple[list[str], Callable[[tuple[str, Published | str]], list[Cell]]]:
        titles = [f"{names[place]}{method.capitalize()}" for method in layout.methods]
        return titles, lambda entry: [computed.cell(entry[1], place, method) for method in layout.methods]

    return (
        entries,
        ("Metric", lambda entry: Cell(entry[0])),
        *map(columns, places),
        ("Metric here", lambda entry: computed.name_cell(entry[1], places)),
    )


def _place_names(places: Sequence[_Place]) -> dict[_Place, str]:
    """Return the beginning of the titles of each dialogue model's and dimension's columns."""
    has_dimensions = len({place.dimension for place in places}) > 1
    names = {}
    for place in places:
        parts = [place.system.replace("_", " "), *([place.dimension] if has_dimensions else [])]
        name = ", ".join(part for part in parts if part)
        names[place] = f"{name}: " if name else ""
    return names


def _by_source(sets: Sequence[RatedSet]) -> dict[str, list[JudgedItem]]:
    by_source: dict[str, list[JudgedItem]] = {}
    for rated_set in sets:
        for item in rated_set.judged.items if rated_set.judged else ():
            by_source.setdefault(item.source or rated_set.title, []).append(item)
    return by_source


def _kappa_cells(items: Sequence[JudgedItem], dimension: str) -> list[Cell]:
    """Make the cells of Fleiss' kappa over a set of replies, its interval and the number of replies."""
    ratings = [
        (score, item.key + item.model, rater or f"#{k}")
        for item in items
        for k, (rater, score) in enumerate(item.scores(dimension)[0])
    ]
    if not ratings:
        return [*_empty_estimate(GapReason.NO_DATA), count_cell(0)]
    scores, keys, raters = zip(*ratings, strict=True)
    kappa = fleiss_kappa(rating_table(np.array(scores), list(keys), list(raters)))
    return [
        *estimate_cells(kappa, attribute="value", shares=True, reason=GapReason.UNDEFINED),
        count_cell(kappa.n_items),
    ]


def _kappas(sets: Sequence[RatedSet], _computed: _Computed) -> list[NamedTable]:
    """PONE, Table 1: agreement by data set and aspect."""
    theirs = other_values("pone2020", "Table 1")
    by_source = _by_source(sets)
    ours = [(source, name) for source, items in by_source.items() for name in _dimensions(items)]
    rows = list(dict.fromkeys([*theirs, *ours]))
    return [
        declared_table(
            "table-1",
            "Agreement of the annotators",
            rows,
            (("Data set", "Aspect"), lambda row: [Cell(_set_title(row[0])), Cell(row[1])]),
            ("Published κ", lambda row: published_cell(theirs, *row, digits=3, is_share=True)),
            (("κ here", "95 %", "Replies"), lambda row: _kappa_cells(by_source.get(row[0], []), row[1])),
            method="Fleiss’ κ over replies with two or more ratings; the paper does not name its variant.",
        )
    ]


def _dimensions(items: Sequence[JudgedItem]) -> list[str]:
    return list(dict.fromkeys(name for item in items for name in item.dimensions))


def _set_title(name: str) -> str:
    known = published_sets().get(name)
    return known.title if known else name


def _distributions(sets: Sequence[RatedSet], _computed: _Computed) -> list[NamedTable]:
    """GRADE, Figure 3: distribution of human and metric scores by dialogue model."""
    rows = [row for rated_set in sets for row in _score_rows(rated_set)]
    return [
        declared_table(
            "figure-3",
            "Distribution of scores by dialogue model",
            rows,
            (("Data set", "Dialogue model", "Scores"), lambda row: [*map(Cell, row[0])]),
            ("n", lambda row: count_cell(len(row[1]))),
            (
                ("Lowest", "25 %", "Median", "75 %", "Highest", "Mean"),
                lambda row: [
                    number_cell(value, reason=GapReason.UNDEFINED)
                    for value in (
                        [*np.quantile(row[1], _QUARTILES).tolist(), float(np.mean(row[1]))] if row[1] else [None] * 6
                    )
                ],
            ),
            method="Quartiles of the scores of replies: the violins of the paper in numbers.",
            note="The paper has no numbers for this figure.",
        )
    ]


def _score_rows(rated_set: RatedSet) -> Iterator[tuple[tuple[str, str, str], list[float]]]:
    if rated_set.judged is None:
        return
    items = rated_set.judged.items
    places = dict.fromkeys((item.source, item.model) for item in items)
    for source, model in places:
        numbers = [k for k, item in enumerate(items) if (item.source, item.model) == (source, model)]
        names = (_set_title(source or rated_set.title), model.replace("_", " ") or "all")
        for dimension in _dimensions([items[k] for k in numbers]):
            means = [_mean([score for _rater, score in items[k].scores(dimension)[0]]) for k in numbers]
            yield (*names, f"people: {dimension}"), [value for value in means if value is not None]
        for title, values in (rated_set.scores or {}).items():
            if len(values) == len(items):
                known = [values[k] for k in numbers]
                yield ((*names, title), [float(value) for value in known if value is not None and math.isfinite(value)])


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _rade_data(sets: Sequence[RatedSet], _computed: _Computed) -> list[NamedTable]:
    """RADE, Table 2: size, agreement and distribution of the ratings."""
    theirs = other_values("rade2023", "Table 2")
    by_source = _by_source(sets)
    rows = list(dict.fromkeys([*(row for row, _column in theirs), *by_source]))
    steps = range(1, 6)

    def ours(source: str) -> list[Cell]:
        items = by_source.get(source, [])
        dimension = _main_dimension(items)
        kappa = _kappa_cells(items, dimension)[:2]
        means = [_mean([score for _rater, score in item.scores(dimension)[0]]) for item in items]
        counts = Counter(round(value) for value in means if value is not None)
        n = sum(counts.values()) if counts.keys() <= set(steps) and _has_five_steps(items, dimension) else 0
        shares = [share_cell(counts[step] / n if n else None, 3, GapReason.NO_DATA) for step in steps]
        return [count_cell(len(items) or None, GapReason.NO_DATA), *kappa, *shares]

    return [
        declared_table(
            "table-2",
            "Data with agreement and distribution of ratings",
            rows,
            ("Data set", lambda row: Cell(_set_title(row))),
            ("Published: dialogues", lambda row: published_cell(theirs, row, "dialogues")),
            ("κ", lambda row: published_cell(theirs, row, "kappa", 3, is_share=True)),
            (
                [f"rated {step}" for step in steps],
                lambda row: [published_cell(theirs, row, f"share {step}", 3, is_share=True) for step in steps],
            ),
            (["Here: replies", "κ here", "95 %", *[f"rated {step}, here" for step in steps]], ours),
            method="Fleiss’ κ; shares of replies by their rounded mean rating, for scales from 1 to 5.",
        )
    ]


def _has_five_steps(items: Sequence[JudgedItem], dimension: str) -> bool:
    """Return True if no item has another scale than 1 to 5."""
    scales = (item.scales.get(dimension) or item.scale for item in items)
    return all((min(scale), max(scale)) == (1, 5) for scale in scales if scale)


def _main_dimension(items: Sequence[JudgedItem]) -> str:
    names = _dimensions(items)
    return "overall" if "overall" in names else next(iter(names), "")


def _replies_by_model(sets: Sequence[RatedSet], _computed: _Computed) -> list[NamedTable]:
    """RADE, Table 5: number of replies by data set and dialogue model."""
    theirs = other_values("rade2023", "Table 5")
    counts = Counter((source, item.model) for source, items in _by_source(sets).items() for item in items)
    return [
        declared_table(
            "table-5",
            "Replies by dialogue model",
            list(dict.fromkeys([*theirs, *counts])),
            (("Data set", "Dialogue model"), lambda row: [Cell(_set_title(row[0])), Cell(row[1] or "unknown")]),
            ("Published", lambda row: published_cell(theirs, *row)),
            ("Here", lambda row: count_cell(counts.get(row), GapReason.NO_DATA)),
        )
    ]


def _corpus_statistics(sets: Sequence[RatedSet], _computed: _Computed) -> list[NamedTable]:
    """RADE, Table 7: dialogues, utterances and words of each data set."""
    theirs = other_values("rade2023", "Table 7")
    by_source = _by_source(sets)

    def ours(source: str) -> list[Cell]:
        items = by_source.get(source, [])
        texts = [text for item in items for text in (*item.context, item.response)]
        words = _mean([float(len(text.split())) for text in texts])
        utterances = _mean([float(len(item.context) + 1) for item in items])
        return [
            count_cell(len({(item.context, item.response) for item in items}) or None, GapReason.NO_DATA),
            number_cell(utterances, reason=GapReason.NO_DATA),
            number_cell(words, reason=GapReason.NO_DATA),
        ]

    names = ("dialogues", "utterances", "words")
    return [
        declared_table(
            "table-7",
            "Statistics of the data",
            list(dict.fromkeys([*(row for row, _column in theirs), *by_source])),
            ("Data set", lambda row: Cell(_set_title(row))),
            (
                [f"{name}, published" for name in names],
                lambda row: [published_cell(theirs, row, name, 0 if name == "dialogues" else 2) for name in names],
            ),
            ([f"{name}, here" for name in names], ours),
            method="Distinct dialogues, mean number of utterances with the reply, and mean number of words by spaces.",
        )
    ]


def _choices_by_group(sets: Sequence[RatedSet], _computed: _Computed) -> list[NamedTable]:
    """RADE, Figure 4: shares of experts and users who chose each sub-metric."""
    groups = {group: choices for rated_set in sets for group, choices in (rated_set.approval or {}).items()}
    options = list(dict.fromkeys(option.option for choices in groups.values() for option in choices.options))

    def share_columns(group: str) -> tuple[tuple[str, str], Callable[[str], list[Cell]]]:
        shares = {option.option: option for option in groups[group].options} if group in groups else {}

        def cells(name: str) -> list[Cell]:
            option = shares.get(name)
            if option is None:
                return _empty_estimate(GapReason.NO_DATA)
            return [share_cell(option.approval), span_cell(option.low, option.high, shares=True)]

        n = f" ({groups[group].n_people})" if group in groups else ""
        return (f"{group}{n}", f"{group}, 95 %"), cells

    return [
        declared_table(
            "figure-4",
            "Choice of sub-metrics by group",
            options or ["sub-metric"],
            ("Sub-metric", Cell),
            *map(share_columns, groups or ("experts", "users")),
            method="Share of people who chose the sub-metric, by group, with the number of people.",
            note="The paper has no numbers for this figure. Each study with the protocol *choose* is a group, or "
            "each answer to its question `group`.",
        )
    ]


def _pair_counts(_sets: Sequence[RatedSet], _computed: _Computed) -> list[NamedTable]:
    """DialogEntailment, Table 1: pairs of the inference corpus."""
    theirs = other_values("entailment2019", "Table 1")
    parts = ("train", "dev", "test")
    return [
        declared_table(
            "table-1",
            "Pairs of the inference corpus",
            list(dict.fromkeys(row for row, _column in theirs)),
            ("Class", Cell),
            (
                [f"{part}, published" for part in parts],
                lambda row: [published_cell(theirs, row, part) for part in parts],
            ),
            ([f"{part}, here" for part in parts], lambda _row: [count_cell(None, GapReason.NO_DATA)] * len(parts)),
            note="`make_inference_pairs` prints the counts of a corpus made here.",
        )
    ]


def _accuracies(sets: Sequence[RatedSet], _computed: _Computed) -> list[NamedTable]:
    """DialogEntailment, Table 2: accuracy of the classes."""
    ours = _class_accuracies(sets)
    theirs = {(row.set, row.metric): row for row in published_accuracies()}
    return [
        declared_table(
            "table-2",
            "Accuracy of the classes",
            list(dict.fromkeys([*theirs, *ours])),
            (("Data set", "Classifier"), lambda row: [Cell(_set_title(row[0])), Cell(row[1])]),
            (
                "Published",
                lambda row: share_cell(theirs[row].value if row in theirs else None, 3, GapReason.NOT_PUBLISHED),
            ),
            (
                ("Here", "95 %"),
                lambda row: (
                    estimate_cells(ours[row], 3, shares=True, reason=GapReason.UNDEFINED)
                    if row in ours
                    else _empty_estimate(_gap_of_set(sets, row[0]))
                ),
            ),
            method="Share of replies whose class is that of the mean human score (0–3: from 2 entailment, from 1 "
            "neutral).",
        )
    ]


def _empty_estimate(gap: GapReason) -> list[Cell]:
    return [share_cell(None, reason=gap), span_cell(None, None, reason=gap)]


def _gap_of_set(sets: Sequence[RatedSet], source: str) -> GapReason:
    return GapReason.NOT_COMPUTED if source in _by_source(sets) else GapReason.NO_DATA


def _human_grade(item: JudgedItem, dimension: str) -> float | None:
    """Return a reply's mean human score, stretched to 0–3; None without a score or scale."""
    scale = item.scales.get(dimension) or item.scale
    value = _mean([score for _rater, score in item.scores(dimension)[0]])
    if value is None or not scale or max(scale) == min(scale):
        return None
    return (value - min(scale)) / (max(scale) - min(scale)) * (_GRADES - 1)


def _human_class(grade: float) -> str:
    """Return the class of a grade: from 2 entailment, from 1 neutral."""
    return CLASSES[2] if grade >= 2 else CLASSES[1] if grade >= 1 else CLASSES[0]


def _classes(rated_set: RatedSet) -> dict[str, list[str | None]]:
    """Return the most probable class of each reply, by classifier."""
    return {
        name.removesuffix(CLASS_COLUMN): [
            None if value is None or not math.isfinite(value) else CLASSES[int(value)] for value in values
        ]
        for name, values in (rated_set.scores or {}).items()
        if name.endswith(CLASS_COLUMN)
    }


def _classified(sets: Sequence[RatedSet]) -> Iterator[tuple[str, str, JudgedItem, str, float]]:
    """Yield the data set, classifier, reply, its class and its human score from 0 to 3."""
    for rated_set in sets:
        items = rated_set.judged.items if rated_set.judged else ()
        for classifier, classes in _classes(rated_set).items():
            for item, label in zip(items, classes, strict=True):
                grade = _human_grade(item, _main_dimension([item]))
                if label is not None and grade is not None:
                    yield item.source or rated_set.title, classifier, item, label, grade


def _class_accuracies(sets: Sequence[RatedSet]) -> dict[tuple[str, str], Interval]:
    hits: dict[tuple[str, str], list[float]] = {}
    contexts: dict[tuple[str, str], list[str]] = {}
    for source, classifier, item, label, grade in _classified(sets):
        hits.setdefault((source, classifier), []).append(float(label == _human_class(grade)))
        contexts.setdefault((source, classifier), []).append("\n".join(item.context))
    return {key: mean_interval(values, contexts[key], SCORE_LEVEL, scale=SHARE) for key, values in hits.items()}


def _scores_by_class(sets: Sequence[RatedSet], _computed: _Computed) -> list[NamedTable]:
    """DialogEntailment, Figure 1: human scores of the replies of each class."""
    scores: dict[tuple[str, str, str], list[float]] = {}
    for source, classifier, _item, label, grade in _classified(sets):
        scores.setdefault((source, classifier, label), []).append(grade)
    computed_places = list(dict.fromkeys((source, classifier) for source, classifier, _label in scores))
    places = computed_places or [(row.set, row.metric) for row in published_accuracies()]
    rows = [(*place, label) for place in places for label in reversed(CLASSES)]

    def quartiles(row: tuple[str, str, str]) -> list[Cell]:
        values = scores.get(row)
        numbers = [*np.quantile(values, _QUARTILES).tolist(), float(np.mean(values))] if values else [None] * 6
        gap = GapReason.UNDEFINED if computed_places else _gap_of_set(sets, row[0])
        return [number_cell(number, reason=gap) for number in numbers]

    return [
        declared_table(
            "figure-1",
            "Human scores by class",
            rows,
            (("Data set", "Classifier", "Class"), lambda row: [Cell(_set_title(row[0])), Cell(row[1]), Cell(row[2])]),
            ("n", lambda row: count_cell(len(scores.get(row, ())))),
            (("Lowest", "25 %", "Median", "75 %", "Highest", "Mean"), quartiles),
            method="Quartiles of the mean human scores, stretched to 0–3, of the replies of each class.",
            note="The paper has no numbers for this figure.",
        )
    ]


_Maker = Callable[[Sequence[RatedSet], _Computed], list[NamedTable]]
_MAKERS: Mapping[str, Mapping[str, _Maker]] = {
    "grade2020": {"Figure 3": _distributions},
    "pone2020": {"Table 1": _kappas},
    "rade2023": {
        "Table 2": _rade_data,
        "Table 5": _replies_by_model,
        "Table 7": _corpus_statistics,
        "Figure 4": _choices_by_group,
    },
    "entailment2019": {"Table 1": _pair_counts, "Table 2": _accuracies, "Figure 1": _scores_by_class},
}
BENCHMARK_PAPERS = tuple(_MAKERS)
"""Papers whose tables a benchmark fills."""
