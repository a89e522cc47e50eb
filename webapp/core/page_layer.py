"""Channel layer of open pages, by Redis' publish and subscribe.

Pages also open while Redis is unavailable.
"""

from __future__ import annotations

import asyncio
import uuid

from channels_redis.pubsub import RedisPubSubChannelLayer


class PageLayer(RedisPubSubChannelLayer):
    """`channels_redis.pubsub` with page channels that Redis does not know.

    What is sent goes to groups, so nothing is lost by it. The library subscribes to each channel as it is made, for
    which Redis would have to be there before a page can open.
    """

    async def new_channel(self, prefix: str = "specific.") -> str:
        """Return the name of a new channel, for adding it to groups."""
        layer = self._get_layer()
        channel = f"{layer.prefix}{prefix}{uuid.uuid4().hex}"
        layer.channels[channel] = asyncio.Queue()
        return channel
