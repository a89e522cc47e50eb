"""Results of sweeps: tables of agreement and measures, with means and standard deviations over seeds.

A correlation is marked ⋆ if it is not significant (p > .05) in more than half of the seeds; for five seeds this is the
rule of Table 3 in Huang et al. (2020), three or more.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from chatbots.identity import canonical_json
from chatbots.training.config import TrainingConfig
from evaluation.data.result_tables import Cell, NamedTable, count_cell, declared_table, number_cell
from evaluation.number_format import figure, share
from evaluation.published.ghandeharioun2019 import HYPER_PARAMETERS, hyper_parameters

STAR = "⋆"
SEEN = "†"
P_LIMIT = 0.05
ONE_SEED = "only one seed has a value"
MEAN_OF_MODELS = "mean of models"
NO_VALUE = "undefined for every seed"


@dataclass(frozen=True, slots=True)
class SeedMean:
    """Mean of a value over seeds.

    Attributes:
        sd: standard deviation (n − 1); None with fewer than two values.
        n: number of seeds with a value.
        is_unstable: True if it is not significant in more than half of the seeds.
        reason: reason for a missing mean or standard deviation.
    """

    mean: float | None
    sd: float | None
    n: int
    is_unstable: bool
    reason: str

    @classmethod
    def over(cls, values: Sequence[float | None], p: Sequence[float | None] | None = None) -> SeedMean:
        """Return the mean of these values.

        Args:
            p: the p-value of each; None if the values have none. A missing p-value counts as not significant.
        """
        known = [value for value in values if value is not None and math.isfinite(value)]
        n_unclear = 0 if p is None else sum(value is None or value > P_LIMIT for value in p)
        return cls(
            mean=fmean(known) if known else None,
            sd=stdev(known) if len(known) > 1 else None,
            n=len(known),
            is_unstable=2 * n_unclear > len(values),
            reason=NO_VALUE if not known else ONE_SEED if len(known) == 1 else "",
        )

    def cell(self, text: Callable[[float | None, int], str] = share, digits: int = 3) -> Cell:
        """Return it as `mean ± sd⋆`."""
        if self.mean is None:
            return Cell("–", reason=self.reason, raw=(None,))
        sd = "" if self.sd is None else f" ± {text(self.sd, digits)}"
        star = STAR if self.is_unstable else ""
        return Cell(f"{text(self.mean, digits)}{sd}{star}", reason=self.reason, raw=(self.mean,))


@dataclass(frozen=True, slots=True)
class SweepGroup:
    """Trainings that differ only in their seed."""

    label: str
    settings: dict[str, Any]
    share: float
    cells: tuple[Mapping[str, Any], ...]

    @property
    def title(self) -> str:
        """Name of the config with its swept settings."""
        settings = [
            f"{name} {json.dumps(value) if isinstance(value, list) else value}" for name, value in self.settings.items()
        ]
        return ", ".join([self.label, *settings])

    @property
    def trained(self) -> list[Mapping[str, Any]]:
        """The trainings without an error."""
        return [cell for cell in self.cells if not cell["error"]]

    def measure(self, name: str) -> SeedMean:
        """Return the mean of a measure of the trainings."""
        return SeedMean.over([cell["best"].get(name) for cell in self.trained])

    def correlations(self) -> dict[tuple[str, str, str], list[Mapping[str, Any]]]:
        """Return the agreement of each seed by dimension, data set and dialogue model, and its mean over the models."""
        rows: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
        for cell in self.trained:
            by_set: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
            for row in cell["agreement"]:
                rows.setdefault((row["dimension"], row["data_set"], row["model"]), []).append(row)
                if row["model"]:
                    by_set.setdefault((row["dimension"], row["data_set"]), []).append(row)
            for (dimension, data_set), models in by_set.items():
                if len(models) > 1:
                    rows.setdefault((dimension, data_set, MEAN_OF_MODELS), []).append(_mean_of_models(models))
        return dict(sorted(rows.items(), key=lambda item: item[0][:2]))

    def correlation(self, rows: Sequence[Mapping[str, Any]], method: str) -> SeedMean:
        """Return the mean of a coefficient over the seeds."""
        has_p = all("p" in row[method] for row in rows)
        return SeedMean.over([row[method]["r"] for row in rows], [row[method]["p"] for row in rows] if has_p else None)

    def average(self, rows: Sequence[Mapping[str, Any]]) -> SeedMean:
        """Return the mean of Pearson's and Spearman's coefficients over the seeds, as in GRADE's tables."""
        pairs = [(row["pearson"]["r"], row["spearman"]["r"]) for row in rows]
        return SeedMean.over([None if None in pair else fmean(pair) for pair in pairs])


