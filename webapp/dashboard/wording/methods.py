"""Methods of the analysis: the methods paragraph, versions and identities of everything used."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from chatbots.release import package_version, release
from evaluation.analysis.comparisons import LEVEL
from evaluation.analysis.trajectories import SEED
from evaluation.printing import share
from evaluation.ratings import MEAN_KEY
from evaluation.stats.compare import ORDER_ALPHA
from evaluation.stats.trajectories import N_EXTREME
from evaluation.stats.zscores import MIN_RATINGS
from webapp.bots.models import BotVersion
from webapp.dashboard import counts
from webapp.dashboard.plots.figure import Cell, Header, Table
from webapp.dashboard.wording.hybrid_methods import hybrid_methods
from webapp.dashboard.wording.sections import NamedTable, Section
from webapp.quality.flags.base import flag_kinds
from webapp.ratings.selectors import title_as_given
from webapp.results.study_data import StudyFrame
from webapp.runs.models import HybridFit, MetricVersion
from webapp.studies.models import Dimension
from webapp.studies.places import is_collecting
from webapp.studies.selectors import judges_items

_PACKAGES = ("numpy", "scipy", "pandas", "django", "torch", "transformers")
_DIGEST = 12
_CUT = 60


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of the numbers of a study.

    Attributes:
        bots: versions of the bots in its conversations.
        metrics: versions with results for its conversations, each with whether it is the current one.
        fits: fits of the hybrid metric, as pages show them.
        questions: questions of the rubric, as participants saw them.
    """

    bots: Sequence[BotVersion]
    metrics: Sequence[tuple[MetricVersion, bool]]
    fits: Sequence[HybridFit]
    questions: Sequence[Dimension]


def methods_section(frame: StudyFrame, sources: Sources) -> Section:
    """Write sentences that can go into a paper, and the tables that make their numbers traceable."""
    section = Section("methods", "Data and methods")
    section.lead.extend([_data_sentence(frame), _statistics_sentence(frame)])
    section.lead.extend([*hybrid_methods(sources.fits), _software_sentence()])
    section.tables.extend([_bots(frame, sources.bots), _metrics(sources.metrics)])
    if sources.fits:
        section.tables.append(_fits(sources.fits))
    section.tables.extend([_questions(sources.questions), _environment()])
    return section


def pair_methods_section(frame: StudyFrame, sources: Sources) -> Section:
    """Return the same for a study whose people compare pairs."""
    section = Section("methods", "Data and methods")
    told = (
        "Study {key} (protocol {protocol}, version {version}) has {ratings} of pairs of bots by {people}, on "
        "{dimensions}. Intervals of shares are {intervals}. Which of two bots is preferred is told by {test}, "
        "corrected by Holm (1979) for all pairs of a question at p < {alpha}. Strengths are those "
        "of a Bradley–Terry model with ties (Davidson, 1970), with raters as units and comparisons of two bots "
        "corrected by Holm. Agreement is the median of Cohen’s κ over pairs of raters with {shared} shared items "
        "or more."
    ).format(
        intervals="always-valid, over raters and items, as the study still collects"
        if is_collecting(frame.study)
        else "Wilson’s, with the effective number of judgements of raters as clusters (Korn and Graubard, 1998)",
        test="an always-valid test (normal mixture; Robbins, 1970), as the study still collects"
        if is_collecting(frame.study)
        else (
            "a fixed-sample test of the mean preference with errors clustered by rater and by what was compared (CR2; "
            "Bell and McCaffrey, 2002)"
        ),
        alpha=share(ORDER_ALPHA),
        shared=frame.study.values.judging.kappa_items,
        key=frame.study.key,
        protocol=frame.study.protocol,
        version=frame.study.version.number,
        ratings=counts.ratings(frame.facts.n_ratings),
        people=counts.people(frame.facts.n_raters),
        dimensions=counts.dimensions(len(frame.dimensions)),
    )
    if frame.include_synthetic:
        told += " " + "Scripted participants are counted."
    section.lead += [told, _software_sentence()]
    section.tables += [_bots(frame, sources.bots), _questions(sources.questions), _environment()]
    return section


