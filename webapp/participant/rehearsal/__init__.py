"""Scripted participants, who use the public entry points: pages, forms and the chat's socket.

For `manage.py rehearse`, and for tests. They have one scripted action for each step of a protocol (`ways.py`), so
they can complete every protocol of known steps. They write in the language of the study (`scripts.py`). Their
ratings are simple opinions, so their data are marked synthetic and say nothing about a bot.
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
