"""Courses over turns: the best and worst conversations, and bots that differ in one trait of their making."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from django.utils.translation import gettext as _

from evaluation.columns import Column
from evaluation.metrics.registry import metric_list
from evaluation.printing import figure, share, span
from evaluation.stats.compare import holm
from evaluation.stats.correlation import is_constant
from evaluation.stats.trajectories import LEVEL, N_EXTREME, Extremes, course, extremes
from evaluation.stats.welch import welch
from webapp.conversations.models import Turn
from webapp.dashboard import counts
from webapp.dashboard.analysis.study_data import StudyData
from webapp.dashboard.plots.lines import Group, Panel, lines_figure
from webapp.dashboard.wording.sections import Section, digits_for, listed
from webapp.runs.models import MetricResult
from webapp.runs.selectors.metrics import versions_current

SEED = 2019
"""Of the draw among conversations with the score at a group's border."""
VOTES = "votes"
BEST_WORST = (VOTES, "words_user", "sentiment_user", "word_coherence_average_user_bot")
TRAIT = ("words_user", "laughter_user", "word_coherence_average_user_bot", "sentiment_user")
_TRAITS = ("EI", "persona")
"""Factors whose levels are compared turn by turn, the first that the bots carry."""
_MOST_IDS = 1000
MOST_BY_TRAIT = 5000
"""Of more conversations so many are drawn for the comparison of traits."""

Rows = dict[str, list[float | None]]
"""Values by exchange, by conversation."""
Groups = Mapping[str, Sequence[str]]
"""Conversations by the title of their group."""


def trajectories_section(data: StudyData) -> Section:
    """Figures 3 and 4 of the paper on this study."""
    section = Section("trajectories", _("How conversations unfold"))
    _best_and_worst(data, section)
    _by_trait(data, section)
    return section


def best_and_worst(data: StudyData) -> tuple[Groups, Extremes]:
    """The conversations rated highest and lowest by the headline, controls left out; no groups where undefined."""
    frame = data.per_conversation
    controls = {bot for bot, info in data.bots.items() if info.is_control}
    frame = frame[~frame["bot"].isin(controls)]
    found = extremes(frame[data.headline.key].to_numpy(), N_EXTREME, seed=SEED)
    if found.lowest_best is None or found.highest_worst is None:
        return {}, found
    ids = frame.index.to_numpy()
    best, worst = list(ids[found.best]), list(ids[found.worst])
    titles = (_("best {n}").format(n=len(best)), _("worst {n}").format(n=len(worst)))
    return dict(zip(titles, (best, worst), strict=True)), found


def _best_and_worst(data: StudyData, section: Section) -> None:
    groups, found = best_and_worst(data)
    if found.lowest_best is None or found.highest_worst is None:
        section.missing.append(_("Best and worst conversations: {why}.").format(why=found.reason))
        return
    values = turn_values(data, [pk for ids in groups.values() for pk in ids], BEST_WORST)
    panels = _panels(data, "best-worst", BEST_WORST, values, groups)
    digits = digits_for(data.headline.low, data.headline.high)
    section.points.extend(_statements(BEST_WORST, panels, values, groups))
    section.figures.append(
        lines_figure(
            panels,
            id="best-worst",
            title=_("What sets the best conversations apart?"),
            method=_(
                "The {chats} rated highest and the {n} rated lowest by {name} ({high} and above, {low} "
                "and below), controls left out; mean over those that reach the exchange, 90 % intervals."
            ).format(
                chats=counts.conversations(len(next(iter(groups.values())))),
                n=len(next(iter(groups.values()))),
                name=data.headline.title.lower(),
                high=figure(found.lowest_best, digits),
                low=figure(found.highest_worst, digits),
            ),
            note_lead=_verdict(BEST_WORST, panels, values, groups),
            note=_(
                "The rows of figures under each plot say how many conversations a point stands for; people who "
                "go on are not like those who leave. {ties}"
            ).format(ties=_ties(found.n_tied)),
            x_title=_("exchange"),
        )
    )
    if found.reason:
        section.missing.append(f"{found.reason[0].upper()}{found.reason[1:]}.")


def _ties(tied: tuple[int, int]) -> str:
    if max(tied) < 2:
        return ""
    return _("Ties at the borders ({best} and {worst}) were drawn by seed {seed}.").format(
        best=tied[0], worst=counts.conversations(tied[1]), seed=SEED
    )


