"""What can be given to a participant now, drawn by the study's assignment rule."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from chatbots import derive_seed
from webapp.core.errors import Refused
from webapp.studies.models import Participant, Study
from webapp.studies.rules.base import rules
from webapp.studies.selectors import (
    SlotField,
    bots_beyond_cap,
    bots_met,
    conversations_unseen,
    items_unseen,
    task_loads,
)
from webapp.studies.values import StudyValues


@dataclass(frozen=True, slots=True)
class StudyDraw:
    """The `Draw` of one participant, made while the study's row is locked: nobody else counts meanwhile.

    Attributes:
        values: what the version of the study says that the task will follow.
        available: ids of bots of the study that can answer now.
        exclude: bots not to give now, besides those met before and those whose cost cap is reached.
    """

    study: Study
    participant: Participant
    values: StudyValues
    available: Collection[str]
    exclude: Collection[str] = ()

    def bots(self, n: int = 1) -> list[str]:
        """Return `n` different bots by the study's rule.

        Raises:
            Refused: `no_bot` if there are fewer.
        """
        without = {*bots_met(self.participant), *self.exclude, *bots_beyond_cap(self.study)}
        candidates = [bot_id for bot_id in self.available if bot_id not in without]
        if len(candidates) < n:
            raise Refused("no_bot", _("No chatbot is available at the moment."))
        return self._drawn("bot_id", candidates, n)

    def conversations(self, n: int = 1) -> list[str]:
        """Return ids of `n` different completed conversations of others, by the study's rule.

        Raises:
            Refused: `all_rated` if there are fewer.
        """
        unseen = conversations_unseen(self.study, self.participant).values_list("pk", flat=True)
        return self._drawn("conversation", [str(pk) for pk in unseen], n)

    def items(self, n: int = 1, *, least: int | None = None) -> list[str]:
        """Return ids of `n` different items by the study's rule; of `least` at least, where no more are left.

        Raises:
            Refused: `all_rated` if there are fewer.
        """
        unseen = [
            str(pk)
            for pk in items_unseen(self.study, self.participant).values_list("pk", flat=True)
        ]
        return self._drawn("item", unseen, n if least is None else max(least, min(n, len(unseen))))

    def _drawn(self, what: SlotField, candidates: Sequence[str], n: int) -> list[str]:
        if len(candidates) < n:
            raise Refused("all_rated", _("You have already judged everything there is."))
        study, participant = self.study, self.participant
        loads = task_loads(study, candidates, what=what, synthetic=participant.is_synthetic)
        n_given = sum(load.n_completed + load.n_open for load in loads)
        rng = random.Random(derive_seed(study.seed, "assignment", n_given, str(participant.pk)))
        rule = rules.get(study.rule)
        drawn: list[str] = []
        for _number in range(n):
            drawn.append(rule.choose([load for load in loads if load.id not in drawn], rng))
        return drawn
