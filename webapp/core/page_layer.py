"""Channel layer of open pages, by Redis' publish and subscribe.

Pages also open while Redis is unavailable.
"""

from __future__ import annotations

import asyncio
import uuid

from channels_redis.pubsub import RedisPubSubChannelLayer


class PageLayer(RedisPubSubChannelLayer):
    """`channels_redis.pubsub` with page channels that Redis does not know.

    A page's own channel is a queue of its process. Messages go to groups, so nothing is lost. The library subscribes to
    each channel when it is created, so no page could open without Redis.
    """

    async def new_channel(self, prefix: str = "specific.") -> str:
        """Return the name of a new channel, for adding it to groups."""
        layer = self._get_layer()
        channel = f"{layer.prefix}{prefix}{uuid.uuid4().hex}"
        layer.channels[channel] = asyncio.Queue()
        return channel
