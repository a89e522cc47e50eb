"""Conversations, bots and encoders: values in, values out.

Knows nothing of the web, the database or the environment, so that a researcher can use it from a
notebook. Importing this package loads no torch and no transformers: a bot imports them in `load()`.
"""

from chatbots.conversation import Conversation, Turn
from chatbots.identity import Identity, derive_seed

__all__ = ["Conversation", "Identity", "Turn", "derive_seed"]
