"""Bots that participants choose themselves, under neutral names."""

from __future__ import annotations

import random
from dataclasses import dataclass

from django.utils.translation import gettext as _

from chatbots import derive_seed
from webapp.bots.selectors import bot_available_ids
from webapp.studies.assignment.capacity import NO_TASKS, bot_loads, bots_beyond_cap, bots_full, bots_met, task_history
from webapp.studies.models import Participant, Study
from webapp.studies.protocols.base import get_protocol


@dataclass(frozen=True, slots=True)
class BotChoice:
    """Bot to choose.

    Attributes:
        number: position among the study's shuffled bots, from 1; the page contains no other id.
        name: neutral, or the study's own name for it.
    """

    number: int
    name: str


def lets_choose(study: Study) -> bool:
    """Return True if participants choose their bot themselves."""
    return get_protocol(study).has_sequences and study.values.assignment.choice != "none"


def choices_of(study: Study, participant: Participant | None, nonce: str) -> list[BotChoice]:
    """Return the bots that the participant can choose from.

    They are shuffled by the entry form's nonce.

    Args:
        participant: None for a new visitor.
        nonce: nonce of the entry form; the numbers stay the same when that form is sent.
    """
    if not lets_choose(study):
        return []
    excluded = set(bots_beyond_cap(study))
    history = task_history(participant) if participant is not None else NO_TASKS
    if history.completed_parts and study.values.sittings.same_bot:
        return []
    if not history.completed_parts:
        excluded |= bots_full(study, bot_loads(study, study.bots, synthetic=False))
    if participant is not None:
        excluded |= bots_met(participant, history)
    names = study.values.assignment.bot_names
    neutral = study.values.assignment.choice == "neutral"
    free = set(bot_available_ids(study.bots)) - excluded
    return [
        BotChoice(number, _("Chatbot %(n)d") % {"n": number} if neutral else names[bot_id])
        for number, bot_id in enumerate(_shuffled(study, nonce), start=1)
        if bot_id in free
    ]


def bot_chosen(study: Study, nonce: str, number: str) -> str:
    """Return the bot with this number on an entry form.

    Empty without a choice.
    """
    if not lets_choose(study) or not number.isascii() or not number.isdigit():
        return ""
    bots = _shuffled(study, nonce)
    return bots[int(number) - 1] if 0 < int(number) <= len(bots) else ""


def _shuffled(study: Study, nonce: str) -> list[str]:
    bots = study.bots
    random.Random(derive_seed(study.seed, "choices", nonce)).shuffle(bots)
    return bots
