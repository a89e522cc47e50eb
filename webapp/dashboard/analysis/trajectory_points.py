"""The conversations behind one point of a trajectory."""

from __future__ import annotations

from collections.abc import Callable

from django.utils.translation import gettext as _

from webapp.dashboard import counts
from webapp.dashboard.analysis.study_data import StudyData
from webapp.dashboard.analysis.trajectories import (
    BEST_WORST,
    TRAIT,
    best_and_worst,
    by_trait,
    column_title,
    turn_values,
)
from webapp.dashboard.plots.figure import Cell, Header, Table
from webapp.dashboard.wording.sections import NamedTable, digits_for, number_cell

_FIGURES = {
    "best-worst": (BEST_WORST, lambda data: best_and_worst(data)[0]),
    "by-trait": (TRAIT, lambda data: by_trait(data)[1]),
}
MOST = 500
"""So many are listed."""


def behind_point(
    data: StudyData,
    figure: str,
    column: str,
    group: int,
    exchange: int,
    link: Callable[[str], str],
) -> NamedTable | None:
    """List the conversations that a point is the mean of, highest value first; None for no such point.

    Args:
        figure, column, group: which course; the group by its place in the figure.
        exchange: from 1.
        link: address of a conversation.
    """
    columns, groups_of = _FIGURES.get(figure, ((), None))
    if groups_of is None or column not in columns:
        return None
    groups = groups_of(data)
    if group >= len(groups):
        return None
    title, ids = list(groups.items())[group]
    rows = turn_values(data, ids, [column]).get(column, {})
    found = {
        pk: value
        for pk in ids
        if len(rows.get(pk, [])) >= exchange > 0 and (value := rows[pk][exchange - 1]) is not None
    }
    if not found:
        return None
    digits = digits_for(data.headline.low, data.headline.high)
    bots = data.per_conversation["bot"].to_dict()
    ratings = data.per_conversation[data.headline.key].to_dict()
    ordered = sorted(found, key=lambda pk: -found[pk])
    lines = []
    for pk in ordered[:MOST]:
        info = data.bots[bots[pk]]
        lines.append(
            [
                Cell(pk[:8], href=link(pk)),
                Cell(info.title, slot=info.slot, hollow=info.is_control),
                number_cell(ratings[pk], digits),
                number_cell(found[pk]),
            ]
        )
    headers = [Header(_("Conversation")), Header(_("Bot"))]
    headers += [
        Header(data.headline.title, numeric=True),
        Header(column_title(column), numeric=True),
    ]
    return NamedTable(
        "behind",
        _("{measure}, exchange {n}: {group}").format(
            measure=column_title(column), n=exchange, group=title
        ),
        Table(headers, lines),
        method=_("{chats}, the highest values first.").format(
            chats=counts.conversations(len(found))
        ),
        note=_("The first {n} are listed.").format(n=MOST) if len(found) > MOST else "",
    )
