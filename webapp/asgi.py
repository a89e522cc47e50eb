"""Wiring of protocols: pages, chat sockets, and the bot host's channels."""

from __future__ import annotations

import os

from channels.routing import ChannelNameRouter, ProtocolTypeRouter, URLRouter
from channels.sessions import SessionMiddlewareStack
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings.embedded")
django_application = get_asgi_application()

# These need the apps to be loaded.
from webapp.conversations.bot_host import BotHostConsumer, bot_host_channels  # noqa: E402
from webapp.core.origins import OriginValidator  # noqa: E402
from webapp.participant.routing import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": django_application,
        "websocket": OriginValidator(SessionMiddlewareStack(URLRouter(websocket_urlpatterns))),
        "channel": ChannelNameRouter(
            {channel: BotHostConsumer.as_asgi() for channel in bot_host_channels()}
        ),
    }
)
