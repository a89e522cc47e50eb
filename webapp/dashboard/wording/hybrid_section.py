"""Stored hybrid fits of a study: how well each predicts bots that it has not seen, beside trivial predictors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings

from webapp.dashboard import counts
from webapp.dashboard.plots.figure import Cell, Figure, Header, Table
from webapp.dashboard.wording.hybrid import HybridView, hybrid_view
from webapp.dashboard.wording.hybrid_tables import Predictor
from webapp.dashboard.wording.sections import NamedTable, Section
from webapp.ratings.bots import BotInfo
from webapp.runs.models import HybridFit


def hybrid_section(
    fits: Sequence[HybridFit],
    *,
    study_key: str,
    bots: Mapping[str, BotInfo],
    dimensions: Mapping[str, str],
    link: Callable[[str], str] = lambda bot: "",
    without: Sequence[str] = (),
) -> Section:
    """Return stored fits, each with its figures.

    Args:
        fits: first the one that pages speak of.
        study_key: for the command that makes one.
        bots: of the study, for titles and marks.
        dimensions: titles of the rubric's by key.
        link: address of a bot's conversations.
        without: names of flags; the fits leave out the people with one of these.
    """
    section = Section("hybrid", "Hybrid metric")
    if not fits:
        words = (
            (
                "No hybrid metric has been fitted without the people who are left out here; run `{program} fit_hybrid "
                "--study {key} --without {without}`."
            )
            if without
            else "No hybrid metric has been fitted; run `{program} fit_hybrid --study {key}`."
        )
        section.missing.append(
            words.format(key=study_key, program=settings.CONFAB_PROGRAM, without=",".join(without))
        )
        return section
    drawn: set[tuple[str, str]] = set()
    for fit in fits:
        assert fit.result is not None
        view = hybrid_view(fit.result, bots, link, dimensions)
        name = "Fit {pk}: preset {preset}, target {target}, {intercept}".format(
            pk=fit.pk,
            preset=fit.result["preset"],
            target=view.target,
            intercept=view.intercept,
        )
        same = (fit.result["preset"], fit.result["target"])
        if fit is fits[0]:
            section.caution = f"{view.caution_lead} {view.caution}"
        section.lead.append(_sentence(name, view, fit.result))
        # The slopes do not depend on the intercept, so they are drawn once.
        section.figures.extend(_figures(view, fit.pk, name, with_weights=same not in drawn))
        drawn.add(same)
        section.tables.append(_predictors(view, fit.pk, name))
        section.tables.extend(
            replace(table, id=f"{table.id}-{fit.pk}", method=f"{table.method} ({name}.)")
            for table in view.tables
        )
        if view.verdict and not section.points:
            section.points.append(view.verdict)
        if view.checks:
            section.tables.append(_checks(view, fit.pk, name))
    return section


def _sentence(name: str, view: HybridView, result: Mapping[str, Any]) -> str:
    found = next((row for row in view.predictors if row.is_metric), None)
    if found is None or found.value is None:
        why = view.no_correlation or (found.why if found else "")
        return f"{name}: {why}"
    return (
        "{name}: r = {r} {ends} over {bots}; chance passes {null} once in twenty. {pairs}".format(
            name=name,
            r=found.r,
            ends=found.interval,
            bots=counts.bots(result["n_bots"]),
            null=found.chance,
            pairs=view.pairs,
        )
    )


def _figures(view: HybridView, pk: int, name: str, *, with_weights: bool) -> list[Figure]:
    wanted = (
        view.scatter,
        view.selfplay,
        view.unrated,
        view.weights if with_weights else None,
    )
    found = [figure for figure in wanted if figure is not None]
    return [_named(figure, f"{figure.id}-{pk}", name) for figure in found]


def _named(figure: Figure, id: str, name: str) -> Figure:
    return replace(figure, id=id, method=f"{figure.method} ({name}.)")


def _checks(view: HybridView, pk: int, name: str) -> NamedTable:
    rows = [[Cell(check.title), Cell(check.found), Cell(check.why)] for check in view.checks]
    return NamedTable(
        f"checks-{pk}",
        "What to hold it against",
        Table([Header("Check"), Header("Found", numeric=True), Header("What it says")], rows),
        method=f"{name}.",
    )


def _predictors(view: HybridView, pk: int, name: str) -> NamedTable:
    def row(found: Predictor, unit: str) -> list[Cell]:
        return [
            Cell(found.title),
            Cell(unit),
            Cell(found.r, why=found.why if found.value is None else "", raw=(found.value,)),
            Cell(found.interval),
            Cell(found.chance),
        ]

    rows = [row(found, "bots") for found in view.predictors]
    rows += [row(found, "bots, from self-play") for found in view.predictors_selfplay]
    rows += [row(found, "conversations") for found in view.conversation_level]
    return NamedTable(
        f"predictors-{pk}",
        "Against trivial predictors",
        Table(
            [
                Header("Predictor"),
                Header("Over"),
                Header("r", numeric=True),
                Header("95 %", numeric=True),
                Header("null, 95 %", numeric=True),
            ],
            rows,
        ),
        method=f"{name}.",
        note=" ".join([view.no_correlation, *view.notes]).strip(),
    )