def _mean_of_models(models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one seed's mean coefficients over dialogue models; undefined if one of them is."""
    from evaluation.stats.correlation import METHODS

    row: dict[str, Any] = {"n": sum(model["n"] for model in models), "is_seen": any(m.get("is_seen") for m in models)}
    for method in METHODS:
        values = [model[method]["r"] for model in models]
        row[method] = {"r": None if None in values else fmean(values)}
    return row


@dataclass(frozen=True)
class SweepResult:
    """Results of a sweep.

    Attributes:
        cells: results of the trainings, as `run_cell` returns them.
    """

    cells: tuple[Mapping[str, Any], ...]

    @property
    def groups(self) -> list[SweepGroup]:
        """Trainings by config, settings and share, over seeds."""
        groups: dict[str, list[Mapping[str, Any]]] = {}
        for cell in self.cells:
            groups.setdefault(canonical_json([cell["label"], cell["settings"], cell["share"]]), []).append(cell)
        return [
            SweepGroup(cells[0]["label"], dict(cells[0]["settings"]), cells[0]["share"], tuple(cells))
            for cells in groups.values()
        ]

    @property
    def failures(self) -> list[str]:
        """Names and errors of the trainings that failed."""
        return [f"{cell['name']}: {cell['error']}" for cell in self.cells if cell["error"]]

    @property
    def tables(self) -> list[NamedTable]:
        """Agreement with people, if a benchmark was given, and the measures of the trainings."""
        return [*self._agreement_tables(), self._measures_table()]

    @property
    def sentences(self) -> list[str]:
        """Conclusion: completed trainings, and unstable correlations."""
        n, n_failed = len(self.cells), len(self.failures)
        sentences = [f"{n - n_failed} of {n} trainings are complete."]
        means = [mean for *_names, mean in self._correlations()]
        if means:
            n_unstable = sum(mean.is_unstable for mean in means)
            sentences.append(
                f"{n_unstable} of {len(means)} mean correlations are unstable ({STAR}): not significant in more than "
                "half of the seeds."
            )
        return [*sentences, *(f"Failed: {failure}" for failure in self.failures)]

    def _correlations(self) -> Iterator[tuple[SweepGroup, tuple[str, str, str], str, SeedMean]]:
        from evaluation.stats.correlation import METHODS

        for group in self.groups:
            for place, rows in group.correlations().items():
                if place[2] != MEAN_OF_MODELS:  # which has no p-value
                    for method in METHODS:
                        yield group, place, method, group.correlation(rows, method)

    def _agreement_tables(self) -> Iterator[NamedTable]:
        from evaluation.stats.correlation import METHODS

        rows = [(group, place, seeds) for group in self.groups for place, seeds in group.correlations().items()]
        if not rows:
            return
        yield declared_table(
            "agreement",
            "Agreement with people",
            rows,
            ("Config", lambda row: Cell(row[0].title)),
            ("Data", lambda row: number_cell(row[0].share)),
            ("Dimension", lambda row: Cell(row[1][0])),
            ("Data set", lambda row: Cell((row[1][1] or "all") + SEEN * any(seed.get("is_seen") for seed in row[2]))),
            ("Dialogue model", lambda row: Cell(row[1][2] or "all")),
            (
                [method.capitalize() for method in METHODS],
                lambda row: [row[0].correlation(row[2], method).cell() for method in METHODS],
            ),
            ("Mean of Pearson and Spearman", lambda row: row[0].average(row[2]).cell()),
            ("Seeds", lambda row: count_cell(len(row[2]))),
            ("Replies", lambda row: count_cell(row[2][0]["n"])),
            method="Correlation of the trained metric with mean human ratings: mean ± standard deviation over seeds.",
            note=f"{STAR} not significant (p > .05) in more than half of the seeds. {SEEN} among these are replies "
            "that served to develop or train the metric. Data: share of the training data."
            f"{_seeds_note(len(seeds) for *_names, seeds in rows)}",
        )

    def _measures_table(self) -> NamedTable:
        groups = self.groups
        names = list(dict.fromkeys(name for group in groups for cell in group.trained for name in cell["best"]))
        return declared_table(
            "measures",
            "Measures of the trainings",
            groups,
            ("Config", lambda group: Cell(group.title)),
            ("Data", lambda group: number_cell(group.share)),
            ([name.replace("_", " ") for name in names], lambda group: [group.measure(n).cell(figure) for n in names]),
            ("Seeds", lambda group: count_cell(len(group.trained))),
            ("Failed", lambda group: count_cell(len(group.cells) - len(group.trained))),
            method="Best checkpoint of each training on held-out data: mean ± standard deviation over seeds.",
            note=_seeds_note(len(group.trained) for group in groups).strip(),
        )

    def to_json(self) -> dict[str, Any]:
        """Return `{"cells": […]}`, all values by training."""
        return {"cells": [dict(cell) for cell in self.cells]}

    def summary(self) -> str:
        """Return the conclusion and the tables as text."""
        return "\n\n".join([*self.sentences, *(table.printed(table.note) for table in self.tables)])


def _seeds_note(n_seeds: Iterable[int]) -> str:
    """Explain missing standard deviations, if there are any."""
    return " A standard deviation needs values of at least two seeds." if min(n_seeds, default=0) < 2 else ""


def hyperparameters_table(configs: Sequence[TrainingConfig]) -> NamedTable:
    """Return the configs as in Table 9 of Ghandeharioun et al. (2019)."""

    def cells(config: TrainingConfig) -> list[Cell]:
        values = hyper_parameters(config.model_dump())
        return [
            Cell(f"{value:g}", raw=(value,)) if value is not None else Cell("–", reason="the model has no such part")
            for value in map(values.get, HYPER_PARAMETERS)
        ]

    return declared_table(
        "hyperparameters",
        "Hyper-parameters",
        configs,
        ("Corpus", lambda config: Cell(", ".join(corpus.path for corpus in config.data.corpora))),
        ("Version", lambda config: Cell("baseline" if config.ei is None else "EI")),
        ("Model", lambda config: Cell(config.model.upper())),
        (list(HYPER_PARAMETERS), cells),
        method="As Table 9 of Ghandeharioun et al. (2019).",
    )
