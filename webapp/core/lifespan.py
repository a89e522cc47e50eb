"""Start and end of a web process, by ASGI's lifespan."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from webapp.core.processes import WEB, signs

END_S = 3.0
"""So long the last sign of life may take: nobody waits for a database that is away."""


async def lifespan(_scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Begin and end the signs of life of this process."""
    beating: asyncio.Task[None] | None = None
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            signs.begin(WEB)
            beating = asyncio.ensure_future(signs.beat())
            await send({"type": "lifespan.startup.complete"})
        else:
            if beating is not None:
                beating.cancel()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.to_thread(signs.end), END_S)
            await send({"type": "lifespan.shutdown.complete"})
            return
