"""Scripted participants, who come through the outside doors: pages, forms and the chat's socket.

For `manage.py rehearse`, and for tests. What they do is one scripted way per step of a protocol (`ways.py`), so
they play every protocol whose steps they know. What they write is in the language of the study (`scripts.py`); how they judge
is a simple opinion of their own, so what they leave is marked synthetic and says nothing about a bot.
"""

from __future__ import annotations

from webapp.participant.rehearsal.doors import (
    PATIENCE_S,
    DoorClosed,
    Frame,
    OutsideDoors,
    frames_until,
    say,
)
from webapp.participant.rehearsal.opinions import Impression
from webapp.participant.rehearsal.people import Played, ScriptedParticipant, rehearse

__all__ = [
    "PATIENCE_S",
    "DoorClosed",
    "Frame",
    "Impression",
    "OutsideDoors",
    "Played",
    "ScriptedParticipant",
    "frames_until",
    "rehearse",
    "say",
]