def _data_sentence(frame: StudyFrame) -> str:
    n_raters = frame.facts.n_raters
    controls = [frame.title(bot) for bot in frame.controls]
    words = (
        (
            "Study {key} (protocol {protocol}, rubric {rubric}, version {version}) has {ratings} of {chats} "
            "with {bots} by {people}, on {dimensions}."
        )
        if n_raters
        else (
            "Study {key} (protocol {protocol}, rubric {rubric}, version {version}) has {ratings} of {chats} "
            "with {bots} by people who are not named in the data, on {dimensions}."
        )
    )
    said = words.format(
        key=frame.study.key,
        protocol="import"
        if frame.study.is_imported
        else f"{frame.study.protocol}, bots {frame.study.rule}",
        rubric=frame.study.rubric.name,
        version=frame.study.rubric.version,
        ratings=counts.ratings(frame.facts.n_ratings),
        chats=(counts.items if judges_items(frame.study) else counts.conversations)(
            frame.facts.n_conversations
        ),
        bots=counts.bots(len(frame.rated_bots)),
        people=counts.people(n_raters),
        dimensions=counts.dimensions(len(frame.dimensions)),
    )
    if frame.headline.key == MEAN_KEY:
        said += (
            " "
            + "No question is about the whole, so bots are ranked by the mean of all dimensions (complete ratings "
            "only)."
        )
    if controls:
        said += " " + (
            "Controls made to be bad ({names}) are shown hollow. They are left out of rankings, models and "
            "correlations with metrics; they are in the correlations of questions with one another."
        ).format(names=", ".join(controls))
    if frame.include_synthetic:
        said += " " + "Scripted participants are counted."
    if frame.without:
        rules = " ".join(str(flag_kinds.get(name).rule) for name in frame.without)
        said += " " + f"People with one of these flags are left out: {rules}"
    return said


def _statistics_sentence(frame: StudyFrame) -> str:
    return (
        f"Intervals of means are {round(LEVEL * 100)} % score intervals of a quasi-likelihood with the variance "
        "function (μ − a)(b − μ) on a scale from a to b (Papke and Wooldridge, 1996), Wilson’s for shares. Their "
        "variance is clustered by rater (by conversation where raters are not named) with the correction CR2 and "
        "held against Student’s t with Satterthwaite’s degrees of freedom (Imbens and Kolesár, 2016). Pairs of bots "
        "are compared by generalised least squares: y = μ(bot) + u(rater) + e, with Var(u) = τ² and Var(e) = σ² by "
        "restricted maximum likelihood, and m = M XᵀWy, M = (XᵀWX)⁻¹, W = V⁻¹ (conversations take the place of "
        "raters where these are not named). The errors of m do not rest on that model: they are clustered by rater "
        "with the correction CR2, M Σ XᵀWAeeᵀAᵀWX M (Bell and McCaffrey, 2002; Pustejovsky and Tipton, 2018), and "
        "differences are held against Student’s t with Satterthwaite’s degrees of freedom, each bot having a spread "
        "of its own; without repeated raters that is Welch’s test. Where several people rate the same things, the "
        "largest variance over raters, things and both counts (Cameron, Gelbach and Miller, 2011). p-values are "
        f"corrected by Holm (1979) for all pairs at p < {share(ORDER_ALPHA)}. That fixed-sample test decides once a "
        "study is closed or has its planned size; while it collects, confidence sequences of a normal mixture around "
        "the same estimates decide (Robbins, 1970; Waudby-Smith et al., 2024), which hold at all looks together. "
        "The mixed model has bots fixed and raters random (restricted maximum likelihood; Pinheiro and Bates, "
        "2000); the ordinal model has proportional odds (McCullagh, 1980) with errors clustered by rater. Analysis "
        "of variance uses type III sums of squares. Agreement is Krippendorff’s α and intraclass correlations of "
        f"form 1 (Shrout and Fleiss, 1979). Scores on a rater’s own scale take raters with at least {MIN_RATINGS} "
        f"ratings. Trajectories follow Ghandeharioun et al. (2019): the {N_EXTREME} best and worst conversations, "
        f"ties drawn with seed {SEED}. Undefined values are left out of every mean, never counted as 0."
    )


