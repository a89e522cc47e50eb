"""Sockets of the participant's way."""

from __future__ import annotations

from channels.security.websocket import WebsocketDenier
from django.urls import path, re_path

from webapp.participant.consumers import ChatConsumer

websocket_urlpatterns = [
    path("ws/chat/<uuid:conversation_id>/", ChatConsumer.as_asgi()),
    # Whatever else is asked for is refused in order, without an error in the log.
    re_path(r"", WebsocketDenier.as_asgi()),
]
