"""Tables of judges compared with participants, from stored JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from evaluation.data.result_tables import (
    Cell,
    NamedTable,
    count_cell,
    declared_table,
    number_cell,
    p_cell,
    share_cell,
    span_cell,
)
from evaluation.number_format import percent, share, span
from evaluation.plots.rows import ScaleWindow, full_window, interval_cell
from webapp.insights.narrative.phrases import listed, reason_text

Row = Mapping[str, Any]
BIASES = {"place": "First place", "length": "Length", "markup": "Markup", "family": "Own model family, points"}
VERDICTS = {"may": "yes", "may not": "no", "unknown": "not known"}
SOURCES = {"people": "without human ratings", "extra": "in the run"}


def judges_verdict(result: Row) -> str:
    """Return the verdict on all judges in one sentence."""
    named = {
        verdict: [judge["title"] for judge in result["judges"] if judge["verdict"] == verdict] for verdict in VERDICTS
    }
    may, may_not, unknown = (listed(named[verdict]) for verdict in ("may", "may not", "unknown"))
    clauses = [
        f"{may} may replace a rater" if may else "",
        f"{may_not} may not replace a rater" if may_not else "",
        f"it is not known whether {unknown} may replace a rater" if unknown else "",
    ]
    sentence = "; ".join(filter(None, clauses))
    return f"{sentence[:1].upper()}{sentence[1:]}."


@dataclass(frozen=True, slots=True)
class JudgeCard:
    """Main results of a judge.

    Attributes:
        pill: colour of the verdict.
        bars: label, value with its interval or the reason for none, and drawing of each measure.
        biases: biases whose intervals exclude 0, in words.
    """

    title: str
    verdict: str
    pill: str
    bars: list[tuple[str, str, Markup]]
    biases: list[str]
    facts: str


_PILLS = {"may": "good", "may not": "bad", "unknown": "warn"}


def judge_cards(result: Row) -> list[JudgeCard]:
    """Return a card of each judge."""
    return [
        JudgeCard(
            judge["title"],
            {"may": "May replace a rater", "may not": "May not replace a rater"}.get(judge["verdict"], "Not known"),
            _PILLS[judge["verdict"]],
            [
                _bar("Agreement with people, −1 to 1", judge["agreement"], full_window(-1, 1, 5), (0, 1)),
                _bar(
                    "Share of raters that it can replace",
                    {**judge["alternative_test"], "value": judge["alternative_test"]["winning_rate"]},
                    full_window(0, 1, 5),
                    (0.5, 1),
                ),
            ],
            [
                f"{title} {share(bias['value'])} {span(bias['low'], bias['high'], shares=True)}"
                for name, title in BIASES.items()
                if (bias := judge["biases"][name])["low"] is not None and bias["low"] * bias["high"] > 0
            ],
            " · ".join(
                (
                    f"{judge['n']:,} scored",
                    f"per 1,000: {judge['seconds_per_1000']:,.0f} s",
                    "price unknown" if judge["cost_per_1000"] is None else _cost(judge),
                )
            ),
        )
        for judge in _judges_and_panels(result)
    ]


def _judges_and_panels(result: Row) -> list[Row]:
    return [*result["judges"], *result.get("panels", ())]


def _bar(label: str, estimate: Row, window: ScaleWindow, shade: tuple[float, float]) -> tuple[str, str, Markup]:
    value, low, high = estimate["value"], estimate.get("low"), estimate.get("high")
    if value is None:
        return label, estimate.get("reason", ""), Markup("")
    text = f"{share(value)} {span(low, high, shares=True)}" if low is not None else share(value)
    return label, text, interval_cell(window, value, low, high, shade=shade)


def _cost(judge: Row) -> str:
    """Return the cost; the prices of bots have no currency in Confab."""
    return f"cost {judge['cost_per_1000']:,.2f} in the currency of the bot’s prices"


def judges_table(result: Row) -> NamedTable:
    """Return the table with a row for each judge."""
    return declared_table(
        "judges",
        "Comparison of judges",
        _judges_and_panels(result),
        ("Judge", lambda judge: Cell(judge["title"])),
        ("Can replace a rater", lambda judge: Cell(VERDICTS[judge["verdict"]])),
        ("Scored", lambda judge: count_cell(judge["n"])),
        (
            "Share of rated items",
            lambda judge: share_cell(judge["n_scored"] / judge["n_rated"] if judge.get("n_rated") else None),
        ),
        ("Rated items needed", lambda judge: count_cell(judge["alternative_test"].get("n_needed"))),
        (["Agreement", "Agreement, 95 %"], lambda judge: _estimate(judge["agreement"])),
        (["Winning rate", "Advantage"], lambda judge: _of_test(judge["alternative_test"])),
        *(([title, f"{title}, 95 %"], _bias(name)) for name, title in BIASES.items()),
        (["Same on repetition", "Same, 95 %"], _consistency),
        (
            "Cost per 1,000, currency of the bot’s prices",
            lambda judge: number_cell(judge["cost_per_1000"], 2, "price unknown"),
        ),
        ("Seconds per 1,000", lambda judge: number_cell(judge["seconds_per_1000"], 0)),
        ("Model", lambda judge: Cell(judge["model"])),
        ("Prompt", lambda judge: Cell(judge["prompt"][:8])),
        method=(
            "Agreement: Spearman’s coefficient with the mean rating, or Krippendorff’s alpha on a two-point scale. "
            "Winning rate: share of raters that the judge can replace according to the alternative-annotator test; "
            ".5 is needed. Advantage: share of instances where it agrees with the other raters at least as well as a "
            "rater does. Biases: preference for the first position; partial rank correlations with length and "
            "markup, controlling for human ratings; score minus rating for models of its own family. Prompt: version "
            "of the prompt. A panel combines all judges; its cost is the sum of theirs."
        ),
    )


def _estimate(estimate: Row, *, shares: bool = True) -> list[Cell]:
    cell, reason = share_cell if shares else number_cell, estimate.get("reason", "")
    return [
        cell(estimate["value"], 2, reason),
        span_cell(estimate["low"], estimate["high"], shares=shares, reason=reason),
    ]


def _bias(name: str) -> Callable[[Row], list[Cell]]:
    return lambda judge: _estimate(judge["biases"][name], shares=name != "family")


def _of_test(test: Row) -> list[Cell]:
    return [share_cell(test[name], 2, test.get("reason", "")) for name in ("winning_rate", "advantage")]


def _consistency(judge: Row) -> list[Cell]:
    estimate = judge["consistency"]["same"] if judge["consistency"] else {"mean": None, "low": None, "high": None}
    return _estimate({**estimate, "value": estimate["mean"], "reason": judge["consistency_reason"]})


def detail_tables(result: Row) -> list[NamedTable]:
    """Return the tables of details: raters, confusion, effective number."""
    judges = _judges_and_panels(result)
    raters = declared_table(
        "raters",
        "Alternative-annotator test by rater",
        [(judge["title"], rater) for judge in judges for rater in judge["alternative_test"]["annotators"]],
        ("Judge", lambda row: Cell(row[0])),
        ("Rater", lambda row: Cell(row[1]["annotator"])),
        ("Instances", lambda row: count_cell(row[1]["n"])),
        ("Judge at least as good", lambda row: share_cell(row[1]["advantage"])),
        ("p, corrected", lambda row: p_cell(row[1]["q"], row[1].get("reason", ""))),
        method=(
            "p of the hypothesis that the judge is worse than this rater by at least ε. The judge wins at .05 or less."
        ),
    )
    confusion = declared_table(
        "confusion",
        "Human ratings and judge scores",
        [
            (judge["title"], human_point, its, n)
            for judge in judges
            for human_point, counts in zip(judge["confusion"]["points"], judge["confusion"]["counts"], strict=True)
            for its, n in zip(judge["confusion"]["points"], counts, strict=True)
            if n
        ],
        ("Judge", lambda row: Cell(row[0])),
        ("Human rating", lambda row: number_cell(row[1], 0)),
        ("Nearest point of the judge", lambda row: number_cell(row[2], 0)),
        ("Ratings", lambda row: count_cell(row[3])),
    )
    worth = declared_table(
        "worth",
        "Gain from judge scores",
        [
            (judge["title"], SOURCES[source], bot or "–", row)
            for judge in judges
            for source, means in judge["worth"].items()
            for bot, row in means["bots"].items()
        ],
        ("Judge", lambda row: Cell(row[0])),
        ("Instances without a rating", lambda row: Cell(row[1])),
        ("Bot", lambda row: Cell(row[2])),
        ("Mean rating", lambda row: number_cell(row[3]["ratings_mean"])),
        ("90 %", lambda row: span_cell(row[3]["ratings_low"], row[3]["ratings_high"])),
        ("With the judge", lambda row: number_cell(row[3]["mean"], 2, reason_text(row[3].get("reason")))),
        ("With the judge, 90 %", lambda row: span_cell(row[3]["low"], row[3]["high"])),
        ("Ratings saved", lambda row: Cell(percent(row[3]["saved"]), raw=(row[3]["saved"],))),
        ("Shift, standard errors", lambda row: number_cell(row[3]["shift"], 1)),
        method=" ".join(means["sentence"] for judge in judges for means in judge["worth"].values())
        + (
            " Prediction-powered means (PPI++) are valid if rated and unrated instances come from the same "
            "population. A shift beyond ±2.5 indicates that they do not, for example with simulated chats."
        ),
    )
    return [table for table in (raters, confusion, worth) if table.table.rows]
