"""The two CSV export formats of the 2019 Neural Chat server.

Headers must match exactly, including their order (selfplay fact sheet, section 8.3).
`webapp/transfer/exporters/neural_chat_2019.py` and `chat_ratings.py` write these files; this module reads them like
`csv_columns`.

`chatrecords.csv` has one exchange per row. The leading emoji of a response was added by the server and is removed.
`chat_ratings.csv` contains only ratings, which are added to previously imported chats.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from pathlib import Path

from evaluation.data.formats.base import register_format
from evaluation.data.formats.csv_columns import CsvColumns
from evaluation.data.formats.csv_roles import QUESTION
from evaluation.data.formats.table_rows import has_columns, head_rows

# The layout supports only these dimensions, in the two orders below.
RECORD_DIMENSIONS = ("quality", "fluency", "coherency", "diversity", "contingency", "empathy")
RATING_DIMENSIONS = ("quality", "coherency", "fluency", "diversity", "contingency", "empathy")

RECORD_HEADER = (
    "ID",
    "Chat ID",
    "Datetime",
    "Chatbot ID",
    "Message",
    "Response",
    "Bot Input",
    "Study Key",
    "User Session Key",
    "Response Rating",
    *(f"Chat Rating {name.capitalize()}" for name in RECORD_DIMENSIONS),
    "Chat Rating Comments",
)
RATING_HEADER = (
    "ID",
    "Chat ID",
    "Datetime",
    "Chatbot ID",
    "User Session Key",
    *(name.capitalize() for name in RATING_DIMENSIONS),
    "Comments",
    "Chat Length",
    "MTurk Code",
    "MTurk User ID",
    "Study Key",
)
BOT_INPUT_WINDOW = 5


_NEEDED_FOR_RECORDS = {"Chat ID", "Datetime", "Chatbot ID", "Message", "Response"}
_NEEDED_FOR_RATINGS = {"Chat ID", "Datetime", "Quality"}


class _NeuralChat(CsvColumns):
    needed: set[str]
    columns: Mapping[str, str]

    def recognises(self, head: str) -> bool:
        return has_columns(head, self.needed)

    def why_not(self, head: str) -> str:
        return ""

    def roles(self, path: Path) -> Mapping[str, str]:
        return {name: self.columns.get(name, "") for name in head_rows(path)[0]}


@register_format
class NeuralChatRecords(_NeuralChat):
    """One row per exchange."""

    name = "chatrecords"
    title = "chatrecords.csv of the 2019 Neural Chat server"
    needed = _NEEDED_FOR_RECORDS
    known_columns = frozenset(RECORD_HEADER)
    columns = {
        "Chat ID": "conversation",
        "Datetime": "time",
        "Chatbot ID": "bot",
        "Message": "human",
        "Response": "reply",
        "User Session Key": "rater",
        "Response Rating": "vote",
        "Chat Rating Comments": "comment",
        **{f"Chat Rating {name.capitalize()}": QUESTION for name in RECORD_DIMENSIONS},
    }

    def reply_text(self, text: str) -> str:
        return _without_emoji(text)


@register_format
class NeuralChatRatings(_NeuralChat):
    """One row per submitted rating."""

    name = "chat_ratings"
    title = "chat_ratings.csv of the 2019 Neural Chat server"
    needed = _NEEDED_FOR_RATINGS
    known_columns = frozenset(RATING_HEADER)
    columns = {
        "Chat ID": "conversation",
        "Datetime": "time",
        "Chatbot ID": "bot",
        "User Session Key": "rater",
        "Comments": "comment",
        **{name.capitalize(): QUESTION for name in RATING_DIMENSIONS},
    }


def _without_emoji(text: str) -> str:
    """Remove the emoji and space that the server added to a response.

    A response without other text is unchanged.
    """
    rest = text.lstrip()
    while rest and (
        (ord(rest[0]) >= 0x2000 and unicodedata.category(rest[0]) in ("So", "Sk")) or rest[0] in "\ufe0f\u200d"
    ):
        rest = rest[1:].lstrip(" ")
    return rest if rest and rest != text.lstrip() else text