def by_trait(data: StudyData) -> tuple[str, Groups, bool]:
    """The trait whose levels are compared ("" for none), rated conversations by level, whether they are drawn."""
    factors = _by_lower(data)
    name = next((trait for trait in _TRAITS if trait in factors), "")
    if not name:
        return "", {}, False
    levels, frame = factors[name], data.per_conversation
    drawn = len(frame) > MOST_BY_TRAIT
    if drawn:
        frame = frame.sample(MOST_BY_TRAIT, random_state=SEED)
    groups = {
        level: [
            pk
            for pk, bot in zip(frame.index, frame["bot"], strict=True)
            if levels.get(bot) == level
        ]
        for level in sorted(set(levels.values()), key=lambda level: (level != "plain", level))
    }
    return name, dict([(level, ids) for level, ids in groups.items() if ids][:3]), drawn


def _by_trait(data: StudyData, section: Section) -> None:
    name, groups, drawn = by_trait(data)
    if not name:
        section.missing.append(
            _(
                "Plain against EI: no bot here is known to be one or the other. A table of bots with a column "
                "“EI” (plain, EI) would tell."
            )
        )
        return
    if len(groups) < 2:
        section.missing.append(
            _("{trait}: only one kind of bot has rated conversations.").format(trait=name)
        )
        return
    values = turn_values(data, [pk for ids in groups.values() for pk in ids], TRAIT)
    panels = _panels(data, "by-trait", TRAIT, values, groups)
    section.points.extend(_statements(TRAIT, panels, values, groups))
    section.figures.append(
        lines_figure(
            panels,
            id="by-trait",
            title=_("Does “{trait}” change how people talk?").format(trait=name),
            method=_(
                "Rated conversations by the bot’s {trait}; mean and 90 % interval.{drawn}"
            ).format(
                trait=name,
                drawn=_(" {n} conversations drawn by seed {seed}.").format(
                    n=MOST_BY_TRAIT, seed=SEED
                )
                if drawn
                else "",
            ),
            note_lead=_verdict(TRAIT, panels, values, groups),
            note=_(
                "Conversations are the unit, so bots with more of them weigh more; a difference here may be "
                "that of single bots."
            ),
            x_title=_("exchange"),
        )
    )


def _by_lower(data: StudyData) -> dict[str, dict[str, str]]:
    """Factors by the names looked for, whatever the case of the researcher's columns."""
    wanted = {trait.lower(): trait for trait in _TRAITS}
    return {wanted.get(name.lower(), name): levels for name, levels in data.factors.items()}


def _panels(
    data: StudyData,
    figure_id: str,
    columns: Sequence[str],
    values: Mapping[str, Rows],
    groups: Groups,
) -> list[Panel]:
    panels = []
    for name in columns:
        title = column_title(name)
        rows = values.get(name, {})
        if not any(value is not None for row in rows.values() for value in row):
            why = (
                _("nobody voted")
                if name == VOTES
                else _("not computed yet: run `manage.py compute_metrics --study {key}`").format(
                    key=data.study.key
                )
            )
            panels.append(Panel(title, [], why))
            continue
        panels.append(
            Panel(
                title,
                [
                    Group(
                        group,
                        course([rows.get(pk, []) for pk in ids]),
                        partial(data.point_link, figure_id, name, number),
                    )
                    for number, (group, ids) in enumerate(groups.items())
                ],
            )
        )
    return panels


def column_title(name: str) -> str:
    """What a course is of."""
    if name == VOTES:
        return _("Votes on replies, up minus down")
    declared = _declared()
    return declared[name].title if name in declared else name


def _declared() -> dict[str, Column]:
    return {
        column.name: column
        for metric in metric_list()
        for column in metric.columns
        if column.level == "turn"
    }


def _statements(
    columns: Sequence[str], panels: Sequence[Panel], values: Mapping[str, Rows], groups: Groups
) -> list[str]:
    """How two groups differ in the mean of a conversation, and at how many exchanges."""
    said = []
    for name, panel in zip(columns, panels, strict=True):
        if panel.missing or len(panel.groups) != 2:
            continue
        means = [_means(values[name], ids) for ids in groups.values()]
        # Rare things such as laughter need more digits than the usual two.
        digits = 2 if max(abs(float(m.mean())) for m in means if len(m)) >= 0.05 else 4
        courses = [group.course for group in panel.groups]
        n = min(len(found.n) for found in courses)
        first, second = courses
        apart = (first.low[:n] > second.high[:n]) | (first.high[:n] < second.low[:n])
        both = np.isfinite(first.low[:n]) & np.isfinite(second.low[:n])
        said.append(
            _(
                "{title}: {a} ({first}), {b} ({second}){gap}; intervals apart at {n} of {all} exchanges."
            ).format(
                title=panel.title,
                a=figure(means[0].mean(), digits),
                b=figure(means[1].mean(), digits),
                first=panel.groups[0].title,
                second=panel.groups[1].title,
                gap=_gap(means[0], means[1], digits),
                n=int(apart.sum()),
                all=int(both.sum()),
            )
        )
    return said


