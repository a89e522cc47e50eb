"""The whole analysis of a study, part by part, for a page of its own."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from django.contrib.staticfiles import finders
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from evaluation.analysis.agreement import RaterAgreement
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.printing import percent, share
from webapp.dashboard import counts
from webapp.dashboard.csvs import table_csv
from webapp.dashboard.leaving_out import left_out_sentence
from webapp.dashboard.parts import (
    SECTIONS,
    hybrid_part,
    methods_part,
    pair_methods_part,
    protocols_part,
    raters_part,
)
from webapp.dashboard.plots.figure import Figure, Table
from webapp.dashboard.selectors import study_cards
from webapp.dashboard.wording.comparisons import headline_sentence, ratings_section
from webapp.dashboard.wording.hybrid import target_in_words
from webapp.dashboard.wording.hybrid_tables import intercept_in_words
from webapp.dashboard.wording.pairs import pairs_section
from webapp.dashboard.wording.sections import NamedTable, Section
from webapp.ratings.pairs import compares_pairs
from webapp.ratings.selectors import study_dimensions
from webapp.ratings.summary import StudySummary, bot_summary
from webapp.results.making import StudyComparisons
from webapp.results.pairs import study_pairs
from webapp.results.study_data import Facts, StudyFrame, study_frame
from webapp.runs.selectors.fits import fit_leading
from webapp.studies.models import Study
from webapp.studies.selectors import judges_items

_STYLES = ("core/confab.css", "dashboard/dashboard.css", "dashboard/report.css")
_SCRIPT = "dashboard/report.js"
LONG = 80
"""Tables with more rows stay folded in print; their CSV is in the file."""
SHORT = 16
"""Tables with at most so many rows stand open."""


@dataclass(frozen=True, slots=True)
class Part:
    """A figure or table as the report lays it out."""

    id: str
    title: str
    method: str
    note_lead: str
    note: str
    table: Table
    csv: str
    figure: Figure | None = None

    @property
    def is_open(self) -> bool:
        """Whether the table stands without being asked for."""
        return self.figure is None and len(self.table.rows) <= SHORT

    @property
    def is_long(self) -> bool:
        """Whether it stays folded in print."""
        return len(self.table.rows) > LONG

    @property
    def wide(self) -> SafeString:
        """The drawing for wide columns, as a picture."""
        return _still(self.figure.wide if self.figure else "")

    @property
    def narrow(self) -> list[tuple[str, SafeString]]:
        """The drawings for narrow columns with their titles."""
        found = self.figure.narrow if self.figure else []
        return [(variant.title, _still(variant.svg)) for variant in found]


@dataclass(slots=True)
class Report:
    """What the page shows."""

    frame: StudyFrame
    made: datetime
    summary: list[str] = field(default_factory=list)
    numbers: list[tuple[str, str]] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)


ResultOf = Callable[[str], Any]
"""Gives the result of a part of the analysis by its name, as `webapp.results.making.PARTS` has it."""
Step = tuple[str, Callable[[], Section]]


def report_steps(frame: StudyFrame, result: ResultOf) -> Iterator[Step]:
    """Yield title and maker of each section, in order, so that whoever calls them can show how far it is."""

    def section(part: str) -> Callable[[], Section]:
        return lambda: SECTIONS[part](frame, result(part))

    yield (
        _("ratings"),
        lambda: ratings_section(frame, _summary(frame, result), result("answers").headline),
    )
    yield _("comparisons"), section("comparisons")
    if judges_items(frame.study):
        yield _("items"), section("items")
    told = protocols_part(
        frame.study,
        study_pairs(frame.study, include_synthetic=frame.include_synthetic, without=frame.without),
    )
    if told is not None:
        yield _("one turn and chats"), lambda: told
    yield _("models"), section("models")
    yield _("raters"), lambda: raters_part(frame, result("raters"), names=False)
    yield _("hybrid metric"), lambda: hybrid_part(frame)
    yield _("trajectories"), section("trajectories")
    yield _("correlations"), section("correlations")
    yield _("methods"), lambda: methods_part(frame)


def report_of(frame: StudyFrame, result: ResultOf, sections: list[Section]) -> Report:
    """Put the sections under a summary in words and four numbers."""
    found = Report(frame, timezone.now(), sections=sections)
    found.summary = _in_short(frame, _summary(frame, result), sections)
    found.numbers = _numbers(frame, result("raters").agreement)
    return found


def _summary(frame: StudyFrame, result: ResultOf) -> StudySummary:
    found: StudyComparisons = result("comparisons")
    return bot_summary(
        frame.study,
        include_synthetic=frame.include_synthetic,
        without=frame.without,
        found=(found.means, found.compared),
    )


def _in_short(frame: StudyFrame, summary: StudySummary, sections: list[Section]) -> list[str]:
    n_people = frame.facts.n_raters
    first = (
        _("{people} rated {chats} with {bots} on {dimensions}.")
        if n_people
        else _("Ratings of {chats} with {bots} on {dimensions}.")
    )
    counted = counts.conversations
    if judges_items(frame.study):
        first, counted = _("{people} rated {chats} of {bots} on {dimensions}."), counts.items
    first = first.format(
        people=counts.people(n_people),
        chats=counted(frame.facts.n_conversations),
        bots=counts.bots(len(frame.rated_bots)),
        dimensions=counts.dimensions(len(frame.dimensions)),
    )
    compared = next((section for section in sections if section.id == "comparisons"), None)
    lead = compared.lead if compared else []
    left = left_out_sentence(frame.study, frame.without)
    return [first, *([left] if left else []), headline_sentence(frame, summary), *lead]


def _numbers(frame: StudyFrame, agreement: RaterAgreement) -> list[tuple[str, str]]:
    """Return four numbers and what each is."""
    cards = study_cards(
        frame.study, include_synthetic=frame.include_synthetic, without=frame.without
    )
    rated = _("items rated") if judges_items(frame.study) else _("conversations rated")
    numbers = [(f"{frame.facts.n_conversations:,}", rated)]
    numbers.append(_agreement(agreement))
    fit = fit_leading(frame.study, frame.without)
    found: Mapping[str, Any] = (fit.result or {}) if fit is not None else {}
    r = (found.get("bot_level", {}).get("pearson") or {}).get("r")
    if r is not None and found["n_bots"] >= FEW_BOTS:
        what = _("hybrid metric of {target}, r over {bots}, {intercept}").format(
            target=target_in_words(found["target"], [d.key for d in frame.dimensions]),
            bots=counts.bots(found["n_bots"]),
            intercept=intercept_in_words(found),
        )
        numbers.append((share(r), what))
    elif found:
        numbers.append(
            ("–", _("hybrid metric: no r over {bots}").format(bots=counts.bots(found["n_bots"])))
        )
    else:
        numbers.append(("–", _("hybrid metric: not fitted")))
    if cards.left_early is not None:
        numbers.append((percent(cards.left_early), _("left before rating")))
    else:
        n = frame.facts.n_raters
        numbers.append((f"{n:,}" if n else "–", _("raters") if n else _("raters: not named")))
    return numbers


def _agreement(found: RaterAgreement) -> tuple[str, str]:
    if found.same_conversation.value is not None:
        return share(found.same_conversation.value), _("agreement, Krippendorff’s α")
    return share(found.reliability_of_bots.value), _("reliability of the bots’ means, ICC(k)")


def pair_report(
    study: Study, *, include_synthetic: bool = False, without: Sequence[str] = ()
) -> Report | None:
    """Return the report of a study whose people compare pairs; None where nobody has compared any."""
    found = study_pairs(study, include_synthetic=include_synthetic, without=without)
    results = found.results
    if not compares_pairs(study) or results is None:
        return None
    facts = Facts(
        n_ratings=results.n,
        n_raters=results.n_raters,
        n_conversations=results.n_items,
        rated_bots=tuple(one.bot for one in results.strengths.bots),
        dimensions=tuple(one for one in study_dimensions(study) if one.key in found.titles),
        all_dimensions=tuple(study_dimensions(study)),
    )
    frame = study_frame(study, facts, include_synthetic=include_synthetic, without=without)
    section = pairs_section(results, found.titles, frame.bots)
    together = protocols_part(study, found)
    report = Report(frame, timezone.now())
    report.sections = [section, *([together] if together else []), pair_methods_part(frame)]
    headline, *more = [*section.points, *section.lead[1:]] or [""]
    report.summary = [section.lead[0], headline, *more]
    kappa = results.kappas[0].found if results.kappas else None
    report.numbers = [
        (f"{results.n:,}", _("judgements")),
        (f"{results.n_items:,}", _("pairs judged")),
        (
            share(kappa.value) if kappa and kappa.value is not None else "–",
            _("agreement, Cohen’s κ"),
        ),
        (f"{results.n_raters:,}" if results.n_raters else "–", _("raters")),
    ]
    return report


def report_html(report: Report) -> str:
    """Return the report as one file of HTML that loads nothing from outside."""
    style = "\n".join(_read(name) for name in _STYLES)
    script = _read(_SCRIPT)
    return render_to_string(
        "dashboard/report_file.html",
        {
            "report": report,
            "study": report.frame.study,
            "sections": [
                (section, [*map(_part, section.figures), *map(_part, section.tables)])
                for section in report.sections
            ],
            "style": mark_safe(style),  # noqa: S308 - our own file
            "script": mark_safe(script),  # noqa: S308 - our own file
            "policy": f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
            "img-src data:",
        },
    )


def _part(found: Figure | NamedTable) -> Part:
    is_figure = isinstance(found, Figure)
    return Part(
        id=found.id,
        title=found.title,
        method=found.method,
        note_lead=found.note_lead if isinstance(found, Figure) else "",
        note=found.note,
        table=found.table,
        csv=base64.b64encode(table_csv(found.table).encode("utf-8-sig")).decode(),
        figure=found if is_figure else None,  # type: ignore[arg-type]
    )


_MARK = re.compile(r' (?:tabindex="0"|role="img"|aria-label="[^"]*")')


def _still(svg: str) -> SafeString:
    """Prepare a drawing for a page without a script: one picture with a name, its marks out of the tab order."""
    head, found, rest = str(svg).partition(">")
    head = head.replace('role="group"', 'role="img"').replace(' aria-roledescription="plot"', "")
    rest = _MARK.sub("", rest)
    return mark_safe(head + found + rest)  # noqa: S308 - made by the plots, which escape


def _read(name: str) -> str:
    path = finders.find(name)
    if not isinstance(path, str):
        raise FileNotFoundError(f"the static file {name} is missing from this installation")
    return Path(path).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
