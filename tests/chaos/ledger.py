"""What the server said is stored, and how it compares with what is."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol

STORED = """
import json
from webapp.conversations.models import Conversation, Turn
from webapp.ratings.models import Rating
from webapp.studies.models import Participant
print(json.dumps({
    "turns": [
        [str(c), i, text, vote, str(client_id or "")]
        for c, i, text, vote, client_id in
        Turn.objects.values_list("conversation_id", "index", "text", "vote", "client_id")
    ],
    "ratings": [str(c) for c in Rating.objects.values_list("conversation_id", flat=True)],
    "waiting": [str(c) for c in Conversation.objects.filter(
        state="open", source="chat", due_turn__isnull=False, due_error="").values_list("pk", flat=True)],
    "people": dict(__import__("collections").Counter(
        Participant.objects.values_list("study__key", flat=True))),
}))
"""


class Shell(Protocol):
    """Runs Python on a server's data, as `ConfabServer` does."""

    def shell(self, code: str, /) -> str: ...


@dataclass
class Ledger:
    """What was acknowledged to clients, and what they met.

    Attributes:
        messages: by client id: conversation, turn and text of a message whose `turn` came.
        replies: by conversation and turn: the text of a `reply`, or of a reply in a `history`.
        votes: by conversation and turn: the value of a vote that was confirmed.
        ratings: conversations whose rating led to the page with the code.
        people: by study: how many were let in, one per visitor however often they pressed the button.
        statuses: how often each HTTP status came.
        gave_up: who heard neither a reply nor that it failed, with what they waited for.
    """

    messages: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    replies: dict[tuple[str, int], str] = field(default_factory=dict)
    votes: dict[tuple[str, int], int] = field(default_factory=dict)
    ratings: list[str] = field(default_factory=list)
    people: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    gave_up: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    @property
    def n_acknowledged(self) -> int:
        """Everything that clients were told is stored."""
        return sum(map(len, (self.messages, self.replies, self.votes, self.ratings))) + sum(self.people.values())

    async def note_status(self, answer: Any) -> None:
        """Count the status of an answer, as an event hook of httpx."""
        self.statuses[answer.status_code] += 1

    def note_reply(self, conversation: str, turn: int, text: str) -> None:
        """Note a reply that is shown; shown again it must be the same."""
        if self.replies.setdefault((conversation, turn), text) != text:
            self.changed.append(f"reply {turn} of {conversation} was shown with two texts")

    def note_history(self, conversation: str, turns: list[dict[str, Any]]) -> None:
        """Note the replies as a page sees them that was opened again."""
        for turn in turns:
            if turn["speaker"] == "bot":
                self.note_reply(conversation, turn["turn"], turn["text"])

    def compare(self, server: Shell) -> Comparison:
        """Hold it against the database."""
        stored = json.loads(server.shell(STORED).splitlines()[-1])
        by_place = {(c, i): (text, vote, client) for c, i, text, vote, client in stored["turns"]}
        comparison = Comparison(list(self.changed), [], stored["waiting"])
        for client, (conversation, turn, text) in self.messages.items():
            if by_place.get((conversation, turn), ("",))[0] != text:
                comparison.lost.append(f"message {client} ({turn} of {conversation})")
        for place, text in self.replies.items():
            if by_place.get(place, ("",))[0] != text:
                comparison.lost.append(f"reply {place[1]} of {place[0]}")
        for place, value in self.votes.items():
            if by_place.get(place, ("", None))[1] != value:
                comparison.lost.append(f"vote on {place[1]} of {place[0]}")
        ratings = Counter(stored["ratings"])
        comparison.lost.extend(f"rating of {c}" for c in self.ratings if not ratings[c])
        comparison.doubled.extend(f"rating of {c}" for c, n in ratings.items() if n > 1)
        # Every message of a scripted person has a text that nobody else writes.
        texts = Counter(text for _c, _i, text, _v, client in stored["turns"] if client)
        comparison.doubled.extend(f"message {text[:60]!r}" for text, n in texts.items() if n > 1)
        for study, n_let_in in self.people.items():
            n_stored = stored["people"].get(study, 0)
            if n_stored < n_let_in:
                comparison.lost.append(f"{n_let_in - n_stored} people of study {study}")
            elif n_stored > n_let_in:
                comparison.doubled.append(f"{n_stored - n_let_in} people of study {study}")
        return comparison


@dataclass(frozen=True)
class Comparison:
    """What is not as clients were told; `waiting`: conversations with a reply that nobody makes."""

    lost: list[str]
    doubled: list[str]
    waiting: list[str]
