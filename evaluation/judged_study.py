"""The single replies that people of a study judged, from what was read of it: an exported table of them, else votes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from chatbots import Conversation
from chatbots.outside import values_read
from evaluation.items import VOTE, VOTE_SCALE, JudgedItem

if TYPE_CHECKING:
    import pandas as pd

TABLE = "judged"


def judged_rows(table: pd.DataFrame) -> Iterator[JudgedItem]:
    """Yield the items of the exported table `judged`; cells without a value are left out."""
    for row in table.to_dict("records"):
        known = {str(name): value for name, value in row.items() if not _is_missing(value)}
        yield values_read(JudgedItem, known, what=f"item {known.get('id')}")


def voted(chats: Iterable[tuple[Conversation, str]]) -> Iterator[JudgedItem]:
    """Yield the replies with a thumb up or down; the voter is unknown, so each has no rater.

    Args:
        chats: conversations, each with its bot.
    """
    for chat, bot in chats:
        texts = tuple(turn.text for turn in chat.turns)
        for number, turn in enumerate(chat.turns):
            if turn.speaker == "bot" and turn.vote:
                score: Mapping[str, Any] = {VOTE: turn.vote}
                yield JudgedItem(
                    id=f"{chat.id}/{number}",
                    context=texts[:number],
                    response=turn.text,
                    model=bot,
                    ratings=(dict(score),),
                    scale=VOTE_SCALE,
                )


def _is_missing(value: Any) -> bool:
    import pandas as pd

    return bool(value is None or (pd.api.types.is_scalar(value) and pd.isna(value)))
