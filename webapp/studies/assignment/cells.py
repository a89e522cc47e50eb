"""Cells of a study, each a bot with a condition, and their draw.

The study's rule draws cells instead of bots, fewest completed and open tasks first. Ties are resolved by the tasks of
the bot, then of the levels. Levels that vary within participants come in rounds: all are used once before any is
repeated. Levels that vary between participants stay the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from webapp.studies.conditions import Condition, Conditions, bots_of, condition_key


class BotLoads(dict[str, int]):
    """Number of tasks by bot; `cells` has them by bot and condition key."""

    def __init__(self, bot_ids: Iterable[str]) -> None:
        super().__init__(dict.fromkeys(bot_ids, 0))
        self.cells: Counter[tuple[str, str]] = Counter()

    def add(self, bot_id: str, key: str, n: int) -> None:
        """Count more tasks of a bot.

        Bots that are not counted are ignored.
        """
        if bot_id in self:
            self[bot_id] += n
            self.cells[bot_id, key] += n


@dataclass(frozen=True, slots=True)
class DrawnBot:
    """Bot with its drawn condition, which is empty without factors."""

    bot_id: str
    condition: Condition = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BotCell:
    """Bot with a condition and the condition's key."""

    bot_id: str
    condition: Condition
    key: str


def cells_of(conditions: Conditions, bots: Collection[str]) -> list[BotCell]:
    """Return the cells of the design for these bots."""
    cells = []
    for levels in conditions.combinations():
        condition = conditions.build_condition(levels)
        key = condition_key(condition)
        cells += [BotCell(bot_id, condition, key) for bot_id in bots_of(levels, bots)]
    return cells


def bots_without_room(conditions: Conditions, loads: BotLoads) -> set[str]:
    """Return the bots whose cells are all full."""
    if not conditions.has_quota:
        return set()
    cells = cells_of(conditions, loads)
    return loads.keys() - {cell.bot_id for cell in cells if loads.cells[cell.bot_id, cell.key] < conditions.n_each_cell}


@dataclass
class CellDraw:
    """Cells available to one participant, with counts of their earlier levels.

    Attributes:
        loads: tasks of the study's bots and cells.
        earlier_conditions: conditions of the participant's earlier conversations; `take` adds to them.
        is_limited: True if full cells are not given.
        times: number of times that the participant had each cell, by its bot and condition's key.
    """

    conditions: Conditions
    loads: BotLoads
    earlier_conditions: list[Condition] = field(default_factory=list)
    is_limited: bool = True
    times: Counter[tuple[str, str]] = field(default_factory=Counter)

    def options(self, bots: Collection[str], n: int = 1) -> list[BotCell]:
        """Return the cells with these bots that the participant may get next.

        Args:
            n: number of different bots that they need from now on, at the same levels between participants.
        """
        quota = self.conditions.n_each_cell if self.is_limited else 0
        cells = [
            cell
            for cell in cells_of(self.conditions, bots)
            if self._stays(cell.condition) and not (quota and self.loads.cells[cell.bot_id, cell.key] >= quota)
        ]
        bots_at: defaultdict[tuple[str | None, ...], set[str]] = defaultdict(set)
        for cell in cells:
            bots_at[self._levels(cell.condition, "between")].add(cell.bot_id)
        return [cell for cell in cells if len(bots_at[self._levels(cell.condition, "between")]) >= n]

    def shared(self, first: str, second: str) -> list[BotCell]:
        """Return the first bot's cells whose condition the second can have."""
        cells = self.options((first, second))
        keys = {cell.key for cell in cells if cell.bot_id == second}
        return [cell for cell in cells if cell.bot_id == first and cell.key in keys]

    def ranked(self, cells: Sequence[BotCell], partner: str = "") -> list[tuple[int, BotCell]]:
        """Return the participant's least-used cells, with ranks by load from 0.

        Among equal cells, the least-used levels come first.

        Args:
            partner: a bot that gets the same condition; its load counts too.
        """
        fewest = min(self._count_earlier(cell) for cell in cells)
        fresh = [cell for cell in cells if self._count_earlier(cell) == fewest]
        of_levels: Counter[tuple[str, str]] = Counter()
        for cell in cells_of(self.conditions, self.loads):
            for level in cell.condition.items():
                of_levels[level] += self.loads.cells[cell.bot_id, cell.key]
        by_load = [
            (
                self.loads.cells[cell.bot_id, cell.key] + self.loads.cells[partner, cell.key],
                self.loads[cell.bot_id],
                sum(of_levels[level] for level in cell.condition.items()),
            )
            for cell in fresh
        ]
        rank = {load: number for number, load in enumerate(sorted(set(by_load)))}
        return sorted(
            ((rank[load], cell) for load, cell in zip(by_load, fresh, strict=True)),
            key=lambda ranked_cell: ranked_cell[0],
        )

    def take(self, cell: BotCell) -> DrawnBot:
        """Return the drawn bot, and add its condition to the participant's history."""
        self.earlier_conditions.append(cell.condition)
        return DrawnBot(cell.bot_id, cell.condition)

    def _levels(self, condition: Condition, varies: str) -> tuple[str | None, ...]:
        return tuple(condition.get(factor.key) for factor in self.conditions.factors if factor.varies == varies)

    def _stays(self, condition: Condition) -> bool:
        """Return True if the condition keeps the participant's levels of between-participant factors."""
        for factor in self.conditions.factors:
            levels = {earlier.get(factor.key) for earlier in self.earlier_conditions} & {
                level.key for level in factor.levels
            }
            if factor.varies == "between" and levels and condition[factor.key] not in levels:
                return False
        return True

    def _count_earlier(self, cell: BotCell) -> tuple[int, int, int]:
        """Count the participant's earlier uses of the cell and its levels.

        The cell, its combination of levels, and each level are counted.
        """
        now = self._levels(cell.condition, "within")
        earlier_levels = [self._levels(condition_before, "within") for condition_before in self.earlier_conditions]
        times = self.times[cell.bot_id, cell.key]
        return (
            times,
            earlier_levels.count(now),
            sum(level == current for levels in earlier_levels for level, current in zip(levels, now, strict=True)),
        )
