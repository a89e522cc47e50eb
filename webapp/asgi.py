"""Wiring of protocols: pages, chat sockets, and the bot host's channels."""

from __future__ import annotations

import os

from channels.routing import ChannelNameRouter, ProtocolTypeRouter, URLRouter
from channels.sessions import SessionMiddlewareStack
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.urls import reverse

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings.embedded")
django_application = get_asgi_application()

# These need the apps to be loaded.
from webapp.conversations.bot_host import BotHostConsumer, bot_host_channels  # noqa: E402
from webapp.core.bodies import BodyLimits  # noqa: E402
from webapp.core.crew import CrewedPages  # noqa: E402
from webapp.core.origins import OriginValidator  # noqa: E402
from webapp.participant.routing import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": BodyLimits(
            CrewedPages(
                django_application,
                n_threads=settings.CONFAB_WEB_THREADS,
                wait_s=settings.CONFAB_WEB_WAIT_S,
            ),
            limit=settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
            # The form around the file takes a little too.
            upload_limit=settings.CONFAB_UPLOAD_LIMIT_MB * 1_048_576 + 65_536,
            is_upload=lambda path: path == reverse("dashboard:imports"),
        ),
        "websocket": OriginValidator(SessionMiddlewareStack(URLRouter(websocket_urlpatterns))),
        "channel": ChannelNameRouter(
            {channel: BotHostConsumer.as_asgi() for channel in bot_host_channels()}
        ),
    }
)
