"""Mapping of a file to conversations: its speakers, columns, bot and additional fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from chatbots.text import quote

HUMAN, BOT, LEFT_OUT = "human", "bot", ""
ROLES_OF_SPEAKERS = {HUMAN: "Human", BOT: "Bot", LEFT_OUT: "Left out"}
_WORDS = {
    HUMAN: "human user u usr person people participant customer client prompter seeker help_seeker apprentice visitor "
    "caller patient student player subject nutzer nutzerin benutzer benutzerin mensch person proband probandin "
    "teilnehmer teilnehmerin kunde kundin utilisateur utilisatrice humain usuario usuaria humano utente umano you",
    BOT: "bot s sys assistant chatbot model ai gpt chatgpt claude gemini agent supporter wizard doctor therapist "
    "counselor operator machine robot llm assistent assistentin maschine dialogsystem modele asistente assistente",
    LEFT_OUT: "tool function developer ipython observation tool_call tool_result function_call tool_response "
    "function_response instructions context",
}
SPEAKER_ROLES = {word: role for role, words in _WORDS.items() for word in words.split()}
"""Role of a speaker by the usual names; `system` depends on the other speakers of the file."""
SYSTEM = "system"
UNNAMED_BOT = "assistant"
"""Bot of conversations whose file names none."""


@lru_cache(maxsize=1000)
def speaker_key(name: Any) -> str:
    """Return a speaker's name in lower case, with underscores for other characters.

    A leading number is removed: `0_Wizard` gives `wizard`.
    """
    key = re.sub(r"[\W_]+", "_", str(name).strip().casefold()).strip("_")
    return re.sub(r"^\d+_(?=[^\W\d])", "", key)


def guess_speakers(names: Iterable[str]) -> dict[str, str]:
    """Guess the role of each speaker of a file.

    Of two unknown speakers, the first to speak is the human. An unknown speaker next to a known one has the other
    role. Speakers that remain unknown are not in the result.

    Args:
        names: names in the order in which they first occur.
    """
    roles = {name: SPEAKER_ROLES.get(speaker_key(name)) for name in names}
    systems = [name for name in roles if speaker_key(name) == SYSTEM]
    roles |= dict.fromkeys(systems, LEFT_OUT if BOT in roles.values() else BOT)
    unknown = [name for name, role in roles.items() if role is None]
    has_human, has_bot = HUMAN in roles.values(), BOT in roles.values()
    if len(unknown) == 2 and not has_human and not has_bot:
        roles |= {unknown[0]: HUMAN, unknown[1]: BOT}
    elif len(unknown) == 1 and has_human != has_bot:
        roles[unknown[0]] = BOT if has_human else HUMAN
    return {name: role for name, role in roles.items() if role is not None}


@dataclass(frozen=True, slots=True)
class FileMapping:
    """Researcher's decisions on how a file is read.

    Attributes:
        columns: role of columns of a table, as in `csv_roles.ROLES`; None: guessed from their names.
        speakers: human, bot or "" (left out) by a speaker's name in the file; others are guessed.
        bot: name of the bot where the file names none.
        keep: fields of the source that become conditions of the conversation; all others are dropped.
        questions: by question, its `scale` (lowest and highest answer) and whether it is `reversed` (a low answer is
            better); questions that a file lacks have no effect.
    """

    columns: Mapping[str, Any] | None = None
    speakers: Mapping[str, str] = field(default_factory=dict)
    bot: str = ""
    keep: tuple[str, ...] = ()
    questions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the roles of the speakers.

        Raises:
            ValueError: if a role is none of human, bot and "".
        """
        for name, role in self.speakers.items():
            if role not in ROLES_OF_SPEAKERS:
                raise ValueError(f"speaker {quote(name)} is {quote(role)}; it must be human, bot or empty (left out)")

    def as_dict(self) -> dict[str, Any]:
        """Return the mapping as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FileMapping:
        """Return the mapping of stored JSON."""
        return cls(
            *(data.get("columns"), data.get("speakers", {}), data.get("bot", ""), tuple(data.get("keep", ()))),
            questions=data.get("questions", {}),
        )
