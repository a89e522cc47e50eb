"""Records of bot identities. They are written by use and never change."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from webapp.bots.models import BotVersion
from webapp.core.rights import ReadOnlyAdminMixin


@admin.register(BotVersion)
class BotVersionAdmin(ReadOnlyAdminMixin, admin.ModelAdmin):
    list_display = ("bot_id", "title", "kind", "version", "is_control", "key", "created_at")
    list_filter = ("kind", "is_control", "bot_id")
    search_fields = ("bot_id", "title", "key")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
