"""Agreement of metrics and people as a text table.

Made from the JSON of `evaluate_metrics`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evaluation.agreement.agreement_by_group import best_raters_printed
from evaluation.agreement.held_out import Standing, standings_of
from evaluation.agreement.paired_comparison import gains_printed
from evaluation.findings import reason_read
from evaluation.number_format import columns_printed, p_value, share, span
from evaluation.published.correlations import Published, caveats_of, cells_of, published_in_cell
from evaluation.stats.correlation import METHODS

_HEADINGS = (
    "metric",
    "data",
    "model",
    "n",
    "contexts",
    "replies",
    "Pearson",
    "p",
    "Spearman",
    "p",
    "Kendall",
    "p",
    "ceiling",
    "published",
)

_UNDEFINED = {
    "few_pairs": "only {n_pairs} replies have both scores; a correlation needs 3",
    "constant_side": "the metric or people gave all replies the same score",
}
"""Text of each reason code."""


def agreements_printed(result: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table of agreement by metric, data set and model.

    Each metric is represented by its main column. The exclusions follow.

    Args:
        result: output of `MetricAgreement.to_json` by metric name.
    """
    standings = standings_of(result)
    result = {name: result[name] for name in sorted(result, key=lambda name: standings[name].place)}
    rows = [_HEADINGS, *(row for name, agreement in result.items() for row in _rows(name, agreement))]
    if not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    return "\n".join(
        [
            *columns_printed(rows, 3),
            *gains_printed(result),
            *systems_printed(result),
            *best_raters_printed(result),
            *_notes(result, standings),
        ]
    )


