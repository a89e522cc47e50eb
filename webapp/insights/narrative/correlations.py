"""Correlations, in sentences and matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from evaluation.analysis.correlations import CorrelationMatrix, CorrelationRow, HybridCorrelations, without_speaker
from evaluation.data.ratings import RatingDimension
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import share
from evaluation.stats.correlation import fisher_interval
from webapp.insights.charts.figure import PageFigure
from webapp.insights.charts.matrix import heatmap_figure, matrix_figure
from webapp.insights.narrative import phrases
from webapp.insights.narrative.hybrid_verdict import INTERCEPTS
from webapp.insights.narrative.phrases import Section, controls_sentence, listed
from webapp.jobs.selectors.fits import fit_by_id
from webapp.jobs.selectors.metrics import left_out_sentences, metric_titles, metrics_left_out
from webapp.results.compute import StudyCorrelations
from webapp.results.study_data import StudyFrame


def correlations_section(frame: StudyFrame, correlations: StudyCorrelations) -> Section:
    """Return the paper's three matrices.

    Controls are only in the matrix of dimensions.
    """
    dimensions, metrics, bots = correlations.dimensions, correlations.metrics, correlations.bots
    fit = fit_by_id(correlations.fit) if correlations.fit is not None else None
    result = fit.result if fit is not None else None
    hybrid = HybridCorrelations(result) if result else None
    section = Section("correlations", "Correlations of ratings, metrics and bots")
    titles = {question.key: question.title for question in frame.all_dimensions}
    section.missing.extend(_missing_of_hybrid(hybrid, correlations.fit))
    section.missing.extend(left_out_sentences(metrics_left_out(study=frame.study)))
    note = _note_of_hybrid(frame, hybrid, correlations.fit)
    if dimensions is None:
        section.missing.append("Correlations between dimensions: the study has only one dimension.")
    else:
        section.lead.extend(_closest(dimensions, titles))
        section.figures.append(_dimensions_figure(frame, dimensions, titles))
    if metrics is None:
        section.missing.append(
            "Ratings against metrics: no metrics have been computed. Click “Compute what is missing” on the "
            "Prediction page."
        )
    else:
        section.conclusion = _strongest(metrics, frame.headline)
        section.lead.append(section.conclusion)
        section.figures.append(_metrics_figure(frame, metrics, titles, note))
    if correlations.run is None:
        section.missing.append(
            "Self-play against ratings: this needs a finished self-play run with metrics for three of these bots."
        )
    if bots is None:
        section.missing.append(
            "Correlations over bots: this needs metrics or other data for at least three rated bots."
        )
    else:
        section.figures.append(_bots_figure(frame, bots, titles, correlations.run, note))
        section.caution = (
            f"Correlations over {phrases.bots_text(bots.n)} say little on their own: the intervals are wide, and bots "
            "that differ in one respect usually differ in others."
        )
    return section


def _row_titles(
    rows: Iterable[CorrelationRow], matrix: CorrelationMatrix, titles: Mapping[str, str] | None = None
) -> list[str]:
    """Return the titles of rows of a matrix; `titles` has those of the dimensions."""
    names = metric_titles()
    return [_row_title(row, matrix, titles or {}, names) for row in rows]


def _row_title(
    row: CorrelationRow, matrix: CorrelationMatrix, titles: Mapping[str, str], names: Mapping[str, str]
) -> str:
    if row.source == "dimension":
        return titles[row.name]
    over_bots = matrix.kind == "bots"
    if row.source == "hybrid_selfplay":
        return "Hybrid metric (self-play)"
    if row.source == "hybrid_chats":
        return "Hybrid metric (rated chats)" if over_bots else "Hybrid metric, leave-one-bot-out"
    if row.source == "bot":
        return f"{row.name} (of the bot)"
    title = names.get(row.name, row.name)  # an imported metric may have been deleted since
    if row.source == "selfplay":
        title = title if row.speaker else without_speaker(title)
        return f"{title} (self-play)"
    return f"{title} (rated chats)" if over_bots else title


def _closest(matrix: CorrelationMatrix, titles: Mapping[str, str]) -> list[str]:
    """Compose the sentence on the two most closely correlated dimensions."""
    known = {key: value for key, value in matrix.cells.items() if value.r is not None}
    if not known:
        return []
    i, j = max(known, key=lambda key: known[key].r or 0)
    return [
        f"{titles[matrix.rows[i].name]} and {titles[matrix.columns[j]].lower()} correlate most strongly, ρ = "
        f"{share(known[i, j].r)}."
    ]


def _dimensions_figure(frame: StudyFrame, matrix: CorrelationMatrix, titles: Mapping[str, str]) -> PageFigure:
    return heatmap_figure(
        [titles[key] for key in matrix.columns],
        dict(matrix.cells),
        id="dimensions",
        title="Correlations between ratings",
        method=_join_sentences(
            f"Spearman over {phrases.conversations_text(matrix.n)}, 95 % intervals by the jackknife over people.",
            controls_sentence(frame, left_out=False),
        ),
        links={(i, j): frame.ratings_link(matrix.rows[i].name, matrix.columns[j]) for i, j in matrix.cells},
        note="Part of this is the halo effect: raters who like one aspect tend to like everything.",
    )


def _strongest(matrix: CorrelationMatrix, headline: RatingDimension) -> str:
    """Compose the sentence on the metrics most correlated with the headline.

    The headline is the first column.
    """
    strongest_rows = matrix.strongest(0)
    if not strongest_rows:
        return (
            f"No metric correlates significantly with {headline.title.lower()}, which does not prove that there is no "
            "correlation."
        )
    row_titles = _row_titles((row for row, _value in strongest_rows), matrix)
    values = (share(value.r) for _row, value in strongest_rows)
    row_texts = [f"{title.lower()} (ρ = {value})" for title, value in zip(row_titles, values, strict=True)]
    return f"For single chats, {listed(row_texts)} correlate most strongly with {headline.title.lower()}."


def _join_sentences(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def _matrix_figure(
    frame: StudyFrame, matrix: CorrelationMatrix, titles: Mapping[str, str], *method: str, **texts: Any
) -> PageFigure:
    return matrix_figure(
        _row_titles(matrix.rows, matrix, titles),
        [titles[key] for key in matrix.columns],
        dict(matrix.cells),
        method=_join_sentences(*method, controls_sentence(frame, left_out=True)),
        sure=matrix.survives,
        q=matrix.q,
        first=_first(matrix, titles),
        **texts,
    )


def _metrics_figure(frame: StudyFrame, matrix: CorrelationMatrix, titles: Mapping[str, str], note: str) -> PageFigure:
    questions = {question.key: question for question in frame.all_dimensions}
    alone = (
        "A correlation over all bots may only reflect differences between bots. A correlation within bots is about "
        "single chats."
    )
    return _matrix_figure(
        frame,
        matrix,
        titles,
        f"Spearman over {phrases.conversations_text(matrix.n)}; 95 % intervals by the jackknife over people; "
        f"Holm’s correction for {matrix.n_corrected} correlations. {_discovered(matrix)} "
        "The table also has Pearson’s r within bots.",
        marks="Bold: p < .05 after Holm’s correction.",
        id="metrics-dimensions",
        links={
            (i, j): frame.metric_link(matrix.rows[i].name, questions[matrix.columns[j]])
            for i, j in matrix.cells
            if matrix.rows[i].source == "chats"
        },
        title="Correlations of metrics with ratings",
        symbol="ρ",
        other_coefficient=("r within bots", dict(matrix.within)),
        note=f"{alone} {note}".strip(),
    )


def _bots_figure(
    frame: StudyFrame, matrix: CorrelationMatrix, titles: Mapping[str, str], run: int | None, note: str
) -> PageFigure:
    played = "" if run is None else f" self-play run {run};"
    families = (
        f"Two families of bots are enough to make everything correlate. Of {matrix.n_corrected} correlations, one in "
        "twenty has p < .05 by chance."
    )
    return _matrix_figure(
        frame,
        matrix,
        titles,
        f"Pearson over the means of {phrases.bots_text(matrix.n)};{played} Holm’s correction for "
        f"{matrix.n_corrected} correlations. {_discovered(matrix)}",
        marks="Bold: p < .05 after Holm’s correction.",
        id="bots-dimensions",
        title="Correlations over bots",
        symbol="r",
        note_lead=_few(matrix.n),
        note=f"{families} {note}".strip(),
    )


def _discovered(matrix: CorrelationMatrix) -> str:
    if not matrix.q:
        return ""
    return (
        f"Significant at a false discovery rate of 5 % (Benjamini and Hochberg, 1995): {matrix.n_discovered}. The "
        "table shows the rate of each as q."
    )


def _first(matrix: CorrelationMatrix, titles: Mapping[str, str]) -> tuple[list[int], str]:
    """Return the rows drawn first, and a note on this selection."""
    return matrix.first_rows(), (
        "The plot shows the hybrid metric, if there is one, and the rows most closely related to "
        f"{titles[matrix.columns[0]].lower()}. Because they were selected for that, they look stronger than they are."
    )


def _few(n_bots: int) -> str:
    """Compose the sentence on wide intervals over few bots."""
    low, high = fisher_interval(0.5, n_bots) if n_bots > 3 else (None, None)
    if low is None or high is None:
        return f"Too few for an interval: {phrases.bots_text(n_bots)}."
    return f"With {phrases.bots_text(n_bots)}, the interval of r = .50 goes from {share(low)} to {share(high)}."


def _missing_of_hybrid(hybrid: HybridCorrelations | None, fit: int | None) -> list[str]:
    """Return the reason for missing rows of the hybrid metric.

    Empty if none is missing.
    """
    if hybrid is None:
        return ["There is no fit of the hybrid metric yet."]
    if not hybrid.has_conversations:
        return [f"Hybrid metric: fit {fit} has no predictions for single conversations."]
    if hybrid.n_bots < FEW_BOTS:
        return [f"Hybrid metric over bots: {phrases.bots_text(hybrid.n_bots)}, which is too few."]
    if hybrid.n_selfplay < FEW_BOTS:
        return [f"Hybrid metric on self-play: fit {fit} was not applied to any run with {FEW_BOTS} of its bots."]
    return []


def _note_of_hybrid(frame: StudyFrame, hybrid: HybridCorrelations | None, fit: int | None) -> str:
    """Compose the note on the hybrid metric's rows.

    Empty without them.
    """
    if hybrid is None or not hybrid.has_conversations:
        return ""
    rated = [bot for bot, of_bot in hybrid.result["bots"].items() if of_bot["human_mean"] is not None]
    controls = ", with controls" if any(bot in frame.bots and frame.bots[bot].is_control for bot in rated) else ""
    return (
        f"Hybrid-metric rows come from fit {fit} ({INTERCEPTS[hybrid.result['intercept']]}{controls}). They are "
        "excluded from the Holm correction; see the fit's page for its null distribution."
    )