def _software_sentence() -> str:
    return f"Computed with Confab {release()}."


def _bots(frame: StudyFrame, versions: Sequence[BotVersion]) -> NamedTable:
    rows = []
    for found in versions:
        info = frame.bots.get(found.bot_id)
        params = _told(found.params)
        rows.append(
            [
                Cell(
                    found.title,
                    slot=info.slot if info else 0,
                    hollow=bool(info and info.is_control),
                ),
                Cell(found.kind),
                Cell(found.version),
                Cell(found.key[:_DIGEST]),
                Cell(params),
            ]
        )
    titles = ("Bot", "Kind", "Version", "Identity", "Parameters")
    headers = [Header(title) for title in titles]
    return NamedTable("bot-identities", "Bots as they were", Table(headers, rows))


def _metrics(versions: Sequence[tuple[MetricVersion, bool]]) -> NamedTable:
    rows = [
        [
            Cell(found.name),
            Cell(found.version),
            Cell(found.key[:_DIGEST]),
            Cell("used here" if is_current else "an earlier version, not used"),
            Cell(_told(found.params)),
        ]
        for found, is_current in versions
    ]
    if not rows:
        rows = [[Cell("–", why="no metric is computed yet"), *[Cell("–")] * 4]]
    titles = ("Metric", "Version", "Identity", "Use", "Parameters")
    headers = [Header(title) for title in titles]
    return NamedTable("metric-identities", "Metrics", Table(headers, rows))


def _told(params: Mapping[str, Any], before: str = "") -> str:
    """Write parameters in one line, long digests cut: the identity beside them covers all of it."""
    parts = []
    for key, value in sorted(params.items()):
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            parts.append(_told(value, f"{name}."))
        else:
            text = str(value)
            parts.append(f"{name}={text if len(text) <= _CUT else text[:_DIGEST] + '…'}")
    return ", ".join(part for part in parts if part)


def _fits(fits: Sequence[HybridFit]) -> NamedTable:
    rows = []
    for fit in fits:
        identity = (fit.result or {}).get("identity", {})
        asked = fit.request
        rows.append(
            [
                Cell(str(fit.pk)),
                Cell(str(asked.get("preset"))),
                Cell(", ".join(asked.get("targets") or ())),
                Cell(str(asked.get("intercept"))),
                Cell(", ".join(asked.get("exclude_bots") or ()) or "–"),
                Cell(str(identity.get("version", "–"))),
                Cell(f"{fit.ended_at:%Y-%m-%d %H:%M} UTC" if fit.ended_at else "–"),
            ]
        )
    titles = ("Fit", "Preset", "Target", "Intercept", "Bots left out")
    headers = [Header(title) for title in (*titles, "Version", "Made")]
    return NamedTable("fit-identities", "Hybrid fits", Table(headers, rows))


def _questions(questions: Sequence[Dimension]) -> NamedTable:
    rows = [
        [
            Cell(title_as_given(dimension)),
            Cell(dimension.question),
            Cell(f"{dimension.scale[0]:g} … {dimension.scale[1]:g}"),
            Cell(" … ".join(filter(None, (dimension.low_label, dimension.high_label))) or "–"),
        ]
        for dimension in questions
    ]
    titles = ("Dimension", "Question", "Scale", "Ends")
    headers = [Header(title) for title in titles]
    return NamedTable("questions", "What raters were asked", Table(headers, rows))


def _environment() -> NamedTable:
    rows = [
        [Cell("Confab"), Cell(release())],
        [Cell("Python"), Cell(platform.python_version())],
    ]
    for package in _PACKAGES:
        version = package_version(package)
        rows.append([Cell(package), Cell(version) if version else Cell("–", why="not installed")])
    rows.append([Cell("Made"), Cell(f"{timezone.now():%Y-%m-%d %H:%M} UTC")])
    return NamedTable(
        "environment", "Software", Table([Header("Package"), Header("Version")], rows)
    )