def _rows(name: str, agreement: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    if "unavailable" in agreement:
        return
    for source, model, cell in cells_of(agreement):
        row = published_in_cell(agreement, source, model)
        yield _row(name, source or "all", model or "all", cell, row)


def _row(name: str, source: str, model: str, agreement: Mapping[str, Any], row: Published | None) -> tuple[str, ...]:
    return (
        name,
        source,
        model,
        str(agreement["n"]),
        str(agreement["n_contexts"]),
        str(agreement["n_responses"]),
        *(cell for method in METHODS for cell in (_coefficient(agreement[method]), p_value(agreement[method]["p"]))),
        _coefficient(agreement["ceiling"]) if agreement["ceiling"]["r"] is not None else "unknown",
        "" if row is None else published_printed(row),
    )


def published_printed(row: Published) -> str:
    """Format a published row: Pearson, Spearman and n.

    It names the published metric if it differs from ours.
    """
    values = " ".join(share(row.values.get(method), 3) for method in ("pearson", "spearman"))
    metric_prefix = "" if row.is_same else f"{row.title} "
    return f"{metric_prefix}{values}" + (f" (n {row.n})" if row.n else "")


def _coefficient(correlation: Mapping[str, Any]) -> str:
    if correlation["r"] is None:
        return "undefined"
    low, high = correlation["ci95"] or (None, None)
    return f"{share(correlation['r'], 3)} {span(low, high, shares=True)}"


VERDICTS = {
    "better_than_chance": "orders the systems better than chance",
    "not_shown": "no evidence that it orders the systems better than chance",
    "not_known": "not known",
}


def systems_printed(result: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Format the system-level figures in the JSON of `judge` as a table.

    One line per metric and data set.
    """
    system_agreements = [
        (name, source or "all", part["system_level"])
        for name, agreement in result.items()
        for source, model, part in cells_of(agreement)
        if not model and part.get("system_level")
    ]
    if not system_agreements:
        return []
    heads = (
        "metric",
        "data",
        "systems",
        "contexts",
        *METHODS,
        "pairwise",
        "soft pairwise",
        "acc_eq (epsilon)",
        "verdict",
    )
    rows: list[tuple[str, ...]] = [heads]
    for name, source, agreement in system_agreements:
        ties = agreement["ties"]
        rows.append(
            (
                name,
                source,
                str(agreement["n_systems"]),
                str(agreement["n_contexts"]),
                *(_system_figure(agreement[key]) for key in (*METHODS, "pairwise_accuracy", "soft_pairwise_accuracy")),
                "undefined" if ties["acc_eq"] is None else f"{share(ties['acc_eq'])} ({ties['epsilon']:.3g})",
                VERDICTS[agreement["verdict"]],
            )
        )
    lines = ["", "systems:", *columns_printed(rows, 2)]
    for name, agreement in result.items():
        for source, _model, part in cells_of(agreement):
            test = part.get("system_test")
            if not test:
                continue
            comparison_label = f"{name} against {agreement['against']['column']}, systems of {source or 'all'}"
            if test["p"] is None:
                lines.append(f"{comparison_label}: undefined, {reason_read(test['reason'])}")
            else:
                accuracies = f"{share(test['value'])} less {share(test['value_against'])}"
                lines.append(
                    f"{comparison_label}: soft pairwise accuracy {accuracies}, p {p_value(test['p'])} by permuted "
                    "scores"
                )
    lines.append(
        "systems: pairwise: share of system pairs ordered as by people; soft: 1 minus the mean "
        "difference of p. 95 % intervals from resampled contexts, for these systems. acc_eq: share of reply pairs "
        "ordered or tied as by people, with the best epsilon for these replies. "
        "verdict: permutation test of systems at 5 %; not available with fewer than five systems."
    )
    return lines


def _system_figure(figure: Mapping[str, Any]) -> str:
    if figure["value"] is None:
        return "undefined"
    return f"{share(figure['value'])} {span(*(figure['ci95'] or (None, None)), shares=True)}"


def _notes(result: Mapping[str, Mapping[str, Any]], standings: Mapping[str, Standing]) -> Iterator[str]:
    yield ""
    yield "Sorted by median Spearman coefficient over data sets that were not used to develop the metric."
    for name in result:
        if standings[name].median is not None:
            yield ", ".join(filter(None, [f"{name}: {standings[name].summary}", standings[name].note]))
    yield "95 % intervals and p by the jackknife over contexts. replies: number of distinct replies."
    yield (
        "ceiling: expected Pearson's r of a perfect metric: the square root of the reliability of the raters' mean "
        "(ICC(1,k), F interval); unknown if only means were "
        "published."
    )
    yield from _published_notes(result)
    for name, agreement in result.items():
        if "unavailable" in agreement:
            yield f"{name}: skipped, {agreement['unavailable']}"
            continue
        if other_columns := [column for column in agreement.get("columns", {}) if column != agreement["column"]]:
            yield f"{name}: showing {agreement['column']}; also available by name: {', '.join(other_columns)}"
        by_length = agreement.get("length_bias", {})
        if by_length.get("metric") is not None and by_length.get("people") is not None:
            yield (
                f"{name}: Spearman with reply length {share(by_length['metric'])}, people's "
                f"{share(by_length['people'])}"
            )
        if agreement["skipped"]:
            skipped_text = "; ".join(f"{n} × {reason}" for reason, n in agreement["skipped"].items())
            yield f"{name}: excluded {skipped_text}"
        for remark, n in agreement.get("remarks", {}).items():
            yield f"{name}: {n} × {remark}"
        if agreement["pearson"]["r"] is None:
            yield f"{name}: undefined, {_describe_reason(agreement['pearson']['reason'])}"


def _describe_reason(reason: Mapping[str, Any]) -> str:
    return _UNDEFINED[reason["code"]].format(**reason)


def _published_notes(result: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the sources of the published rows and their caveats."""
    rows = [
        row
        for agreement in result.values()
        if "unavailable" not in agreement
        for source, model, _cell in cells_of(agreement)
        if (row := published_in_cell(agreement, source, model)) is not None
    ]
    if rows:
        places = "; ".join(dict.fromkeys(row.place for row in rows))
        yield (
            f"published: Pearson and Spearman for the whole set; {places}. A named metric is the published one "
            "closest to ours."
        )
        yield from (f"published: {text}" for text in caveats_of(rows))
