"""Wiring of protocols: pages, chat sockets, and the bot host's channels."""

from __future__ import annotations

import gc
import os

import django
from channels.routing import ChannelNameRouter, ProtocolTypeRouter, URLRouter
from channels.sessions import SessionMiddlewareStack
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.urls import Resolver404, resolve

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings.embedded")
try:
    django.setup(set_prefix=False)
except ImproperlyConfigured as error:
    raise SystemExit(f"Confab cannot start: {error}") from None

# These need the apps to be loaded.
from webapp.conversations.bot_host import BotHostConsumer, bot_host_channels
from webapp.conversations.images import MOST_BYTES
from webapp.core.middleware import BodyLimits, OriginValidator, PathPrefix, StorableTextSockets
from webapp.core.processes import THREADS, lifespan, signs
from webapp.core.rights import Right
from webapp.core.thread_pool import PagesInOneThread, ThreadPooledApp
from webapp.participant.consumers import websocket_urlpatterns

prefix = settings.CONFAB_PATH_PREFIX


_FORM_BYTES = 65_536
"""The form around a file takes a little too."""


def _page_name(path: str) -> str:
    try:
        return resolve(f"/{path.removeprefix(prefix).lstrip('/')}").view_name
    except Resolver404:
        return ""


def page_limit(path: str) -> int:
    """Return this page's special limit for bodies, in bytes.

    0 if it has none.
    """
    return MOST_BYTES + _FORM_BYTES if _page_name(path) == "participant:image" else 0


def rights_to_upload(path: str) -> tuple[Right, ...]:
    """Return the rights needed to upload a large file to this page.

    None if it accepts no such files.
    """
    return {
        "dashboard:imports": (Right.READ, Right.RUN),
        # One address has one name: that of its first call, which reads; a POST brings conversations.
        "api:conversations": (Right.READ, Right.RUN),
        # Mechanical Turk's results, in which decisions about pay are filled in.
        "dashboard:study_pay_mturk": (Right.READ, Right.PAY, Right.PRIVATE),
    }.get(_page_name(path), ())


django_application = PagesInOneThread()
crewed = ThreadPooledApp(django_application, n_threads=settings.CONFAB_WEB_THREADS, wait_s=settings.CONFAB_WEB_WAIT_S)
signs.stands_s[THREADS] = crewed.stands_s
pages = BodyLimits(
    crewed,
    limit=settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
    upload_limit=settings.CONFAB_UPLOAD_LIMIT_MB * 1_048_576 + _FORM_BYTES,
    rights_to_upload=rights_to_upload,
    page_limit=page_limit,
)
sockets = OriginValidator(StorableTextSockets(SessionMiddlewareStack(URLRouter(websocket_urlpatterns))))
application = ProtocolTypeRouter(
    {
        "lifespan": lifespan,
        "http": PathPrefix(pages, prefix),
        "websocket": PathPrefix(sockets, prefix),
        "channel": ChannelNameRouter({channel: BotHostConsumer.as_asgi() for channel in bot_host_channels()}),
    }
)

# What is loaded by now stays: no collection needs to look through it again. And a page that reads thousands of rows is
# not stopped for one after every 700 of them.
gc.freeze()
gc.set_threshold(10_000)
