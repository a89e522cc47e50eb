"""Keeping bots in memory and answering many conversations at once.

| module | holds |
|---|---|
| `host.py` | `BotHost`: asyncio in front, one thread per device and per whole-reply bot behind |
| `bot_state.py` | one bot and what its host knows of it; which bots stay loaded under a memory budget |
| `drivers.py` | what one bot is asked next, for the step and the whole kind; no threads of its own |
| `workers.py` | the threads and tasks, and what happens when a bot never comes back |
| `request.py` | one reply under way: its text, its second try, what counts as a reply |
| `synchronous.py` | `reply`: drives any kind of bot to the end, for self-play, terminal and tests |
"""

from chatbots.bots.base import BotBusy
from chatbots.serving.host import BotHost
from chatbots.serving.synchronous import Reply, reply

__all__ = ["BotBusy", "BotHost", "Reply", "reply"]
