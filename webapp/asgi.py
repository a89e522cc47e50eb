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
from webapp.core.prefix import PathPrefix  # noqa: E402
from webapp.participant.routing import websocket_urlpatterns  # noqa: E402

prefix = settings.CONFAB_PATH_PREFIX


def is_upload(path: str) -> bool:
    """Return whether this is a page that takes large files: of conversations, or of a study's items."""
    own = path.removeprefix(prefix)
    items = reverse("dashboard:study_items", args=["KEY"]).removeprefix(prefix).split("KEY")
    is_items = own.startswith(items[0]) and own.endswith(items[1])
    return is_items or own == reverse("dashboard:imports").removeprefix(prefix)


pages = BodyLimits(
    CrewedPages(
        django_application,
        n_threads=settings.CONFAB_WEB_THREADS,
        wait_s=settings.CONFAB_WEB_WAIT_S,
    ),
    limit=settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
    # The form around the file takes a little too.
    upload_limit=settings.CONFAB_UPLOAD_LIMIT_MB * 1_048_576 + 65_536,
    is_upload=is_upload,
)
sockets = OriginValidator(SessionMiddlewareStack(URLRouter(websocket_urlpatterns)))
application = ProtocolTypeRouter(
    {
        "http": PathPrefix(pages, prefix),
        "websocket": PathPrefix(sockets, prefix),
        "channel": ChannelNameRouter(
            {channel: BotHostConsumer.as_asgi() for channel in bot_host_channels()}
        ),
    }
)
