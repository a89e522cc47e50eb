"""Read-only records of bot identities, which are written on use and never change."""

from __future__ import annotations

from django.contrib import admin

from webapp.bots.models import BotVersion
from webapp.core.rights import ReadOnlyAdminMixin


@admin.register(BotVersion)
class BotVersionAdmin(ReadOnlyAdminMixin, admin.ModelAdmin):
    right_to_delete = None
    list_display = ("bot_id", "title", "kind", "version", "is_control", "key", "created_at")
    list_filter = ("kind", "is_control", "bot_id")
    search_fields = ("bot_id", "title", "key")