def _verdict(
    columns: Sequence[str], panels: Sequence[Panel], values: Mapping[str, Rows], groups: Groups
) -> str:
    """One sentence: in which measures two groups differ beyond chance, and in which nothing is shown."""
    if len(groups) != 2:
        return ""
    (first, second), tests = groups, []
    for name, panel in zip(columns, panels, strict=True):
        if panel.missing:
            continue
        x, y = (_means(values[name], ids) for ids in groups.values())
        varies = min(len(x), len(y)) > 1 and not (is_constant(x) and is_constant(y))
        tests.append((name, x, y, welch(x, y, LEVEL).p if varies else None))
    told: dict[str, list[str]] = {"higher": [], "lower": [], "none": []}
    corrected = holm([p for *_rest, p in tests])
    for (name, x, y, _p), p in zip(tests, corrected, strict=True):
        differs = p is not None and p < 1 - LEVEL
        way = "none" if not differs else "higher" if x.mean() > y.mean() else "lower"
        told[way].append(f"“{column_title(name).lower()}”")
    parts = [
        words.format(listed(told[way]))
        for way, words in (
            ("higher", _("higher in {}")),
            ("lower", _("lower in {}")),
            ("none", _("no difference shown in {}")),
        )
        if told[way]
    ]
    if not parts:
        return ""
    return _(
        "{first} against {second}: {found} (means of conversations, Welch, p < {alpha} by Holm’s correction)."
    ).format(
        first=first[:1].upper() + first[1:],
        second=second,
        found="; ".join(parts),
        alpha=share(1 - LEVEL),
    )


def _means(rows: Rows, ids: Sequence[str]) -> np.ndarray:
    """The mean of each conversation that has a value."""
    known = [[v for v in rows.get(pk, []) if v is not None] for pk in ids]
    return np.array([sum(row) / len(row) for row in known if row])


def _gap(first: np.ndarray, second: np.ndarray, digits: int) -> str:
    """Difference of the groups' means of conversations, Welch's interval."""
    if min(len(first), len(second)) < 2 or is_constant(first) or is_constant(second):
        return ""
    found = welch(first, second, LEVEL)
    return _(", difference {gap} {ends}").format(
        gap=figure(float(first.mean() - second.mean()), digits),
        ends=span(found.low, found.high, digits),
    )


def turn_values(data: StudyData, ids: Sequence[str], columns: Sequence[str]) -> dict[str, Rows]:
    """Per column and conversation the values by exchange, the first one first.

    An exchange begins with a participant's first message after the bot's turn; several values within it are
    averaged. What a bot says before anybody has written belongs to none. A column that nobody has a value
    of is left out; so are votes where nobody voted, for that is no indifference.
    """
    wanted = set(ids)
    # Many ids do not fit into one query, and several queries would grow with the study.
    which: Any = list(ids) if len(ids) <= _MOST_IDS else data.conversations.values("pk")
    found: dict[str, Rows] = {name: {} for name in columns}
    places: dict[str, list[int]] = {}
    spoke: dict[str, str] = {}
    turns = Turn.objects.filter(conversation__in=which).order_by("conversation", "index")
    for pk, speaker, vote in turns.values_list("conversation_id", "speaker", "vote").iterator():
        key = str(pk)
        if key not in wanted:
            continue
        own = places.setdefault(key, [])
        human = speaker == Turn.Speaker.HUMAN
        at = own[-1] if own else 0
        own.append(at + 1 if human and spoke.get(key) != speaker else at)
        spoke[key] = speaker
        if VOTES in found:
            found[VOTES].setdefault(key, []).append(None if human else float(vote))
    metrics = [
        m for m in metric_list() if {c.name for c in m.columns if c.level == "turn"} & set(columns)
    ]
    results = MetricResult.objects.filter(
        conversation__in=which, metric__in=list(versions_current(metrics).values())
    )
    for pk, values in results.values_list("conversation_id", "turns").iterator():
        if str(pk) in wanted:
            for name in values.keys() & found.keys():
                found[name][str(pk)] = values[name]
    return {
        name: {key: _by_exchange(places.get(key, []), row) for key, row in rows.items()}
        for name, rows in found.items()
        if any(
            value if name == VOTES else value is not None for row in rows.values() for value in row
        )
    }


def _by_exchange(places: Sequence[int], row: Sequence[float | None]) -> list[float | None]:
    sums: dict[int, list[float]] = {}
    for place, value in zip(places, row, strict=False):
        if place and value is not None:
            sums.setdefault(place, []).append(value)
    last = max(places, default=0)
    return [
        sum(sums[place]) / len(sums[place]) if place in sums else None
        for place in range(1, last + 1)
    ]
