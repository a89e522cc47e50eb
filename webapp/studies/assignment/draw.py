"""Draw of a participant's next bots or items by the assignment rule."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any, Literal

from django.db.models import Count, F, QuerySet, Window
from django.db.models.functions import RowNumber
from django.utils.translation import gettext_lazy

from chatbots import derive_seed
from evaluation.stats.active_inference import DrawnItem
from webapp.core.errors import Refused
from webapp.studies.assignment.capacity import (
    TaskHistory,
    bot_loads,
    bots_beyond_cap,
    bots_full,
    bots_met,
    bots_refusal,
    task_history,
    with_loads,
)
from webapp.studies.assignment.cases import assignment_case, places_for
from webapp.studies.assignment.cells import BotLoads, CellDraw, DrawnBot
from webapp.studies.assignment.counterbalance import (
    dialogue_history,
    order_drawn,
    pairs_begun,
    pairs_compared,
    replies_balanced,
    replies_given,
    slots_with,
)
from webapp.studies.assignment.rules.base import Candidate, rules
from webapp.studies.attention_checks import Attention
from webapp.studies.helped_draws import helped_draw
from webapp.studies.items import checks_ensure, repeats_ensure
from webapp.studies.models import Item, Participant, Slot, Study, StudyHelper
from webapp.studies.selectors import conversations_unseen, gold_given, items_unseen, replies_of
from webapp.studies.settings import StudyValues
from webapp.studies.start_refusals import ALL_ITEMS_RATED, ALL_PAIRS_RATED, StartRefusal

CHOICE_GONE = gettext_lazy("This chatbot is no longer available. Choose another one.")


@dataclass(frozen=True, slots=True)
class StudyDraw:
    """Draw for one participant.

    The study's row is locked meanwhile, so that counts do not change.

    Attributes:
        values: values of the study's version that the task will follow.
        available: ids of the study's bots that can reply now.
        exclude: bots not to assign now, besides those met before and those that have reached their cost limit.
        needs: number of further ratings each bot needs, for a rule that reads it; empty if unknown.
        chosen_bot: the bot that the participant chose; empty: the rule draws.
        history: the participant's tasks here, if already loaded.
        known_draws: filled by `items`: the draws with known probabilities, by the item's id.
        helpers: filled by `items`: the helper by whose scores items were drawn, if any.
    """

    study: Study
    participant: Participant
    values: StudyValues
    available: Collection[str]
    exclude: Collection[str] = ()
    needs: Mapping[str, float] = field(default_factory=dict)
    chosen_bot: str = ""
    history: TaskHistory | None = None
    known_draws: dict[str, DrawnItem] = field(default_factory=dict)
    helpers: list[StudyHelper] = field(default_factory=list)

    def bots(self, n: int = 1) -> list[DrawnBot]:
        """Return `n` different bots by the study's rule.

        Raises:
            Refused: if there are fewer: as `bots_refusal`, or `no_bot` if the remaining bots cannot reply now; and
                `choice_gone` if the participant's choice is not among them.
        """
        study, synthetic = self.study, self.participant.is_synthetic
        same = self._bots_again(n)
        met = set(study.bots).difference(same) if same else bots_met(self.participant, self.history, n)
        loads = bot_loads(study, [*study.bots, *self.available], synthetic=synthetic)
        excluded = {*met, *self.exclude, *bots_beyond_cap(study)}
        if self._is_limited:
            excluded |= bots_full(study, loads)
        candidates = [bot_id for bot_id in self.available if bot_id not in excluded]
        if len(candidates) < n:
            refusal = bots_refusal(study, met=met, loads=loads, synthetic=not self._is_limited, n=n)
            raise refusal or StartRefusal.NO_BOT.refused()
        if self.chosen_bot and n == 1 and not same:
            if self.chosen_bot not in candidates:
                raise Refused("choice_gone", str(CHOICE_GONE))
            candidates = [self.chosen_bot]
        if self.values.conditions.factors:
            return self._with_conditions(candidates, n, loads, met)
        if same or (self.chosen_bot and n == 1):
            return [DrawnBot(bot_id) for bot_id in candidates]
        candidates.sort(key=loads.__getitem__)
        bot_conditions: list[tuple[str, Mapping[str, str]]] = [(bot_id, {}) for bot_id in candidates]
        places = self._places([loads[bot_id] for bot_id in candidates], n, self._needs_of(candidates), bot_conditions)
        return [DrawnBot(candidates[i]) for i in places]

    @property
    def _is_limited(self) -> bool:
        """Return True if full bots and cells are excluded.

        They are not excluded for scripted and returning participants.
        """
        return not (self.participant.is_synthetic or (self.history is not None and self.history.completed_parts))

    def _bots_again(self, n: int) -> Sequence[str]:
        """Return the bots of the previous part if the study keeps them.

        Empty after a failure.
        """
        if not self.values.sittings.same_bot or self.history is None:
            return ()
        last = self.history.bots_last
        return last if len(last) == n and not {*last} & {*self.exclude} else ()

    def _with_conditions(self, bots: Sequence[str], n: int, loads: BotLoads, met: Collection[str]) -> list[DrawnBot]:
        """Return `n` of the bots, each with its drawn condition.

        Raises:
            Refused: as `bots`; also `bots_full` if all cells available to this participant are full.
        """
        cells, drawn_bots = self._cells(loads), list[DrawnBot]()
        while len(drawn_bots) < n:
            chosen = {drawn_bot.bot_id for drawn_bot in drawn_bots}
            options = cells.options([bot_id for bot_id in bots if bot_id not in chosen], n - len(drawn_bots))
            if not options:
                raise self._no_cell(cells, bots, n, met)
            ranked = cells.ranked(options)
            n_of_bot = Counter(cell.bot_id for _rank, cell in ranked)
            needs = [self.needs.get(cell.bot_id, 0) / n_of_bot[cell.bot_id] for _rank, cell in ranked]
            bot_conditions = [(cell.bot_id, cell.condition) for _rank, cell in ranked]
            [place] = self._places([rank for rank, _cell in ranked], 1, needs if self.needs else None, bot_conditions)
            drawn_bots.append(cells.take(ranked[place][1]))
        return drawn_bots

    def _cells(self, loads: BotLoads) -> CellDraw:
        history = self.history or task_history(self.participant)
        return CellDraw(self.values.conditions, loads, list(history.conditions), self._is_limited, history.cell_counts)

    def _no_cell(self, cells: CellDraw, bots: Collection[str], n: int, met: Collection[str]) -> Refused:
        """Return the reason why no cell with these bots is left."""
        if replace(cells, is_limited=False).options(bots, n):
            return StartRefusal.BOTS_FULL.refused()
        if replace(cells, is_limited=False).options(set(self.values.bots) - set(met), n):
            return StartRefusal.NO_BOT.refused()
        return StartRefusal.ALL_RATED.refused()

    def _needs_of(self, bots: Sequence[str]) -> list[float] | None:
        """Return the number of ratings that each bot still needs.

        None if the rule does not use it.
        """
        return [float(self.needs.get(bot_id, 0)) for bot_id in bots] if self.needs else None

    def pairs(self, n: int = 1) -> list[tuple[DrawnBot, DrawnBot]]:
        """Return `n` different pairs of bots, or all that are left.

        The rule draws the first bot and then its partner.

        Raises:
            Refused: `no_bot` if fewer than two can reply, `all_rated` if this participant has compared all of them.
        """
        study, participant = self.study, self.participant
        loads = bot_loads(study, [*study.bots, *self.available], synthetic=participant.is_synthetic)
        excluded = {*self.exclude, *bots_beyond_cap(study)}
        if self._is_limited:
            excluded |= bots_full(study, loads)
        bots = [bot_id for bot_id in self.available if bot_id not in excluded]
        if len(bots) < 2:
            raise StartRefusal.NO_BOT.refused()
        compared = pairs_compared(participant)
        remaining = {frozenset(pair) for pair in combinations(bots, 2)} - compared
        if not remaining and self.values.sittings.parts:  # repeat all pairs
            remaining = {frozenset(pair) for pair in combinations(bots, 2)}
        if not remaining:
            raise StartRefusal.ALL_RATED.refused(ALL_PAIRS_RATED)
        cells = self._cells(loads) if self.values.conditions.factors else None
        if cells is not None:
            remaining = {pair for pair in remaining if cells.shared(*pair)}
            if not remaining:
                raise self._no_pair(cells, {frozenset(pair) for pair in combinations(bots, 2)} - compared)
        drawn_pairs: list[tuple[DrawnBot, DrawnBot]] = []
        while remaining and len(drawn_pairs) < n:
            first = self._one_of({bot_id for pair in remaining for bot_id in pair}, loads)
            second = self._one_of({b for pair in remaining if first in pair for b in pair - {first}}, loads)
            remaining.discard(frozenset((first, second)))
            number = str(len(compared) + len(drawn_pairs))
            seed = derive_seed(study.seed, "sides", str(participant.pk), number)
            pair = (DrawnBot(first), DrawnBot(second))
            if cells is not None:
                pair = self._pair_with_condition(cells, first, second)
                remaining = {candidate for candidate in remaining if cells.shared(*candidate)}
            drawn_pairs.append(pair if random.Random(seed).random() < 0.5 else pair[::-1])
            for bot_id in (first, second):
                loads[bot_id] += 1
        return drawn_pairs

    def _pair_with_condition(self, cells: CellDraw, first: str, second: str) -> tuple[DrawnBot, DrawnBot]:
        """Return both bots with a common condition.

        It is drawn by the load of both cells.
        """
        ranked = cells.ranked(cells.shared(first, second), partner=second)
        bot_conditions = [(cell.bot_id, cell.condition) for _rank, cell in ranked]
        [place] = self._places([rank for rank, _cell in ranked], 1, bot_conditions=bot_conditions)
        first_bot = cells.take(ranked[place][1])
        for bot_id in (first, second):
            cells.loads.cells[bot_id, ranked[place][1].key] += 1
        return first_bot, DrawnBot(second, first_bot.condition)

    def _no_pair(self, cells: CellDraw, pairs: Collection[frozenset[str]]) -> Refused:
        if any(replace(cells, is_limited=False).shared(*pair) for pair in pairs):
            return StartRefusal.FULL.refused()
        return StartRefusal.ALL_RATED.refused(ALL_PAIRS_RATED)

    def _one_of(self, bots: Collection[str], loads: Mapping[str, int]) -> str:
        """Return one of these bots, chosen by the rule."""
        ordered = sorted(sorted(bots), key=loads.__getitem__)
        bot_conditions: list[tuple[str, Mapping[str, str]]] = [(bot_id, {}) for bot_id in ordered]
        [place] = self._places([loads[b] for b in ordered], 1, self._needs_of(ordered), bot_conditions)
        return ordered[place]

    def in_turn(self) -> tuple[Sequence[DrawnBot], str]:
        """Return the participant's bots in order, and the key of the order.

        The key is empty for a single bot.

        Raises:
            Refused: as `bots`.
        """
        assignment = self.values.assignment
        bots = self.bots(assignment.bots_in_a_row)
        if len(bots) < 2:
            return bots, ""
        of_id = {bot.bot_id: bot for bot in bots}
        rng = self._rng("order", *sorted(of_id))
        if getattr(rules.get(self.study.rule), "sets_order", False):
            return bots, ""
        if assignment.bot_order == "random":
            rng.shuffle(bots)
            return bots, ""
        order, key = order_drawn(self.study, list(of_id), rng, synthetic=self.participant.is_synthetic)
        return [of_id[bot_id] for bot_id in order], key

    def conversations(self, n: int = 1) -> list[str]:
        """Return ids of `n` other completed conversations, by the rule.

        Raises:
            Refused: `all_rated` if there are fewer.
        """
        unseen = conversations_unseen(self.study, self.participant)
        return self._stored("conversation", unseen, n, n)

    def dialogues(self, n: int = 1) -> list[tuple[str, str]]:
        """Return `n` pairs of unseen dialogues, or all that are left.

        Existing pairs that need raters come first. For a new pair, the rule draws the first bot, its partner, and a
        conversation of each.

        Raises:
            Refused: `all_rated` if there is none.
        """
        study, synthetic = self.study, self.participant.is_synthetic
        history = dialogue_history(study, synthetic=synthetic)
        unseen = conversations_unseen(study, self.participant)
        raters_wanted = self.values.dialogues.raters_each_pair
        begun_pairs = pairs_begun(study, unseen, raters_wanted, synthetic=synthetic) if raters_wanted > 1 else []
        self._rng("begun", len(begun_pairs)).shuffle(begun_pairs)
        begun_pairs.sort(key=lambda pair: -pair.n_raters)
        drawn_pairs: list[tuple[str, str]] = []
        used: set[str] = set()
        for pair in begun_pairs:
            if len(drawn_pairs) < n and not used & {pair.first, pair.second}:
                drawn_pairs.append(pair.order_sides(self._rng("sides", pair.first, pair.second)))
                used |= {pair.first, pair.second}
        while len(drawn_pairs) < n:
            remaining = unseen.exclude(pk__in=used)
            bots = set(remaining.order_by().values_list("bot__bot_id", flat=True).distinct())
            if len(bots) < 2:
                break
            loads = {bot_id: history.load(bot_id) for bot_id in bots}
            first = self._one_of(bots, loads)
            second = self._one_of(bots - {first}, loads)
            rng = self._rng("sides", len(drawn_pairs), history.load(first))
            on_a, on_b = history.sides(first, second, rng)
            [a], [b] = (
                self._stored("conversation", remaining.filter(bot__bot_id=bot_id), 1, 1) for bot_id in (on_a, on_b)
            )
            history.add(on_a, on_b)
            used |= {a, b}
            drawn_pairs.append((a, b))
        if not drawn_pairs:
            raise StartRefusal.ALL_RATED.refused(ALL_ITEMS_RATED)
        return drawn_pairs

    def items(self, n: int = 1, *, least: int | None = None) -> list[str]:
        """Return ids of `n` different items by the study's rule.

        At least `least` if fewer are left.

        An item with enough raters is assigned only to fill up a task, and never to more participants than allowed.

        Raises:
            Refused: `all_rated` if there are fewer; `full` if those left have enough raters.
        """
        unseen = items_unseen(self.study, self.participant)
        least = n if least is None else least
        return self._helped(unseen, n, least) if self.values.helping.helper else self._stored("item", unseen, n, least)

    def _helped(self, unseen: QuerySet[Any], n: int, least: int) -> list[str]:
        """Draw items with known probabilities, whatever the rule.

        A participant who has seen some of them gets others by the rule, which no weighted estimate uses.
        """
        helper, drawn_items = helped_draw(self.study, self.participant, n)
        new_items = unseen.filter(pk__in=list(drawn_items)).values_list("pk", flat=True)
        self.known_draws.update({str(pk): drawn_items[pk] for pk in new_items})
        self.helpers.extend([helper] if helper is not None else [])
        items = list(self.known_draws)
        n_needed = max(least, len(drawn_items)) - len(items)
        if n_needed > 0:
            items += self._stored("item", unseen.exclude(pk__in=items), n_needed, max(0, least - len(items)))
        self._rng("helped").shuffle(items)
        return items

    def shown(self, items: Sequence[str], n: int) -> dict[str, list[int]]:
        """Return the `n` replies to show for each item, in display order.

        They are indices, balanced over earlier raters.
        """
        earlier_replies = replies_given(items, synthetic=self.participant.is_synthetic)
        return {item: replies_balanced(*earlier_replies[item], n, self._rng("shown", item)) for item in items}

    def replies(self, conversations: Sequence[str]) -> dict[str, list[int]]:
        """Return the turns of the replies to label in each conversation."""
        replies_by_chat = replies_of(self.study, conversations, is_rehearsal=self.participant.is_synthetic)
        n = self.values.marking.n_replies_marked
        for chat, turns in replies_by_chat.items():
            if n and len(turns) > n:
                replies_by_chat[chat] = sorted(self._rng("replies", chat).sample(turns, n))
        return replies_by_chat

    def with_checks(self, items: Sequence[str]) -> list[str]:
        """Insert attention checks, gold items and repeats among the items.

        Their positions are random.

        Participants get attention checks that are new to them first, and no gold item twice. A repeated item appears at
        least half a task after its first appearance, if the task is long enough.
        """
        attention = self.values.attention
        ordered_items = list(items)
        if attention.n_gold:
            self._put_gold(ordered_items, attention.n_gold)
        self._put_checks(ordered_items, attention)
        if attention.n_repeated:
            self._put_repeats(ordered_items, items, attention.n_repeated)
        return ordered_items

    def _put_gold(self, ordered_items: list[str], n: int) -> None:
        seen = Slot.objects.filter(task__participant=self.participant, item__isnull=False)
        gold = gold_given(self.study).exclude(pk__in=seen.values("item"))
        unseen = list(gold.order_by("pk").values_list("pk", flat=True))
        rng = self._rng("gold", len(unseen))
        for pk in rng.sample(unseen, min(n, len(unseen))):
            ordered_items.insert(rng.randint(0, len(ordered_items)), str(pk))

    def _put_repeats(self, ordered_items: list[str], items: Sequence[str], n: int) -> None:
        early = sorted(items, key=ordered_items.index)[: max(n, len(items) // 2)]
        rng = self._rng("repeats", *items)
        chosen = rng.sample(early, min(n, len(early)))
        originals = Item.objects.filter(pk__in=[int(item) for item in chosen])
        again = repeats_ensure(study=self.study, items=list(originals))
        apart = max(2, len(ordered_items) // 2)
        for item in chosen:
            least = min(ordered_items.index(item) + 1 + apart, len(ordered_items))
            ordered_items.insert(rng.randint(least, len(ordered_items)), str(again[int(item)].pk))

    def _put_checks(self, ordered_items: list[str], attention: Attention) -> None:
        checks = checks_ensure(study=self.study, checks=attention.attention_checks)
        seen_ids = set(
            Slot.objects.filter(task__participant=self.participant, item__purpose=Item.Purpose.CHECK).values_list(
                "item", flat=True
            )
        )
        rng = random.Random(derive_seed(self.study.seed, "checks", len(seen_ids), str(self.participant.pk)))
        rng.shuffle(checks)
        checks.sort(key=lambda check: check.pk in seen_ids)
        for check in checks[: attention.n_checks]:
            ordered_items.insert(rng.randint(0, len(ordered_items)), str(check.pk))

    def sides(self, items: Sequence[str]) -> dict[str, bool]:
        """Return for each item whether its replies are swapped.

        The order that fewer participants had is used.
        """
        slots = slots_with(items, synthetic=self.participant.is_synthetic)
        ahead: dict[str, int] = dict.fromkeys(items, 0)
        for item, is_flipped, n in slots.values_list("item", "is_flipped").annotate(n=Count("pk")):
            ahead[str(item)] += n if is_flipped else -n
        rng = self._rng("sides", sum(map(abs, ahead.values())))
        return {item: n < 0 or (n == 0 and rng.random() < 0.5) for item, n in ahead.items()}

    def _stored(self, kind: Literal["conversation", "item"], unseen: QuerySet[Any], n: int, least: int) -> list[str]:
        """Draw among stored rows in two queries.

        The first returns a histogram of their numbers of tasks, the second the drawn rows.

        The database keeps the order (fewest tasks first, then by key), so the full list is never loaded.
        """
        synthetic = self.participant.is_synthetic
        candidates = with_loads(unseen.order_by(), kind, self.study, synthetic=synthetic)
        if kind == "item" and not synthetic:
            candidates = self._exclude_finished_items(candidates, n)
        n_with = candidates.values("n_tasks").annotate(n=Count("pk")).order_by("n_tasks")
        loads = [n_tasks for n_tasks, n_such in n_with.values_list("n_tasks", "n") for _ in range(n_such)]
        if len(loads) < least:
            raise StartRefusal.ALL_RATED.refused(ALL_ITEMS_RATED)
        places = self._places(loads, min(n, len(loads)))
        ranked = candidates.annotate(place=Window(RowNumber(), order_by=[F("n_tasks"), F("pk")]))
        drawn_rows = ranked.filter(place__in=[place + 1 for place in places]).values_list("place", "pk")
        by_place = {place - 1: str(pk) for place, pk in drawn_rows}
        return [by_place[place] for place in places]

    def _exclude_finished_items(self, items: QuerySet[Any], n: int) -> QuerySet[Any]:
        """Remove items that have enough raters.

        Raises:
            Refused: `full` if none is left.
        """
        judging = self.values.judging
        if judging.raters_wanted:
            lacking = items.filter(n_tasks__lt=judging.raters_wanted)
            n_lacking = lacking.count()
            if not n_lacking and items.exists():
                raise StartRefusal.FULL.refused()
            if n_lacking >= n:
                return lacking
        return items.filter(n_tasks__lt=judging.raters_most) if judging.raters_most else items

    def _rng(self, *parts: str | int) -> random.Random:
        """Return a random generator seeded by the study and the participant."""
        return random.Random(derive_seed(self.study.seed, *parts, str(self.participant.pk)))

    def _places(
        self,
        loads: Sequence[int],
        n: int,
        needs: Sequence[float] | None = None,
        bot_conditions: Sequence[tuple[str, Mapping[str, str]]] = (),
    ) -> list[int]:
        """Return `n` different candidates in the rule's order.

        They are indices in `loads`.

        Args:
            bot_conditions: bot and condition of each candidate; none for items and conversations.
        """
        rng = self._rng("assignment", sum(loads))
        rule = rules.get(self.study.rule)
        if bot_conditions and hasattr(rule, "choose_for"):
            known = needs if needs is not None else [None] * len(loads)
            candidates = [
                Candidate(*name, load, need) for name, load, need in zip(bot_conditions, loads, known, strict=True)
            ]
            case = assignment_case(self.study, self.participant)
            return places_for(case, candidates, n, partial(rule.choose_for, rng=rng))
        remaining_loads, places = list(loads), list(range(len(loads)))
        remaining_needs = None if needs is None else list(needs)
        drawn_places: list[int] = []
        for _number in range(n):
            index = rule.choose(remaining_loads, rng, remaining_needs)
            remaining_loads.pop(index)
            if remaining_needs is not None:
                remaining_needs.pop(index)
            drawn_places.append(places.pop(index))
        return drawn_places
