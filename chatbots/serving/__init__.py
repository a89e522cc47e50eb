"""Serving of bots: loading, memory, and concurrent replies.

| module | contents |
|---|---|
| `host.py` | `BotHost`: an asyncio front end with one thread per device and per whole-reply bot |
| `bot_state.py` | the state of each bot in its host, and the memory budget of loaded bots |
| `drivers.py` | scheduling of calls for step and whole-reply bots, without threads |
| `workers.py` | threads and tasks, and the replacement of hung threads |
| `request.py` | one reply in progress: its text, retry and validation |
| `synchronous.py` | `reply`: blocking replies from any kind of bot, for self-play, terminal and tests |
"""

from chatbots.bots.base import BotBusy
from chatbots.serving.host import BotHost
from chatbots.serving.synchronous import Reply, reply

__all__ = ["BotBusy", "BotHost", "Reply", "reply"]
