"""Scripted participants, who use public pages, forms and the chat's socket.

`manage.py rehearse` and tests use them. They have one scripted action for each step of a protocol (`steps.py`), so they
can complete every protocol of known steps. They write in the language of the study. Their ratings are simple opinions
(`answers.py`): their data are marked synthetic and say nothing about a bot.
"""

from __future__ import annotations

from chatbots.participants.scripted import Impression
from webapp.participant.simulated.client import PATIENCE_S, Frame, StepRefused, StudyClient, frames_until, say
from webapp.participant.simulated.steps import ScriptedParticipant, ScriptedVisit, rehearse

__all__ = [
    "PATIENCE_S",
    "Frame",
    "Impression",
    "ScriptedParticipant",
    "ScriptedVisit",
    "StepRefused",
    "StudyClient",
    "frames_until",
    "rehearse",
    "say",
]
