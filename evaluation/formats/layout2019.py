"""The two CSV layouts of the 2019 Neural Chat server: their headers, exact and ordered.

Selfplay fact sheet, section 8.3. Written by `webapp/transfer/exporters/chatrecords.py` and `chat_ratings.py`, read by
`neural_chat.py`.
"""

from __future__ import annotations

# The layout has room for these dimensions only, in the two orders below.
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
